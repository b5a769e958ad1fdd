package main

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// announced are the lines that run prints with these flags, by what stands before the colon.
func announced(t *testing.T, args ...string) map[string]string {
	t.Helper()
	plan := parsedRun(t, args...)
	plan.upstream = &upstream{host: "127.0.0.1", port: 1}
	if plan.configPath != "" {
		_, err := plan.governing("")
		require.NoError(t, err)
	}
	var text strings.Builder
	proxy := &envoyProcess{admin: "127.0.0.1:9901", adminPage: netip.MustParseAddrPort("127.0.0.1:10001")}
	plan.announce(&text, netip.MustParseAddrPort("127.0.0.1:10000"), proxy)
	lines := map[string]string{}
	for line := range strings.Lines(text.String()) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		lines[name] = strings.TrimSpace(rest)
	}
	return lines
}

func TestTheAnnouncementSaysWhereThePageIs(t *testing.T) {
	require.Equal(t, "http://127.0.0.1:10001/headgate/", announced(t)["Page"])
	require.NotContains(t, announced(t, "--admin", "off"), "Page")
}

func TestTheAnnouncementSaysWhatTheModeDoes(t *testing.T) {
	file := writePlugin(t, "plugin.json", `{"mode": "shadow", "pools": [{"name": "mine", "limit": 1}]}`)
	for _, c := range []struct{ flags, limits, retries string }{
		{"", "2 at once, 3 more wait up to 30s, the next gets 429", "up to 2, after 5xx and no answer, of requests up to 5 MiB"},
		{"--mode shadow", "would be 2 at once, 3 more would wait up to 30s, the next would get 429", "up to 2, after 5xx and no answer, of requests up to 5 MiB"},
		{"--mode shadow --queue 0", "would be 2 at once, none would wait, the next would get 429", "up to 2, after 5xx and no answer, of requests up to 5 MiB"},
		{"--mode disabled", "", "up to 2, after no answer only, of requests up to 5 MiB"},
		{"--mode disabled --retry-skip-429 off --retry unlimited", "", "unlimited, after no answer only, of requests up to 5 MiB"},
		{"--mode disabled --retry 0", "", "none"},
		{"--config " + file, "would be the pools of " + file + " (mine); it is read again when it changes", "up to 2, after 5xx and no answer, of requests up to 5 MiB"},
		{"--mode disabled --config " + file, "", "up to 2, after no answer only, of requests up to 5 MiB"},
		{"--mode enforce --config " + file, "the pools of " + file + " (mine); it is read again when it changes", "up to 2, after 5xx and no answer, of requests up to 5 MiB"},
	} {
		lines := announced(t, strings.Fields(c.flags)...)
		require.Equal(t, c.limits, lines["Limits"], c.flags)
		require.Equal(t, c.retries, lines["Retries"], c.flags)
	}
	require.Contains(t, announced(t), "See the limits, with 8 at once")
	require.Contains(t, announced(t, "--mode", "shadow"), "See in the numbers what the limits would do, after 8 at once")
}
