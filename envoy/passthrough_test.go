package envoy_test

import (
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/envoy/rig"
)

// passthroughCalls are requests of all kinds, in which a filter could change something by mistake.
func passthroughCalls(path string) map[string]rig.Call {
	body := []byte(`{"model":"m","stream":true,"messages":[{"role":"user","content":"` + strings.Repeat("x", 3000) +
		`"}]}`)
	twice := []rig.Field{{Name: "x-tenant", Value: "a"}, {Name: "x-tenant", Value: "b"}, {Name: "x-model", Value: "b"},
		{Name: "x-request-timeout-ms", Value: "5"}, {Name: "x-request-timeout-ms", Value: "0"}}
	of := func(method string, body []byte, s rig.Script, header ...rig.Field) rig.Call {
		return rig.Call{Path: path, Method: method, Body: body, Script: s, Header: header}
	}
	return map[string]rig.Call{
		"GET":              of("GET", nil, rig.Script{}),
		"POST with a body": of("POST", body, rig.Script{}),
		"a large body":     of("POST", []byte(strings.Repeat("0123456789", 200_000)), rig.Script{}),
		"an event stream":  of("POST", body, rig.Script{Chunks: 4}),
		"trailers":         of("POST", body, rig.Script{Chunks: 1, Trailers: map[string]string{"x-end": "yes"}}),
		"HEAD":             of("HEAD", nil, rig.Script{}),
		"204":              of("GET", nil, rig.Script{Status: 204}),
		"500":              of("POST", body, rig.Script{Status: 500}),
		"the provider's 429": of("POST", body, rig.Script{Status: 429,
			Headers: map[string]string{"retry-after": "7", "x-ratelimit-remaining": "0"}}),
		"a cut upstream":      of("GET", nil, rig.Script{Cut: true}),
		"headers sent twice":  of("POST", body, rig.Script{}, twice...),
		"an expired deadline": of("POST", body, rig.Script{}, rig.Field{Name: "grpc-timeout", Value: "0S"}),
		"an upstream's headers": of("GET", nil, rig.Script{Headers: map[string]string{"x-headgate-other": "1",
			"x-other": "2"}}),
	}
}

// An exchange is all that client and upstream can see of one request.
type exchange struct {
	status   int
	head     []string
	body     string
	trailer  http.Header
	cut      bool
	method   string
	uri      string
	host     string
	sent     http.Header
	sentBody string
}

func observe(t *testing.T, env *rig.Env, c rig.Call) exchange {
	t.Helper()
	env.Up.Forget()
	r := env.Do(t, c)
	var seen rig.Seen
	if all := env.Up.Requests(); len(all) == 1 {
		seen = all[0]
	} else {
		t.Errorf("the upstream saw %d requests, want 1", len(all))
	}
	seen.Header.Del("x-request-id")
	return exchange{status: r.Status, head: stableHead(r.Head), body: string(r.Body), trailer: r.Trailer,
		cut:    r.Err != nil,
		method: seen.Method, uri: seen.URI, host: seen.Host, sent: seen.Header, sentBody: string(seen.Body)}
}

// stableHead leaves out the lines that differ from request to request.
func stableHead(head []string) []string {
	return slices.DeleteFunc(slices.Clone(head), func(line string) bool {
		return strings.HasPrefix(line, "date:") || strings.HasPrefix(line, "x-envoy-upstream-service-time:")
	})
}

func TestDisabledAndUngovernedAreAsWithoutTheFilter(t *testing.T) {
	const ungovernedPath = "/v1/embeddings"
	closed := []rig.Pool{{Name: "all", Limit: 0}}
	shared := rig.Shared(t, 2)
	without := rig.New(t, shared, rig.Setup{})
	disabled := rig.New(t, shared, rig.Setup{Config: &rig.Config{Pools: closed, More: rig.Object{"mode": "disabled"}}})
	enforcing := rig.New(t, shared, rig.Setup{Config: &rig.Config{Pools: closed}})
	cases := []struct {
		name       string
		env        *rig.Env
		path       string
		ungoverned bool
	}{
		{"disabled, a governed path", disabled, rig.Path, false},
		{"disabled, another path", disabled, ungovernedPath, false},
		{"enforcing, an ungoverned path", enforcing, ungovernedPath, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			calls := passthroughCalls(c.path)
			before := wasmStats(t, c.env)
			for name, call := range calls {
				want, got := observe(t, without, call), observe(t, c.env, call)
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%s: %s", name, difference(got, want))
				}
			}
			checkMoved(t, before, wasmStats(t, c.env), c.ungoverned, len(calls))
		})
	}
	env := enforcing
	env.CheckRefused(t, env.Do(t, rig.Call{}), "all", rig.Rejected)
}

func difference(got, want exchange) string {
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	var parts []string
	for i := range g.NumField() {
		a, b := fmt.Sprintf("%.200v", g.Field(i)), fmt.Sprintf("%.200v", w.Field(i))
		if a != b {
			parts = append(parts, fmt.Sprintf("%s is %s, without the filter %s", g.Type().Field(i).Name, a, b))
		}
	}
	return strings.Join(parts, "; ")
}

func wasmStats(t *testing.T, env *rig.Env) rig.Stats {
	t.Helper()
	return rig.AwaitCounts(func() rig.Stats {
		stats, err := env.AdminStats("wasmcustom")
		if err != nil {
			t.Fatal(err)
		}
		maps.DeleteFunc(stats, func(_ string, v any) bool { _, isNumber := v.(int64); return !isNumber })
		return stats
	})
}

// checkMoved checks that no stat of the filter moved but, where the requests are ungoverned, the one for them.
func checkMoved(t *testing.T, before, after rig.Stats, ungoverned bool, requests int) {
	t.Helper()
	for name := range after {
		want := int64(0)
		if ungoverned && name == "wasmcustom.headgate.ungoverned" {
			want = int64(requests)
		}
		if name == "wasmcustom.headgate.ungoverned" && !ungoverned {
			continue
		}
		if moved := after.Count(name) - before.Count(name); moved != want {
			t.Errorf("%s moved by %d, want %d", name, moved, want)
		}
	}
}
