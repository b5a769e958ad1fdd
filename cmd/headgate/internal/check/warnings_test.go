package check

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// names are the warnings of a report, each once.
func names(r *Report) []string {
	var names []string
	for _, p := range r.Problems {
		names = append(names, p.Warning)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

const identity = `"identity": {"tenant": [{"cluster": true}], "model": [{"header": "x-model"}], "class": [{"cluster": true}],
"aliases": {"gpt-4o-2024": "gpt-4o"}}`

// pluginCases are plugin configurations, the one warning that each gets, and words of its field and text. No words: there
// is no warning.
var pluginCases = []struct{ warning, config, field, says string }{
	{"queue-without-wait", `{"pools": [{"name": "a", "limit": 1, "queue": 5, "max_wait": "0s"}]}`, "pools[0].max_wait", "the queue of 5 does nothing"},
	{"", `{"pools": [{"name": "a", "limit": 1, "max_wait": "0s"}]}`, "", ""},
	{"wait-without-queue", `{"pools": [{"name": "a", "limit": 1, "max_wait": "2s"}]}`, "pools[0].max_wait", "max_wait does nothing"},
	{"", `{"pools": [{"name": "a", "limit": 1, "queue": 0, "max_wait": "2s"}]}`, "", ""},

	{"waits-before-fair", `{` + identity + `, "pools": [{"name": "f", "limit": 4, "queue": 50}, {"name": "g", "limit": 2, "queue": 50, "fair_by": "tenant"}]}`, "pools[1].fair_by", `pool "f"`},
	{"waits-before-fair", `{` + identity + `, "stage": "invocation", "pools": [{"name": "g", "per": "attempt", "limit": 2, "queue": 50, "fair_by": "tenant"}, {"name": "f", "limit": 4, "queue": 50}]}`, "pools[0].fair_by", `pool "f"`},
	{"", `{` + identity + `, "stage": "invocation", "pools": [{"name": "f", "per": "attempt", "limit": 2, "queue": 50}, {"name": "g", "limit": 4, "queue": 50, "fair_by": "tenant"}]}`, "", ""},
	{"", `{` + identity + `, "pools": [{"name": "f", "limit": 52, "queue": 50}, {"name": "g", "limit": 2, "queue": 50, "fair_by": "tenant"}]}`, "", ""},
	{"", `{` + identity + `, "pools": [{"name": "f", "limit": 4}, {"name": "g", "limit": 2, "queue": 50, "fair_by": "tenant"}]}`, "", ""},
	{"", `{` + identity + `, "pools": [{"name": "f", "limit": 4, "queue": 50, "key": ["tenant"]}, {"name": "g", "limit": 2, "queue": 50, "fair_by": "tenant"}]}`, "", ""},
	{"", `{` + identity + `, "pools": [{"name": "f", "limit": 4, "queue": 50, "match": {"class": ["x"]}}, {"name": "g", "limit": 2, "queue": 50, "fair_by": "tenant", "match": {"class": ["y", "z"]}}]}`, "", ""},
	{"waits-before-fair", `{` + identity + `, "pools": [{"name": "f", "limit": 4, "queue": 50, "match": {"class": ["x", "y"]}}, {"name": "g", "limit": 2, "queue": 50, "fair_by": "tenant", "match": {"class": ["y", "z"]}}]}`, "pools[1].fair_by", ""},
	{"", `{` + identity + `, "pools": [{"name": "g", "limit": 2, "queue": 50, "fair_by": "tenant"}, {"name": "f", "limit": 4, "queue": 50}]}`, "", ""},

	{"fair-without-effect", `{` + identity + `, "pools": [{"name": "g", "limit": 2, "fair_by": "tenant"}]}`, "pools[0].fair_by", "nobody waits"},
	{"fair-without-effect", `{` + identity + `, "pools": [{"name": "g", "limit": 2, "queue": 3, "fair_by": "tenant", "key": ["model", "tenant"]}]}`, "pools[0].fair_by", "one tenant"},

	{"hold-replaced", `{"pools": [{"name": "a", "limit": 1, "hold": {"failure": "30s"}, "breaker": {}}]}`, "pools[0].hold.failure", "2s"},
	{"", `{"pools": [{"name": "a", "limit": 1, "hold": {"failure": "30s"}, "breaker": {"penalty": "3s"}}]}`, "", ""},
	{"", `{"pools": [{"name": "a", "limit": 1, "hold": {"failure": "30s"}}]}`, "", ""},
	{"holds-without-effect", `{"pools": [{"name": "a", "limit": 4, "min_active": 2}]}`, "pools[0].min_active", "does nothing"},
	{"holds-without-effect", `{"pools": [{"name": "a", "limit": 4, "min_active": 4, "hold": {"success": "1s"}}]}`, "pools[0].min_active", "whole limit"},
	{"", `{"pools": [{"name": "a", "limit": 4, "min_active": 2, "hold": {"success": "1s"}}]}`, "", ""},
	{"", `{"pools": [{"name": "a", "limit": 4, "min_active": 2, "breaker": {}}, {"name": "b", "limit": 4, "min_active": 2, "headroom": {}}]}`, "", ""},
	{"", `{"reap_hold": "5s", "pools": [{"name": "a", "limit": 4, "min_active": 2}]}`, "", ""},

	{"attempt-as-invocation", `{"pools": [{"name": "a", "limit": 4, "per": "attempt"}]}`, "pools[0].per", "all of them"},
	{"", `{"stage": "attempt", "pools": [{"name": "a", "limit": 4, "per": "attempt"}]}`, "", ""},

	{"no-pool-asked", `{"stage": "invocation", "pools": [{"name": "a", "limit": 4, "per": "attempt"}]}`, "stage", `nothing is limited: stage "invocation" asks the pools with per: "invocation", and all pools here have per: "attempt" (want stage "attempt" or "request", or a pool with per: "invocation")`},
	{"no-pool-asked", `{"stage": "attempt", "pools": [{"name": "a", "limit": 4}, {"name": "b", "limit": 4, "per": "invocation"}]}`, "stage", `(want stage "invocation" or "request", or a pool with per: "attempt")`},
	{"", `{"stage": "invocation", "pools": [{"name": "a", "limit": 4, "per": "attempt"}, {"name": "b", "limit": 4}]}`, "", ""},
	{"", `{"stage": "attempt", "pools": [{"name": "a", "limit": 4, "per": "attempt"}, {"name": "b", "limit": 4}]}`, "", ""},

	{"unreachable-route", `{"routes": ["/completions", "POST /chat/completions:3"], "pools": [{"name": "a", "limit": 4}]}`, "routes[1]", `routes[0] "/completions"`},
	{"unreachable-route", `{"routes": ["POST /models/*", "POST /models/*:predict"], "pools": [{"name": "a", "limit": 4}]}`, "routes[1]", `"POST /models/*:predict"`},
	{"unreachable-route", `{"routes": ["/*", "/*/b"], "pools": [{"name": "a", "limit": 4}]}`, "routes[1]", `routes[0]`},
	{"unreachable-route", `{"routes": ["/x", "POST /y", "/Y/X"], "pools": [{"name": "a", "limit": 4}]}`, "routes[2]", `routes[0]`},
	{"unreachable-route", `{"routes": ["GET /b", "/b", "POST /a/b"], "pools": [{"name": "a", "limit": 4}]}`, "routes[2]", `routes[1] "/b"`},
	{"", `{"routes": ["POST /chat/completions:3", "/completions"], "pools": [{"name": "a", "limit": 4}]}`, "", ""},
	{"", `{"routes": ["POST /x", "/x", "GET /a/x*", "/*y"], "pools": [{"name": "a", "limit": 4}]}`, "", ""},
	{"", `{"routes": ["/models/a*", "/models/*a", "/models/*"], "pools": [{"name": "a", "limit": 4}]}`, "", ""},

	{"unknown-route", `{"routes": ["/x", "/y@g"], "pools": [{"name": "a", "limit": 4, "key": ["route"], "keys": {"/y": {"limit": 3}}}]}`, `pools[0].keys["/y"]`, `"/y"`},
	{"unknown-route", `{"pools": [{"name": "a", "limit": 4, "match": {"route": ["any", "/x"]}}]}`, "pools[0].match.route[1]", `"/x"`},
	{"", `{"routes": ["/x", "/y@g"], "pools": [{"name": "a", "limit": 4, "key": ["route"], "keys": {"@g": {"limit": 3}, "other": {"limit": 1}}, "match": {"route": ["/x"]}}]}`, "", ""},
	{"aliased-name", `{` + identity + `, "pools": [{"name": "a", "limit": 4, "key": ["model"], "keys": {"gpt-4o-2024": {"limit": 3}}}]}`, `pools[0].keys["gpt-4o-2024"]`, `"gpt-4o"`},
	{"aliased-name", `{` + identity + `, "pools": [{"name": "a", "limit": 4, "match": {"model": ["gpt-4o-2024"]}}]}`, "pools[0].match.model[0]", `"gpt-4o"`},
	{"", `{` + identity + `, "pools": [{"name": "a", "limit": 4, "key": ["model"], "keys": {"gpt-4o": {"limit": 3}}, "match": {"tenant": ["gpt-4o-2024"]}}]}`, "", ""},

	{"body-path", `{"identity": {"model": [{"json_body": "$.model"}]}, "pools": [{"name": "a", "limit": 4, "key": ["model"]}]}`, "identity.model[0].json_body", `"$.model"`},
	{"body-path", `{"identity": {"model": [{"json_body": "request.model"}]}, "pools": [{"name": "a", "limit": 4, "key": ["model"]}]}`, "identity.model[0].json_body", `"request.model"`},
	{"", `{"identity": {"model": [{"json_body": "model"}]}, "pools": [{"name": "a", "limit": 4, "key": ["model"]}]}`, "", ""},
	{"source-never-asked", `{"identity": {"model": [{"value": "m"}, {"header": "x-model"}]}, "pools": [{"name": "a", "limit": 4, "key": ["model"]}]}`, "identity.model[1]", "identity.model[0]"},
	{"", `{"identity": {"model": [{"header": "x-model"}, {"value": "m"}]}, "pools": [{"name": "a", "limit": 4, "key": ["model"]}]}`, "", ""},
	{"no-source", `{"pools": [{"name": "a", "limit": 4, "key": ["model"]}]}`, "pools[0].key", `"unknown"`},
	{"no-source", `{"pools": [{"name": "a", "limit": 4, "queue": 3, "fair_by": "tenant"}]}`, "pools[0].fair_by", `"anonymous"`},
	{"no-source", `{"pools": [{"name": "a", "limit": 4, "match": {"class": ["x"]}}]}`, "pools[0].match", "class"},
	{"", `{"stage": "attempt", "pools": [{"name": "a", "limit": 4, "key": ["tenant"], "per": "attempt"}]}`, "", ""},
	{"no-source", `{"stage": "attempt", "pools": [{"name": "a", "limit": 4, "key": ["model"], "per": "attempt"}]}`, "pools[0].key", "model"},

	{"deadline-unit", `{"deadline": {"headers": ["x-a", "X-Stainless-Read-Timeout"]}, "pools": [{"name": "a", "limit": 4}]}`, "deadline.headers[1]", "milliseconds"},
	{"deadline-unit", `{"deadline": {"headers": ["timeout-seconds"]}, "pools": [{"name": "a", "limit": 4}]}`, "deadline.headers[0]", "milliseconds"},
	{"deadline-unit", `{"deadline": {"headers": [{"header": "x-stainless-read-timeout", "unit": "ms"}]}, "pools": [{"name": "a", "limit": 4}]}`, "deadline.headers[0]", `(want {"header": "x-stainless-read-timeout", "unit": "s"})`},
	{"deadline-unit", `{"deadline": {"headers": [{"header": "X-Timeout-Ms", "unit": "s"}]}, "pools": [{"name": "a", "limit": 4}]}`, "deadline.headers[0]", "is read as seconds, but its name says milliseconds"},
	{"", `{"deadline": {"headers": [{"header": "x-stainless-read-timeout", "unit": "s"}, {"header": "x-timeout"}, {"header": "timeout-secs", "unit": "s"}]}, "pools": [{"name": "a", "limit": 4}]}`, "", ""},
	{"", `{"deadline": {"headers": ["x-request-timeout-ms", "grpc-timeout"]}, "pools": [{"name": "a", "limit": 4}]}`, "", ""},
}

func TestFinding_D8_WhatDoesNothingIsWarnedOf(t *testing.T) {
	for _, c := range pluginCases {
		r := File("a.json", []byte(c.config))
		if c.warning == "" {
			require.Empty(t, r.Problems, "%s\n%s", c.config, told(r))
			continue
		}
		require.Len(t, r.Problems, 1, "%s\n%s", c.config, told(r))
		require.Equal(t, c.warning, r.Problems[0].Warning, "%s\n%s", c.config, told(r))
		require.Equal(t, c.field, r.Problems[0].Field, c.config)
		require.Contains(t, r.Problems[0].Text, c.says, c.config)
	}
}

func TestFinding_C12_AHeaderInSecondsIsWarnedOfUnlessItSaysSo(t *testing.T) {
	for headers, warned := range map[string]bool{
		`"x-stainless-read-timeout"`: true, `{"header": "x-stainless-read-timeout"}`: true, `{"header": "x-stainless-read-timeout", "unit": "s"}`: false,
	} {
		r := File("a.json", []byte(`{"deadline": {"headers": [`+headers+`]}, "pools": [{"name": "a", "limit": 1}]}`))
		require.Equal(t, warned, slices.Equal(names(r), []string{"deadline-unit"}), "%s: %s", headers, told(r))
		require.Equal(t, !warned, len(r.Problems) == 0, "%s: %s", headers, told(r))
	}
}

func TestFinding_D8_WarningsHaveLines(t *testing.T) {
	const text = "pools:\n  - name: a\n    limit: 1\n    queue: 5\n    max_wait: 0s\n  - name: b\n    limit: 2\n    key:\n      - model\n"
	r := File("a.yaml", []byte(text))
	require.Equal(t, `5: warning: pools[0].max_wait: max_wait is 0s, so nobody waits and the queue of 5 does nothing (leave out queue, or set max_wait) [queue-without-wait]
8: warning: pools[1].key: identity has no source of the model, so every request is the model "unknown" [no-source]`, told(r))
}

// What stands in the place of something refused gives no warning.
func TestFinding_D8_WhatIsRefusedIsNotWarnedOf(t *testing.T) {
	r := File("a.json", []byte(`{"routes": ["bad", "/x"], "identity": {"model": [5, {"json_body": "$.m"}]},
"pools": [{"name": "a", "limit": "x", "key": ["model"], "queue": 1, "max_wait": "0s"}, {"name": "b", "limit": 1, "queue": 1, "max_wait": "0s"}]}`))
	require.Equal(t, []string{"", "body-path", "queue-without-wait"}, names(r), told(r))
	errs, warnings := r.Count()
	require.Equal(t, []int{3, 2}, []int{errs, warnings}, told(r))
}

const (
	routeAction = "                          route:\n                            cluster: model\n                            prefix_rewrite: /\n"
	grpcCluster = "    - name: model-grpc\n      type: STATIC\n      connect_timeout: 2s\n      circuit_breakers:\n        thresholds:\n          "
	listenerVM  = "                          vm_id: headgate\n                          runtime"
	tryVM       = "                    vm_id: headgate\n                    runtime"
	router      = "                  - name: envoy.filters.http.router\n                    typed_config:\n                      \"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router\n"
	jwtFilter   = "                  - name: jwt\n                    typed_config:\n                      \"@type\": type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication\n"
	thresholds  = "- {max_connections: 1000000, max_pending_requests: 1000000, max_requests: 1000000, max_retries: 1000000}"
	codec       = "            - name: envoy.filters.http.upstream_codec\n              typed_config:\n                \"@type\": type.googleapis.com/envoy.extensions.filters.http.upstream_codec.v3.UpstreamCodec\n"
)

// A bootstrapCase is a change of envoy/envoy.yaml: old and new text in turns. at is a text in the line of the warning.
type bootstrapCase struct {
	warning string
	changes []string
	at      string
	says    string
}

var bootstrapCases = []bootstrapCase{
	{"no-fail-reload", []string{"failure_policy: FAIL_RELOAD", "failure_policy: FAIL_OPEN"}, "FAIL_OPEN", "lifts every limit"},
	{"no-fail-reload", []string{"                        failure_policy: FAIL_RELOAD\n", ""}, "config:\n                        name: headgate", "answers 503 until Envoy restarts"},
	{"no-fail-reload", []string{"failure_policy: FAIL_RELOAD", "fail_open: true"}, "fail_open", "lifts every limit"},
	{"no-stop-iteration", []string{`"header": "x-model"`, `"json_body": "model"`, "allow_on_headers_stop_iteration: true", "allow_on_headers_stop_iteration: false"}, "allow_on_headers_stop_iteration: false", "reads the model from the body"},
	{"", []string{`"header": "x-model"`, `"json_body": "model"`}, "", ""},
	{"before-authentication", []string{router, jwtFilter + router}, "- name: jwt", `"jwt" stands behind "headgate"`},
	{"", []string{"http_filters:\n", "http_filters:\n" + jwtFilter}, "", ""},
	{"behind-the-end", []string{"http_filters:\n                  #", "http_filters:\n" + router + "                  #"}, "- name: headgate\n                    typed", "nothing reaches it"},
	{"behind-the-end", []string{"          http_filters:\n            #", "          http_filters:\n" + codec + "            #"}, "- name: headgate\n              typed", "nothing reaches it"},
	{"vm-differs", []string{tryVM, strings.Replace(tryVM, "vm_id: headgate", "vm_id: other", 1)}, "vm_id: other", "vm_config.vm_id is not that"},
	{"pool-never-asked", []string{`"stage": "attempt"`, `"stage": "invocation"`, `"stage": "attempt"`, `"stage": "invocation"`}, "{\n                                  \"name\": \"upstream\"", `needs one with stage "attempt"`},
	{"", []string{"static_resources:", "dynamic_resources: {}\nstatic_resources:", `"stage": "attempt"`, `"stage": "invocation"`, `"stage": "attempt"`, `"stage": "invocation"`}, "", ""},
	{"unguarded-cluster", []string{routeAction, strings.Replace(routeAction, "cluster: model", "cluster: bare", 1), "  clusters:\n", "  clusters:\n    - {name: bare, circuit_breakers: {thresholds: [{max_connections: 9, max_pending_requests: 9, max_requests: 9}]}}\n"}, "cluster: bare", `cluster "bare" has no filter of stage attempt`},
	{"unguarded-cluster", []string{"cluster: model\n", "weighted_clusters: {clusters: [{name: model, weight: 1}, {name: bare, weight: 1}]}\n", "  clusters:\n", "  clusters:\n    - {name: bare, circuit_breakers: {thresholds: [{max_connections: 9, max_pending_requests: 9, max_requests: 9}]}}\n"}, "weighted_clusters", `cluster "bare" has no filter of stage attempt`},
	{"unguarded-cluster", []string{"cluster: model-grpc\n", "cluster: bare\n", "  clusters:\n", "  clusters:\n    - {name: bare, circuit_breakers: {thresholds: [{max_connections: 9, max_pending_requests: 9, max_requests: 9}]}}\n"}, "cluster: bare", `cluster "bare" has no filter of stage attempt`},
	{"client-names-tenant", []string{"address: {socket_address: {address: 127.0.0.1, port_value: 10000}}", "address: {socket_address: {address: 0.0.0.0, port_value: 10000}}"}, `"trusted": true`, "open to other machines"},
	{"", []string{"address: {socket_address: {address: 127.0.0.1, port_value: 10000}}", "address: {socket_address: {address: 0.0.0.0, port_value: 10000}}", "http_filters:\n", "http_filters:\n" + jwtFilter}, "", ""},
	{"public-admin", []string{"address: {socket_address: {address: 127.0.0.1, port_value: 9901}}", "address: {socket_address: {address: 10.0.0.7, port_value: 9901}}"}, "10.0.0.7", "admin interface"},
	{"", []string{"address: {socket_address: {address: 127.0.0.1, port_value: 9901}}", `address: {socket_address: {address: "::1", port_value: 9901}}`}, "", ""},
	{"exposed-admin", []string{"address: {socket_address: {address: 127.0.0.1, port_value: 10001}}", "address: {socket_address: {address: 10.0.0.7, port_value: 10001}}"}, "10.0.0.7", "refuses whoever comes from there"},
	{"exposed-admin", []string{"address: {socket_address: {address: 127.0.0.1, port_value: 10001}}", "address: {socket_address: {address: 0.0.0.0, port_value: 10001}}", `"stage": "admin",`, `"stage": "admin", "admin": {"expose": true},`}, "0.0.0.0", "can change the limits"},
	{"no-stop-iteration", []string{"# Lets the body of a change come while its headers wait.\n                        allow_on_headers_stop_iteration: true", "allow_on_headers_stop_iteration: false"}, "allow_on_headers_stop_iteration: false", "no limit can be changed"},
	{"circuit-breakers", []string{thresholds, "- {max_requests: 7, max_connections: 8, max_pending_requests: 9}"}, "- {max_requests: 7", `max_requests (7) is below the 8 requests`},
	{"circuit-breakers", []string{thresholds, "- {priority: HIGH, max_requests: 7}", `"queue": 4,`, `"queue": 1400,`, `"queue": 4,`, `"queue": 1400,`, `"queue": 4,`, `"queue": 1400,`, `"queue": 4,`, `"queue": 1400,`}, "- name: model\n      type", "max_requests (1024 by default), max_connections (1024 by default), max_pending_requests (1024 by default) is below the 1404"},
	{"circuit-breakers", []string{grpcCluster + thresholds, grpcCluster + "- {max_requests: 7, max_connections: 1, max_pending_requests: 1}"}, "- {max_requests: 7", `circuit_breakers of cluster "model-grpc": max_requests (7) is below the 8 requests`},
	{"", []string{thresholds, "- {max_requests: 8, max_connections: 1, max_pending_requests: 1}", "explicit_http_config: {http_protocol_options: {}}", "explicit_http_config: {http2_protocol_options: {}}"}, "", ""},
	{"short-timeout", []string{"stream_idle_timeout: 1860s", "stream_idle_timeout: 60s"}, "stream_idle_timeout: 60s", "stream_idle_timeout is 1m0s, and a request may wait 1m0s"},
	{"short-timeout", []string{"request_timeout: 0s", "request_timeout: 0.5s"}, "request_timeout: 0.5s", "request_timeout is 500ms"},
	{"short-timeout", []string{"max_stream_duration: 86400s", "max_stream_duration: 45s"}, "max_stream_duration: 45s", "max_stream_duration is 45s"},
	{"short-timeout", []string{"                            timeout: 0s\n", ""}, "route:\n                            cluster: model", "ends each answer after 15s"},
	{"short-timeout", []string{"                        - match:\n                            prefix: /\n                            headers:", "                        - {match: {prefix: /old}, redirect: {path_redirect: /}}\n                        - match:\n                            prefix: /\n                            headers:", "                            timeout: 0s\n", ""}, "route:\n                            cluster: model", "ends each answer after 15s"},
	{"short-timeout", []string{" timeout: 0s\n", " timeout: 30s\n"}, "timeout: 30s\n", "a try may wait 30s"},
	{"", []string{" timeout: 0s\n", " timeout: 31s\n"}, "", ""},
	{"", []string{"                        - match:\n                            prefix: /\n                          route:", "                        - match: {path: /healthz}\n                          route: {cluster: model}\n                        - match:\n                            prefix: /\n                          route:"}, "", ""},
	{"no-stream-limit", []string{"stream_idle_timeout: 1860s", "stream_idle_timeout: 0s", "max_stream_duration: 86400s", "max_stream_duration: 0s"}, "stream_idle_timeout: 0s", "stays for ever"},
	{"", []string{"stream_idle_timeout: 1860s", "stream_idle_timeout: 0s"}, "", ""},
	{"extra-requests", []string{routeAction, routeAction + "                            request_mirror_policies: [{cluster: copy}]\n"}, "request_mirror_policies", "mirrored"},
	{"extra-requests", []string{"                      domains: [\"*\"]\n", "                      domains: [\"*\"]\n                      hedge_policy: {hedge_on_per_try_timeout: true}\n", `"stage": "attempt"`, `"stage": "request"`, `"stage": "attempt"`, `"stage": "request"`, `"per": "attempt",`, "", `"per": "attempt",`, "", `"per": "attempt",`, "", `"per": "attempt",`, ""}, "hedge_policy", "hedging"},
	{"", []string{routeAction, routeAction + "                            hedge_policy: {hedge_on_per_try_timeout: true}\n"}, "", ""},
	{"short-timeout", []string{"stream_idle_timeout: 1860s", "streamIdleTimeout: 20s"}, "streamIdleTimeout", "stream_idle_timeout is 20s"}, // Envoy takes both spellings
}

// comparedCases make the first filter differ from those in the clusters and in the admin listener, so there are three warnings. at is the
// first one's.
var comparedCases = []bootstrapCase{
	{"vm-differs", []string{listenerVM, strings.Replace(listenerVM, "runtime", "configuration: {a: b}\n                          runtime", 1)}, "config:\n                        name: headgate\n                        root_id: headgate\n                        failure_policy: FAIL_RELOAD\n                        # Lets the body of a change", "vm_config.configuration is not that"},
	{"vm-differs", []string{"code: {local: {filename: build/headgate.wasm}}", "code: {local: {filename: new/headgate.wasm}}"}, "code: {local: {filename: build", "vm_config.code is not that"},
	{"stages-differ", []string{`"limit": 4`, `"limit": 5`}, "{\n                                  \"name\": \"route\",\n                                  \"key\": [\n                                    \"route\"\n                                  ],\n                                  \"limit\": 4", `pool "route" has another limit`},
	{"stages-differ", []string{`"mode": "enforce"`, `"mode": "shadow"`}, `"mode": "enforce"`, "is enforce here and shadow in"},
}

func TestFinding_D8_WhatBitesInABootstrapIsWarnedOf(t *testing.T) {
	for _, c := range bootstrapCases {
		c.check(t, 1)
	}
	for _, c := range comparedCases {
		c.check(t, 3)
	}
}

// check makes the change and checks that it gets so many warnings, or none if it should have none.
func (c *bootstrapCase) check(t *testing.T, warnings int) {
	t.Helper()
	good, err := os.ReadFile("../../../../envoy/envoy.yaml")
	require.NoError(t, err)
	text := string(good)
	for i := 0; i < len(c.changes); i += 2 {
		require.Contains(t, text, c.changes[i])
		text = strings.Replace(text, c.changes[i], c.changes[i+1], 1)
	}
	r := File("envoy.yaml", []byte(text))
	if c.warning == "" {
		require.Empty(t, r.Problems, "%v\n%s", c.changes, told(r))
		return
	}
	require.Equal(t, []string{c.warning}, names(r), "%v\n%s", c.changes, told(r))
	require.Len(t, r.Problems, warnings, "%v\n%s", c.changes, told(r))
	require.Contains(t, told(r), c.says, "%v", c.changes)
	require.Equal(t, lineOf(t, text, c.at), r.Problems[0].Line, "%v\n%s", c.changes, told(r))
}

// filterWith is a wasm filter of Headgate's in the http_filters of a cluster or listener.
func filterWith(plugin string) string {
	return strings.TrimPrefix(inFilter(stringValue+"value: '"+plugin+"'"), "http_filters:\n")
}

func TestFinding_D8_FiltersAreComparedWithinADomain(t *testing.T) {
	const plugin = `{"domain": "d", "pools": [{"name": "a", "limit": 1}]}`
	for others, want := range map[[2]string][]string{
		{`"limit": 2`, `"limit": 2`}:                            {"stages-differ", "stages-differ"}, // both with the first one
		{`"limit": 1`, `"limit": 1`}:                            nil,
		{`"limit": 2}], "domain": "e"}`, `"limit": 1`}:          nil,
		{`"limit": 2}], "domain": "e"}`, `"limit": 2`}:          {"stages-differ"},
		{`"limit": -1`, `"limit": 2`}:                           {"", "stages-differ"},
		{`"limit": 1}, {"name": "b", "limit": 7`, `"limit": 1`}: nil,
	} {
		text := "http_filters:\n" + filterWith(plugin)
		for _, other := range others {
			changed := strings.Replace(plugin, `"limit": 1`, other, 1)
			if strings.Contains(other, "domain") {
				changed = `{"pools": [{"name": "a", ` + other
			}
			text += filterWith(changed)
		}
		r := File("a.yaml", []byte(text))
		var got []string
		for _, p := range r.Problems {
			got = append(got, p.Warning)
		}
		require.Equal(t, want, got, "%s\n%s", text, told(r))
	}
	// The first filter is broken: there is nothing to compare with.
	broken := "http_filters:\n" + filterWith(strings.Replace(plugin, "1", "-1", 1)) + filterWith(plugin)
	require.Equal(t, []string{""}, names(File("a.yaml", []byte(broken))))
}

// A filter alone says nothing of what is around it.
func TestFinding_D8_APartOfABootstrapIsJudgedByWhatItHas(t *testing.T) {
	for _, stage := range []string{"request", "invocation", "attempt"} {
		per := map[bool]string{true: "attempt", false: "invocation"}[stage == "attempt"]
		text := "http_filters:\n" + filterWith(`{"stage": "`+stage+`", "pools": [{"name": "a", "limit": 5000, "per": "`+per+`"}]}`)
		require.Empty(t, told(File("a.yaml", []byte(text))), stage)
	}
}

// A filter that asks no pool still tells the attempts who the tenant is: it is warned of only where none asks one.
func TestAPartOfABootstrapWhoseFiltersAskNoPoolIsWarnedOf(t *testing.T) {
	const attempts = `"pools": [{"name": "a", "limit": 5, "per": "attempt"}]}`
	one := "http_filters:\n" + filterWith(`{"stage": "invocation", `+attempts)
	for text, want := range map[string][]string{
		one: {"no-pool-asked"},
		one + filterWith(`{"stage": "attempt", `+attempts):                nil,
		one + filterWith(`{"stage": "attempt", "domain": "e", `+attempts): {"no-pool-asked"},
	} {
		require.Equal(t, want, names(File("a.yaml", []byte(text))), text)
	}
	r := File("a.yaml", []byte(strings.Replace(istioPlugin, "    pools:", "    stage: attempt\n    pools:", 1)))
	require.Contains(t, told(r), "stage attempt asks none of the pools, so nothing is limited (want stage: request)")
}

func TestFinding_D8_WhatBitesInKubernetesIsWarnedOf(t *testing.T) {
	for _, c := range []struct{ warning, text, old, new, at string }{
		{"no-fail-reload", istioPlugin, "  failStrategy: FAIL_RELOAD\n", "", "spec:"},
		{"no-fail-reload", istioPlugin, "FAIL_RELOAD", "FAIL_OPEN", "FAIL_OPEN"},
		{"no-fail-reload", gatewayPolicy, "      rootID: headgate\n", "      failOpen: true\n", "failOpen"},
		{"before-authentication", istioPlugin, "  failStrategy", "  phase: AUTHN\n  failStrategy", "AUTHN"},
		{"no-stop-iteration", istioPlugin, "    pools:", "    identity: {model: [{json_body: model}]}\n    pools:", "json_body"},
		{"no-stop-iteration", gatewayPolicy, "        pools:", "        identity: {model: [{json_body: model}]}\n        pools:", "json_body"},
		{"pool-never-asked", istioPlugin, "    pools:", "    stage: invocation\n    pools:", "stage"},
	} {
		text := strings.Replace(c.text, c.old, c.new, 1)
		require.NotEqual(t, c.text, text)
		r := File("a.yaml", []byte(text))
		require.Equal(t, []string{c.warning}, names(r), told(r))
		require.Equal(t, lineOf(t, text, c.at), r.Problems[0].Line, told(r))
	}
}

// Every warning is in the list, has a test above, and has a row in the page.
func TestWarningsAreListed(t *testing.T) {
	tested := []string{}
	for _, c := range pluginCases {
		tested = append(tested, c.warning)
	}
	for _, c := range slices.Concat(bootstrapCases, comparedCases) {
		tested = append(tested, c.warning)
	}
	slices.Sort(tested)
	listed := slices.Sorted(slices.Values(Warnings))
	require.Equal(t, listed, slices.DeleteFunc(slices.Compact(tested), func(name string) bool { return name == "" }))

	page, err := os.ReadFile("../../../../docs/checking.md")
	require.NoError(t, err)
	var rows []string
	for line := range strings.Lines(string(page)) {
		if cell, found := strings.CutPrefix(line, "| `"); found {
			name, _, _ := strings.Cut(cell, "`")
			rows = append(rows, name)
		}
	}
	require.Equal(t, Warnings, rows, "the tables of docs/checking.md, in the order of the list")
}
