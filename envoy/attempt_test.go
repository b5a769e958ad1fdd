package envoy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

// attemptPool is a pool of models of which each try of the router takes a permit.
func attemptPool(limit, queue int64) rig.Pool {
	return rig.Pool{Name: "model", Key: []string{"model"}, Per: "attempt", Limit: limit, Queue: queue, MaxWait: longWait}
}

// retrying is a route that makes up to two more tries after a 5xx, a 429 or a connection's end.
func retrying(prefix, cluster string) rig.Object {
	route := rig.Route(prefix, cluster)
	route["route"].(rig.Object)["retry_policy"] = rig.Object{
		"retry_on": "5xx,retriable-status-codes", "retriable_status_codes": []int{429}, "num_retries": 2,
		"retry_back_off": rig.Object{"base_interval": "0.01s", "max_interval": "0.01s"},
		"rate_limited_retry_back_off": rig.Object{"reset_headers": []rig.Object{{"name": "x-backoff", "format": "SECONDS"}},
			"max_interval": "300s"},
	}
	return route
}

// staged has the tenant's permit downstream and the model's in every try.
func staged(t *testing.T, pools ...rig.Pool) *rig.Env {
	t.Helper()
	return rig.New(t, rig.Shared(t, 2), stagedSetup(pools...))
}

func stagedSetup(pools ...rig.Pool) rig.Setup {
	return rig.Setup{Stages: true, Config: &rig.Config{Pools: pools},
		Routes: func(up string) []rig.Object { return []rig.Object{retrying("/", up)} }}
}

// tries is a call of tenant a whose tries do this in turn.
func tries(id string, each ...rig.Script) rig.Call {
	return rig.Call{Tenant: "a", Script: rig.Script{ID: id, Tries: each}}
}

// failed is an answer that is whole with its headers. So its try gives its permit back at once. Where a body is still to
// come, the router resets the try, and its permit is free some milliseconds later.
var failed = rig.Script{Status: 503, NoBody: true}

// failedThenWaits fails, and makes Envoy wait before the next try: for the back-off, and up to half as long again.
func failedThenWaits(backOff time.Duration) rig.Script {
	return rig.Script{Status: 503, NoBody: true, Headers: map[string]string{"x-backoff": fmt.Sprint(backOff.Seconds())}}
}

// The queue is for a try that comes so soon that the permit of the one before it is still in use.
func TestStagesTakeTheTenantOnceAndTheModelForEachTry(t *testing.T) {
	env := staged(t, tenantPool(1, 0), attemptPool(1, 1))
	mustBeOK(t, "three tries", env.Do(t, tries("a", failed, rig.Script{Cut: true}, rig.Script{})))
	mustBeOK(t, "the provider's 429 is retried", env.Do(t, tries("b", rig.Script{Status: 429}, rig.Script{})))
	if r := env.Do(t, tries("c", failed)); r.Status != 503 {
		t.Errorf("three failed tries: got %s, want the upstream's 503", r)
	}
	for id, want := range map[string]int{"a": 3, "b": 2, "c": 3} {
		if n := len(env.Up.Tries(id)); n != want {
			t.Errorf("%s made %d tries, want %d", id, n, want)
		}
	}
	env.CheckCounts(t, "tenant", rig.Counts{"evaluated": 3, "admitted": 3})
	env.CheckCounts(t, "model", rig.Counts{"evaluated": 8, "admitted": 8})
	env.DrainCheck(t, "model", 1)
	env.DrainCheck(t, "tenant", 1, rig.Call{Tenant: "a"})
}

// refusedOnce makes a call that the attempt stage refuses, and checks that Envoy's router doesn't retry that.
func refusedOnce(t *testing.T, env *rig.Env, call rig.Call, pool string) {
	t.Helper()
	before := env.Pool(t, pool)["evaluated"]
	env.CheckRefused(t, env.Do(t, call), pool, rig.Rejected)
	if n := env.Pool(t, pool)["evaluated"] - before; n != 1 {
		t.Errorf("one refused try was evaluated %d times", n)
	}
	if env.Up.Saw(call.ID) {
		t.Error("a refused try reached the upstream")
	}
}

// The route would retry a 429 that comes from the upstream.
func TestRefusalInTheAttemptStageIsNotRetried(t *testing.T) {
	env := staged(t, tenantPool(1, 0), attemptPool(1, 0))
	held := env.Hold(t, "held", rig.Call{Tenant: "h"})
	for i := range 20 {
		refusedOnce(t, env, rig.Call{Tenant: "a"}.With(fmt.Sprint(i)), "model")
	}
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	env.DrainCheck(t, "model", 1)
	env.DrainCheck(t, "tenant", 1, rig.Call{Tenant: "a"})
}

func TestFullTenantPoolRefusesWithoutAnyTry(t *testing.T) {
	env := staged(t, tenantPool(1, 0), attemptPool(5, 5))
	held := env.Hold(t, "held", rig.Call{Tenant: "a"})
	for range 20 {
		env.CheckRefused(t, env.Do(t, rig.Call{Tenant: "a"}), "tenant", rig.Rejected)
	}
	env.CheckCounts(t, "model", rig.Counts{"evaluated": 1})
	if n := len(env.Up.Requests()); n != 1 {
		t.Errorf("the upstream saw %d requests, want 1", n)
	}
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	env.Up.ResetPeak()
	env.DrainCheck(t, "tenant", 1, rig.Call{Tenant: "a"})
}

// The attempts count for the tenant that the invocation stage found. Nothing that a client sends changes that.
func TestAttemptsTakeTheTenantThatTheInvocationFound(t *testing.T) {
	issuer := rig.NewTokenIssuer(t)
	s := stagedSetup(rig.Pool{Name: "pair", Key: []string{"tenant", "model"}, Per: "attempt", Limit: 1})
	s.Before = []rig.Object{issuer.Filter(true)}
	s.Config.More = rig.Object{"identity": rig.Object{"tenant": []rig.Object{jwtTenant},
		"model": []rig.Object{{"header": "x-model"}}}}
	env := rig.New(t, rig.Shared(t, 2), s)
	as := func(sub string, more ...rig.Field) rig.Call {
		return rig.Call{Header: append(more, issuer.Bearer(t, rig.Object{"sub": sub}))}
	}
	held := env.Hold(t, "held", as("acme"))
	env.CheckRefused(t, env.Do(t, as("acme")), "pair", rig.Rejected)
	forged := rig.Field{Name: "x-headgate-invocation", Value: "b"}
	env.CheckRefused(t, env.Do(t, as("acme", rig.Field{Name: "x-tenant", Value: "b"},
		rig.Field{Name: "headgate.invocation", Value: "b"}, forged)),
		"pair", rig.Rejected)
	mustBeOK(t, "another tenant", env.Do(t, as("b", forged).With("b")))
	b, _ := env.Up.Request("b")
	rig.CheckNoInternals(t, b.Header)
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	env.Up.ResetPeak()
	env.DrainCheck(t, "pair", 1, as("acme"))
}

func TestUngovernedRequestsPassBothStages(t *testing.T) {
	env := staged(t, rig.Pool{Name: "tenant", Limit: 0}, rig.Pool{Name: "model", Per: "attempt", Limit: 0})
	before := env.FilterCounts(t)["ungoverned"]
	mustBeOK(t, "an ungoverned one", env.Do(t, rig.Call{Path: "/v1/embeddings",
		Script: rig.Script{ID: "u", Tries: []rig.Script{failed, {}}}}))
	if n := env.FilterCounts(t)["ungoverned"] - before; n != 1 {
		t.Errorf("ungoverned grew by %d, want 1: the invocation counts, its tries don't", n)
	}
	env.CheckCounts(t, "model", rig.Counts{"evaluated": 0})
	env.CheckRefused(t, env.Do(t, rig.Call{}), "tenant", rig.Rejected)
}

// Each ending leaves both pools empty. The limits are 1, so a permit that stays behind makes the next request fail.
func TestEveryEndingOfATryGivesItsPermitBack(t *testing.T) {
	deadPort, err := rig.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	s := stagedSetup(tenantPool(1, 0), attemptPool(1, 1))
	s.Targets = []rig.Object{rig.Cluster("dead", deadPort), rig.Cluster("empty", 0)}
	s.After = []rig.Object{faultFilter}
	s.Routes = func(up string) []rig.Object {
		short := retrying("/short", up)
		short["route"].(rig.Object)["timeout"] = "0.2s"
		perTry := retrying("/per-try", up)
		perTry["route"].(rig.Object)["retry_policy"].(rig.Object)["per_try_timeout"] = "0.1s"
		return []rig.Object{short, perTry, retrying("/dead", "dead"), retrying("/empty", "empty"), retrying("/", up)}
	}
	env := rig.New(t, rig.Shared(t, 2), s)
	of := func(path string, c rig.Call) rig.Call { c.Path = path + rig.Path; return c }
	endings := []struct {
		name   string
		call   rig.Call
		status int
		tries  int64
	}{
		{"success", rig.Call{}, 200, 1},
		{"a stream", rig.Call{Script: rig.Script{Chunks: 3}}, 200, 1},
		{"HEAD", rig.Call{Method: "HEAD"}, 200, 1},
		{"204", rig.Call{Script: rig.Script{Status: 204}}, 204, 1},
		{"an error that isn't retried", rig.Call{Script: rig.Script{Status: 400}}, 400, 1},
		{"errors", rig.Call{Script: failed}, 503, 3},
		{"cut tries", rig.Call{Script: rig.Script{Cut: true}}, 503, 3},
		{"a cut stream", rig.Call{Script: rig.Script{Chunks: 1, Reset: true}}, 200, 1},
		{"a local reply behind the invocation stage", failing, 403, 0},
		{"the route's timeout", of("/short", rig.Call{Script: rig.Script{Hang: true, HeaderGate: "never"}}), 504, 1},
		{"three per-try timeouts", of("/per-try", rig.Call{Script: rig.Script{HeaderGate: "never"}}), 504, 3},
		{"no connection", of("/dead", rig.Call{}), 503, 3},
		{"no endpoint", of("/empty", rig.Call{}), 503, 0},
	}
	for _, ending := range endings {
		t.Run(ending.name, func(t *testing.T) {
			before := env.Pool(t, "model")["admitted"]
			call := ending.call
			call.Tenant = "a"
			if r := env.Do(t, call); r.Status != ending.status {
				t.Errorf("got %s, want %d", r, ending.status)
			}
			env.AwaitDrained(t, "tenant", "model")
			if n := env.Pool(t, "model")["admitted"] - before; n != ending.tries {
				t.Errorf("%d tries took a permit, want %d", n, ending.tries)
			}
		})
	}
	env.DrainCheck(t, "model", 1)
	env.DrainCheck(t, "tenant", 1, rig.Call{Tenant: "a"})
}

// In whatever phase its client leaves, a request leaves nothing behind and starts nothing more.
func TestClientLeavingInEachPhaseLeavesZero(t *testing.T) {
	phases := map[string]struct {
		start func(t *testing.T, env *rig.Env, id string) *rig.Pending
		tries int
	}{
		"queued for the tenant": {func(t *testing.T, env *rig.Env, id string) *rig.Pending {
			env.Hold(t, id+"-other", rig.Call{Tenant: "a", Model: "n"})
			return env.Queue(t, "tenant", tries(id, rig.Script{}))[0]
		}, 0},
		"queued for the model": {func(t *testing.T, env *rig.Env, id string) *rig.Pending {
			env.Hold(t, id+"-other", rig.Call{Tenant: "h"})
			return env.Queue(t, "model", tries(id, rig.Script{}))[0]
		}, 0},
		"running": {func(t *testing.T, env *rig.Env, id string) *rig.Pending {
			return env.Hold(t, id, rig.Call{Tenant: "a"})
		}, 1},
		"streaming": {func(t *testing.T, env *rig.Env, id string) *rig.Pending {
			p := env.Send(t, tries(id, failed, rig.Script{Chunks: 1, Hang: true}))
			p.AwaitBody(t, "data: 0")
			return p
		}, 2},
		"in back-off": {func(t *testing.T, env *rig.Env, id string) *rig.Pending {
			p := env.Send(t, tries(id, failedThenWaits(time.Minute)))
			env.AwaitEnd(t, id)
			env.AwaitGauge(t, "model", "inflight", 0)
			return p
		}, 1},
		"queued for the retry": {func(t *testing.T, env *rig.Env, id string) *rig.Pending {
			p, _ := failsBeside(t, env, id)
			return p
		}, 1},
	}
	for name, phase := range phases {
		t.Run(name, func(t *testing.T) {
			env := staged(t, rig.Pool{Name: "tenant", Key: []string{"tenant"}, Limit: 1, Queue: 1, MaxWait: longWait},
				attemptPool(1, 1))
			for i, how := range []rig.Leave{rig.LeaveRST, rig.LeaveFIN} {
				id := fmt.Sprintf("p%d", i)
				p := phase.start(t, env, id)
				p.Leave(how)
				rig.Await(t, "the call has ended", p.Done)
				env.AwaitGauge(t, "tenant", "queued", 0)
				env.AwaitGauge(t, "model", "queued", 0)
				env.Up.Open(id + "-other")
				env.AwaitDrained(t, "tenant", "model")
				mustBeOK(t, "the tenant's next one", env.Do(t, rig.Call{Tenant: "a"}))
				env.AwaitDrained(t, "tenant", "model")
				if n := len(env.Up.Tries(id)); n != phase.tries {
					t.Errorf("%d tries reached the upstream, want %d", n, phase.tries)
				}
			}
			env.Up.ResetPeak()
			env.DrainCheck(t, "model", 1)
			env.DrainCheck(t, "tenant", 1, rig.Call{Tenant: "a"})
		})
	}
}
