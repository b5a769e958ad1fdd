package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/config"
)

const pluginYAML = `# what the platform team keeps
mode: enforce
routes:
  - POST /chat/completions
  - PUT /b
identity:
  model: [{header: x-model}]
pools:
  - {name: mine, limit: 7, queue: 2, max_wait: 90s, key: [model], keys: {7: {limit: 3}}}
  - {name: tries, per: attempt, limit: 5, queue: 7, max_wait: 30s}
`

const pluginJSON = `{
  "routes": ["POST /chat/completions"],
  "pools": [{"name": "mine", "limit": 7}]
}`

// writePlugin writes a plugin configuration into a folder of its own and returns the file's path.
func writePlugin(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestFinding_D6_RenderUsesAFileInPlaceOfTheFlags(t *testing.T) {
	file := writePlugin(t, "plugin.yaml", pluginYAML)
	rendered := render(t, "envoy", "--upstream", "http://a", "--config", file)
	invocation, attempt := parsedPlugin(t, rendered, filterPath), parsedPlugin(t, rendered, tryPath)
	require.Equal(t, config.StageInvocation, invocation.Stage)
	require.Equal(t, config.StageAttempt, attempt.Stage)
	require.Equal(t, attempt, parsedPlugin(t, rendered, grpcTryPath))
	require.Equal(t, []string{"mine", "tries"}, []string{attempt.Pools[0].Name, attempt.Pools[1].Name})
	require.Equal(t, 90*admission.Second, invocation.Pools[0].MaxWait)
	require.Equal(t, map[string]int{"7": 3}, invocation.Pools[0].Keys)
	require.Equal(t, "1920s", at(t, rendered, connectionPath+"stream_idle_timeout"), "the longest wait, 2 min, and 30 min")
	require.Equal(t, "PUT", at(t, rendered, routesPath+"2/match/headers/2/string_match/exact"))

	alone := render(t, "envoy", "--upstream", "http://a", "--config", file, "--retry", "0", "--mode", "shadow")
	cfg := parsedPlugin(t, alone, filterPath)
	require.Equal(t, config.StageRequest, cfg.Stage)
	require.Equal(t, config.ModeShadow, cfg.Mode)
}

func TestFinding_D6_RenderIstioUsesAFile(t *testing.T) {
	rendered := render(t, "istio", "--config", writePlugin(t, "plugin.json", pluginJSON), "--mode", "shadow")
	for path, want := range map[string]string{
		"mode": "shadow", "stage": "request", "pools/0/name": "mine", "pools/0/limit": "7", "routes/0": "POST /chat/completions",
	} {
		require.Equal(t, want, at(t, rendered, "spec/pluginConfig/"+path), path)
	}
	require.NotContains(t, rendered, "gateway's route")
}

func TestFinding_D6_AFilesOrderIsKept(t *testing.T) {
	const text = `{"pools": [{"limit": 7, "name": "mine"}], "stage": "attempt", "routes": ["/b", "/a"]}`
	file, err := parsePluginFile("plugin.json", []byte(text))
	require.NoError(t, err)
	staged, err := file.textFor("request", "shadow", false)
	require.NoError(t, err)
	flat := strings.Join(strings.Fields(staged), "")
	require.Equal(t, `{"pools":[{"limit":7,"name":"mine"}],"stage":"request","routes":["/b","/a"],"mode":"shadow"}`, flat)
}

// A configuration without routes governs every request, so every request is retried.
func TestFinding_D6_WithoutRoutesEveryRequestIsRetried(t *testing.T) {
	file := writePlugin(t, "plugin.json", `{"pools": [{"name": "mine", "limit": 1}]}`)
	rendered := render(t, "envoy", "--upstream", "http://a", "--config", file)
	require.Equal(t, ".*", at(t, rendered, retriedRoute+"/match/headers/0/string_match/safe_regex/regex"))
}

func TestFinding_D6_AFileThatIsWrongIsRefusedWithItsField(t *testing.T) {
	for text, want := range map[string]string{
		`{"pools": [{"name": "mine", "limit": -1}]}`: `pools\[0\]\.limit: -1 `,
		"pools:\n- {name: mine, limit: many}\n":      `pools\[0\]\.limit: "many" `,
		`{"pools": [{"name": "mine", "limit": 1}`:    `line 1`,
		"pools:\n\t- x\n":                            `line 2: `,
		"hello\n":                                    `is no plugin configuration: want a JSON object or a YAML map`,
		"":                                           `is no plugin configuration: want a JSON object or a YAML map`,
		"pools: 1\npools: 2\n":                       `the name "pools" is there twice in one object`,
	} {
		file := writePlugin(t, "plugin", text)
		status, out, errs := call("", "render", "envoy", "--upstream", "http://a", "--config", file)
		require.Equal(t, 1, status, text)
		require.Empty(t, out)
		require.Regexp(t, `^headgate: `+file+`: .*`+want+`.*\n$`, errs)
	}
	status, _, errs := call("", "render", "envoy", "--upstream", "http://a", "--config", "no/such.json")
	require.Equal(t, 1, status)
	require.Equal(t, "headgate: open no/such.json: no such file or directory\n", errs)
	long := writePlugin(t, "long.json", strings.Repeat(" ", maxPluginFile+1))
	_, _, errs = call("", "render", "envoy", "--upstream", "http://a", "--config", long)
	require.Equal(t, "headgate: "+long+" is longer than 1048576 bytes, which is no plugin configuration\n", errs)
}

// Every flag for limits, holds and the breaker is refused beside a file, by its name.
func TestFinding_D6_FlagsThatAFileReplacesAreRefused(t *testing.T) {
	file := writePlugin(t, "plugin.json", pluginJSON)
	for _, given := range [][]string{
		{"limit", "/a"}, {"concurrency", "3"}, {"global-concurrency", "3"}, {"queue", "3"}, {"queue-timeout", "3s"},
		{"release-cooldown", "3s"}, {"cancel-cooldown", "3s"}, {"failure-hold", "3s"}, {"adaptive-headroom", "on"},
		{"adaptive-headroom-window", "3s"}, {"circuit-breaker", "off"}, {"cb-threshold", "3"}, {"cb-window", "3s"},
		{"cb-open-timeout", "3s"}, {"cb-max-open-timeout", "3s"}, {"cb-penalty", "3s"}, {"cb-max-penalty", "3s"},
	} {
		status, _, errs := call("", "run", "--sample", "--config", file, "--"+given[0], given[1])
		require.Equal(t, 2, status)
		require.Equal(t, "headgate: --"+given[0]+" has no effect with --config: say it in "+file+", or leave --config out\n", errs)
	}
	_, _, errs := call("", "render", "envoy", "--upstream", "http://a", "--config", file, "--queue", "3", "--limit", "/a")
	require.Contains(t, errs, "--limit, --queue have no effect with --config")
}

func TestFinding_D6_TheModeIsSetWithoutAFileToo(t *testing.T) {
	for _, mode := range modes {
		rendered := render(t, "envoy", "--upstream", "http://a", "--mode", mode)
		require.Equal(t, mode, modes[parsedPlugin(t, rendered, filterPath).Mode])
		require.Equal(t, mode, modes[parsedPlugin(t, rendered, tryPath).Mode])
		require.Equal(t, mode, at(t, render(t, "istio", "--mode", mode), "spec/pluginConfig/mode"))
	}
}
