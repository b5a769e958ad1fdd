package virtual

import (
	"os"

	"github.com/headgate/headgate/envoy/rig"
	"github.com/headgate/headgate/wasmtest"
)

// BuiltModule is the module of `make build`.
func BuiltModule() (*wasmtest.Module, error) {
	path, err := rig.WasmPath()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return wasmtest.Compile(text)
}
