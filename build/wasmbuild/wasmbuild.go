package wasmbuild

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// settings are the module's, beside the flags. nogreenteagc: docs/rationale.md says why.
var settings = []string{"GOOS=wasip1", "GOARCH=wasm", "GOEXPERIMENT=nogreenteagc"}

// Module builds the main package in folder, which may be in a Go module of its own, into the file out. More flags go to
// `go build`. If an edit does not fit Go's runtime, the module is built without it, and a line on standard error says
// so.
func Module(folder, out string, flags ...string) (err error) {
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "wasmbuild")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	overlay, err := writeOverlay(folder, dir)
	if err != nil {
		return fmt.Errorf("edit Go's runtime: %w", err)
	}
	// -buildvcs=false: the module's bytes depend on its source alone. Envoy keeps the VM of a module whose bytes it knows.
	args := []string{"build", "-buildmode=c-shared", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-overlay", overlay}
	if _, err := goCommand(folder, append(append(args, flags...), "-o", out, ".")...); err != nil {
		return fmt.Errorf("build %s: %w", folder, err)
	}
	return nil
}

// writeOverlay writes the edited files of the runtime into dir, and what `go build -overlay` wants to know of them.
func writeOverlay(folder, dir string) (overlay string, err error) {
	source, err := goCommand(folder, "list", "-f", "{{.Dir}}", "runtime")
	if err != nil {
		return "", err
	}
	files, unfit, err := apply(edits, func(file string) (string, error) {
		text, err := os.ReadFile(filepath.Join(source, file))
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil // no edit fits
		}
		return string(text), err
	})
	if err != nil {
		return "", err
	}
	for _, e := range unfit {
		fmt.Fprintf(os.Stderr, "the module is bigger than it needs to be: an edit does not fit the runtime in %s: %s\n",
			source, e.what)
	}
	replace := map[string]string{}
	for file, text := range files {
		edited := filepath.Join(dir, file)
		if err := os.WriteFile(edited, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(source, file)] = edited
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// goCommand runs go with the module's settings and returns what it prints.
func goCommand(folder string, args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), settings...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, stderr.Bytes())
	}
	return string(bytes.TrimSpace(text)), nil
}
