package rig

import (
	"slices"
	"testing"
)

func TestParseStatsCutsTheScopeAndAddsUp(t *testing.T) {
	stats := parseStats("cluster.up.wasmcustom.headgate.p.admitted: 2\nwasmcustom.headgate.p.admitted: 3\n" +
		"wasmcustom.headgate.p.inflight: 18446744073709551615\nlds.version_text: \"7\"\n" +
		"wasmcustom.headgate.p.wait_ms: P0(nan,1)\n")
	if n := stats.Count("wasmcustom.headgate.p.admitted"); n != 5 {
		t.Errorf("admitted is %d, want 5", n)
	}
	if n := stats.Count("wasmcustom.headgate.p.inflight"); n != -1 {
		t.Errorf("a wrapped gauge is %d, want -1", n)
	}
	if text := stats.Text("lds.version_text"); text != "7" {
		t.Errorf("version_text is %q", text)
	}
}

func TestIdentityOfCountsFindsWhatIsWrong(t *testing.T) {
	right := Counts{"evaluated": 3, "admitted": 1, "expired_max_wait": 1, "cancelled_waiting": 1}
	if problem := right.identity(); problem != "" {
		t.Error(problem)
	}
	for name, wrong := range map[string]Counts{
		"an outcome too few":  {"evaluated": 2, "admitted": 1},
		"an outcome too many": {"evaluated": 1, "admitted": 1, "rejected_closed": 1},
		"a negative gauge":    {"inflight": -1},
	} {
		if wrong.identity() == "" {
			t.Errorf("%s is not found", name)
		}
	}
}

func TestTrapsAreToldFromRefusedConfigurations(t *testing.T) {
	log := "[critical][wasm] wasm log: panic: boom\n" +
		"[error] Plugin configured to fail closed failed to load: VM failed Failed to configure\n" +
		"[error] Function: proxy_on_tick failed: Uncaught RuntimeError: unreachable\n[info] all fine\n"
	lines := traps(log)
	if len(lines) != 2 || slices.Contains(lines, "[info] all fine") {
		t.Errorf("traps are %q, want the first and the third line", lines)
	}
}
