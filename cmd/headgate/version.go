package main

import (
	"fmt"
	"runtime/debug"
)

// version is what make build has the linker put here.
var version string

func runVersion(term terminal, args []string) error {
	if err := newFlagSet("version").parseAll(term, args); err != nil {
		return err
	}
	return printVersion(term)
}

func printVersion(term terminal) error {
	_, err := fmt.Fprintln(term.out, "headgate", toolVersion())
	return err
}

// toolVersion is the version from make build, or the one that Go recorded (go install MODULE@VERSION).
func toolVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
