package main

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// flagsOf are a command's flags and their defaults, as its usage shows them.
func flagsOf(t *testing.T, command string) map[string]string {
	t.Helper()
	status, out, _ := call("", command, "--help")
	require.Equal(t, 0, status)
	defaults := map[string]string{}
	for _, line := range regexp.MustCompile(`(?m)^  --(\S+)(.*)$`).FindAllStringSubmatch(out, -1) {
		shown := regexp.MustCompile(`\(default (.*)\)$`).FindStringSubmatch(line[2])
		defaults[line[1]] = ""
		if shown != nil {
			defaults[line[1]] = shown[1]
		}
	}
	return defaults
}

func TestRunningListsEveryFlagWithItsDefault(t *testing.T) {
	text, err := os.ReadFile("../../docs/running.md")
	require.NoError(t, err)
	listed, forRender := map[string]string{}, map[string]string{}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| `--") {
			continue
		}
		cells := strings.Split(strings.TrimSpace(line), "|")
		require.Len(t, cells, 6, line) // with what is before the first bar and after the last
		name, shown := strings.Trim(cells[1], "` -"), strings.Trim(cells[2], "` ")
		if shown == "false" {
			shown = "" // the usage leaves it out
		}
		listed[name] = shown
		if !strings.Contains(cells[3], "Not for `render`") {
			forRender[name] = shown
		}
	}
	require.Equal(t, flagsOf(t, "run"), listed)
	require.Equal(t, flagsOf(t, "render"), forRender)
}

// The names and defaults that users of such tools know, in the order of issue 6.
func TestTheFlagsOfShapingHaveTheirDefaults(t *testing.T) {
	names := strings.Fields("concurrency global-concurrency queue-timeout retry retry-max-body-mb retry-min-delay retry-wait-min retry-wait-max " +
		"retry-skip-429 release-cooldown cancel-cooldown failure-hold adaptive-headroom adaptive-headroom-window circuit-breaker cb-threshold " +
		"cb-window cb-open-timeout cb-max-open-timeout cb-penalty cb-max-penalty")
	defaults := strings.Fields("4 off 30s unlimited 5 1s 500ms 30s true 200ms 200ms 2s off 30s on 5 30s 10s 120s 2s 60s")
	set := newFlagSet("run")
	g := defaultGateway()
	g.flags(set)
	for i, name := range names {
		require.Equal(t, defaults[i], set.Lookup(name).DefValue, name)
	}
	for _, name := range []string{"limit", "bind", "upstream", "upstream-disable-keep-alives"} {
		require.NotNil(t, set.Lookup(name), name)
	}
}

// A default is what its own words would set.
func TestDefaultsAreWhatTheySay(t *testing.T) {
	plan := parsedRun(t)
	set := newFlagSet("run")
	g := defaultGateway()
	g.flags(set)
	var args []string
	set.VisitAll(func(f *flag.Flag) {
		if _, ours := f.Value.(settable); ours && f.DefValue != "" && f.Name != "workers" && f.Name != "concurrency" {
			args = append(args, "--"+f.Name+"="+f.DefValue)
		}
	})
	said := parsedRun(t, args...)
	require.Equal(t, plan.shaping, said.shaping)
	require.Equal(t, plan.retries, said.retries)
	require.Equal(t, plan.global, said.global)
	require.Equal(t, plan.queueTimeout, said.queueTimeout)
	require.Equal(t, plan.bind, said.bind)
}
