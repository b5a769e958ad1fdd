package envoy_test

import (
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

// previousModule is the module of the release before this one, $HEADGATE_PREVIOUS_WASM. Without it, it is one of the
// same source and other bytes.
func previousModule(t *testing.T) string {
	if path := os.Getenv("HEADGATE_PREVIOUS_WASM"); path != "" {
		return path
	}
	return rig.NextModule(t, "previous")
}

// storedDataOf is how the names of a module's records begin, which tell the version of the data.
func storedDataOf(t *testing.T, module string) string {
	t.Helper()
	data, err := os.ReadFile(module)
	if err != nil {
		t.Fatal(err)
	}
	begins := regexp.MustCompile(`headgate/\d+/`).Find(data)
	if begins == nil {
		t.Fatalf("%s names no stored data", module)
	}
	return string(begins)
}

// Upgrade and rollback under load: each call gets its answer, no more run than the limit allows, and nothing is left.
func TestUpgradeFromThePreviousReleaseAndBackUnderLoad(t *testing.T) {
	t.Parallel()
	const limit, clients = 3, 12
	previous, wasm := previousModule(t), rig.NextModule(t, "this")
	atOnce := limit
	if storedDataOf(t, previous) != storedDataOf(t, wasm) {
		atOnce = 2 * limit // they share nothing: docs/operations.md says so
	}
	config := &rig.Config{Pools: []rig.Pool{modelPool(limit, 100, longWait)}}
	env := rig.NewWithModule(t, rig.Start(t, rig.Options{Workers: 2}), previous, rig.Setup{Config: config})
	l := startLoad(t, env, clients, rig.Call{Script: rig.Script{Delay: 2 * time.Millisecond}})
	l.await(t, 20)
	for _, module := range []string{wasm, previous} {
		if err := env.Upgrade(t, module); err != nil {
			t.Fatal(err)
		}
		l.await(t, 20)
	}
	l.stop()
	if peak := env.Up.Peak(); peak > atOnce || peak < limit {
		t.Errorf("%d ran at once, want %d, and %d at most", peak, limit, atOnce)
	}
	env.AwaitDrained(t, "model")
	env.CheckCounts(t, "model", rig.Counts{"store_error": 0, "reaped": 0})
	env.Up.ResetPeak()
	env.DrainCheck(t, "model", limit)
}
