package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	goodPlugin   = `{"pools": [{"name": "gateway", "limit": 4}]}`
	warnedPlugin = `{"pools": [{"name": "gateway", "limit": 4, "queue": 8, "max_wait": "0s"}]}`
	badPlugin    = "pools:\n  - name: gateway\n    limit: many\n    max_wiat: 5s\n"
)

// checkFolder is a folder with one file of each kind.
func checkFolder(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{"good.json": goodPlugin, "warned.json": warnedPlugin, "bad.yaml": badPlugin} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	return folder
}

func TestFinding_D8_CheckEndsWithWhatItFound(t *testing.T) {
	t.Chdir(checkFolder(t))
	for _, c := range []struct {
		args   string
		status int
		errs   string
	}{
		{"good.json", 0, ""}, {"--strict good.json", 0, ""},
		{"warned.json", 0, ""}, {"--strict off warned.json", 0, ""}, {"--strict=false warned.json", 0, ""},
		{"--strict warned.json", 1, "check found 1 warning, which --strict does not allow"},
		{"warned.json --strict", 1, "check found 1 warning, which --strict does not allow"},
		{"--strict on good.json warned.json warned.json", 1, "check found 2 warnings, which --strict does not allow"},
		{"bad.yaml", 1, "check found 2 errors"},
		{"good.json bad.yaml", 1, "check found 2 errors"},
		{"bad.yaml warned.json", 1, "check found 2 errors and 1 warning"},
	} {
		status, out, errs := call("", append([]string{"check"}, strings.Fields(c.args)...)...)
		require.Equal(t, c.status, status, c.args)
		if c.errs != "" {
			c.errs = "headgate: " + c.errs + "\n"
		}
		require.Equal(t, c.errs, errs, c.args)
		require.Equal(t, strings.Contains(c.args, "good.json"), strings.Contains(out, "good.json: a plugin configuration is valid\n"), c.args)
		require.Equal(t, strings.Contains(c.args, "warned.json"), strings.Contains(out, "warned.json:1: warning: pools[0].max_wait: "), c.args)
	}
}

func TestFinding_D8_CheckNamesTheFileTheLineAndTheField(t *testing.T) {
	t.Chdir(checkFolder(t))
	_, out, _ := call("", "check", "bad.yaml")
	require.Equal(t, `bad.yaml:3: error: pools[0].limit: "many" is not a whole number (want 0 to 1000000)
bad.yaml:4: error: pools[0].max_wiat: is not a field here (want name, limit, queue, max_wait, per, key, keys, fair_by, weights, match, min_active, hold, breaker, headroom); did you mean max_wait?
`, out)
}

func TestFinding_D7_CheckTakesStdin(t *testing.T) {
	for _, text := range []string{goodPlugin, "pools: [{name: gateway, limit: 4}]"} {
		status, out, errs := call(text, "check", "-")
		require.Empty(t, errs)
		require.Equal(t, 0, status)
		require.Contains(t, out, "standard input: a plugin configuration is valid\n  mode          enforce\n")
	}
}

// The summary of a configuration that limits nothing, or not yet, does not say that requests are refused.
func TestCheckSaysOfNothingThatItIsRefused(t *testing.T) {
	for _, c := range []struct{ config, says string }{
		{`{"stage": "attempt", "pools": [{"name": "a", "limit": 4}]}`, "  pools         none that this stage asks\n  longest wait  none: every request runs at once\n"},
		{`{"mode": "shadow", "pools": [{"name": "a", "limit": 4}]}`, "  longest wait  none: a request would run at once or be refused, once the mode is enforce\n"},
		{`{"mode": "disabled", "pools": [{"name": "a", "limit": 4}]}`, "  longest wait  none: a request would run at once or be refused, once the mode is enforce\n"},
		{goodPlugin, "  longest wait  none: a request runs at once or is refused\n"},
	} {
		status, out, errs := call(c.config, "check", "-")
		require.Equal(t, 0, status, errs)
		require.Contains(t, out, c.says, c.config)
	}
}

// What render prints has nothing to warn of, whatever the flags are.
func TestFinding_D7_WhatRenderPrintsIsGood(t *testing.T) {
	for _, flags := range []string{
		"", "--retry 0", "--retry 3 --limit /a:3 --limit /b@g --limit /c@g --global-concurrency 18", "--bind 0.0.0.0:10000", "--queue 0",
		"--concurrency 50000 --queue 100000 --queue-timeout 1h", "--adaptive-headroom --failure-hold 5s --cb-penalty 3s", "--circuit-breaker off",
		"--retry-max-body-mb 0 --retry-min-delay 0",
	} {
		for _, target := range []string{"envoy --upstream https://api.example.com", "istio"} {
			status, rendered, errs := call("", strings.Fields("render "+target+" "+flags)...)
			require.Equal(t, 0, status, errs)
			status, out, errs := call(rendered, "check", "--strict", "-")
			require.Equal(t, 0, status, "%s %s:\n%s%s", target, flags, out, errs)
		}
	}
}

// An endless input ends the reading.
func TestFinding_D7_CheckReadsNoEndlessInput(t *testing.T) {
	var out, errs bytes.Buffer
	require.Equal(t, 1, headgate(terminal{endless{}, &out, &errs}, []string{"check", "-"}))
	require.Equal(t, "standard input:1: error: is longer than 16777216 bytes\n", out.String())
	require.Equal(t, "headgate: check found 1 error\n", errs.String())
}

type endless struct{}

func (endless) Read(into []byte) (int, error) { return len(into), nil }
