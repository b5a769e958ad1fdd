package check

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/admission/config"
)

// whole is a good configuration with every field.
const whole = `{
"mode": "enforce", "stage": "invocation", "domain": "d", "routes": ["POST /a:3", "/b@g", "/c@g"],
"identity": {
  "tenant": [{"metadata": ["ns", "k"]}, {"peer_certificate": "uri_san"}, {"filter_state": "f"}, {"header": "x-tenant", "trusted": true}],
  "model": [{"header": "x-model"}, {"json_body": "model", "max_bytes": 100}, {"path": "/d/{model}/"}, {"cluster": true}],
  "class": [{"value": "v"}], "aliases": {"m1": "m"}
},
"deadline": {"headers": ["x-timeout", "grpc-timeout", {"header": "x-read", "unit": "s"}], "default": "60s"}, "max_keys": 10, "lease": "5s", "reap_hold": "1s", "on_error": "open",
"pools": [
  {"name": "a", "limit": 64},
  {"name": "b", "key": ["tenant"], "limit": 20, "queue": 100, "max_wait": "5s", "keys": {"acme": {"limit": 50}, "x.y": {"limit": 1}}},
  {"name": "c", "key": ["model", "class"], "per": "attempt", "limit": 8, "queue": 64, "max_wait": "5s", "fair_by": "tenant", "weights": {"acme": 3},
   "match": {"class": ["v"], "route": ["@g"]}, "min_active": 2, "hold": {"success": "1s", "cancel": "1s", "failure": "2s"},
   "breaker": {"failures": 5, "window": "30s", "open": "10s", "max_open": "20s", "penalty": "2s", "max_penalty": "9s"},
   "headroom": {"mode": "aimd", "window": "30s", "min": 3}}
]}`

// everything returns the values of a tree, without the tree itself.
func everything(root *value) (all []*value) {
	root.visit(func(v *value) {
		if v != root {
			all = append(all, v)
		}
	})
	return all
}

// mutate changes one value of a tree.
func mutate(t *rapid.T, root *value) {
	all := everything(root)
	if len(all) == 0 {
		return
	}
	v := rapid.SampledFrom(all).Draw(t, "value")
	other := rapid.SampledFrom(all).Draw(t, "other")
	switch rapid.IntRange(0, 5).Draw(t, "change") {
	case 0:
		v.content = content{key: v.key, gone: true}
	case 1:
		v.key = rapid.SampledFrom([]string{"limt", "name", "queue", other.key, v.key + "s", "", "a\nb"}).Draw(t, "key")
	case 2:
		if !v.isAbove(other) && !other.isAbove(v) {
			key := v.key
			v.content, v.key = other.content, key
			for _, c := range v.children {
				c.parent = v
			}
			other.content = content{key: other.key, kind: kindText, text: "moved"}
		}
	case 3:
		v.content = content{key: v.key, kind: kindNumber, text: rapid.SampledFrom([]string{"-1", "0", "1", "7", "1.5", "99999999999"}).Draw(t, "number")}
	case 4:
		v.content = content{key: v.key, kind: kindText, text: rapid.SampledFrom([]string{"", "a", "/a", "0s", "1ms", "11m", "tenant", "x y", "\u0000"}).Draw(t, "text")}
	case 5:
		v.content = content{key: v.key, kind: rapid.SampledFrom([]kind{kindNull, kindBool, kindList, kindMap}).Draw(t, "kind"), text: "null"}
		if v.kind == kindBool {
			v.text = "true"
		}
	}
}

// However a good configuration is broken, it has an error if package config refuses it, and none if not. Each error has
// a line that is there.
func TestFinding_D8_BrokenConfigurationsAreJudgedAsPackageConfigDoes(t *testing.T) {
	_, err := config.Parse([]byte(whole))
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		root, f := readJSON(whole, linesOf(whole, 1))
		require.Nil(t, f)
		for range rapid.IntRange(1, 8).Draw(t, "changes") {
			mutate(t, root)
		}
		text := string(encode(root).bytes)
		agrees(t, text)
		r := File("a.json", []byte(strings.ReplaceAll(text, ",", ",\n")))
		for _, p := range r.Problems {
			if p.Line < 1 || p.Line > 1+strings.Count(text, ",") {
				t.Fatalf("a line that is not there: %s", p)
			}
		}
	})
}

// One change that is refused is one error, or an error and what it hides: never a crowd.
func TestFinding_D8_OneMistakeIsNotManyErrors(t *testing.T) {
	root, f := readJSON(whole, linesOf(whole, 1))
	require.Nil(t, f)
	tried := 0
	for i := range everything(root) {
		for _, wrong := range []content{text("\x01"), {kind: kindNull, text: "null"}, number("-1"), list(), object(), {gone: true}} {
			root, f := readJSON(whole, linesOf(whole, 1))
			require.Nil(t, f)
			v := everything(root)[i]
			if wrong.gone && v.parent.kind == kindList {
				continue
			}
			wrong.key = v.key
			v.content = wrong
			encoded := string(encode(root).bytes)
			if _, err := config.Parse([]byte(encoded)); err == nil {
				continue
			}
			tried++
			r := File("a.json", []byte(encoded))
			errs, _ := r.Count()
			if errs != 1 {
				t.Errorf("%q %v: %s", v.key, wrong, told(r))
			}
		}
	}
	require.Greater(t, tried, 200)
}
