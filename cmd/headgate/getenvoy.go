package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/build"
)

func envoyCommand(term terminal) *cobra.Command {
	c := &cobra.Command{
		Use:     "envoy",
		Short:   "Print the path of the Envoy that run would use. Fetch it if there is none.",
		Example: "  \"$(headgate envoy)\" --version",
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			asked := catchSignals(false)
			defer asked.stop()
			path, err := findEnvoy(asked.end, newNotes(term.err))
			if err == nil {
				_, err = fmt.Fprintln(term.out, path)
			}
			return err
		},
	}
	newFlagSet(c)
	return c
}

// findEnvoy returns the path of the Envoy that build/get-envoy finds or, on first use, fetches. It says what takes
// long.
func findEnvoy(ctx context.Context, said *notes) (string, error) {
	tools, err := toolsDir()
	if err != nil {
		return "", err
	}
	script := exec.CommandContext(ctx, "bash", "-c", build.GetEnvoy, "get-envoy")
	version := strings.TrimSpace(build.EnvoyVersion)
	script.Env = append(os.Environ(), "HEADGATE_TOOLS="+tools, "HEADGATE_ENVOY_VERSION="+version)
	script.SysProcAttr = childAttributes()
	script.Cancel = func() error { return syscall.Kill(-script.Process.Pid, syscall.SIGKILL) }
	messages := &scriptLog{said: said, done: func() {}}
	defer func() { messages.done() }()
	script.Stderr = &lineWriter{take: messages.take}
	out, err := script.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return "", errors.New("bash is missing: install it")
	}
	if err != nil {
		return "", fmt.Errorf("no Envoy: %w", cmp.Or(messages.failure, ctx.Err(), err))
	}
	return strings.TrimSpace(string(out)), nil
}

// toolsDir is the folder for a fetched Envoy: $HEADGATE_TOOLS if it is set, .tools in the checkout that this program is
// in, or a folder in the user's cache.
func toolsDir() (string, error) {
	if named := os.Getenv("HEADGATE_TOOLS"); named != "" {
		return named, nil
	}
	here := executableDir()
	if _, err := os.Stat(filepath.Join(here, "get-envoy")); err == nil {
		return filepath.Join(filepath.Dir(here), ".tools"), nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no folder to keep Envoy in (%w): set $ENVOY to an Envoy binary", err)
	}
	return filepath.Join(cache, "headgate"), nil
}

// A scriptLog says the lines that get-envoy writes, except its error, which it keeps in failure.
type scriptLog struct {
	said    *notes
	done    func() // ends what goes on
	failure error
}

func (l *scriptLog) take(line string) {
	line = strings.TrimPrefix(line, "get-envoy: ")
	if failure, isError := strings.CutPrefix(line, "error: "); isError {
		l.failure = errors.New(failure)
		return
	}
	l.done()
	l.done = func() {}
	if strings.HasPrefix(line, "getting ") {
		l.done = l.said.begin(line)
	} else {
		l.said.say("%s", line)
	}
}
