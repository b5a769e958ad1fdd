package rig

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// WasmPath returns the module under test: $HEADGATE_WASM, else build/headgate.wasm of the repository.
func WasmPath() (string, error) {
	path := os.Getenv("HEADGATE_WASM")
	if path == "" {
		root, err := RepositoryRoot()
		if err != nil {
			return "", err
		}
		path = filepath.Join(root, "build", "headgate.wasm")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("no wasm module (%w): make it with `make build`", err)
	}
	return path, nil
}

// EnvoyPath returns the Envoy that build/get-envoy provides; it honours $ENVOY. It is asked once.
var EnvoyPath = sync.OnceValues(func() (string, error) {
	root, err := RepositoryRoot()
	if err != nil {
		return "", err
	}
	out, err := exec.Command(filepath.Join(root, "build", "get-envoy")).Output()
	path := strings.TrimSpace(string(out))
	if err != nil || path == "" {
		return "", fmt.Errorf("no Envoy (%w): get it with `build/get-envoy`, or name one in $ENVOY",
			errors.Join(err, stderrOf(err)))
	}
	return path, nil
})

func stderrOf(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return errors.New(strings.TrimSpace(string(exit.Stderr)))
	}
	return nil
}

// RepositoryRoot is the folder of the go.mod above the working directory.
func RepositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = parent
	}
}
