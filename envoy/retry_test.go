package envoy_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

func TestCase_O24_BackOffFreesTheModelAndKeepsTheTenant(t *testing.T) {
	env := staged(t, tenantPool(1, 0), attemptPool(1, 0))
	a := env.Send(t, tries("a", failedThenWaits(time.Minute)))
	env.AwaitEnd(t, "a")
	env.AwaitGauge(t, "model", "inflight", 0)
	env.CheckCounts(t, "tenant", rig.Counts{"inflight": 1})
	env.CheckRefused(t, env.Do(t, rig.Call{Tenant: "a"}.With("b")), "tenant", rig.Rejected)
	mustBeOK(t, "another tenant on the free model", env.Do(t, rig.Call{Tenant: "c"}.With("c")))
	a.Leave(rig.LeaveRST)
	env.AwaitDrained(t, "tenant", "model")
	if n := len(env.Up.Tries("a")); n != 1 {
		t.Errorf("%d tries of a client that left in the back-off", n)
	}
	if env.Up.Saw("b") {
		t.Error("a refused request reached the upstream")
	}
	env.DrainCheck(t, "model", 1)
	env.DrainCheck(t, "tenant", 1, rig.Call{Tenant: "a"})
}

func TestRetryTakesTheModelAgainAndKeepsTheTenant(t *testing.T) {
	env := staged(t, tenantPool(1, 0), attemptPool(1, 0))
	a := env.Send(t, tries("a", failedThenWaits(time.Second), rig.Script{Chunks: 2, Gate: "a"}))
	a.AwaitBody(t, "data: 1")
	env.CheckCounts(t, "model", rig.Counts{"inflight": 1})
	env.CheckRefused(t, env.Do(t, rig.Call{Tenant: "a"}.With("b")), "tenant", rig.Rejected)
	env.CheckRefused(t, env.Do(t, rig.Call{Tenant: "c"}), "model", rig.Rejected)
	env.Up.Open("a")
	mustBeOK(t, "the retried stream", a.Wait())
	if n := len(env.Up.Tries("a")); n != 2 || env.Up.Saw("b") {
		t.Errorf("%d tries, want 2; a refused request reached the upstream: %t", n, env.Up.Saw("b"))
	}
	env.DrainCheck(t, "model", 1)
	env.DrainCheck(t, "tenant", 1, rig.Call{Tenant: "a"})
}

// failsBeside runs a call whose first try fails only once another call waits, so that the other one has the model then.
func failsBeside(t *testing.T, env *rig.Env, id string) (call, other *rig.Pending) {
	t.Helper()
	first, otherID := id+"-first", id+"-other"
	fails := failed
	fails.HeaderGate = first
	call = env.Run(t, tries(id, fails, rig.Script{}))
	other = env.Queue(t, "model", rig.Call{Tenant: "h", Script: rig.Script{ID: otherID, HeaderGate: otherID}})[0]
	env.Up.Open(first)
	env.AwaitRunning(t, otherID, other)
	env.AwaitGauge(t, "model", "queued", 1)
	return call, other
}

// The retry finds the model taken, and waits for it like anybody else.
func TestCase_O24_RetryQueuesAgain(t *testing.T) {
	env := staged(t, tenantPool(1, 0), attemptPool(1, 1))
	a, other := failsBeside(t, env, "a")
	refusedOnce(t, env, rig.Call{Tenant: "d"}.With("d"), "model")
	if n := len(env.Up.Tries("a")); n != 1 || a.Done() {
		t.Errorf("the retry ran or ended while another held the model: %d tries", n)
	}
	env.Up.Open("a-other")
	mustBeOK(t, "the other one", other.Wait())
	mustBeOK(t, "the retried one", a.Wait())
	env.CheckCounts(t, "model", rig.Counts{"evaluated": 4, "admitted": 3, "admitted_after_wait": 2,
		"rejected_queue_full": 1})
	env.DrainCheck(t, "model", 1)
	env.DrainCheck(t, "tenant", 1, rig.Call{Tenant: "a"})
}

// A timeout of Envoy's ends a try that waits for its permit, too.
func TestRouteTimeoutEndsAWaitingTry(t *testing.T) {
	s := stagedSetup(tenantPool(5, 0), attemptPool(1, 5))
	s.Routes = func(up string) []rig.Object {
		short := retrying("/short", up)
		short["route"].(rig.Object)["timeout"] = "0.3s"
		return []rig.Object{short, retrying("/", up)}
	}
	env := rig.New(t, rig.Shared(t, 2), s)
	held := env.Hold(t, "held", rig.Call{Tenant: "h"})
	r := env.Do(t, rig.Call{Tenant: "a", Path: "/short" + rig.Path}.With("waiter"))
	if r.Status != http.StatusGatewayTimeout {
		t.Errorf("got %s, want Envoy's 504", r)
	}
	env.AwaitGauge(t, "model", "queued", 0)
	env.CheckCounts(t, "model", rig.Counts{"inflight": 1, "cancelled_waiting": 1})
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	if env.Up.Saw("waiter") {
		t.Error("the waiter reached the upstream")
	}
	env.DrainCheck(t, "model", 1)
}
