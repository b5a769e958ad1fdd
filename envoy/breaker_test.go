package envoy_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

const opened = "BREAKER_OPEN"

// checkOpen checks the refusal of a breaker that is open for so many seconds at most. Up to a half is added to
// retry-after.
func checkOpen(t *testing.T, env *rig.Env, r *rig.Reply, most int) {
	t.Helper()
	most = min(most+max(most/2, 1), 60)
	seconds, err := strconv.Atoi(r.Header.Get("retry-after"))
	if r.Err != nil || r.Status != http.StatusServiceUnavailable || r.Reason() != opened || err != nil || seconds < 1 ||
		seconds > most {
		t.Errorf("got %s with retry-after %q, want 503 %s and 1 to %d", r, r.Header.Get("retry-after"), opened, most)
		return
	}
	if r.Header.Get("x-headgate-pool") != env.PoolName("model") || r.Header.Get("x-envoy-ratelimited") != "" {
		t.Errorf("the refusal's headers are %v", r.Header)
	}
	rig.CheckErrorBody(t, r.Body, "unavailable", opened)
	rig.CheckNoInternals(t, r.Header, "x-headgate-reason", "x-headgate-pool")
}

// breakerOf is a breaker that opens for that long, and at most for twice as long.
func breakerOf(failures int, open time.Duration) rig.Object {
	return rig.Object{"breaker": rig.Object{"failures": failures, "window": "10m", "open": open.String(),
		"max_open": (2 * open).String(), "penalty": "0s", "max_penalty": "0s"}}
}

// awaitEndOf waits until a breaker that opened before since is no longer open.
func awaitEndOf(t *testing.T, open time.Duration, since time.Time) {
	t.Helper()
	rig.Await(t, "the breaker's open time is over", func() bool { return time.Since(since) > open })
}

func TestBreakerAtTheRequestStage(t *testing.T) {
	withEnoughTime(t, time.Second, func(t *testing.T, open time.Duration) bool {
		env := protected(t, rig.Setup{}, nil, protectedPool(5, 0, breakerOf(3, open)))
		before := time.Now()
		for range 3 {
			before = time.Now()
			if r := env.Do(t, rig.Call{Script: rig.Script{Status: 503}}); r.Reason() != "" {
				t.Fatalf("got %s, want the upstream's answer", r)
			}
		}
		refused := env.Do(t, rig.Call{}.With("refused"))
		since := time.Now()
		if since.Sub(before) >= open {
			return false
		}
		most := int(open.Seconds())
		checkOpen(t, env, refused, most)
		mustBeOK(t, "another model", env.Do(t, rig.Call{Model: "other"}))
		awaitEndOf(t, open, since)
		probe := env.Hold(t, "probe")
		for range 4 {
			checkOpen(t, env, env.Do(t, rig.Call{}.With("refused")), most)
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
		return true
	})
}

// At the attempt stage each try counts, and the router does not retry a refusal.
func TestBreakerAtTheAttemptStage(t *testing.T) {
	withEnoughTime(t, time.Second, func(t *testing.T, open time.Duration) bool {
		pool := protectedPool(5, 0, breakerOf(5, open))
		pool["per"] = "attempt"
		routes := func(up string) []rig.Object { return []rig.Object{retrying("/", up)} }
		env := protected(t, rig.Setup{Stages: true, Routes: routes}, nil, pool)
		if r := env.Do(t, rig.Call{Script: rig.Script{ID: "a", Status: 503, NoBody: true}}); r.Status != 503 || r.Reason() != "" {
			t.Errorf("three failed tries: got %s", r)
		}
		before := time.Now()
		b := env.Do(t, rig.Call{Script: rig.Script{ID: "b", Status: 503, NoBody: true}}) // two tries fail, the third is refused
		c := env.Do(t, rig.Call{}.With("c"))
		since := time.Now()
		if since.Sub(before) >= open {
			return false
		}
		most := int(open.Seconds())
		checkOpen(t, env, b, most)
		checkOpen(t, env, c, most)
		for id, want := range map[string]int{"a": 3, "b": 2, "c": 0} {
			if n := len(env.Up.Tries(id)); n != want {
				t.Errorf("%s made %d tries, want %d", id, n, want)
			}
		}
		env.CheckCounts(t, "model", rig.Counts{"evaluated": 7, "admitted": 5, "rejected_breaker": 2, "provider_failure": 5})
		awaitEndOf(t, open, since)
		mustBeOK(t, "the probe", env.Do(t, rig.Call{}))
		env.DrainCheck(t, "model", 5)
		return true
	})
}

// However a client ends its own request, that does not count as a failure of the provider.
func TestClientsCannotTripTheBreaker(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, env *rig.Env){
		"HTTP/2 reset in mid-stream": func(t *testing.T, env *rig.Env) {
			leaveStream(t, env.H2(t).Send(streaming("id")), rig.LeaveRST)
		},
		"HTTP/2 reset before the answer": func(t *testing.T, env *rig.Env) {
			p := env.H2(t).Send(rig.Call{Script: rig.Script{ID: "id", Gate: "id"}})
			rig.Await(t, "the upstream has seen the request", func() bool { return env.Up.Saw("id") })
			p.Leave(rig.LeaveRST)
		},
		"HTTP/2 connection killed": func(t *testing.T, env *rig.Env) {
			h := env.H2(t)
			h.Send(streaming("id")).AwaitBody(t, "data: 1")
			h.Kill()
		},
		"idle stream": func(t *testing.T, env *rig.Env) {
			env.Send(t, streaming("id")).AwaitBody(t, "data: 1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			env := protected(t, rig.Setup{Manager: rig.Object{"stream_idle_timeout": "1s"}}, nil,
				protectedPool(4, 0, rig.Object{"breaker": rig.Object{"failures": 1, "window": "10m", "open": "1m"}}))
			leave(t, env)
			env.AwaitDrained(t, "model")
			mustBeOK(t, "the next client's request", env.Do(t, rig.Call{}))
			env.CheckCounts(t, "model", rig.Counts{"provider_failure": 0, "aborted": 1})
		})
	}
}
