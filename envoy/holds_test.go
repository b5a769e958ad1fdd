package envoy_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

// protected is a listener with pools that have holds, a breaker or headroom, which rig.Pool has no words for.
func protected(t *testing.T, s rig.Setup, more rig.Object, pools ...rig.Object) *rig.Env {
	t.Helper()
	envoy := rig.Shared(t, 2)
	names := rig.New(t, envoy, rig.Setup{})
	for _, p := range pools {
		p["name"] = names.PoolName(p["name"].(string))
	}
	all := rig.Object{"pools": pools}
	for name, value := range more {
		all[name] = value
	}
	s.PoolsOf, s.Config = names, &rig.Config{More: all}
	return rig.New(t, envoy, s)
}

func protectedPool(limit, queue int, protections rig.Object) rig.Object {
	p := rig.Object{"name": "model", "key": []string{"model"}, "limit": limit, "queue": queue, "max_wait": longWait}
	for name, value := range protections {
		p[name] = value
	}
	return p
}

// holdLateness is how late the next request may start after a hold: holds end in steps, a tick comes later, and the
// request needs its time to the upstream. A busy machine takes longer now and then, but not every time.
const holdLateness = 400 * time.Millisecond

// A holdCase is how a request ends, how long its permit is on hold then, and what the end counts as.
type holdCase struct {
	end  func(t *testing.T, env *rig.Env, id string) (ended time.Time) // not later than Envoy saw the end
	hold time.Duration
	want rig.Counts
}

// answered ends a request as the script says.
func answered(s rig.Script) func(*testing.T, *rig.Env, string) time.Time {
	return func(t *testing.T, env *rig.Env, id string) time.Time {
		t.Helper()
		s.ID = id
		env.Do(t, rig.Call{Model: id, Script: s})
		return env.AwaitEnd(t, id).End
	}
}

// abandoned ends a request by its client's leaving: before the answer, or within it.
func abandoned(midStream bool) func(*testing.T, *rig.Env, string) time.Time {
	return func(t *testing.T, env *rig.Env, id string) time.Time {
		t.Helper()
		call := rig.Call{Model: id, Script: rig.Script{ID: id, HeaderGate: id}}
		if midStream {
			call = streaming(id)
			call.Model = id
		}
		p := env.Run(t, call)
		if midStream {
			p.AwaitBody(t, "data: 1")
		}
		left := time.Now()
		p.Leave(rig.LeaveRST)
		env.AwaitEnd(t, id)
		return left
	}
}

func holdCases() map[string]holdCase {
	const success, cancel, failure = 150 * time.Millisecond, 300 * time.Millisecond, 500 * time.Millisecond
	whole, cut := rig.Counts{"completed": 1}, rig.Counts{"aborted": 1}
	failed, pushback := rig.Counts{"completed": 1, "provider_failure": 1}, rig.Counts{"completed": 1, "provider_429": 1}
	cutByProvider := rig.Counts{"aborted": 1, "provider_failure": 1}
	header := func(name, value string) map[string]string { return map[string]string{name: value} }
	return map[string]holdCase{
		"200":                    {answered(rig.Script{}), success, whole},
		"a stream":               {answered(rig.Script{Chunks: 2}), success, whole},
		"a stream with trailers": {answered(rig.Script{Chunks: 1, Trailers: header("x-end", "1")}), success, whole},
		"404":                    {answered(rig.Script{Status: 404}), success, whole},
		"a bare 403":             {answered(rig.Script{Status: 403}), success, whole},
		"403 of a rate limit": {answered(rig.Script{Status: 403, Headers: header("x-ratelimit-remaining", "0")}),
			success + failure, failed},
		"503": {answered(rig.Script{Status: 503}), success + failure, failed},
		"429": {answered(rig.Script{Status: 429}), success + failure, pushback},
		"429 with retry-after": {answered(rig.Script{Status: 429, Headers: header("retry-after", "2")}),
			success + 2*time.Second, pushback},
		"a cut before headers": {answered(rig.Script{Cut: true}), success + failure, cutByProvider},
		"a cut in mid-stream":  {answered(rig.Script{Chunks: 2, Reset: true}), success + failure, cutByProvider},
		"a client that leaves": {abandoned(false), success + cancel, cut},
		"... in mid-stream":    {abandoned(true), success + cancel, cut},
	}
}

// The next request starts at the upstream when the hold of the one before is over, and the gauge falls by itself.
func TestHoldsKeepPermitsOutOfUse(t *testing.T) {
	env := protected(t, rig.Setup{}, nil, protectedPool(1, 1,
		rig.Object{"hold": rig.Object{"success": "150ms", "cancel": "300ms", "failure": "500ms"}}))
	for name, c := range holdCases() {
		t.Run(name, func(t *testing.T) {
			gap := time.Duration(0)
			for range 5 {
				gap = holdOnce(t, env, c)
				if gap < c.hold-grain {
					t.Fatalf("the permit was used again after %v, want %v", gap, c.hold)
				}
				if gap <= c.hold+holdLateness {
					return
				}
			}
			t.Errorf("the permit was used again after %v, and as late every time; want %v", gap, c.hold)
		})
	}
	env.CheckIdentity(t, "model")
	env.CheckAlive(t)
}

// holdOnce ends a request, and returns how long after that the next one with its permit starts.
func holdOnce(t *testing.T, env *rig.Env, c holdCase) time.Duration {
	t.Helper()
	before := env.Pool(t, "model")
	id := fmt.Sprintf("m%d", len(env.Up.Requests()))
	ended := c.end(t, env, id)
	if c.hold > time.Second { // a shorter one could be over before the stats are read
		env.AwaitGauge(t, "model", "on_hold", 1)
	}
	mustBeOK(t, "the next", env.Do(t, rig.Call{Model: id, Script: rig.Script{ID: id + "-next"}}))
	next, _ := env.Up.Request(id + "-next")
	env.AwaitGauge(t, "model", "on_hold", 0)
	after := env.Pool(t, "model")
	for _, name := range []string{"completed", "aborted", "provider_failure", "provider_429"} {
		want := c.want[name]
		if name == "completed" {
			want++ // the next
		}
		if n := after[name] - before[name]; n != want {
			t.Errorf("%s grew by %d, want %d", name, n, want)
		}
	}
	return next.Start.Sub(ended)
}

// A request that never came to the upstream, or that another one answered, leaves no hold and is no failure of the
// upstream.
func TestAnswersOfOthersHoldNothing(t *testing.T) {
	deadPort, err := rig.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	tripped := rig.Cluster("others-tripped", deadPort) // Envoy's own circuit breaker refuses what has no connection yet
	tripped["circuit_breakers"] = rig.Object{"thresholds": []rig.Object{{"max_pending_requests": 0}}}
	minute := rig.Object{"success": "1m", "cancel": "1m", "failure": "1m"}
	env := protected(t, rig.Setup{
		After:    []rig.Object{faultFilter},
		Clusters: []rig.Object{rig.Cluster("others-empty", 0), rig.Cluster("others-dead", deadPort), tripped},
		Routes: func(up string) []rig.Object {
			direct := func(path string, status int) rig.Object {
				return rig.Object{"match": rig.Object{"prefix": path}, "direct_response": rig.Object{"status": status}}
			}
			moved := rig.Object{"match": rig.Object{"prefix": "/moved"}, "redirect": rig.Object{"host_redirect": "elsewhere"}}
			return []rig.Object{rig.Route("/v1", up), rig.Route("/empty", "others-empty"), rig.Route("/dead", "others-dead"),
				rig.Route("/tripped", "others-tripped"), direct("/ok", 200), direct("/forbidden", 403),
				direct("/busy", 429), direct("/broken", 503), moved}
		},
	}, nil, protectedPool(1, 0, rig.Object{"hold": minute, "headroom": rig.Object{},
		"breaker": rig.Object{"failures": 1, "open": "1m", "penalty": "0s"}}))
	answers := map[string]int{"/empty": 503, "/tripped": 503, "/ok": 200, "/forbidden": 403, "/busy": 429, "/broken": 503,
		"/moved": 301, "/nowhere": 404}
	for path, status := range answers {
		for range 3 {
			if r := env.Do(t, rig.Call{Path: path + rig.Path}); r.Status != status || r.Reason() != "" {
				t.Errorf("%s: got %s, want %d", path, r, status)
			}
		}
	}
	if r := env.Do(t, failing); r.Status != http.StatusForbidden || r.Reason() != "" {
		t.Errorf("a filter's 403: got %s", r)
	}
	env.CheckCounts(t, "model", rig.Counts{"on_hold": 0, "inflight": 0, "provider_429": 0, "provider_failure": 0,
		"rejected_breaker": 0, "completed": 0, "aborted": 25})
	if r := env.Do(t, rig.Call{Path: "/dead" + rig.Path}); r.Status != http.StatusServiceUnavailable || r.Reason() != "" {
		t.Errorf("a dead upstream: got %s", r)
	}
	env.CheckCounts(t, "model", rig.Counts{"on_hold": 0, "provider_failure": 0})
	mustBeOK(t, "the next one", env.Do(t, rig.Call{}))
	env.CheckAlive(t)
}

// An upgraded connection has its permit to its end. Whoever closes it, the end is a success, and its hold begins then.
func TestUpgradeEndsInASuccessHold(t *testing.T) {
	env := protected(t, rig.Setup{Manager: websocket}, nil,
		protectedPool(1, 0, rig.Object{"hold": rig.Object{"success": "2s", "cancel": "1m", "failure": "1m"},
			"breaker": rig.Object{"failures": 1, "penalty": "0s"}}))
	conn := upgrade(t, env, "socket")
	env.CheckRefused(t, env.Do(t, rig.Call{}), "model", rig.Rejected)
	conn.Leave(rig.LeaveRST)
	env.AwaitGauge(t, "model", "on_hold", 1)
	env.AwaitGauge(t, "model", "on_hold", 0)
	env.CheckCounts(t, "model", rig.Counts{"completed": 1, "aborted": 0, "provider_failure": 0, "inflight": 0})
	mustBeOK(t, "the next", env.Do(t, rig.Call{}))
	env.CheckAlive(t)
}
