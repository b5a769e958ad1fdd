package envoy_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

// shaped is a listener with pools that have protections, which rig.Pool has no words for.
func shaped(t *testing.T, s rig.Setup, more rig.Object, pools ...rig.Object) *rig.Env {
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
	p := rig.Object{"name": "model", "key": []string{"model"}, "limit": limit, "queue": queue, "max_wait": "20s"}
	for name, value := range protections {
		p[name] = value
	}
	return p
}

// holdLateness is what a permit may come back after its hold: the grain, a tick, and a busy machine.
const holdLateness = 400 * time.Millisecond

// The next request starts at the upstream when the hold of the one before is over, and the gauge falls by itself.
func TestHoldsKeepPermitsOutOfUse(t *testing.T) {
	const success, cancel, failure = 150 * time.Millisecond, 450 * time.Millisecond, 650 * time.Millisecond
	env := shaped(t, rig.Setup{}, nil, protectedPool(1, 1, rig.Object{"hold": rig.Object{"success": "150ms", "cancel": "300ms", "failure": "500ms"}}))
	do := func(s rig.Script) func(string) {
		return func(id string) {
			s.ID = id
			env.Do(t, rig.Call{Model: id, Script: s})
		}
	}
	for name, c := range map[string]struct {
		end  func(id string)
		hold time.Duration
	}{
		"200":                  {do(rig.Script{}), success},
		"a stream":             {do(rig.Script{Chunks: 2}), success},
		"404":                  {do(rig.Script{Status: 404}), success},
		"a bare 403":           {do(rig.Script{Status: 403}), success},
		"403 of a rate limit":  {do(rig.Script{Status: 403, Headers: map[string]string{"x-ratelimit-remaining": "0"}}), failure},
		"503":                  {do(rig.Script{Status: 503}), failure},
		"429":                  {do(rig.Script{Status: 429}), failure},
		"429 with retry-after": {do(rig.Script{Status: 429, Headers: map[string]string{"retry-after": "2"}}), 2150 * time.Millisecond},
		"a cut before headers": {do(rig.Script{Cut: true}), failure},
		"a cut in mid-stream":  {do(rig.Script{Chunks: 2, Reset: true}), failure},
		"a client that leaves": {func(id string) { env.Hold(t, id, rig.Call{Model: id}).Leave(rig.LeaveRST) }, cancel},
		"... in mid-stream": {func(id string) {
			call := streaming(id)
			call.Model = id
			leaveStream(t, env.Send(t, call), rig.LeaveRST)
		}, cancel},
		"a stream with trailers": {do(rig.Script{Chunks: 1, Trailers: map[string]string{"x-end": "1"}}), success},
	} {
		t.Run(name, func(t *testing.T) {
			id := fmt.Sprintf("m%d", len(env.Up.Requests()))
			c.end(id)
			first := env.AwaitEnd(t, id)
			if c.hold > time.Second { // shorter ones could be over before the stats are read
				env.AwaitGauge(t, "model", "on_hold", 1)
			}
			mustBeOK(t, "the next", env.Do(t, rig.Call{Model: id, Script: rig.Script{ID: id + "-next"}}))
			next, _ := env.Up.Request(id + "-next")
			if gap := next.Start.Sub(first.End); gap < c.hold-5*time.Millisecond || gap > c.hold+holdLateness {
				t.Errorf("the permit was used again after %v, want %v", gap, c.hold)
			}
			env.AwaitGauge(t, "model", "on_hold", 0)
		})
	}
	env.CheckCounts(t, "model", rig.Counts{"provider_429": 2, "provider_failure": 4, "completed": 22, "aborted": 4})
	env.CheckIdentity(t, "model")
	env.CheckAlive(t)
}

// What never came to the upstream, or was answered in its place, holds nothing and is no failure of it.
func TestAnswersOfOthersHoldNothing(t *testing.T) {
	deadPort, err := rig.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	tripped := rig.Cluster("shaping-tripped", deadPort) // Envoy's own circuit breaker refuses what has no connection yet
	tripped["circuit_breakers"] = rig.Object{"thresholds": []rig.Object{{"max_pending_requests": 0}}}
	env := shaped(t, rig.Setup{
		After:    []rig.Object{faultFilter},
		Clusters: []rig.Object{rig.Cluster("shaping-empty", 0), rig.Cluster("shaping-dead", deadPort), tripped},
		Routes: func(up string) []rig.Object {
			direct := func(path string, status int) rig.Object {
				return rig.Object{"match": rig.Object{"prefix": path}, "direct_response": rig.Object{"status": status}}
			}
			return []rig.Object{rig.Route("/v1", up), rig.Route("/empty", "shaping-empty"), rig.Route("/tripped", "shaping-tripped"), rig.Route("/dead", "shaping-dead"), direct("/ok", 200), direct("/forbidden", 403),
				direct("/busy", 429), direct("/broken", 503), {"match": rig.Object{"prefix": "/moved"}, "redirect": rig.Object{"host_redirect": "elsewhere"}}}
		},
	}, nil, protectedPool(1, 0, rig.Object{"hold": rig.Object{"success": "1m", "cancel": "1m", "failure": "1m"}, "breaker": rig.Object{"failures": 1, "open": "1m", "penalty": "0s"},
		"headroom": rig.Object{}}))
	for path, status := range map[string]int{"/empty": 503, "/tripped": 503, "/ok": 200, "/forbidden": 403, "/busy": 429, "/broken": 503, "/moved": 301, "/nowhere": 404} {
		for range 3 {
			if r := env.Do(t, rig.Call{Path: path + rig.Path}); r.Status != status || r.Reason() != "" {
				t.Errorf("%s: got %s, want %d", path, r, status)
			}
		}
	}
	if r := env.Do(t, failing); r.Status != http.StatusForbidden || r.Reason() != "" {
		t.Errorf("a filter's 403: got %s", r)
	}
	env.CheckCounts(t, "model", rig.Counts{"on_hold": 0, "inflight": 0, "provider_429": 0, "provider_failure": 0, "rejected_breaker": 0, "completed": 0, "aborted": 25})
	if r := env.Do(t, rig.Call{Path: "/dead" + rig.Path}); r.Status != http.StatusServiceUnavailable || r.Reason() != "" {
		t.Errorf("a dead upstream: got %s", r)
	}
	env.CheckCounts(t, "model", rig.Counts{"on_hold": 1, "provider_failure": 1})
	checkOpen(t, env, env.Do(t, rig.Call{}), 60)
	env.CheckAlive(t)
}

const opened = "BREAKER_OPEN"

func checkOpen(t *testing.T, env *rig.Env, r *rig.Reply, most int) {
	t.Helper()
	seconds, err := strconv.Atoi(r.Header.Get("retry-after"))
	if r.Err != nil || r.Status != http.StatusServiceUnavailable || r.Reason() != opened || err != nil || seconds < 1 || seconds > most {
		t.Errorf("got %s with retry-after %q, want 503 %s and 1 to %d", r, r.Header.Get("retry-after"), opened, most)
		return
	}
	if r.Header.Get("x-headgate-pool") != env.PoolName("model") || r.Header.Get("x-envoy-ratelimited") != "" {
		t.Errorf("the refusal's headers are %v", r.Header)
	}
	rig.CheckErrorBody(t, r.Body, "unavailable", opened)
	rig.CheckNoInternals(t, r.Header, "x-headgate-reason", "x-headgate-pool")
}

func breakerOf(failures int) rig.Object {
	return rig.Object{"breaker": rig.Object{"failures": failures, "window": "30s", "open": "1s", "max_open": "2s", "penalty": "0s", "max_penalty": "0s"}}
}

func TestBreakerAtTheRequestStage(t *testing.T) {
	env := shaped(t, rig.Setup{}, nil, protectedPool(5, 0, breakerOf(3)))
	for range 3 {
		if r := env.Do(t, rig.Call{Script: rig.Script{Status: 503}}); r.Reason() != "" {
			t.Fatalf("got %s, want the upstream's answer", r)
		}
	}
	since := time.Now()
	checkOpen(t, env, env.Do(t, rig.Call{}.With("refused")), 1)
	mustBeOK(t, "another model", env.Do(t, rig.Call{Model: "other"}))
	rig.Eventually(t, 3*time.Second, "the open time is over", func() bool { return time.Since(since) > time.Second })
	probe := env.Hold(t, "probe")
	for range 4 {
		checkOpen(t, env, env.Do(t, rig.Call{}.With("refused")), 1)
	}
	probe.Leave(rig.LeaveRST)
	env.AwaitGauge(t, "model", "inflight", 0)
	second := env.Send(t, rig.Call{Script: rig.Script{ID: "second", Chunks: 1, Gate: "second"}})
	second.AwaitBody(t, "data: 0")
	for range 4 {
		mustBeOK(t, "a request beside the good probe's stream", env.Do(t, rig.Call{}))
	}
	env.Up.Open("second")
	mustBeOK(t, "the second probe", second.Wait())
	if env.Up.Saw("refused") {
		t.Error("a refused request reached the upstream")
	}
	env.CheckCounts(t, "model", rig.Counts{"rejected_breaker": 5, "provider_failure": 3})
	env.DrainCheck(t, "model", 5)
}

// At the attempt stage each try counts, and the router takes a refusal for an answer.
func TestBreakerAtTheAttemptStage(t *testing.T) {
	pool := protectedPool(5, 0, breakerOf(5))
	pool["per"] = "attempt"
	env := shaped(t, rig.Setup{Stages: true, Routes: func(up string) []rig.Object { return []rig.Object{retrying("/", up)} }}, nil, pool)
	if r := env.Do(t, rig.Call{Script: rig.Script{ID: "a", Status: 503}}); r.Status != 503 || r.Reason() != "" {
		t.Errorf("three failed tries: got %s", r)
	}
	checkOpen(t, env, env.Do(t, rig.Call{Script: rig.Script{ID: "b", Status: 503}}), 1) // two fail, the third is refused
	since := time.Now()
	checkOpen(t, env, env.Do(t, rig.Call{}.With("c")), 1)
	for id, want := range map[string]int{"a": 3, "b": 2, "c": 0} {
		if n := len(env.Up.Tries(id)); n != want {
			t.Errorf("%s made %d tries, want %d", id, n, want)
		}
	}
	env.CheckCounts(t, "model", rig.Counts{"evaluated": 7, "admitted": 5, "rejected_breaker": 2, "provider_failure": 5})
	rig.Eventually(t, 3*time.Second, "the open time is over", func() bool { return time.Since(since) > time.Second })
	mustBeOK(t, "the probe", env.Do(t, rig.Call{}))
	env.DrainCheck(t, "model", 5)
}

func TestHeadroomAfterAProvidersPushback(t *testing.T) {
	env := shaped(t, rig.Setup{}, nil, protectedPool(2, 1, rig.Object{"headroom": rig.Object{"window": "1500ms"}}))
	held := env.Hold(t, "held")
	if r := env.Do(t, rig.Call{Script: rig.Script{ID: "pushback", Status: 429}}); r.Status != 429 || r.Reason() != "" {
		t.Fatalf("got %s, want the upstream's 429", r)
	}
	pushed := env.AwaitEnd(t, "pushback")
	waiter := env.Queue(t, "model", rig.Call{}.With("waiter"))[0]
	mustBeOK(t, "another model", env.Do(t, rig.Call{Model: "other"}))
	mustBeOK(t, "the waiter", waiter.Wait())
	seen, _ := env.Up.Request("waiter")
	if gap := seen.Start.Sub(pushed.End); gap < 1495*time.Millisecond || gap > 1500*time.Millisecond+holdLateness {
		t.Errorf("the waiter ran %v after the 429, want 1.5 s", gap)
	}
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	env.CheckCounts(t, "model", rig.Counts{"provider_429": 1, "on_hold": 0})
	env.DrainCheck(t, "model", 2)
}

// The paths that Envoy sends to the governed upstream meet the route's limit, however they are written.
func TestCase_O20_SpellingsMeetTheRoutesLimit(t *testing.T) {
	spellings := []string{"/v1//chat/completions", "/v1/chat/completions/", "/v1/chat/completions?x=1", "/v1/./chat/completions", "/v1/x/../chat/completions", "/v1/chat%2Fcompletions",
		"/v1/ch%61t/completions", "/V1/Chat/Completions", "/v1/chat/completions;a=b"}
	for name, manager := range map[string]rig.Object{
		"as sent":      nil,
		"normalised":   {"normalize_path": true, "merge_slashes": true, "path_with_escaped_slashes_action": "UNESCAPE_AND_FORWARD"},
		"slashes kept": {"normalize_path": true, "merge_slashes": false, "path_with_escaped_slashes_action": "KEEP_UNCHANGED"},
	} {
		t.Run(name, func(t *testing.T) {
			env := shaped(t, rig.Setup{Manager: manager}, rig.Object{"routes": []string{"POST /v1/chat/completions:2@g", "POST /v1/messages:1@m", "POST /v1/batches:1@m"}},
				rig.Object{"name": "byroute", "key": []string{"route"}, "limit": 100})
			env.Hold(t, "a")
			env.Hold(t, "b", rig.Call{Path: "/v1/chat/./completions"})
			for _, path := range spellings {
				env.CheckRefused(t, env.Do(t, rig.Call{Path: path}), "byroute", rig.Rejected)
			}
			env.Hold(t, "m", rig.Call{Path: "/v1/messages"})
			env.CheckRefused(t, env.Do(t, rig.Call{Path: "/v1/batches"}), "byroute", rig.Rejected)
			mustBeOK(t, "a sub-resource", env.Do(t, rig.Call{Path: "/v1/chat/completions/123"}))
			mustBeOK(t, "another method", env.Do(t, rig.Call{Method: "GET"}))
			env.Up.Open("a", "b", "m")
			env.AwaitDrained(t, "byroute")
			env.CheckCounts(t, "byroute", rig.Counts{"admitted": 3, "rejected_queue_full": int64(len(spellings)) + 1})
			env.CheckAlive(t)
		})
	}
}

// An upgraded connection has its permit to its end, which is a clean one whoever closes it; then the hold begins.
func TestUpgradeEndsInASuccessHold(t *testing.T) {
	env := shaped(t, rig.Setup{Manager: rig.Object{"upgrade_configs": []rig.Object{{"upgrade_type": "websocket"}}}}, nil,
		protectedPool(1, 0, rig.Object{"hold": rig.Object{"success": "2s", "cancel": "1m", "failure": "1m"}, "breaker": rig.Object{"failures": 1, "penalty": "0s"}}))
	conn := upgrade(t, env, "socket")
	env.CheckRefused(t, env.Do(t, rig.Call{}), "model", rig.Rejected)
	conn.Leave(rig.LeaveRST)
	env.AwaitGauge(t, "model", "on_hold", 1)
	env.AwaitGauge(t, "model", "on_hold", 0)
	env.CheckCounts(t, "model", rig.Counts{"completed": 1, "aborted": 0, "provider_failure": 0, "inflight": 0})
	mustBeOK(t, "the next", env.Do(t, rig.Call{}))
	env.CheckAlive(t)
}
