package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/build"
)

// These are what make build has the linker put here.
var (
	version      string
	commit       string
	moduleSHA256 string
)

// oldestEnvoy is the first Envoy with failure_policy FAIL_RELOAD. The script build/get-envoy knows it too.
const oldestEnvoy = "1.33"

func versionCommand(term terminal) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version.",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				_, err := fmt.Fprint(term.out, indentedJSON(about()))
				return err
			}
			return printVersion(term)
		},
	}
	f := newFlagSet(c)
	f.startSection("Output")
	f.addSwitch(&asJSON, "json", "Print it as JSON, with what the tool was built from and the Envoys that it is for.")
	return c
}

// A versionReport says what this program is, for other programs. Empty is what the build did not record.
type versionReport struct {
	Version      string          `json:"version"`
	Commit       string          `json:"commit"`
	Go           string          `json:"go"`
	Platform     string          `json:"platform"`
	ModuleSHA256 string          `json:"module_sha256"` // of the headgate.wasm that was built with the tool
	Envoy        supportedEnvoys `json:"envoy"`
}

// supportedEnvoys are the oldest Envoy that the module runs in and the one that it is tested with.
type supportedEnvoys struct {
	Oldest string `json:"oldest"`
	Tested string `json:"tested"`
}

func about() versionReport {
	return versionReport{
		Version: toolVersion(), Commit: toolCommit(), Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, ModuleSHA256: moduleSHA256,
		Envoy: supportedEnvoys{Oldest: oldestEnvoy, Tested: strings.TrimSpace(build.EnvoyVersion)},
	}
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

// toolCommit is the commit from make build, or the one that Go recorded (go build in a clone).
func toolCommit() string {
	if commit != "" {
		return commit
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				return setting.Value
			}
		}
	}
	return ""
}
