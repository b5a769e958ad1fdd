package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The bootstrap has one deprecated field, whose new name Envoys before 1.36 don't know. docs/running.md says so.
func TestEnvoyWarnsOfNoOtherDeprecatedField(t *testing.T) {
	h := runGateway(t, nil, "--sample", "--verbose", "--access-log", "--cors", "*", "--upstream-disable-keep-alives")
	for line := range strings.Lines(h.errs.String()) {
		require.False(t, isAboutDeprecation(line) && !strings.Contains(line, "per_request_buffer_limit_bytes"), line)
	}
}

func TestEndReason(t *testing.T) {
	for name, c := range map[string]struct{ log, want string }{
		"the critical line, without its prefix": {
			"[2026-01-02 03:04:05.678][7][warning][main] [source/server/server.cc:1] deprecated\n" +
				"[2026-01-02 03:04:05.679][7][critical][main] [source/server/server.cc:2] error initializing 'a': bad\n" +
				"[2026-01-02 03:04:05.680][7][info][main] [source/server/server.cc:3] exiting\n",
			"error initializing 'a': bad"},
		"a host without V8": {
			"[2026-01-02 03:04:05.678][7][warning][wasm] [source/a.cc:1] Failed to create Wasm VM: compiled without it\n" +
				"[2026-01-02 03:04:05.679][7][critical][main] [source/b.cc:2] Unable to create Wasm plugin headgate\n",
			"Failed to create Wasm VM: compiled without it"},
		"not a trap of long ago": {
			"[2026-01-02 03:04:05.678][7][error][wasm] [source/a.cc:1] VM failed\n" +
				"[2026-01-02 04:04:05.679][7][critical][main] [source/b.cc:2] out of memory\n",
			"out of memory"},
		"the module's own error before Envoy's": {
			"[2026-01-02 03:04:05.678][7][error][wasm] [source/a.cc:1] wasm log headgate: pools[0].limit: null\n" +
				"[2026-01-02 03:04:05.679][7][critical][main] [source/b.cc:2] Unable to create Wasm plugin headgate\n",
			"wasm log headgate: pools[0].limit: null"},
		"what is no log":    {"first\nenvoy: not found\n", "envoy: not found"},
		"no deprecation":    {"last words\n[a][b][warning][misc] [c.cc:1] Deprecated field: type Route\n", "last words"},
		"an empty log":      {"", "its log is empty"},
		"an empty log line": {"[a][b][critical][main] [c.cc:1] \n", "its log is empty"},
	} {
		require.Equal(t, c.want, endReason(c.log), name)
	}
}
