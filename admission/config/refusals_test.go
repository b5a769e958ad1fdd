package config

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// configRefusals are configurations and what is said of them.
var configRefusals = []struct{ config, want string }{
	{`5`, `the configuration 5 is not an object`},
	{`{}`, `pools: is missing`},
	{withJSON(`"bogus": 1`), `bogus: is not a field here (want mode, stage, domain, routes, identity, deadline, max_keys, lease, reap_hold, on_error, admin, pools)`},
	{withJSON(`"": 1`), `[""]: is not a field here (want mode, stage, domain, routes, identity, deadline, max_keys, lease, reap_hold, on_error, admin, pools)`},
	{withJSON(`"a\nb": 1`), `["a\nb"]: is not a field here (want mode, stage, domain, routes, identity, deadline, max_keys, lease, reap_hold, on_error, admin, pools)`},
	{withJSON(`"mode": "on"`), `mode: "on" is unknown (want "enforce", "shadow", "disabled")`},
	{withJSON(`"mode": null`), `mode: null is unknown (want "enforce", "shadow", "disabled")`},
	{withJSON(`"stage": "response"`), `stage: "response" is unknown (want "request", "invocation", "attempt", "admin")`},
	{withJSON(`"on_error": true`), `on_error: true is unknown (want "open", "closed")`},
	{withJSON(`"domain": 5`), `domain: 5 is not a name (want 1 to 64 letters, digits and "_-.")`},
	{withJSON(`"domain": ""`), `domain: "" is not a name (want 1 to 64 letters, digits and "_-.")`},
	{withJSON(`"domain": "a b"`), `domain: "a b" is not a name (want 1 to 64 letters, digits and "_-.")`},
	{withJSON(`"lease": "soon"`), `lease: "soon" is not a duration (want e.g. "5s", "250ms")`},
	{withJSON(`"lease": "0s"`), `lease: "0s" is out of range (want 1s to 1h)`},
	{withJSON(`"lease": "2h"`), `lease: "2h" is out of range (want 1s to 1h)`},
	{withJSON(`"lease": "-5s"`), `lease: "-5s" is negative (want 1s to 1h)`},
	{withJSON(`"max_keys": 0`), `max_keys: 0 is out of range (want 1 to 16384)`},
	{withJSON(`"deadline": []`), `deadline: an array is not an object`},
	{withJSON(`"deadline": {"default": "-1s"}`), `deadline.default: "-1s" is negative (want 0s, or 1ms to 24h)`},
	{withJSON(`"deadline": {"default": "1ns"}`), `deadline.default: "1ns" is out of range (want 0s, or 1ms to 24h)`},
	{withJSON(`"deadline": {"headers": "x"}`), `deadline.headers: "x" is not an array`},
	{withJSON(`"deadline": {"headers": ["a", "A"]}`), `deadline.headers[1]: "A" is there twice`},
	{withJSON(`"deadline": {"headers": [5]}`), `deadline.headers[0]: 5 is not the name of a header`},
	{withJSON(`"deadline": {"headers": ["a", {"header": "A", "unit": "s"}]}`), `deadline.headers[1].header: "A" is there twice`},
	{withJSON(`"deadline": {"headers": [{"header": "a", "unit": "m"}]}`), `deadline.headers[0].unit: "m" is unknown (want "ms", "s")`},
	{withJSON(`"deadline": {"headers": [{"unit": "s"}]}`), `deadline.headers[0].header: is missing`},
	{withJSON(`"deadline": {"headers": [{"header": "Grpc-Timeout", "unit": "s"}]}`), `deadline.headers[0].header: "Grpc-Timeout" has units of its own (want no "unit" beside it)`},
	{withJSON(`"deadline": {"headers": [":path"]}`), `deadline.headers[0]: ":path" is not the name of a header`},
	{withJSON(`"deadline": {"headers": ["a","b","c","d","e","f","g","h","i"]}`), `deadline.headers: has 9 elements (want 0 to 8)`},

	{`{"pools": []}`, `pools: has 0 elements (want 1 to 256)`},
	{`{"pools": {"name": "x", "limit": 1}}`, `pools: an object is not an array`},
	{`{"pools": null}`, `pools: null is not an array`},
	{`{"pools": ["x"]}`, `pools[0]: "x" is not an object`},
	{`{"pools": [{"limit": 1}]}`, `pools[0].name: is missing`},
	{`{"pools": [{"name": "p"}]}`, `pools[0].limit: is missing`},
	{`{"pools": [{"name": "p", "limits": 3}]}`, `pools[0].limits: is not a field here (want name, limit, queue, max_wait, per, key, keys, fair_by, weights, match, min_active, hold, breaker, headroom)`},
	{`{"pools": [{"name": "a.b", "limit": 1}]}`, `pools[0].name: "a.b" is not a name (want 1 to 64 letters, digits and "_-")`},
	{`{"pools": [{"name": "ungoverned", "limit": 1}]}`, `pools[0].name: "ungoverned" is the name of a counter of Headgate's own`},
	{`{"pools": [{"name": "twice", "limit": 1}, {"name": "twice", "limit": 1}]}`, `pools[1].name: "twice" is the name of another pool`},
	{`{"pools": [{"name": "p", "limit": 1}, {"name": "q", "limit": 1, "max_wait": "5"}]}`, `pools[1].max_wait: "5" is not a duration (want e.g. "5s", "250ms")`},
	{poolJSON(`"limit": -1`), `pools[0].limit: -1 is out of range (want 0 to 1000000)`},
	{poolJSON(`"limit": 1000001`), `pools[0].limit: 1000001 is out of range (want 0 to 1000000)`},
	{poolJSON(`"limit": {}`), `pools[0].limit: an object is not a whole number (want 0 to 1000000)`},
	{poolJSON(`"limit": 1, "queue": true`), `pools[0].queue: true is not a whole number (want 0 to 100000)`},
	{poolJSON(`"limit": 1, "max_wait": 5`), `pools[0].max_wait: 5 is not a duration (want e.g. "5s", "250ms")`},
	{poolJSON(`"limit": 1, "max_wait": "25h"`), `pools[0].max_wait: "25h" is out of range (want 0s, or 1ms to 24h)`},
	{poolJSON(`"limit": 1, "per": "connection"`), `pools[0].per: "connection" is unknown (want "invocation", "attempt")`},
	{poolJSON(`"limit": 1, "key": ["colour"]`), `pools[0].key[0]: "colour" is unknown (want "tenant", "model", "route", "class")`},
	{poolJSON(`"limit": 1, "key": ["tenant", "tenant"]`), `pools[0].key[1]: "tenant" is there twice`},
	{poolJSON(`"limit": 1, "key": "tenant"`), `pools[0].key: "tenant" is not an array`},
	{poolJSON(`"limit": 1, "keys": {}`), `pools[0].keys: needs a key of one dimension, which says what the keys are`},
	{poolJSON(`"limit": 1, "key": ["tenant"], "keys": []`), `pools[0].keys: an array is not an object`},
	{poolJSON(`"limit": 1, "key": ["tenant"], "keys": {"a": 5}`), `pools[0].keys["a"]: 5 is not an object`},
	{poolJSON(`"limit": 1, "key": ["tenant"], "keys": {"a": {}}`), `pools[0].keys["a"].limit: is missing`},
	{poolJSON(`"limit": 1, "key": ["tenant"], "keys": {"a": {"limit": 1, "queue": 2}}`), `pools[0].keys["a"].queue: is not a field here (want limit)`},
	{poolJSON(`"limit": 1, "key": ["tenant"], "keys": {"": {"limit": 1}}`), `pools[0].keys[""]: "" is empty`},
	{`{"max_keys": 1, "pools": [{"name": "p", "limit": 1, "key": ["tenant"], "keys": {"a": {"limit": 1}, "b": {"limit": 1}}}]}`, `pools[0].keys: has 2 keys, more than max_keys (1)`},
	{poolJSON(`"limit": 1, "queue": 100001`), `pools[0].queue: 100001 is out of range (want 0 to 100000)`},
	{poolJSON(`"limit": 1, "fair_by": "luck"`), `pools[0].fair_by: "luck" is unknown (want "tenant")`},
	{poolJSON(`"limit": 1, "weights": {"a": 1}`), `pools[0].weights: needs fair_by: "tenant"`},
	{poolJSON(`"limit": 1, "fair_by": "tenant", "weights": {"a": 0}`), `pools[0].weights["a"]: 0 is out of range (want 1 to 1000)`},
	{poolJSON(`"limit": 1, "fair_by": "tenant", "weights": {"a": 1001}`), `pools[0].weights["a"]: 1001 is out of range (want 1 to 1000)`},
	{poolJSON(`"limit": 1, "match": {"colour": ["red"]}`), `pools[0].match.colour: is not a field here (want tenant, model, route, class)`},
	{poolJSON(`"limit": 1, "match": {"class": []}`), `pools[0].match.class: has 0 elements (want 1 to 1024)`},
	{poolJSON(`"limit": 1, "match": {"class": [""]}`), `pools[0].match.class[0]: "" is empty`},
	{poolJSON(`"limit": 1, "match": {"class": "x"}`), `pools[0].match.class: "x" is not an array`},
	{poolJSON(`"limit": 4, "min_active": 5`), `pools[0].min_active: 5 is out of range (want 0 to 4)`},
	{poolJSON(`"limit": 1, "hold": {"failure": "-2s"}`), `pools[0].hold.failure: "-2s" is negative (want 0s, or 1ms to 10m)`},
	{poolJSON(`"limit": 1, "hold": {"success": "11m"}`), `pools[0].hold.success: "11m" is out of range (want 0s, or 1ms to 10m)`},
	{poolJSON(`"limit": 1, "hold": {"other": "1s"}`), `pools[0].hold.other: is not a field here (want success, cancel, failure)`},
	{poolJSON(`"limit": 1, "breaker": {"failures": 0}`), `pools[0].breaker.failures: 0 is out of range (want 1 to 1000)`},
	{poolJSON(`"limit": 1, "breaker": {"open": "0s"}`), `pools[0].breaker.open: "0s" is out of range (want 1ms to 24h)`},
	{poolJSON(`"limit": 1, "breaker": {"open": "10s", "max_open": "5s"}`), `pools[0].breaker.max_open: "5s" is out of range (want 10s to 24h)`},
	{poolJSON(`"limit": 1, "breaker": {"penalty": "10s", "max_penalty": "5s"}`), `pools[0].breaker.max_penalty: "5s" is out of range (want 10s to 10m)`},
	{poolJSON(`"limit": 1, "breaker": false`), `pools[0].breaker: false is not an object`},
	{poolJSON(`"limit": 4, "headroom": {"min": 5}`), `pools[0].headroom.min: 5 is out of range (want 1 to 4)`},
	{poolJSON(`"limit": 4, "headroom": {"mode": "x"}`), `pools[0].headroom.mode: "x" is unknown (want "step", "aimd")`},

	{identityJSON(`"tenant": [{"header": "x-tenant"}]`), `identity.tenant[0].header: "x-tenant" needs "trusted": true beside it, the operator's word that no client can choose it`},
	{identityJSON(`"tenant": [{"header": "x-tenant", "trusted": false}]`), `identity.tenant[0].header: "x-tenant" needs "trusted": true beside it, the operator's word that no client can choose it`},
	{identityJSON(`"class": [{"header": "x-c"}]`), `identity.class[0].header: "x-c" needs "trusted": true beside it, the operator's word that no client can choose it`},
	{identityJSON(`"tenant": [{"path": "/t/{tenant}"}]`), `identity.tenant[0].path: "/t/{tenant}" needs "trusted": true beside it, the operator's word that no client can choose it`},
	{identityJSON(`"tenant": [{"header": "x", "trusted": "yes"}]`), `identity.tenant[0].trusted: "yes" is not true or false`},
	{identityJSON(`"tenant": [{"filter_state": "x", "trusted": true}]`), `identity.tenant[0].trusted: is not a field here (want header, metadata, peer_certificate, filter_state, path, cluster, value)`},
	{identityJSON(`"tenant": [{"json_body": "user"}]`), `identity.tenant[0].json_body: is not a field here (want header, metadata, peer_certificate, filter_state, path, cluster, value)`},
	{identityJSON(`"model": [{"bogus_source": "x"}]`), `identity.model[0].bogus_source: is not a field here (want header, metadata, peer_certificate, filter_state, json_body, path, cluster, value)`},
	{identityJSON(`"model": [{}]`), `identity.model[0]: names no kind of source (want exactly one)`},
	{identityJSON(`"model": [{"value": "a", "cluster": true}]`), `identity.model[0]: names several kinds of source: cluster, value (want exactly one)`},
	{identityJSON(`"model": ["x"]`), `identity.model[0]: "x" is not an object`},
	{identityJSON(`"model": {"header": "x"}`), `identity.model: an object is not an array`},
	{identityJSON(`"model": [{"header": "x y"}]`), `identity.model[0].header: "x y" is not the name of a header`},
	{identityJSON(`"model": [{"header": ":authority"}]`), `identity.model[0].header: ":authority" is not the name of a header`},
	{identityJSON(`"model": [{"cluster": false}]`), `identity.model[0].cluster: false means nothing (want true, or no such source)`},
	{identityJSON(`"model": [{"value": ""}]`), `identity.model[0].value: "" is empty`},
	{identityJSON(`"model": [{"json_body": "model", "max_bytes": 0}]`), `identity.model[0].max_bytes: 0 is out of range (want 1 to 1048576)`},
	{identityJSON(`"model": [{"metadata": "x"}]`), `identity.model[0].metadata: "x" is not an array`},
	{identityJSON(`"model": [{"metadata": ["ns"]}]`), `identity.model[0].metadata: has 1 element (want a namespace and at least one key)`},
	{identityJSON(`"model": [{"metadata": ["ns","1","2","3","4","5","6","7","8","9"]}]`), `identity.model[0].metadata: has 10 elements (want 1 to 9)`},
	{identityJSON(`"tenant": [{"peer_certificate": "cn"}]`), `identity.tenant[0].peer_certificate: "cn" is unknown (want "uri_san", "dns_san", "subject")`},
	{identityJSON(`"model": [{"path": "/deployments/"}]`), `identity.model[0].path: "/deployments/" is not a path template (want exactly one {model}, e.g. "/deployments/{model}/")`},
	{identityJSON(`"model": [{"path": "/d/{tenant}/"}]`), `identity.model[0].path: "/d/{tenant}/" is not a path template (want exactly one {model}, e.g. "/deployments/{model}/")`},
	{identityJSON(`"model": [{"path": "/d/{model}/{model}"}]`), `identity.model[0].path: "/d/{model}/{model}" is not a path template (want exactly one {model}, e.g. "/deployments/{model}/")`},
	{identityJSON(`"model": [{"path": "d/{model}"}]`), `identity.model[0].path: "d/{model}" has no path that begins with '/'`},
	{identityJSON(`"model": [{"path": "//{model}"}]`), `identity.model[0].path: "//{model}" has an empty, '.' or '..' segment`},
	{identityJSON(`"model": [{"path": "/d/{model}//"}]`), `identity.model[0].path: "/d/{model}//" has an empty, '.' or '..' segment`},
	{identityJSON(`"aliases": {"a": "b", "b": "c"}`), `identity.aliases["a"]: "b" is an alias itself (want the name that counts in the end)`},
	{identityJSON(`"aliases": {"a": "a"}`), `identity.aliases["a"]: "a" is an alias itself (want the name that counts in the end)`},
	{identityJSON(`"aliases": {"a": 5}`), `identity.aliases["a"]: 5 is not a string`},
	{identityJSON(`"route": []`), `identity.route: is not a field here (want tenant, model, class, aliases)`},

	// O30: what is quoted is one line, and short
	{withJSON(`"mode": "a\"b\\\u0000\r\nx: y\u202e"`), `mode: "a\"b\\\x00\x0d\nx: y\xe2\x80\xae" is unknown (want "enforce", "shadow", "disabled")`},
	{withJSON(`"mode": "` + strings.Repeat("é", 5000) + `"`), `mode: "` + strings.Repeat("é", 20) + `..." is unknown (want "enforce", "shadow", "disabled")`},
	{withJSON(`"mode": "` + strings.Repeat("€", 5000) + `"`), `mode: "` + strings.Repeat("€", 13) + `..." is unknown (want "enforce", "shadow", "disabled")`},
	{withJSON(`"max_keys": ` + strings.Repeat("9", 5000)), `max_keys: ` + strings.Repeat("9", 40) + `... is out of range (want 1 to 16384)`},
	{withJSON(`"` + strings.Repeat("x", 5000) + `": 1`), `["` + strings.Repeat("x", 40) + `..."]: is not a field here (want mode, stage, domain, routes, identity, deadline, max_keys, lease, reap_hold, on_error, admin, pools)`},
	{identityJSON(`"model": [{"value": "a\nb"}]`), `identity.model[0].value: "a\nb" holds a control character`},
	{identityJSON(`"model": [{"value": "` + strings.Repeat("x", 129) + `"}]`), `identity.model[0].value: "` + strings.Repeat("x", 40) + `..." is longer than 128 bytes`},
}

func TestConfigRefusals(t *testing.T) {
	for _, c := range configRefusals {
		c1, err := Parse([]byte(c.config))
		require.Nil(t, c1)
		var ce *Error
		require.True(t, errors.As(err, &ce), c.config)
		require.Equal(t, c.want, err.Error())
	}
}

type fields = map[string]any

// usual is a good configuration, in which a case changes one field.
func usual() fields {
	return fields{
		"mode": "enforce", "stage": "request", "routes": []any{"/chat/completions"},
		"identity": fields{
			"tenant": []any{fields{"header": "x-tenant", "trusted": true}}, "model": []any{fields{"header": "x-model"}},
			"class": []any{fields{"header": "x-class", "trusted": true}},
		},
		"deadline": fields{"headers": []any{"x-request-timeout-ms", "grpc-timeout"}},
		"pools":    []any{fields{"name": "model", "limit": 4, "key": []any{"model"}, "queue": 8, "max_wait": "2s"}},
	}
}

func inRoot(field string, v any) string { c := usual(); c[field] = v; return mustJSON(c) }

func inPool(field string, v any) string {
	c := usual()
	c["pools"].([]any)[0].(fields)[field] = v
	return mustJSON(c)
}

func inIdentity(field string, source fields) string {
	c := usual()
	c["identity"].(fields)[field] = []any{source}
	return mustJSON(c)
}

// badConfigs are configurations and words of what is said of them.
var badConfigs = []struct{ config, words string }{
	{inRoot("bogus_field", 1), "bogus_field"},
	{inPool("bogus_pool_field", true), "bogus_pool_field"},
	{inIdentity("model", fields{"bogus_source": "x"}), "bogus_source"},
	{inPool("limit", -1), "limit"}, {inPool("limit", "5"), "limit"}, {inPool("limit", 1.5), "limit"}, {inPool("limit", nil), "limit"},
	{inPool("limit", json.Number("99999999999999999999")), "limit"}, {inPool("limit", json.Number("1e300")), "limit"},
	{inPool("queue", -3), "queue"}, {inPool("queue", true), "queue"}, {inPool("queue", json.Number("9223372036854775808")), "queue"},
	{inPool("max_wait", "5 parsecs"), "max_wait"}, {inPool("max_wait", 5), "max_wait"}, {inPool("max_wait", "-5s"), "max_wait"}, {inPool("max_wait", "9999999999999h"), "max_wait"},
	{inRoot("lease", "soon"), "lease"},
	{inRoot("deadline", fields{"headers": []any{"x"}, "default": "-1s"}), "default"},
	{inRoot("pools", []any{fields{"name": "twice", "limit": 1}, fields{"name": "twice", "limit": 1}}), "name twice"},
	{inRoot("pools", []any{fields{"limit": 1}}), "name"},
	{inPool("key", []any{"colour"}), "key colour"}, {inPool("match", fields{"colour": []any{"red"}}), "match colour"},
	{inIdentity("tenant", fields{"header": "x-tenant"}), "trusted x-tenant"}, {inIdentity("tenant", fields{"header": "x-tenant", "trusted": false}), "trusted x-tenant"},
	{inRoot("mode", "on"), "mode"}, {inRoot("stage", "response"), "stage"}, {inPool("per", "connection"), "per"}, {inPool("fair_by", "luck"), "fair_by"},
	{strings.Replace(inPool("weights", fields{"a": 0}), `"weights"`, `"fair_by":"tenant","weights"`, 1), "weight"},
	{inRoot("pools", []any{}), "pools"}, {inRoot("pools", fields{"name": "x", "limit": 1}), "pools"},
	{inRoot("routes", []any{"POST chat/completions"}), "route"}, {inRoot("routes", []any{"POST /chat/completions:5@"}), "route"}, {inRoot("routes", []any{"POST /chat/completions:-1"}), "route"},
	{inRoot("routes", []any{"POST /messages:3@g", "POST /messages/batches:2@g"}), "route @g group"},
	{inPool("breaker", fields{"failures": 0, "window": "30s", "open": "10s", "max_open": "120s", "penalty": "2s", "max_penalty": "60s"}), "failures breaker"},
	{inPool("hold", fields{"failure": "-2s"}), "failure hold"},
	{inRoot("domain", 5), "domain"},
	{"limit: 5", ""}, {mustJSON(usual())[:100], ""},
}

// goodConfigs are configurations that are taken.
var goodConfigs = []string{
	inPool("name", "g1"),
	inRoot("pools", []any{fields{"name": "g2", "limit": 0, "queue": 0, "max_wait": "0s"}}),
	`{"mode":"enforce","stage":"request","pools":[{"name":"g3","limit":64},
	  {"name":"g4","key":["tenant"],"limit":20,"queue":100,"max_wait":"5s","keys":{"acme":{"limit":50}}},
	  {"name":"g5","key":["tenant","model"],"limit":1000000,"queue":100000,"max_wait":"1h"}],
	  "routes":["POST /chat/completions","/messages"],"deadline":{"headers":["x-request-timeout-ms","grpc-timeout"],"default":"60s"},"max_keys":1024,
	  "identity":{"tenant":[{"header":"x-tenant","trusted":true}],"model":[{"header":"x-model"},{"path":"/deployments/{model}/"},{"cluster":true},{"value":"gpt-4o"}],
	  "class":[{"header":"x-task-class","trusted":true}]}}`,
}

// A refusal names the field that is wrong.
func TestRefusalsNameTheField(t *testing.T) {
	for _, c := range badConfigs {
		_, err := Parse([]byte(c.config))
		require.Error(t, err, c.config)
		for _, w := range strings.Fields(c.words) {
			require.Contains(t, err.Error(), w)
		}
	}
	for _, good := range goodConfigs {
		_, err := Parse([]byte(good))
		require.NoError(t, err)
	}
}

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
