package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/headgate/headgate/build"
)

// findEnvoy returns the Envoy that build/get-envoy finds or, on first use, gets. It shows on progress what takes long.
func findEnvoy(ctx context.Context, progress io.Writer) (string, error) {
	tools, err := toolsDir()
	if err != nil {
		return "", err
	}
	script := exec.CommandContext(ctx, "bash", "-c", build.GetEnvoy, "get-envoy")
	script.Env = append(os.Environ(), "HEADGATE_TOOLS="+tools, "HEADGATE_ENVOY_VERSION="+strings.TrimSpace(build.EnvoyVersion))
	script.SysProcAttr = childAttributes()
	script.Cancel = func() error { return syscall.Kill(-script.Process.Pid, syscall.SIGKILL) }
	said := &scriptLog{shown: progress}
	script.Stderr = said
	out, err := script.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return "", errors.New("bash is missing: install it")
	}
	if err != nil {
		return "", fmt.Errorf("no Envoy: %w", cmp.Or(said.failure, ctx.Err(), err))
	}
	return strings.TrimSpace(string(out)), nil
}

// toolsDir is where a fetched Envoy is kept: the checkout's .tools if this program lies in one, else the user's cache.
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
		return "", fmt.Errorf("nowhere to keep Envoy (%w): set $ENVOY to an Envoy binary", err)
	}
	return filepath.Join(cache, "headgate"), nil
}

// A scriptLog shows the lines that get-envoy writes, but keeps its error for the one who asked.
type scriptLog struct {
	shown   io.Writer
	failure error
	rest    []byte // a line that isn't complete yet
}

func (l *scriptLog) Write(text []byte) (int, error) {
	l.rest = append(l.rest, text...)
	for {
		line, rest, complete := bytes.Cut(l.rest, []byte("\n"))
		if !complete {
			return len(text), nil
		}
		l.rest = rest
		if failure, isError := strings.CutPrefix(string(line), "get-envoy: error: "); isError {
			l.failure = errors.New(failure)
		} else {
			fmt.Fprintf(l.shown, "%s\n", line)
		}
	}
}
