package filter_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/headgate/headgate/wasmtest"
)

// module is the built filter. The tests run what users run.
var module *wasmtest.Module

var wasmBytes []byte

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	path := os.Getenv("HEADGATE_WASM")
	if path == "" {
		path = "../build/headgate.wasm"
	}
	var err error
	if wasmBytes, err = os.ReadFile(path); err != nil {
		fmt.Fprintf(os.Stderr, "%v\nthe filter has to be built first: make build\n", err)
		return 1
	}
	if module, err = wasmtest.Compile(wasmBytes); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
		return 1
	}
	defer module.Close()
	return m.Run()
}
