package envoy_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

func TestRefusalByALaterPoolFreesTheEarlierPermitAtOnce(t *testing.T) {
	env := governed(t, 2, tenantPool(1, 0), modelPool(1, 0, ""))
	held := env.Hold(t, "held", rig.Call{Tenant: "a", Model: "busy"})
	for range 50 {
		env.CheckRefused(t, env.Do(t, rig.Call{Tenant: "b", Model: "busy"}), "model", rig.Rejected)
		mustBeOK(t, "the same tenant for another model", env.Do(t, rig.Call{Tenant: "b", Model: "free"}))
	}
	env.CheckCounts(t, "tenant", rig.Counts{"inflight": 1})
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	env.AwaitDrained(t, "tenant", "model")
	env.CheckIdentity(t, "model")
	env.CheckCounts(t, "model", rig.Counts{"evaluated": 101, "admitted": 51, "rejected_queue_full": 50})
	env.CheckCounts(t, "tenant", rig.Counts{"evaluated": 101, "admitted": 101})
	env.Up.ResetPeak()
	env.DrainCheck(t, "tenant", 1, rig.Call{Tenant: "b"})
}

func TestWaiterInALaterPoolHoldsItsEarlierPermit(t *testing.T) {
	env := governed(t, 2, tenantPool(1, 0), modelPool(1, 1, longWait))
	held := env.Hold(t, "held", rig.Call{Tenant: "a", Model: "busy"})
	waiter := env.Queue(t, "model", rig.Call{Tenant: "b", Model: "busy"}.With("waiter"))[0]
	env.CheckCounts(t, "tenant", rig.Counts{"inflight": 2})
	env.CheckRefused(t, env.Do(t, rig.Call{Tenant: "b", Model: "free"}), "tenant", rig.Rejected)
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	mustBeOK(t, "the waiter", waiter.Wait())
	env.DrainCheck(t, "tenant", 1, rig.Call{Tenant: "b"})
}

func TestWaiterThatLeavesALaterPoolFreesTheEarlierPermit(t *testing.T) {
	env := governed(t, 2, tenantPool(1, 0), modelPool(1, 1, longWait))
	held := env.Hold(t, "held", rig.Call{Tenant: "a", Model: "busy"})
	expired := env.Do(t, rig.Call{Tenant: "b", Model: "busy", Deadline: 300 * time.Millisecond})
	env.CheckRefused(t, expired, "model", rig.Expired)
	mustBeOK(t, "the tenant of the expired waiter", env.Do(t, rig.Call{Tenant: "b", Model: "free"}))
	gone := env.Queue(t, "model", rig.Call{Tenant: "b", Model: "busy"})[0]
	gone.Leave(rig.LeaveRST)
	env.AwaitGauge(t, "tenant", "inflight", 1)
	mustBeOK(t, "the tenant of the waiter that left", env.Do(t, rig.Call{Tenant: "b", Model: "free"}))
	env.CheckCounts(t, "model", rig.Counts{"expired_deadline": 1, "cancelled_waiting": 1})
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	env.Up.ResetPeak()
	env.DrainCheck(t, "model", 1, rig.Call{Tenant: "b", Model: "busy"})
}

func TestQueueingInTwoPoolsInTurn(t *testing.T) {
	env := governed(t, 2, tenantPool(1, 1), modelPool(1, 1, longWait))
	first := env.Hold(t, "first", rig.Call{Tenant: "a", Model: "x"})
	other := env.Hold(t, "other", rig.Call{Tenant: "b", Model: "y"})
	waiter := env.Queue(t, "tenant", rig.Call{Tenant: "a", Model: "y"}.With("waiter"))[0]
	env.Up.Open("first")
	mustBeOK(t, "the first", first.Wait())
	env.AwaitGauge(t, "model", "queued", 1)
	env.AwaitGauge(t, "tenant", "queued", 0)
	if env.Up.Saw("waiter") {
		t.Error("the waiter reached the upstream with one of two permits")
	}
	env.Up.Open("other")
	mustBeOK(t, "the other", other.Wait())
	mustBeOK(t, "the waiter", waiter.Wait())
	env.Up.ResetPeak()
	env.DrainCheck(t, "model", 1)
}

// A request waits in one pool at a time. So one that waits for its model does not hold up the next one of its tenant.
func TestCase_O06_WaiterForAnotherPoolBlocksNobodyBehindIt(t *testing.T) {
	env := governed(t, 2, tenantPool(2, 5), modelPool(1, 5, longWait))
	held := env.Hold(t, "held", rig.Call{Tenant: "other-tenant", Model: "full"})
	waiter := env.Queue(t, "model", rig.Call{Tenant: "a", Model: "full"}.With("waiter"))[0]
	mustBeOK(t, "the tenant's next request, for a free model", env.Do(t, rig.Call{Tenant: "a", Model: "free"}))
	second := env.Hold(t, "second", rig.Call{Tenant: "a", Model: "free"})
	third := env.Queue(t, "tenant", rig.Call{Tenant: "a", Model: "third"}.With("third"))[0]
	waiter.Leave(rig.LeaveRST)
	mustBeOK(t, "the one behind the head that left", third.Wait())
	env.Up.Open("held", "second")
	mustBeOK(t, "the held one", held.Wait())
	mustBeOK(t, "the second", second.Wait())
	env.Up.ResetPeak()
	env.DrainCheck(t, "model", 1, rig.Call{Tenant: "a", Model: "full"})
}
