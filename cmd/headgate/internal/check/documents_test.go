package check

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// lineOf is the line of a text in which the words stand for the first time.
func lineOf(t *testing.T, text, words string) int {
	t.Helper()
	before, _, found := strings.Cut(text, words)
	require.True(t, found, "%q is not in the text", words)
	return 1 + strings.Count(before, "\n")
}

const yamlPlugin = `# what the platform team keeps
mode: enforce
routes:
  - POST /chat/completions
identity:
  model:
    - header: x-model
pools:
  - &first
    name: model
    key: [model]
    limit: 8
    queue: 64
    max_wait: 12s
  - <<: *first
    name: again
`

const jsonPlugin = `{
  "mode": "enforce",
  "pools": [
    {"name": "model", "limit": 8, "queue": 64, "max_wait": "12s"}
  ]
}
`

const istioPlugin = `apiVersion: extensions.istio.io/v1alpha1
kind: WasmPlugin
metadata:
  name: headgate
spec:
  url: oci://registry.example/headgate:1
  failStrategy: FAIL_RELOAD
  pluginConfig:
    pools:
      - name: gateway
        limit: 8
        queue: 5
        max_wait: 12s
`

const gatewayPolicy = `apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyExtensionPolicy
metadata: {name: limits}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: models}]
  wasm:
    - name: something-else
      config: {limit: none}
    - name: headgate
      rootID: headgate
      code: {type: Image, image: {url: registry.example/headgate:1}}
      config:
        pools:
          - {name: gateway, limit: 8}
`

// inFilter is a part of a bootstrap around a plugin configuration.
func inFilter(configuration string) string {
	return `http_filters:
  - name: other
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm
      config: {name: other, configuration: {"@type": type.googleapis.com/google.protobuf.StringValue, value: "not ours"}}
  - name: headgate
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm
      config:
        failure_policy: FAIL_RELOAD
        configuration:
` + indented(configuration, 10) + `
`
}

func indented(text string, by int) string {
	space := strings.Repeat(" ", by)
	return space + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+space)
}

const stringValue = "\"@type\": type.googleapis.com/google.protobuf.StringValue\n"

// files are the forms in which a plugin configuration stands in a file; each has a pool with the limit 8.
var files = []struct{ name, text string }{
	{"plugin.json", jsonPlugin},
	{"plugin.yaml", yamlPlugin},
	{"-", jsonPlugin},
	{"-", yamlPlugin},
	{"flow.yaml", "{mode: enforce, pools: [{name: a,\n limit: 8}]}"},
	{"json.yaml", jsonPlugin},
	{"wasmplugin.yaml", istioPlugin},
	{"policy.yaml", gatewayPolicy},
	{"several.yaml", "---\nkind: Service\napiVersion: v1\n---\n---\n" + istioPlugin + "---\n" + gatewayPolicy},
	{"list.yaml", "apiVersion: v1\nkind: List\nitems:\n  -\n" + indented(istioPlugin, 4) + "\n"},
	{"literal.yaml", inFilter(stringValue + "value: |\n" + indented(jsonPlugin, 2))},
	{"literal.yaml", inFilter(stringValue + "value: |-\n\n" + indented(jsonPlugin, 2))},
	{"struct.yaml", inFilter("\"@type\": type.googleapis.com/google.protobuf.Struct\nvalue:\n" + indented(yamlPlugin, 2))},
	{"quoted.yaml", inFilter(stringValue + `value: "{\"pools\": [{\"name\": \"a\", \"limit\": 8}]}"`)},
	{"windows.yaml", strings.ReplaceAll(inFilter(stringValue+"value: |\n"+indented(jsonPlugin, 2)), "\n", "\r\n")},
	{"typedstruct.yaml", `name: headgate
typed_config:
  "@type": type.googleapis.com/xds.type.v3.TypedStruct
  type_url: type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm
  value:
    config:
      failure_policy: FAIL_RELOAD
      configuration:
        "@type": type.googleapis.com/google.protobuf.Struct
        value: {pools: [{name: a, limit: 8}]}
`},
	{"envoyfilter.yaml", "apiVersion: networking.istio.io/v1alpha3\nkind: EnvoyFilter\nspec:\n  configPatches:\n    - patch:\n        value:\n" +
		indented(inFilter(stringValue+"value: |\n"+indented(jsonPlugin, 2)), 10)},
	{"configmap.yaml", "apiVersion: v1\nkind: ConfigMap\ndata:\n  readme: read the page about pools\n  envoy.yaml: |\n" +
		indented(inFilter(stringValue+"value: |\n"+indented(jsonPlugin, 2)), 4)},
}

func TestFinding_D7_ThePluginIsFoundInWhatPeopleHave(t *testing.T) {
	for _, f := range files {
		good := File(f.name, []byte(f.text))
		require.Empty(t, good.Problems, "%s:\n%s\n%s", f.name, f.text, told(good))
		require.NotEmpty(t, good.Summary, f.name)

		broken := strings.Replace(strings.Replace(f.text, "limit: 8", "limit: -8", 1), `limit": 8`, `limit": -8`, 1)
		broken = strings.Replace(broken, `limit\": 8`, `limit\": -8`, 1)
		bad := File(f.name, []byte(broken))
		require.NotEmpty(t, bad.Problems, "%s:\n%s", f.name, broken)
		require.Equal(t, Problem{lineOf(t, broken, "-8"), "", "pools[0].limit", "-8 is out of range (want 0 to 1000000)"},
			bad.Problems[0], "%s:\n%s\n%s", f.name, broken, told(bad))
	}
}

func TestFinding_D7_TheRepositorysOwnFilesAreGood(t *testing.T) {
	for _, path := range []string{"envoy/envoy.yaml", "envoy/wasmplugin.yaml", "examples/quickstart/envoy.yaml"} {
		text, err := os.ReadFile("../../../../" + path)
		require.NoError(t, err)
		r := File(path, text)
		requireGood(t, path, r)
		require.NotEmpty(t, r.Summary)

		// The same as JSON.
		var tree any
		require.NoError(t, yaml.Unmarshal(text, &tree))
		text, err = json.Marshal(tree)
		require.NoError(t, err)
		requireGood(t, path, File(strings.TrimSuffix(filepath.Base(path), ".yaml")+".json", text))
	}
}

// requireGood checks that nothing is said of a file, but that in a container the admin listener is open: compose.yaml
// publishes it on loopback only.
func requireGood(t *testing.T, path string, r *Report) {
	t.Helper()
	for _, p := range r.Problems {
		require.True(t, strings.HasPrefix(path, "examples/quickstart/") && p.Warning == "exposed-admin", told(r))
	}
}

func TestFinding_D7_WhatHoldsNoConfigurationIsSaid(t *testing.T) {
	const none = "holds no configuration of Headgate (" + wanted + ")"
	for _, c := range []struct {
		name, text string
		line       int
		says       string
	}{
		{"a.json", "", 1, "is empty"}, {"a.yaml", " \n\n", 1, "is empty"}, {"a.yaml", "# nothing\n", 1, "is empty"}, {"a.yaml", "---\n...\n", 1, "is empty"},
		{"a.txt", "hello\n", 1, "is not a configuration"}, {"a.yaml", "- a\n", 1, "is not a configuration"}, {"a.json", "[]", 1, "is not a configuration"},
		{"a.yaml", "mode:\n\t- x\n", 2, "is not YAML: found character that cannot start any token"},
		{"a.yaml", "mode: a\n? [b]\n: c\n", 2, "has a key that is no text"},
		{"a.json", "{\n \"mode\": enforce\n}", 2, `column 10: "e" is not JSON here (want a value)`},
		{"a.json", "{\"pools\": [],\n}", 2, `column 1: "}" is not JSON here`},
		{"a.json", "{}\n{}", 2, `column 1: "{" is not JSON here (want the end)`},
		{"-", "{mode: enforce}", 1, `column 2: "m" is not JSON here`},
		{"a.json", "mode: enforce", 1, `column 1: "m" is not JSON here`},
		{"a.yaml", "kind: Service\napiVersion: v1\n", 1, none},
		{"a.yaml", "kind: WasmPlugin\napiVersion: v1\nspec: {url: other, pluginConfig: {x: 1}}\n", 1, none},
		{"a.yaml", "kind: WasmPlugin\napiVersion: v1\nspec:\n  url: oci://x/headgate\n", 3, "spec has no pluginConfig"},
		{"a.yaml", "kind: EnvoyExtensionPolicy\napiVersion: v1\nspec:\n  wasm:\n    - name: headgate\n", 5, "the wasm extension has no config"},
		{"a.yaml", "static_resources: {}\n", 1, "has no filter of Headgate's: of 0 wasm filters"},
		{"a.yaml", strings.ReplaceAll(inFilter(stringValue+"value: none"), "name: headgate", "name: mine"), 1, "has no filter of Headgate's: of 2 wasm filters"},
		{"a.yaml", inFilter("\"@type\": x/google.protobuf.Empty"), 9, `the filter "headgate" has no plugin configuration`},
		{"a.yaml", inFilter(stringValue + "value: {}"), 9, `the filter "headgate" has no plugin configuration`},
		{"a.yaml", inFilter("\"@type\": type.googleapis.com/google.protobuf.BytesValue\nvalue: '***'"), 9, `the filter "headgate" has no plugin configuration`},
		{"a.yaml", inFilter(stringValue + "value: \"\""), 13, "the plugin configuration: column 1: the text ends"},
		{"a.yaml", inFilter(stringValue + "value: |\n  {\n    \"mode\": on\n  }"), 15, `column 11: "o" is not JSON here`},
	} {
		r := File(c.name, []byte(c.text))
		require.Len(t, r.Problems, 1, "%q:\n%s", c.text, told(r))
		require.Equal(t, c.line, r.Problems[0].Line, "%q: %s", c.text, told(r))
		require.Contains(t, r.Problems[0].Text, c.says, "%q", c.text)
		require.Empty(t, r.Problems[0].Warning)
	}
}

func TestFinding_D7_EveryDocumentOfAFileIsChecked(t *testing.T) {
	text := strings.Replace(istioPlugin, "limit: 8", "limit: x", 1) + "---\n" + strings.Replace(gatewayPolicy, "limit: 8", "limt: 8", 1)
	r := File("a.yaml", []byte(text))
	require.Len(t, r.Problems, 2, told(r))
	require.Equal(t, lineOf(t, text, "limit: x"), r.Problems[0].Line)
	require.Equal(t, lineOf(t, text, "limt: 8"), r.Problems[1].Line)
}

func TestFinding_D7_AFileOfManyDocumentsEnds(t *testing.T) {
	r := File("a.yaml", []byte(strings.Repeat("a: b\n---\n", 100_000)))
	require.Contains(t, told(r), "has more than 1000 documents")
	require.Less(t, len(r.Problems), maxProblems+5)
}

// What repeats itself by aliases, or is deeper than anything real, ends with an error.
func TestFinding_D7_FilesThatGrowAreRefused(t *testing.T) {
	bomb := "a: &a [1,1,1,1,1,1,1,1,1,1]\n"
	for c := 'b'; c <= 'i'; c++ {
		bomb += string(c) + ": &" + string(c) + " [" + strings.TrimSuffix(strings.Repeat("*"+string(c-1)+",", 10), ",") + "]\n"
	}
	for text, says := range map[string]string{
		bomb:                                 "has more than 1048576 values",
		"a: &a\n  b: *a\n":                   "is nested deeper than 200",
		strings.Repeat("[", 300):             "",
		strings.Repeat("- ", 300) + "a":      "is nested deeper than 200",
		strings.Repeat(" ", MaxBytes) + "{}": "is longer than",
		"[" + strings.Repeat("[", 250) + strings.Repeat("]", 251): "is nested deeper than 200",
	} {
		r := File("a", []byte(text))
		require.Len(t, r.Problems, 1)
		require.Contains(t, r.Problems[0].Text, says)
	}
}

func TestFinding_D8_TheSummarySaysWhatItDoes(t *testing.T) {
	text := `{"mode": "shadow", "routes": ["POST /chat/completions", "/b", "/c", "/d", "/e"], "identity": {"tenant": [{"cluster": true}], "model": [{"json_body": "model"}]},
"pools": [{"name": "all", "limit": 64}, {"name": "model", "key": ["tenant", "model"], "limit": 8, "queue": 10, "max_wait": "12s", "fair_by": "tenant"},
{"name": "route", "key": ["route"], "limit": 0, "queue": 3, "max_wait": "250ms", "keys": {"/b": {"limit": 1}}}]}`
	r := File("a.json", []byte(text))
	require.Equal(t, `a.json: a plugin configuration is valid
  mode          shadow: every request passes, and what enforcing would do is counted
  stage         request
  governs       POST /chat/completions, /b, /c, /d and 1 more patterns
  pools         all: 64 at once, nobody waits
                model: 8 at once for each tenant and model, 10 more wait up to 12s, fair by tenant
                route: closed for each route (1 with limits of their own), 3 more wait up to 250ms
  longest wait  12.25s, once the mode is enforce
  Envoy needs   stream_idle_timeout above 12.25s, and request_timeout and max_stream_duration too if set
                circuit_breakers of the clusters at 1 or more
                allow_on_headers_stop_iteration: true, because the model is read from the body
                failure_policy: FAIL_RELOAD`, strings.Join(r.Summary, "\n"))
	for change, says := range map[[2]string]string{
		{`"limit": 0`, `"limit": 2`}:                            "circuit_breakers of the clusters at 9 or more\n", // 1 for /b, 2 for each other route
		{"shadow", "enforce"}:                                   "longest wait  12.25s\n",
		{"shadow", "disabled"}:                                  "every request passes, and nothing is counted",
		{`"routes"`, `"deadline": {"default": "2s"}, "routes"`}: "longest wait  2s, once",
		{`"routes"`, `"deadline": {"default": "2s", "headers": ["x"]}, "routes"`}:        "longest wait  12.25s",
		{`"pools"`, `"stage": "attempt", "pools"`}:                                       "longest wait  none: every request runs at once",
		{`"routes": ["POST /chat/completions", "/b", "/c", "/d", "/e"]`, `"routes": []`}: "governs       every request",
	} {
		changed := strings.Replace(text, change[0], change[1], 1)
		require.NotEqual(t, text, changed)
		require.Contains(t, strings.Join(File("a.json", []byte(changed)).Summary, "\n"), says)
	}
}

func TestFinding_D8_TheSummarySaysHowManyRequestsEnvoyMustAllow(t *testing.T) {
	const everyKey = " for each key in use"
	for pools, want := range map[string]string{
		`{"name": "a", "limit": 64}, {"name": "b", "limit": 8, "key": ["model"]}`:                                    "64",
		`{"name": "a", "limit": 64}, {"name": "b", "limit": 16}`:                                                     "16",
		`{"name": "a", "limit": 64}, {"name": "b", "limit": 16, "match": {"model": ["x"]}}`:                          "64",
		`{"name": "a", "limit": 7, "match": {"model": ["y"]}}, {"name": "b", "limit": 6, "match": {"model": ["x"]}}`: "7",
		`{"name": "b", "limit": 8, "key": ["model"]}`:                                                                "8" + everyKey,
		`{"name": "b", "limit": 8, "key": ["model"], "keys": {"a": {"limit": 5}, "b": {"limit": 7}}}`:                "12" + everyKey,
		`{"name": "b", "limit": 8, "key": ["route", "model"]}`:                                                       "8" + everyKey,
		`{"name": "b", "limit": 8, "key": ["route"]}`:                                                                "24",
		`{"name": "b", "limit": 8, "key": ["route"], "keys": {"@g": {"limit": 1}}}`:                                  "17",
		`{"name": "b", "limit": 8, "key": ["model"], "per": "attempt", "queue": 4}, {"name": "a", "limit": 3}`:       "3",
	} {
		r := File("a.json", []byte(`{"routes": ["/a", "/b", "/c@g", "/d@g"], "identity": {"model": [{"header": "m"}]}, "pools": [`+pools+`]}`))
		require.Contains(t, strings.Join(r.Summary, "\n"), "circuit_breakers of the clusters at "+strings.Replace(want, everyKey, "", 1)+" or more"+map[bool]string{true: everyKey}[strings.HasSuffix(want, everyKey)]+"\n", strings.Join(r.Summary, "\n"))
	}
}

func TestFinding_D7_AConfigurationInBytesIsRead(t *testing.T) {
	for _, limit := range []string{"8", "-8"} {
		encoded := base64.StdEncoding.EncodeToString([]byte(strings.Replace(jsonPlugin, "8", limit, 1)))
		text := inFilter("\"@type\": type.googleapis.com/google.protobuf.BytesValue\nvalue: " + encoded)
		r := File("a.yaml", []byte(text))
		require.Equal(t, limit == "-8", strings.Contains(told(r), "13: error: pools[0].limit: -8 is out of range"), "%s\n%s", told(r), text)
		require.Equal(t, limit == "8", len(r.Problems) == 0, told(r))
	}
}

func TestFinding_D7_JSONThatIsTooLongForAPluginHasItsOwnErrors(t *testing.T) {
	r := File("a.json", []byte("{\"static_resources\": [\n"+strings.Repeat("1,\n", 500_000)+"x]}"))
	require.Equal(t, "500002: error: is not JSON: invalid character 'x' looking for beginning of value", told(r))
	r = File("a.json", []byte("{\"static_resources\":\n"+strings.Repeat("[", 40)+"\n,1]}"))
	require.Equal(t, "3: error: is not JSON: invalid character ',' looking for beginning of value", told(r))
}

func TestFinding_D7_AFileOfManyFiltersEnds(t *testing.T) {
	one := strings.TrimPrefix(inFilter(stringValue+"value: '{\"pools\": [{\"name\": \"a\", \"limit\": 8}]}'"), "http_filters:\n")
	r := File("a.yaml", []byte("http_filters:\n"+strings.Repeat(one, maxFilters+1)))
	require.Len(t, r.Problems, 1)
	require.Contains(t, told(r), "has more than 256 filters of Headgate's")
}

// What docs/checking.md shows of a file is what is said of it.
func TestThePageShowsWhatIsSaid(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/checking.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```(?:yaml|text)\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	require.Len(t, blocks, 3, "a file, what is said of it, and the first line that editors read")
	var said strings.Builder
	File("plugin.yaml", []byte(blocks[0][1])).Print(&said)
	require.Equal(t, said.String(), blocks[1][1])
}

func FuzzFile(f *testing.F) {
	for _, file := range files {
		f.Add(file.text, file.name == "plugin.json")
	}
	for _, text := range []string{"", "{", "a: *b", "a: &a {<<: *a}", "<<: 1", "\xff", "- - - a", "? a\n: b", "!!binary x", "a: 0x1F\nb: .inf", "--- |\n a\n---\n"} {
		f.Add(text, false)
	}
	f.Fuzz(func(t *testing.T, text string, isJSON bool) {
		name := "a.yaml"
		if isJSON {
			name = "a.json"
			if root, f := readJSON(text, linesOf(text, 1)); f == nil && root.kind == kindMap {
				agrees(t, text)
			}
		}
		r := File(name, []byte(text))
		lines := 1 + len(regexp.MustCompile("[\r\n\u0085\u2028\u2029]").FindAllString(text, -1)) // as YAML counts them
		for _, p := range r.Problems {
			if p.Line < 1 || p.Line > lines+1 {
				t.Fatalf("line %d of %d: %s", p.Line, lines, p)
			}
			if strings.ContainsAny(p.String(), "\n\r\x00") {
				t.Fatalf("%q is not one line", p)
			}
		}
		if errs, _ := r.Count(); errs == 0 && len(r.Summary) == 0 {
			t.Fatal("nothing is said")
		}
	})
}
