package main

import (
	"encoding/json"
	"path/filepath"

	"github.com/headgate/headgate/build/wasmbuild"
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
	noop, stock := filepath.Join(dir, "noop.wasm"), filepath.Join(dir, "stocknoop.wasm")
	if err := wasmbuild.Module(filepath.Join(bench, "noop"), noop); err != nil {
		return nil, err
	}
	if err := wasmbuild.Module(filepath.Join(bench, "stocknoop"), stock); err != nil {
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
