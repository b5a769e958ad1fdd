package envoy_test

import (
	"testing"

	"github.com/headgate/headgate/envoy/rig"
)

// hedged is a route on which a second try starts beside a first that takes too long.
func hedged(cluster, perTry string) rig.Object {
	route := rig.Route("/", cluster)
	action := route["route"].(rig.Object)
	action["hedge_policy"] = rig.Object{"hedge_on_per_try_timeout": true}
	action["retry_policy"] = rig.Object{"retry_on": "5xx", "num_retries": 1, "per_try_timeout": perTry}
	return route
}

// A try that Envoy no longer waits for runs on beside the next one, and each has a permit.
func TestCase_O24_HedgingTakesAPermitForEachTry(t *testing.T) {
	s := stagedSetup(tenantPool(2, 0), attemptPool(2, 0))
	s.Routes = func(up string) []rig.Object { return []rig.Object{rig.Route("/plain", up), hedged(up, "0.15s")} }
	env := rig.New(t, rig.Shared(t, 2), s)
	a := env.Send(t, tries("a", rig.Script{HeaderGate: "never"}, rig.Script{Chunks: 1, Gate: "a"}))
	rig.Await(t, "both tries run", func() bool { return len(env.Up.Tries("a")) == 2 })
	env.AwaitGauge(t, "model", "inflight", 1) // the second answered, so Envoy gave the first up
	env.CheckCounts(t, "tenant", rig.Counts{"evaluated": 1, "inflight": 1})
	env.CheckCounts(t, "model", rig.Counts{"evaluated": 2, "admitted": 2})
	env.Up.Open("a")
	mustBeOK(t, "the hedged one", a.Wait())
	env.AwaitDrained(t, "tenant", "model")

	b := env.Send(t, tries("b", rig.Script{HeaderGate: "never"}, rig.Script{HeaderGate: "never"}))
	env.AwaitGauge(t, "model", "inflight", 2)
	env.CheckRefused(t, env.Do(t, rig.Call{Tenant: "c"}), "model", rig.Rejected)
	b.Leave(rig.LeaveRST)
	env.AwaitDrained(t, "tenant", "model")

	env.DrainCheck(t, "model", 2, rig.Call{Path: "/plain" + rig.Path})
}

// With hedging, Envoy takes the refusal of the second try for the answer. So it ends the whole request, and the first
// try too, which still runs.
func TestRefusedHedgeEndsTheRequestAndLeavesZero(t *testing.T) {
	s := stagedSetup(tenantPool(1, 0), attemptPool(1, 0))
	s.Routes = func(up string) []rig.Object { return []rig.Object{hedged(up, "0.15s")} }
	env := rig.New(t, rig.Shared(t, 2), s)
	a := env.Hold(t, "a", rig.Call{Tenant: "a"})
	env.CheckRefused(t, a.Wait(), "model", rig.Rejected)
	if seen := env.AwaitEnd(t, "a"); seen.Ending != rig.EndingCancelled {
		t.Errorf("the first try ended as %s, want cancelled", seen.Ending)
	}
	env.AwaitDrained(t, "tenant", "model")
	env.CheckCounts(t, "model", rig.Counts{"evaluated": 2, "admitted": 1, "rejected_queue_full": 1})
}
