package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/config"
	"github.com/headgate/headgate/envoy"
	"github.com/headgate/headgate/envoy/rig"
)

// render returns what `headgate render` prints for the flags.
func render(t *testing.T, args ...string) string {
	t.Helper()
	status, out, errs := call("", append([]string{"render"}, args...)...)
	require.Empty(t, errs)
	require.Equal(t, 0, status)
	return out
}

// at returns the value at a path of a YAML document, as yamlEdit names it.
func at(t *testing.T, document, path string) string {
	t.Helper()
	e := editYAML([]byte(document))
	text := e.text(path)
	require.NoError(t, e.err)
	return text
}

// meaning is a YAML document without its comments, order and style.
func meaning(t *testing.T, document string) any {
	t.Helper()
	var value any
	require.NoError(t, yaml.Unmarshal([]byte(document), &value))
	return value
}

func TestRenderWithTheDefaultsIsTheFile(t *testing.T) {
	rendered := render(t, "envoy", "--upstream", "http://127.0.0.1:8080", "--wasm", "build/headgate.wasm")
	wasm := at(t, rendered, filterPath+"vm_config/code/local/filename")
	require.True(t, filepath.IsAbs(wasm), "%s is a relative path, which works in one folder only", wasm)
	withRelativePath := strings.ReplaceAll(rendered, wasm, "build/headgate.wasm")
	require.Equal(t, meaning(t, string(envoy.Bootstrap)), meaning(t, withRelativePath))
	require.Equal(t, commentLines(string(envoy.Bootstrap)), commentLines(rendered), "a comment is lost")
}

// commentLines counts the comment lines of a bootstrap below its top comment, which is rendered anew.
func commentLines(document string) int {
	_, body, _ := strings.Cut(document, "node:")
	return strings.Count(body, "# ")
}

// parsedPlugin is the plugin configuration of the filter at a path of a bootstrap.
func parsedPlugin(t *testing.T, bootstrap, filter string) *config.Config {
	t.Helper()
	cfg, err := config.Parse([]byte(at(t, bootstrap, filter+"configuration/value")))
	require.NoError(t, err)
	return cfg
}

func TestRenderPutsTheFlagsInTheirPlaces(t *testing.T) {
	rendered := render(t, "envoy", "--upstream", "http://models.example.com:8000/base", "--bind", "127.0.0.1:1234",
		"--concurrency", "7", "--queue", "9", "--queue-timeout", "90s", "--wasm", "/opt/headgate.wasm")
	for path, want := range map[string]string{
		listenerPath + "address/socket_address/address":                         "127.0.0.1",
		listenerPath + "address/socket_address/port_value":                      "1234",
		filterPath + "vm_config/code/local/filename":                            "/opt/headgate.wasm",
		tryPath + "vm_config/code/local/filename":                               "/opt/headgate.wasm",
		connectionPath + "stream_idle_timeout":                                  "1980s",
		otherRoutePath + "prefix_rewrite":                                       "/base/",
		otherRoutePath + "host_rewrite_literal":                                 "models.example.com:8000",
		routePath + "prefix_rewrite":                                            "/base/",
		routePath + "host_rewrite_literal":                                      "models.example.com:8000",
		clusterPath + "type":                                                    "LOGICAL_DNS",
		grpcTryPath + "vm_config/code/local/filename":                           "/opt/headgate.wasm",
		grpcRoutePath + "prefix_rewrite":                                        "/base/",
		grpcRoutePath + "host_rewrite_literal":                                  "models.example.com:8000",
		grpcClusterPath + "type":                                                "LOGICAL_DNS",
		grpcClusterPath + "dns_lookup_family":                                   "ALL",
		endpointPath + "address/socket_address/address":                         "models.example.com",
		endpointPath + "address/socket_address/port_value":                      "8000",
		grpcClusterPath + clusterEndpoint + "address/socket_address/address":    "models.example.com",
		grpcClusterPath + clusterEndpoint + "address/socket_address/port_value": "8000",
	} {
		require.Equal(t, want, at(t, rendered, path), path)
	}
	cfg := parsedPlugin(t, rendered, filterPath)
	require.Len(t, cfg.Pools, 2)
	pool := cfg.Pools[0]
	require.Equal(t, "route", pool.Name)
	require.Equal(t, 7, pool.Limit)
	require.Equal(t, 9, pool.Queue)
	require.Equal(t, 90*admission.Second, pool.MaxWait)
	require.Equal(t, "x-tenant", cfg.Identity.Tenant[0].Name)
}

func TestRenderTrustsNoTenantHeaderBeyondLoopback(t *testing.T) {
	for bind, trusted := range map[string]int{
		"127.0.0.1:1": 1, "[::1]:1": 1, "0.0.0.0:1": 0, "[::]:1": 0, "10.0.0.1:1": 0,
	} {
		rendered := render(t, "envoy", "--upstream", "http://127.0.0.1:8080", "--bind", bind)
		require.Len(t, parsedPlugin(t, rendered, filterPath).Identity.Tenant, trusted, bind)
		require.Len(t, parsedPlugin(t, rendered, tryPath).Identity.Tenant, trusted, bind)
		require.Len(t, parsedPlugin(t, rendered, grpcTryPath).Identity.Tenant, trusted, bind)
	}
}

func TestRenderVerifiesTheCertificateOfAnHTTPSUpstream(t *testing.T) {
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(bundle, nil, 0o600))
	t.Setenv("SSL_CERT_FILE", bundle)
	const tlsPath = "transport_socket/typed_config/common_tls_context/"
	const validation = clusterPath + tlsPath + "validation_context/"

	byName := render(t, "envoy", "--upstream", "https://api.example.com")
	require.Equal(t, bundle, at(t, byName, validation+"trusted_ca/filename"))
	require.Equal(t, "DNS", at(t, byName, validation+"match_typed_subject_alt_names/0/san_type"))
	require.Equal(t, "api.example.com", at(t, byName, validation+"match_typed_subject_alt_names/0/matcher/exact"))
	require.Equal(t, "api.example.com", at(t, byName, clusterPath+"transport_socket/typed_config/sni"))
	require.Equal(t, at(t, byName, grpcClusterPath+tlsPath+"validation_context/trusted_ca/filename"), bundle)
	require.Equal(t, "h2", at(t, byName, grpcClusterPath+tlsPath+"alpn_protocols/0"))
	require.Equal(t, "443", at(t, byName, endpointPath+"address/socket_address/port_value"))
	require.Equal(t, "api.example.com", at(t, byName, routePath+"host_rewrite_literal"))

	byAddress := render(t, "envoy", "--upstream", "https://[::1]:8443")
	require.Equal(t, "IP_ADDRESS", at(t, byAddress, validation+"match_typed_subject_alt_names/0/san_type"))
	require.Equal(t, "STATIC", at(t, byAddress, clusterPath+"type"))
	require.NotContains(t, byAddress, "sni:")
}

func TestRenderSaysWhichCABundleIsMissing(t *testing.T) {
	t.Setenv("SSL_CERT_FILE", "no/such.pem")
	status, _, errs := call("", "render", "envoy", "--upstream", "https://api.example.com")
	require.Equal(t, 1, status)
	require.Equal(t, "headgate: $SSL_CERT_FILE can't be read: stat no/such.pem: no such file or directory\n", errs)
}

func TestRenderIstioHasTheSameLimits(t *testing.T) {
	rendered := render(t, "istio", "--concurrency", "7", "--queue", "0", "--queue-timeout", "250ms")
	var object struct {
		Spec struct {
			PluginConfig map[string]any `yaml:"pluginConfig"`
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(rendered), &object))
	text, err := json.Marshal(object.Spec.PluginConfig)
	require.NoError(t, err)
	cfg, err := config.Parse(text)
	require.NoError(t, err)
	require.Equal(t, config.StageRequest, cfg.Stage)
	require.Equal(t, "route", cfg.Pools[0].Name)
	require.Equal(t, 7, cfg.Pools[0].Limit)
	require.Equal(t, 0, cfg.Pools[0].Queue)
	require.Equal(t, 250*admission.Millisecond, cfg.Pools[0].MaxWait)
	require.Contains(t, rendered, "failStrategy: FAIL_RELOAD")
}

func TestRenderRetriesWhatIsGovernedForEachMethod(t *testing.T) {
	rendered := render(t, "envoy", "--upstream", "http://a", "--retry", "3", "--retry-skip-429=off",
		"--limit", "POST /a/*.b", "--limit", "/c", "--limit", "POST /d")
	path := func(route string) string {
		return at(t, rendered, routesPath+route+"/match/headers/0/string_match/safe_regex/regex")
	}
	require.Equal(t, `(?i)[^?]*(?:/|%2F)(?:a(?:/|%2F)+[^/?]*\.b|d)(?:/|%2F)*(?:\?.*)?`, path("1"))
	require.Equal(t, "POST", at(t, rendered, routesPath+"1/match/headers/2/string_match/exact"))
	require.Equal(t, `(?i)[^?]*(?:/|%2F)(?:c)(?:/|%2F)*(?:\?.*)?`, path("2"))
	for _, route := range []string{"1", "2"} {
		require.Equal(t, "3", at(t, rendered, routesPath+route+"/route/retry_policy/num_retries"))
		require.Equal(t, "429", at(t, rendered, routesPath+route+"/route/retry_policy/retriable_headers/1/string_match/exact"))
		require.Equal(t, "5xx", at(t, rendered, routesPath+route+"/route/retry_policy/retriable_headers/0/string_match/exact"))
	}
	e := editYAML([]byte(rendered))
	_, anyMethod := e.value(routesPath + "2/match/headers/2")
	_, retried := e.value(routesPath + "3/route/retry_policy")
	require.NoError(t, e.err)
	require.False(t, anyMethod || retried)
}

func TestRenderWithoutRetriesMentionsNone(t *testing.T) {
	rendered := render(t, "envoy", "--upstream", "http://a", "--retry", "0")
	rendered = strings.ReplaceAll(rendered, "retried without end", "")            // this is in a comment that both forms share
	rendered = regexp.MustCompile(`- x-envoy-\S+`).ReplaceAllString(rendered, "") // what the provider does not receive
	require.NotRegexp(t, `(?i)retr[iy][^e]|second of|two filters|upstream_codec`, rendered)
}

func TestRenderDisablesKeepAlives(t *testing.T) {
	rendered := render(t, "envoy", "--upstream", "http://a", "--upstream-disable-keep-alives")
	for _, cluster := range clusterPaths {
		require.Equal(t, "1", at(t, rendered, cluster+protocolOptions+"common_http_protocol_options/max_requests_per_connection"))
	}
}

// The greatest and the least values that flags take make a configuration.
func TestRenderTakesEveryLimitThatAFlagTakes(t *testing.T) {
	for _, flags := range []string{
		"--concurrency 1 --queue 0 --queue-timeout 1ms",
		"--concurrency 100000 --queue 100000 --queue-timeout 1h",
		"--concurrency 1 --queue 1 --queue-timeout 1.5s",
	} {
		render(t, append([]string{"envoy", "--upstream", "http://127.0.0.1:1"}, strings.Fields(flags)...)...)
	}
}

func TestEnvoyTakesWhatRenderPrints(t *testing.T) {
	wasm, err := rig.WasmPath()
	require.NoError(t, err)
	binary, err := rig.EnvoyPath()
	require.NoError(t, err)
	for _, flags := range []string{
		"--upstream http://127.0.0.1:8080",
		"--upstream https://localhost/v1 --retry 0",
		"--upstream https://[::1]:8443 --retry 3 --retry-min-delay 0 --retry-skip-429 false --retry-max-body-mb 0",
		"--upstream http://a --limit /a/*x.y:2@g --limit /b --limit PUT_/b(c):9 --global-concurrency 3 " +
			"--upstream-disable-keep-alives",
		"--upstream http://a --adaptive-headroom --circuit-breaker off " +
			"--release-cooldown 0 --cancel-cooldown 0 --failure-hold 0",
		"--upstream http://a --retry-min-delay 1h --retry-wait-max 1h --retry-wait-min 1ms --retry-max-body-mb 1024",
		"--upstream http://a --retry-min-delay 1ms --retry-wait-max 1ms --retry-wait-min 1ms",
	} {
		args := strings.Fields(flags)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "_", " ")
		}
		file := filepath.Join(t.TempDir(), "envoy.yaml")
		rendered := render(t, append([]string{"envoy", "--wasm", wasm}, args...)...)
		require.NoError(t, os.WriteFile(file, []byte(rendered), 0o600))
		log, err := exec.Command(binary, "--mode", "validate", "-c", file).CombinedOutput()
		require.NoError(t, err, "%s: %s", flags, log)
	}
}
