package wasmtest_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/headgate/headgate/wasmtest"
)

// The guests, built and compiled once.
var (
	puppetWasm, turnstileWasm     []byte
	puppetModule, turnstileModule *wasmtest.Module
)

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "wasmtest")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if puppetWasm, puppetModule, err = buildGuest(dir, "puppet"); err != nil {
		return 0, err
	}
	if turnstileWasm, turnstileModule, err = buildGuest(dir, "turnstile"); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

func buildGuest(dir, name string) ([]byte, *wasmtest.Module, error) {
	file := filepath.Join(dir, name+".wasm")
	build := exec.Command("go", "build", "-buildmode=c-shared", "-o", file, "./testdata/guest/"+name)
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w\n%s", build, err, out)
	}
	wasm, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, err
	}
	module, err := wasmtest.Compile(wasm)
	return wasm, module, err
}
