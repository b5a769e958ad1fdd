package main

import (
	"encoding/json"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/build"
)

func TestVersionAsJSONSaysWhatTheToolIsMadeOf(t *testing.T) {
	version, commit, moduleSHA256 = "v1.2.3", "346e526", "ab"
	t.Cleanup(func() { version, commit, moduleSHA256 = "", "", "" })
	status, out, errs := call("", "version", "--json")
	require.Equal(t, 0, status, errs)
	var found map[string]any
	require.NoError(t, json.Unmarshal([]byte(out), &found))
	require.Equal(t, map[string]any{
		"version": "v1.2.3", "commit": "346e526", "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
		"module_sha256": "ab", "envoy": map[string]any{"oldest": "1.33", "tested": strings.TrimSpace(build.EnvoyVersion)},
	}, found)
	_, out, _ = call("", "version", "--json", "off")
	require.Equal(t, "headgate v1.2.3\n", out)
}

// Without make build there are no stamps, but the same fields.
func TestVersionAsJSONHasAllFieldsInEveryBuild(t *testing.T) {
	_, out, _ := call("", "version", "--json")
	var found map[string]any
	require.NoError(t, json.Unmarshal([]byte(out), &found))
	require.ElementsMatch(t, []string{"version", "commit", "go", "platform", "module_sha256", "envoy"}, slices.Collect(maps.Keys(found)))
	require.NotEmpty(t, found["version"])
}

func TestTheOldestEnvoyIsTheScripts(t *testing.T) {
	minor := regexp.MustCompile(`minor >= (\d+)`).FindStringSubmatch(build.GetEnvoy)
	require.NotNil(t, minor)
	require.Equal(t, "1."+minor[1], oldestEnvoy)
}

func TestTheManualIsForMakeDistAlone(t *testing.T) {
	status, out, errs := call("", "manual")
	require.Equal(t, 0, status, errs)
	require.Regexp(t, `^% "HEADGATE" "1" "" "headgate [^"]+" "Headgate"\n\n# NAME\n\nheadgate - admission control`, out)
	require.Contains(t, out, "\n**--upstream** URL\n: Send requests to the model API at URL: http\\[s\\]://HOST")
	_, help, _ := call("", "help")
	require.NotContains(t, help, "manual")
}
