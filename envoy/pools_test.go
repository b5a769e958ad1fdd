package envoy_test

import (
	"fmt"
	"net/http"
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

func TestKeysHaveTheirOwnLimits(t *testing.T) {
	pool := tenantPool(1, 0)
	pool.Keys = map[string]any{"acme": rig.Object{"limit": 3}}
	env := governed(t, 2, pool)
	env.Up.KeyHeader("x-tenant")
	for i := range 3 {
		env.Hold(t, fmt.Sprint("acme-", i), rig.Call{Tenant: "acme"})
	}
	env.CheckRefused(t, env.Do(t, rig.Call{Tenant: "acme"}), "tenant", rig.Rejected)
	env.Hold(t, "globex", rig.Call{Tenant: "globex"})
	env.CheckRefused(t, env.Do(t, rig.Call{Tenant: "globex"}), "tenant", rig.Rejected)
	env.CheckCounts(t, "tenant", rig.Counts{"inflight": 4, "keys": 2})
	if acme, globex := env.Up.PeakOf("acme"), env.Up.PeakOf("globex"); acme != 3 || globex != 1 {
		t.Errorf("%d of acme and %d of globex ran at once, want 3 and 1", acme, globex)
	}
	env.Up.Open("acme-0", "acme-1", "acme-2", "globex")
	env.Up.ResetPeak()
	env.AwaitDrained(t, "tenant")
	env.DrainCheck(t, "tenant", 3, rig.Call{Tenant: "acme"})
}

// Beyond max_keys all share the key `other`, so more tenants get no more permits.
func TestKeysBeyondMaxKeysShareOne(t *testing.T) {
	const maxKeys, tenants = 3, 10
	env := rig.New(t, rig.Shared(t, 2), rig.Setup{Config: &rig.Config{Pools: []rig.Pool{tenantPool(1, 0)}, More: rig.Object{"max_keys": maxKeys}}})
	for round := range 2 { // the second round needs the keys of the first, idle by then
		gate := fmt.Sprint("round-", round)
		var calls []*rig.Pending
		for i := range tenants {
			calls = append(calls, env.Send(t, rig.Call{Tenant: fmt.Sprintf("t%d-%d", round, i), Script: rig.Script{HeaderGate: gate}}))
		}
		rig.Await(t, "all but those of max_keys and of `other` are refused", func() bool {
			return rig.CountDone(calls) == tenants-maxKeys-1 && env.Up.Running() == maxKeys+1
		})
		if keys := env.Pool(t, "tenant")["keys"]; keys > maxKeys+1 {
			t.Errorf("keys is %d, max_keys is %d", keys, maxKeys)
		}
		env.Up.Open(gate)
		statuses := map[int]int{}
		for _, r := range rig.WaitAll(calls) {
			statuses[r.Status]++
		}
		if statuses[http.StatusOK] != maxKeys+1 || statuses[http.StatusTooManyRequests] != tenants-maxKeys-1 {
			t.Errorf("statuses %v", statuses)
		}
		env.AwaitDrained(t, "tenant")
	}
	env.Up.ResetPeak()
	env.DrainCheck(t, "tenant", 1, rig.Call{Tenant: "last"})
}

func TestInstancesOfOneDomainShareTheirPools(t *testing.T) {
	shared := rig.Shared(t, 2)
	config := &rig.Config{Pools: []rig.Pool{modelPool(1, 1, longWait)}}
	one := rig.New(t, shared, rig.Setup{Config: config})
	two := rig.New(t, shared, rig.Setup{Config: config, PoolsOf: one})
	apart := rig.New(t, shared, rig.Setup{PoolsOf: one, Config: &rig.Config{Domain: "apart-" + one.PoolName("model"), Pools: config.Pools}})
	held := one.Hold(t, "held")
	waiter := two.Queue(t, "model", rig.Call{}.With("waiter"))[0]
	two.CheckRefused(t, two.Do(t, rig.Call{}), "model", rig.Rejected)
	mustBeOK(t, "a request in another domain", apart.Do(t, rig.Call{}))
	one.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	mustBeOK(t, "the waiter of the other listener", waiter.Wait())
	two.DrainCheck(t, "model", 1)
}

// A request queues in one pool at a time, so one that waits for its model does not stand before its tenant's next one.
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
