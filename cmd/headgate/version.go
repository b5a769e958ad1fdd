package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is what make build has the linker put here.
var version string

func versionCommand(term terminal) *cobra.Command {
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version.",
		Args:  noArguments,
		RunE:  func(*cobra.Command, []string) error { return printVersion(term) },
	}
	newFlagSet(c)
	return c
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
