// Command maketool builds the headgate tool for the module in a file, for `make build`. It runs in the repository's
// root. $TOOL_OS and $TOOL_ARCH name another platform than this machine's.
package main

import (
	"cmp"
	"fmt"
	"os"

	"github.com/headgate/headgate/build/toolbuild"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: maketool MODULE FILE")
		os.Exit(2)
	}
	if err := makeTool(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func makeTool(module, out string) error {
	stamp, err := toolbuild.ReadStamp(".")
	if err != nil {
		return err
	}
	platform := toolbuild.Host()
	platform.OS = cmp.Or(os.Getenv("TOOL_OS"), platform.OS)
	platform.Arch = cmp.Or(os.Getenv("TOOL_ARCH"), platform.Arch)
	return toolbuild.Tool(toolbuild.ToolBuild{Root: ".", Platform: platform, Stamp: stamp, Module: module, Out: out})
}
