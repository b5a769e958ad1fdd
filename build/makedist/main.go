// Command makedist makes a release in dist/, for `make dist`. It runs in the repository's root.
package main

import (
	"fmt"
	"os"

	"github.com/headgate/headgate/build/dist"
	"github.com/headgate/headgate/build/toolbuild"
)

func main() {
	if err := makeDist("dist"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func makeDist(out string) error {
	stamp, err := toolbuild.ReadStamp(".")
	if err != nil {
		return err
	}
	err = dist.Make(dist.Release{Root: ".", Out: out, Stamp: stamp, Platforms: toolbuild.Released()})
	if err == nil {
		fmt.Println(out, "has release", stamp.Version)
	}
	return err
}
