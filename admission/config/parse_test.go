package config

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/admission"
)

// fullConfig has a field of each kind.
const fullConfig = `{
  "mode": "enforce",
  "stage": "request",
  "domain": "default",
  "routes": ["POST /chat/completions", "POST /messages:3@messages"],
  "identity": {
    "tenant": [{"metadata": ["envoy.filters.http.jwt_authn", "payload", "sub"]},
               {"peer_certificate": "uri_san"}, {"filter_state": "who"},
               {"header": "x-tenant", "trusted": true}],
    "model":  [{"header": "x-model"}, {"json_body": "model", "max_bytes": 65536},
               {"path": "/deployments/{model}/"}, {"cluster": true}, {"value": "gpt-4o"}],
    "class":  [{"header": "x-task-class", "trusted": true}],
    "aliases": {"gpt-4o-2024-08-06": "gpt-4o"}
  },
  "deadline": {"headers": ["x-request-timeout-ms", "grpc-timeout"], "default": "60s"},
  "pools": [
    {"name": "gateway", "limit": 64},
    {"name": "tenant", "key": ["tenant"], "limit": 20, "queue": 100, "max_wait": "5s",
     "keys": {"acme": {"limit": 50}}},
    {"name": "model", "key": ["model"], "per": "attempt", "limit": 8, "queue": 64, "max_wait": "5s",
     "fair_by": "tenant", "weights": {"acme": 3},
     "hold": {"success": "200ms", "cancel": "200ms", "failure": "2s"},
     "breaker": {"failures": 5, "window": "30s", "open": "10s", "max_open": "120s",
                 "penalty": "2s", "max_penalty": "60s"},
     "headroom": {"window": "30s"}}
  ],
  "max_keys": 1024,
  "lease": "5s",
  "on_error": "open"
}`

func TestFullConfig(t *testing.T) {
	c, err := Parse([]byte(fullConfig))
	require.NoError(t, err)
	require.Equal(t, &Config{
		Domain: "default",
		Routes: []Route{
			{Method: "POST", Segments: []string{"chat", "completions"}, Limit: -1, Name: "POST /chat/completions"},
			{Method: "POST", Segments: []string{"messages"}, Limit: 3, Group: "messages", Name: "@messages"},
		},
		Identity: Identity{
			Tenant: []Source{
				{Kind: SourceMetadata, Path: []string{"envoy.filters.http.jwt_authn", "payload", "sub"}},
				{Kind: SourcePeerCertificate, Name: "uri_san"},
				{Kind: SourceFilterState, Name: "who"},
				{Kind: SourceHeader, Name: "x-tenant"},
			},
			Model: []Source{
				{Kind: SourceHeader, Name: "x-model"},
				{Kind: SourceJSONBody, Name: "model", MaxBytes: 65536},
				{Kind: SourcePath, Prefix: "/deployments/", Suffix: "/"},
				{Kind: SourceCluster},
				{Kind: SourceValue, Name: "gpt-4o"},
			},
			Class:   []Source{{Kind: SourceHeader, Name: "x-task-class"}},
			Aliases: map[string]string{"gpt-4o-2024-08-06": "gpt-4o"},
		},
		Deadline: Deadline{Headers: []DeadlineHeader{{Name: "x-request-timeout-ms"}, {Name: "grpc-timeout"}}, Default: 60 * admission.Second},
		Pools: []Pool{
			{Name: "route", Key: []Dimension{DimensionRoute}, Keys: map[string]int{"@messages": 3}, Match: []Match{{DimensionRoute, []string{"@messages"}}}},
			{Name: "gateway", Limit: 64, MaxWait: 5 * admission.Second},
			{Name: "tenant", Key: []Dimension{DimensionTenant}, Limit: 20, Queue: 100, MaxWait: 5 * admission.Second, Keys: map[string]int{"acme": 50}},
			{
				Name: "model", Key: []Dimension{DimensionModel}, Per: PerAttempt, Limit: 8, Queue: 64, MaxWait: 5 * admission.Second,
				FairBy: true, Weights: map[string]int{"acme": 3},
				Shaping: admission.Shaping{
					Hold: admission.Hold{Success: 200 * admission.Millisecond, Cancel: 200 * admission.Millisecond, Failure: 2 * admission.Second},
					Breaker: &admission.Breaker{Failures: 5, Window: 30 * admission.Second, Open: 10 * admission.Second, MaxOpen: 120 * admission.Second,
						Penalty: 2 * admission.Second, MaxPenalty: 60 * admission.Second},
					Headroom: &admission.Headroom{Window: 30 * admission.Second, Min: 1},
				},
			},
		},
		MaxKeys: 1024,
		Lease:   5 * admission.Second,
	}, c)
}

func TestConfigDefaults(t *testing.T) {
	c, err := Parse([]byte(`{"pools": [{"name": "p", "limit": 3}]}`))
	require.NoError(t, err)
	require.Equal(t, &Config{
		Mode: ModeEnforce, Stage: StageRequest, Domain: "default", MaxKeys: 1024, Lease: 5 * admission.Second, OnError: OnErrorOpen,
		Pools: []Pool{{Name: "p", Limit: 3, MaxWait: 5 * admission.Second, Per: PerInvocation}},
	}, c)

	c, err = Parse([]byte(`{"stage": "admin"}`))
	require.NoError(t, err)
	require.Empty(t, c.Pools)

	p := onePool(t, `"limit": 3, "breaker": {}, "headroom": {}, "hold": {}`)
	require.Equal(t, &admission.Breaker{Failures: 5, Window: 30 * admission.Second, Open: 10 * admission.Second, MaxOpen: 120 * admission.Second,
		Penalty: 2 * admission.Second, MaxPenalty: 60 * admission.Second}, p.Breaker)
	require.Equal(t, &admission.Headroom{Window: 30 * admission.Second, Min: 1}, p.Headroom)
	require.Zero(t, p.Hold)

	require.Equal(t, 0, onePool(t, `"limit": 0, "headroom": {}`).Headroom.Min)
	b := onePool(t, `"limit": 3, "breaker": {"open": "10m", "penalty": "90s"}`).Breaker
	require.Equal(t, []admission.Duration{10 * admission.Minute, 90 * admission.Second}, []admission.Duration{b.MaxOpen, b.MaxPenalty})
}

// One constant bounds every time for which a permit can stay on hold.
func TestFA7_PenaltiesHaveTheBoundOfHolds(t *testing.T) {
	most := admission.MaxHold.String()
	for _, field := range []string{`"hold": {"success": %q}`, `"hold": {"cancel": %q}`, `"hold": {"failure": %q}`,
		`"breaker": {"penalty": %q}`, `"breaker": {"max_penalty": %q}`} {
		_, err := Parse([]byte(poolJSON(`"limit": 1, ` + fmt.Sprintf(field, most))))
		require.NoError(t, err, field)
		_, err = Parse([]byte(poolJSON(`"limit": 1, ` + fmt.Sprintf(field, (admission.MaxHold+admission.Millisecond).String()))))
		require.ErrorContains(t, err, "10m1ms\" is out of range", field)
		require.ErrorContains(t, err, "to "+most+")", field)
	}
}

func TestConfigOtherValues(t *testing.T) {
	c, err := Parse([]byte(`{"mode": "disabled", "stage": "attempt", "domain": "Team-A.eu_1", "on_error": "closed", "max_keys": 16384, "lease": "1h",
		"deadline": {"headers": ["X-Deadline"]},
		"identity": {"tenant": [{"path": "/t/{tenant}", "trusted": true}], "model": [{"path": "/models/{model}:generate"}, {"json_body": "model"}, {"header": "X-Model", "trusted": false}]},
		"pools": [{"name": "A-b_9", "limit": 1000000, "queue": 100000, "max_wait": "24h", "key": ["tenant", "model", "route", "class"], "per": "invocation", "min_active": 7,
			"match": {"class": ["background", "bulk"], "tenant": ["acme"]}, "hold": {"failure": "10m"}, "headroom": {"mode": "aimd", "window": "1ms", "min": 9}}]}`))
	require.NoError(t, err)
	require.Equal(t, ModeDisabled, c.Mode)
	require.Equal(t, StageAttempt, c.Stage)
	require.Equal(t, "Team-A.eu_1", c.Domain)
	require.Equal(t, OnErrorClosed, c.OnError)
	require.Equal(t, []DeadlineHeader{{Name: "x-deadline"}}, c.Deadline.Headers)
	require.Equal(t, []Source{{Kind: SourcePath, Prefix: "/t/"}}, c.Identity.Tenant)
	require.Equal(t, []Source{{Kind: SourcePath, Prefix: "/models/", Suffix: ":generate"}, {Kind: SourceJSONBody, Name: "model", MaxBytes: 65536}, {Kind: SourceHeader, Name: "x-model"}}, c.Identity.Model)
	require.Equal(t, []Pool{{
		Name: "A-b_9", Limit: 1000000, Queue: 100000, MaxWait: 24 * admission.Hour, Key: []Dimension{DimensionTenant, DimensionModel, DimensionRoute, DimensionClass},
		Match:   []Match{{DimensionTenant, []string{"acme"}}, {DimensionClass, []string{"background", "bulk"}}},
		Shaping: admission.Shaping{MinActive: 7, Hold: admission.Hold{Failure: 10 * admission.Minute}, Headroom: &admission.Headroom{AIMD: true, Window: admission.Millisecond, Min: 9}},
	}}, c.Pools)
}

// The hold of dead workers' permits is one for all pools, also for the one that routes with limits make.
func TestReapHoldIsEveryPools(t *testing.T) {
	c, err := Parse([]byte(withJSON(`"reap_hold": "3s", "routes": ["/a:1"]`)))
	require.NoError(t, err)
	require.Len(t, c.Pools, 2)
	for i := range c.Pools {
		require.Equal(t, 3*admission.Second, c.Pools[i].ReapHold)
	}
	require.Zero(t, onePool(t, `"limit": 1`).ReapHold)
}

// onePool parses a configuration of one pool with those fields beside its name.
func onePool(t *testing.T, fields string) Pool {
	t.Helper()
	c, err := Parse([]byte(poolJSON(fields)))
	require.NoError(t, err)
	return c.Pools[0]
}

func poolJSON(fields string) string { return `{"pools": [{"name": "p", ` + fields + `}]}` }

func withJSON(fields string) string { return `{"pools": [{"name": "p", "limit": 1}], ` + fields + `}` }

func identityJSON(fields string) string { return withJSON(`"identity": {` + fields + `}`) }

func TestCase_O09_ConfigDurations(t *testing.T) {
	for _, d := range []string{"2562047h48m", "87600h", "-5s", "1ns"} {
		for _, field := range []string{`"max_wait": %q`, `"hold": {"failure": %q}`, `"breaker": {"open": %q}`} {
			_, err := Parse([]byte(poolJSON(`"limit": 1, ` + fmt.Sprintf(field, d))))
			require.ErrorContains(t, err, `"`+d+`" is `, field)
			require.ErrorContains(t, err, "pools[0].")
		}
	}
}

// Every way to write a number means one thing, in every integer and duration field, and in a route's :N.
func TestCase_O13_ZeroAndUnclearForms(t *testing.T) {
	p := onePool(t, `"limit": 0, "queue": 0, "max_wait": "0s", "hold": {"success": "0s", "cancel": "0ms", "failure": "0"}`)
	require.Equal(t, Pool{Name: "p"}, p)
	p = onePool(t, `"limit": 1`)
	require.Equal(t, Pool{Name: "p", Limit: 1, MaxWait: 5 * admission.Second}, p)
	for _, v := range []string{`null`, `-1`, `"5"`, `1.5`, `1e3`, `1E0`, `1.0`, `true`, `[]`, `{}`, `""`, `"0"`} {
		for _, field := range []string{`"limit": %s`, `"limit": 1, "queue": %s`, `"limit": 1, "min_active": %s`, `"limit": 1, "breaker": {"failures": %s}`,
			`"limit": 1, "key": ["tenant"], "keys": {"a": {"limit": %s}}`, `"limit": 1, "fair_by": "tenant", "weights": {"a": %s}`} {
			_, err := Parse([]byte(poolJSON(fmt.Sprintf(field, v))))
			require.Error(t, err, field, v)
		}
	}
	for _, v := range []string{`null`, `-1`, `"5"`, `1.5`, `0`, `5`, `true`, `""`, `"-1s"`} {
		for _, field := range []string{`"max_wait": %s`, `"hold": {"success": %s}`} {
			_, err := Parse([]byte(poolJSON(`"limit": 1, ` + fmt.Sprintf(field, v))))
			require.Error(t, err, field, v)
		}
	}
	for _, n := range []string{"-1", "1.5", "1e3", "", "+5", "05", "0x5", ".5", "5 ", "1000001", "99999999999999999999"} {
		_, err := Parse([]byte(withJSON(`"routes": ["/a:` + n + `"]`)))
		require.ErrorContains(t, err, "routes[0]: ", n)
	}
	c, err := Parse([]byte(withJSON(`"routes": ["/a:0", "/b"]`)))
	require.NoError(t, err)
	require.Equal(t, []int{0, -1}, []int{c.Routes[0].Limit, c.Routes[1].Limit})
}

func TestCase_O14_NumbersThatWrap(t *testing.T) {
	for _, n := range []string{"2147483647", "4294967296", "4294967297", "9223372036854775807", "9223372036854775808", "18446744073709551617", "1000001"} {
		for field, most := range map[string]string{`"limit": `: "1000000", `"limit": 1, "queue": `: "100000"} {
			_, err := Parse([]byte(poolJSON(field + n)))
			require.ErrorContains(t, err, n+" is out of range (want 0 to "+most+")")
		}
		_, err := Parse([]byte(withJSON(`"routes": ["/a:` + n + `"]`)))
		require.ErrorContains(t, err, "has no limit after ':' (want 0 to 1000000)")
	}
	p := onePool(t, `"limit": 1000000, "queue": 100000`)
	require.Equal(t, []int{admission.MaxLimit, maxQueue}, []int{p.Limit, p.Queue})
}

// A configuration that encoding/json writes anew reads as the same one.
func TestConfigRoundTrip(t *testing.T) {
	want, err := Parse([]byte(fullConfig))
	require.NoError(t, err)
	var v any
	require.NoError(t, json.Unmarshal([]byte(fullConfig), &v))
	for range 10 { // the order of fields does not matter
		got, err := Parse([]byte(mustJSON(v)))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// FuzzParse: no panic, and a refusal is one short line.
func FuzzParse(f *testing.F) {
	f.Add([]byte(fullConfig))
	f.Add([]byte(`{"pools": [{"name": "p", "limit": 0, "keys": {"": 5}}]}`))
	f.Add([]byte(`{"stage": "admin", "identity": {"aliases": {"a": "b"}, "tenant": [{"path": "/{tenant}", "trusted": true}]}}`))
	f.Add([]byte(withJSON(`"routes": ["/a:5@g", "POST /*/b:x", "/é"]`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data)
		if err != nil {
			require.Nil(t, c)
			require.LessOrEqual(t, len(err.Error()), 1000)
			require.NotContains(t, err.Error(), "\n")
			_, err = Parse(data)
			require.Error(t, err)
			return
		}
		require.NotNil(t, c)
		requireValid(t, c)
	})
}

// requireValid checks what the code that uses a configuration takes for granted.
func requireValid(t *testing.T, c *Config) {
	names := map[string]bool{}
	for _, p := range c.Pools {
		require.NotEmpty(t, p.Name)
		require.False(t, names[p.Name])
		names[p.Name] = true
		require.True(t, 0 <= p.Limit && p.Limit <= admission.MaxLimit && 0 <= p.Queue && p.Queue <= admission.MaxLimit)
		require.True(t, 0 <= p.MinActive && p.MinActive <= p.Limit)
		require.True(t, 0 <= p.MaxWait && p.MaxWait <= 24*admission.Hour)
		for _, w := range p.Weights {
			require.Positive(t, w)
		}
		if b := p.Breaker; b != nil {
			require.True(t, b.Failures > 0 && b.Window > 0 && b.Open > 0 && b.MaxOpen >= b.Open && b.MaxPenalty >= b.Penalty)
		}
		if h := p.Headroom; h != nil {
			require.True(t, h.Window > 0 && h.Min <= p.Limit)
		}
	}
	require.True(t, admission.Second <= c.Lease && c.Lease <= admission.Hour && c.MaxKeys >= 1 && c.Domain != "")
	for _, r := range c.Routes {
		require.True(t, len(r.Segments) > 0 && r.Name != "" && r.Limit >= -1 && r.Limit <= admission.MaxLimit)
	}
}

func TestErrorsSayWhereTheyAre(t *testing.T) {
	for _, c := range []struct{ config, begins string }{
		{`{"pools": [{"name": "p", "limit":  -1}]}`, `-1}`},
		{`{"pools": [{"name": "p", "limit": 1, "colour": ["red"]}]}`, `["red"]`},
		{`{"pools": [ {"name": "p"}]}`, `{"name": "p"}`},
		{`{"pools": [{"name": "p", "limit": 1, "key": ["model"], "keys": {"": {"limit": 1}}}]}`, `{"limit": 1}}`},
		{`{"pools": [{"name": "p", "limit": 1, "limit": 2}]}`, `"limit": 2`},
		{"\n{\"pools\":\n x}", `x}`},
		{` 5`, `5`},
		{`{"pools": [{"name": "p", "limit": 1, "key": ["route"], "keys": {"/a": {"limit": 1}}}], "routes": ["/a:1"]}`, `{"pools"`},
	} {
		_, err := Parse([]byte(c.config))
		var refused *Error
		require.ErrorAs(t, err, &refused, c.config)
		require.True(t, strings.HasPrefix(c.config[refused.At:], c.begins), "%s: %v at %q", c.config, err, c.config[refused.At:])
	}
}
