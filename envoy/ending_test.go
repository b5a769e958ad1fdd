package envoy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/headgate/headgate/envoy/rig"
)

// failHeader makes the refusing filter of a test refuse; requests without it pass, so that the drain check can fill.
const failHeader = "x-fail"

var failing = rig.Call{Header: []rig.Field{{Name: failHeader, Value: "yes"}}}

var failMatch = rig.Object{"name": failHeader, "string_match": rig.Object{"exact": "yes"}}

var faultFilter = rig.Filter("envoy.filters.http.fault", "envoy.extensions.filters.http.fault.v3.HTTPFault", rig.Object{
	"abort":   rig.Object{"http_status": 403, "percentage": rig.Object{"numerator": 100}},
	"headers": []rig.Object{failMatch},
})

var rbacFilter = rig.Filter("envoy.filters.http.rbac", "envoy.extensions.filters.http.rbac.v3.RBAC", rig.Object{
	"rules": rig.Object{"action": "DENY", "policies": rig.Object{"fail": rig.Object{
		"permissions": []rig.Object{{"header": failMatch}},
		"principals":  []rig.Object{{"any": true}},
	}}},
})

var bufferFilter = rig.Filter("envoy.filters.http.buffer", "envoy.extensions.filters.http.buffer.v3.Buffer",
	rig.Object{"max_request_bytes": 10})

// authzFilter asks a cluster named authz; what that answers is the client's answer unless it is 200.
var authzFilter = rig.Filter("envoy.filters.http.ext_authz", "envoy.extensions.filters.http.ext_authz.v3.ExtAuthz",
	rig.Object{
		"http_service": rig.Object{"server_uri": rig.Object{"uri": "http://authz", "cluster": "authz", "timeout": "60s"}},
	})

const refusalRounds = 100

// An ender is something that ends a request in place of the upstream.
type ender struct {
	filter rig.Object
	call   rig.Call
	status int
}

func enders() map[string]ender {
	return map[string]ender{
		"fault abort": {filter: faultFilter, call: failing, status: http.StatusForbidden},
		"RBAC":        {filter: rbacFilter, call: failing, status: http.StatusForbidden},
		"buffer limit": {filter: bufferFilter, call: rig.Call{Body: []byte(strings.Repeat("x", 100))},
			status: http.StatusRequestEntityTooLarge},
	}
}

func TestCase_O03_FilterAfterOursEndsTheRequest(t *testing.T) {
	for name, ender := range enders() {
		t.Run(name, func(t *testing.T) {
			env := rig.New(t, rig.Shared(t, 2), rig.Setup{Config: &rig.Config{Pools: []rig.Pool{modelPool(1, 0, "")}},
				After: []rig.Object{ender.filter}})
			endsAlways(t, env, ender.call, ender.status)
			env.CheckCounts(t, "model", rig.Counts{"evaluated": refusalRounds, "admitted": refusalRounds})
			env.DrainCheck(t, "model", 1)
		})
	}
}

func TestCase_O03_FilterBeforeOursEndsTheRequest(t *testing.T) {
	for name, ender := range enders() {
		t.Run(name, func(t *testing.T) {
			env := rig.New(t, rig.Shared(t, 2), rig.Setup{Config: &rig.Config{Pools: []rig.Pool{modelPool(1, 0, "")}},
				Before: []rig.Object{ender.filter}})
			held := env.Hold(t, "held") // so that a release without a grant would let one more in
			endsAlways(t, env, ender.call, ender.status)
			env.CheckRefused(t, env.Do(t, rig.Call{}), "model", rig.Rejected)
			env.CheckCounts(t, "model", rig.Counts{"evaluated": 2, "admitted": 1, "inflight": 1})
			env.Up.Open("held")
			mustBeOK(t, "the held one", held.Wait())
			env.DrainCheck(t, "model", 1)
		})
	}
}

// endsAlways makes the call many times, each of which must end with the status.
func endsAlways(t *testing.T, env *rig.Env, call rig.Call, status int) {
	t.Helper()
	for i := range refusalRounds {
		if r := env.Do(t, call); r.Status != status || r.Err != nil {
			t.Fatalf("request %d: got %s, want %d", i+1, r, status)
		}
	}
}

func TestCase_O03_ExternalAuthorisationEndsTheRequest(t *testing.T) {
	for _, place := range []string{"after ours", "before ours"} {
		t.Run(place, func(t *testing.T) {
			authz := rig.NewUpstream(t)
			authz.Open("open")
			s := rig.Setup{Config: &rig.Config{Pools: []rig.Pool{modelPool(1, 0, "")}},
				Clusters: []rig.Object{rig.Cluster("authz", authz.Port)},
				Routes: func(up string) []rig.Object {
					return []rig.Object{withoutAuthz(rig.Route("/open", up)), rig.Route("/", up)}
				}}
			if place == "after ours" {
				s.After = []rig.Object{authzFilter}
			} else {
				s.Before = []rig.Object{authzFilter}
			}
			env := rig.New(t, rig.Shared(t, 2), s)
			endsAlways(t, env, rig.Call{Script: rig.Script{Status: http.StatusForbidden}}, http.StatusForbidden)
			env.DrainCheck(t, "model", 1, rig.Call{Path: "/open" + rig.Path})
		})
	}
}

func withoutAuthz(route rig.Object) rig.Object {
	route["typed_per_filter_config"] = rig.Object{"envoy.filters.http.ext_authz": rig.Object{
		"@type": "type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute", "disabled": true}}
	return route
}

func TestCase_O03_RouterEndsTheRequest(t *testing.T) {
	deadPort, err := rig.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	env := rig.New(t, rig.Shared(t, 2), rig.Setup{
		Config: &rig.Config{Pools: []rig.Pool{modelPool(1, 0, "")}},
		Clusters: []rig.Object{rig.Cluster("empty", 0), rig.Cluster("dead", deadPort),
			rig.WithMaxRequests(rig.Cluster("tripped", deadPort), 0)},
		Routes: func(up string) []rig.Object {
			return []rig.Object{rig.Route("/v1", up), rig.Route("/empty", "empty"), rig.Route("/dead", "dead"),
				rig.Route("/tripped", "tripped"),
				{"match": rig.Object{"prefix": "/direct"}, "direct_response": rig.Object{"status": 403}}}
		},
	})
	for path, status := range map[string]int{"/nowhere": 404, "/empty": 503, "/dead": 503, "/tripped": 503,
		"/direct": 403} {
		t.Run(path[1:], func(t *testing.T) { endsAlways(t, env, rig.Call{Path: path + rig.Path}, status) })
	}
	env.DrainCheck(t, "model", 1)
}

func TestCase_O03_EnvoyRefusesTheRequestItself(t *testing.T) {
	env := governed(t, 2, modelPool(1, 0, ""))
	held := env.Hold(t, "held")
	line := "POST " + rig.Path + " HTTP/1.1\r\n"
	refusals := map[string]struct {
		text   string
		status int
	}{
		"no host":           {line + "x-model: m\r\ncontent-length: 0\r\n\r\n", 400},
		"a bad host":        {line + "host: a b\r\nx-model: m\r\ncontent-length: 0\r\n\r\n", 400},
		"too large headers": {line + "host: a\r\nx-model: m\r\nx-large: " + strings.Repeat("x", 70_000) + "\r\n\r\n", 431},
		"a bad method line": {"NO\r\n\r\n", 400},
	}
	for name, refusal := range refusals {
		for range refusalRounds / 4 {
			if r := env.Raw(t, refusal.text); r.Status != refusal.status {
				t.Fatalf("%s: got %s, want %d", name, r, refusal.status)
			}
		}
	}
	env.CheckRefused(t, env.Do(t, rig.Call{}), "model", rig.Rejected)
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	env.DrainCheck(t, "model", 1)
}

// The limits are such that a single permit that doesn't come back makes a later request fail.
func TestThousandMixedEndingsLeaveFullCapacity(t *testing.T) {
	env := rig.New(t, rig.Shared(t, 2), rig.Setup{
		Config: &rig.Config{Pools: []rig.Pool{
			{Name: "gateway", Limit: 1},
			{Name: "model", Key: []string{"model"}, Limit: 1, Keys: map[string]any{"closed": rig.Object{"limit": 0}}},
		}},
		After:   []rig.Object{faultFilter},
		Manager: rig.Object{"delayed_close_timeout": "0.01s"}, // else Envoy keeps a cut reply's connection open for a second
	})
	// When a client leaves, its permit comes back after Envoy has reset the upstream. So the upstream's end is not enough to
	// wait for; the gauges are.
	left := func(id string) string {
		env.AwaitEnd(t, id)
		env.AwaitDrained(t, "gateway", "model")
		return ""
	}
	endings := []func(id string) string{
		func(id string) string { return wantStatus(env.Do(t, rig.Call{}.With(id)), 200) },
		func(id string) string { return wantStatus(env.Do(t, rig.Call{Method: "HEAD"}), 200) },
		func(id string) string { return wantStatus(env.Do(t, rig.Call{Script: rig.Script{Status: 204}}), 204) },
		func(id string) string { return wantStatus(env.Do(t, rig.Call{Script: rig.Script{NoBody: true}}), 200) },
		func(id string) string { return wantStatus(env.Do(t, rig.Call{Script: rig.Script{Status: 500}}), 500) },
		func(id string) string { return wantStatus(env.Do(t, rig.Call{Script: rig.Script{Chunks: 2}}), 200) },
		func(id string) string { return wantStatus(env.Do(t, rig.Call{Script: rig.Script{Cut: true}}), 503) },
		func(id string) string {
			return wantStatus(env.Do(t, rig.Call{Script: rig.Script{Chunks: 1, Reset: true}}), 200)
		},
		func(id string) string { return wantStatus(env.Do(t, failing), 403) },
		func(id string) string { return wantStatus(env.Do(t, rig.Call{Model: "closed"}), 429) },
		func(id string) string {
			leaveStream(t, env.Send(t, streaming(id)), rig.LeaveFIN)
			return left(id)
		},
		func(id string) string {
			leaveStream(t, env.Send(t, streaming(id)), rig.LeaveRST)
			return left(id)
		},
		func(id string) string { env.Hold(t, id).Leave(rig.LeaveRST); return left(id) },
	}
	for i := range 1000 {
		if problem := endings[i%len(endings)](fmt.Sprint(i)); problem != "" {
			t.Fatalf("request %d, ending %d after ending %d: %s", i, i%len(endings), (i+len(endings)-1)%len(endings), problem)
		}
	}
	env.AwaitDrained(t, "gateway", "model")
	env.CheckCounts(t, "gateway", rig.Counts{"evaluated": 1000, "admitted": 1000})
	env.DrainCheck(t, "model", 1)
	env.DrainCheck(t, "gateway", 1)
}

func wantStatus(r *rig.Reply, status int) string {
	if r.Status != status {
		return fmt.Sprintf("got %s, want %d", r, status)
	}
	return ""
}
