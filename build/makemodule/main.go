// Command makemodule builds the wasm module of the filter, for `make build`. It runs in the repository's root.
package main

import (
	"fmt"
	"os"

	"github.com/headgate/headgate/build/wasmbuild"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: makemodule FILE")
		os.Exit(2)
	}
	if err := wasmbuild.Module("cmd/filter", os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
