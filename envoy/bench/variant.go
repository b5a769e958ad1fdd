package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/headgate/headgate/build/wasmbuild"
	"github.com/headgate/headgate/envoy/rig"
)

// A variant is one row of the cost: a filter, and the requests that it sees.
type variant struct {
	name    string
	filter  rig.Object // nil: none
	ours    bool
	sent    traffic
	counter string // a stat of Headgate's that each request must move; "": none
}

// The places of the variants that others are compared with.
const (
	noFilter    = 0
	emptyFilter = 1
)

// makeVariants builds the modules that do nothing into dir. notes say what is left out.
func makeVariants(dir string) (variants []variant, notes []string, err error) {
	headgate, err := rig.WasmPath()
	if err != nil {
		return nil, nil, err
	}
	root, err := rig.RepositoryRoot()
	if err != nil {
		return nil, nil, err
	}
	bench := filepath.Join(root, "envoy", "bench")
	noop, stock := filepath.Join(dir, "noop.wasm"), filepath.Join(dir, "stocknoop.wasm")
	if err := wasmbuild.Module(filepath.Join(bench, "noop"), noop); err != nil {
		return nil, nil, err
	}
	if err := wasmbuild.Module(filepath.Join(bench, "stocknoop"), stock); err != nil {
		return nil, nil, err
	}
	variants = []variant{
		{name: "no filter", sent: hotTraffic},
		{name: "empty, our Go binding", filter: wasm(noop, ""), sent: hotTraffic},
		{name: "empty, the stock Go SDK", filter: wasm(stock, ""), sent: hotTraffic},
	}
	rust, err := buildRust(filepath.Join(bench, "rustnoop", "noop.rs"), filepath.Join(dir, "rustnoop.wasm"))
	if err != nil {
		notes = append(notes, err.Error())
	} else {
		variants = append(variants, variant{name: "empty, Rust", filter: wasm(rust, ""), sent: hotTraffic})
	}
	pools, err := json.Marshal(twoPools)
	if err != nil {
		return nil, nil, err
	}
	governed := wasm(headgate, string(pools))
	return append(variants,
		variant{name: "Envoy's local_ratelimit", filter: localRateLimit, sent: hotTraffic},
		variant{name: "Envoy's admission_control", filter: admissionControl, sent: hotTraffic},
		variant{"Headgate, hot keys", governed, true, hotTraffic, "tenant.admitted"},
		variant{"Headgate, cold keys", governed, true, coldTraffic, "tenant.admitted"},
		variant{"Headgate, ungoverned", governed, true, ungovernedTraffic, "ungoverned"}), notes, nil
}

func wasm(module, configuration string) rig.Object {
	return rig.WasmFilter("bench", "bench", module, configuration)
}

// twoPools have a permit for everyone, so that no request waits.
var twoPools = rig.Object{
	"routes": []string{"POST /chat/completions"},
	"identity": rig.Object{
		"tenant": []rig.Object{{"header": "x-tenant", "trusted": true}},
		"model":  []rig.Object{{"header": "x-model"}},
	},
	"pools": []rig.Object{
		{"name": "tenant", "key": []string{"tenant"}, "limit": 1000, "queue": 100, "max_wait": "5s"},
		{"name": "model", "key": []string{"model"}, "limit": 1000, "queue": 100, "max_wait": "5s"},
	},
}

var allRequests = rig.Object{"default_value": rig.Object{"numerator": 100, "denominator": "HUNDRED"}}

// localRateLimit is Envoy's own token bucket, with a token for everyone.
var localRateLimit = rig.Filter("envoy.filters.http.local_ratelimit",
	"envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit", rig.Object{
		"stat_prefix":     "bench",
		"token_bucket":    rig.Object{"max_tokens": 1 << 30, "tokens_per_fill": 1 << 30, "fill_interval": "1s"},
		"filter_enabled":  allRequests,
		"filter_enforced": allRequests,
	})

// admissionControl is Envoy's own, which refuses at random when too many requests fail. None fails here.
var admissionControl = rig.Filter("envoy.filters.http.admission_control",
	"envoy.extensions.filters.http.admission_control.v3.AdmissionControl", rig.Object{
		"enabled":         rig.Object{"default_value": true},
		"sampling_window": "30s",
		"success_criteria": rig.Object{
			"http_criteria": rig.Object{"http_success_status": []rig.Object{{"start": 100, "end": 500}}},
			"grpc_criteria": rig.Object{"grpc_success_status": []int{0}},
		},
	})

var errNoRust = errors.New("Left out: an empty filter in Rust. No `rustc` here has the library for " +
	"wasm32-unknown-unknown and a linker: `apt-get install rustc libstd-rust-dev-wasm32 lld` (Debian, Ubuntu), or " +
	"`rustup target add wasm32-unknown-unknown`.")

// buildRust builds a Rust file, with the first compiler that can: the one on PATH, or the distribution's.
func buildRust(source, out string) (string, error) {
	for _, rustc := range []string{"rustc", "/usr/bin/rustc"} {
		text, err := exec.Command(rustc, "--edition", "2021", "--crate-type", "cdylib", "--target",
			"wasm32-unknown-unknown", "-C", "opt-level=3", "-C", "panic=abort", "-C", "strip=symbols", "-o", out,
			source).CombinedOutput()
		if err == nil {
			return out, nil
		}
		if len(text) > 0 && !strings.Contains(string(text), "can't find crate for `core`") {
			fmt.Fprintf(os.Stderr, "%s: %v\n%s", rustc, err, text)
		}
	}
	return "", errNoRust
}
