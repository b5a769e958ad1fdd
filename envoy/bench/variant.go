package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/headgate/headgate/envoy/rig"
)

// A variant is one filter to measure.
type variant struct {
	name          string
	module        string // "": no filter
	configuration string
}

// makeVariants builds the modules that do nothing into dir. The first variant is the one without a filter.
func makeVariants(dir string) ([]variant, error) {
	headgate, err := rig.WasmPath()
	if err != nil {
		return nil, err
	}
	root, err := rig.RepositoryRoot()
	if err != nil {
		return nil, err
	}
	bench := filepath.Join(root, "envoy", "bench")
	noop, err := buildWasm(filepath.Join(bench, "noop"), filepath.Join(dir, "noop.wasm"))
	if err != nil {
		return nil, err
	}
	stock, err := buildWasm(filepath.Join(bench, "stocknoop"), filepath.Join(dir, "stocknoop.wasm"))
	if err != nil {
		return nil, err
	}
	configuration, err := json.Marshal(pools)
	if err != nil {
		return nil, err
	}
	return []variant{
		{name: "no filter"},
		{name: "nothing, our binding", module: noop},
		{name: "nothing, stock Go SDK", module: stock},
		{name: "Headgate, tenant + model", module: headgate, configuration: string(configuration)},
	}, nil
}

// pools has a permit for everyone, so that no request waits.
var pools = rig.Object{
	"identity": rig.Object{
		"tenant": []rig.Object{{"header": "x-tenant", "trusted": true}},
		"model":  []rig.Object{{"header": "x-model"}},
	},
	"pools": []rig.Object{
		{"name": "tenant", "key": []string{"tenant"}, "limit": 1000, "queue": 100, "max_wait": "5s"},
		{"name": "model", "key": []string{"model"}, "limit": 1000, "queue": 100, "max_wait": "5s"},
	},
}

// buildWasm builds the main package in a folder, which may be a module of its own, with the flags of the product's
// build.
func buildWasm(folder, out string) (string, error) {
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", out,
		".")
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOEXPERIMENT=nogreenteagc")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", folder, err, text)
	}
	return out, nil
}
