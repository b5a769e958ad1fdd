package envoy_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

// upgradeDrain leaves the old module's streams time for the test after a slow compilation of the new module.
const upgradeDrain = 14 * time.Second

// A new module on the same vm_id means new VMs beside the old ones, which live as long as their streams.
func TestModuleUpgradeHandsPermitsOverBetweenVMs(t *testing.T) {
	t.Parallel()
	const limit, lease = 2, time.Second
	config := &rig.Config{Pools: []rig.Pool{modelPool(limit, 10, "25s")}, More: rig.Object{"lease": lease.String()}}
	env := rig.New(t, rig.Start(t, rig.Options{Workers: 2, Drain: upgradeDrain}), rig.Setup{Config: config})
	gated := func(id string) rig.Call { return rig.Call{Script: rig.Script{ID: id, Chunks: 1, Gate: id}} }
	mustBeFull := func(when string) {
		t.Helper()
		r := env.Do(t, rig.Call{Deadline: 50 * time.Millisecond})
		if r.Status != 429 || r.Reason() != rig.Expired {
			t.Errorf("%s: one more than the limit got %s", when, r)
		}
		env.CheckCounts(t, "model", rig.Counts{"inflight": limit, "reaped": 0})
	}
	old := []*rig.Pending{env.Run(t, gated("old-0")), env.Run(t, gated("old-1"))}
	oldWaiter := env.Queue(t, "model", gated("old-waiter"))[0]

	vms := created(t, env)
	if err := env.Upgrade(t, rig.NextModule(t, "next")); err != nil {
		t.Fatal(err)
	}
	if created(t, env) <= vms {
		t.Fatal("Envoy made no new VM")
	}
	upgraded := time.Now()
	mustBeFull("the new VMs, with all permits in the old ones")
	newWaiter := env.Queue(t, "model", gated("new-waiter"))[0]
	rig.Eventually(t, 10*time.Second, "two leases have passed", func() bool { return time.Since(upgraded) > 2*lease })
	mustBeFull("two leases later")
	env.CheckCounts(t, "model", rig.Counts{"queued": 2})

	handOver := func(ends string, end *rig.Pending, starts string, start *rig.Pending) {
		t.Helper()
		env.Up.Open(ends)
		env.AwaitRunning(t, starts, start)
		mustBeOK(t, ends, end.Wait())
		before, _ := env.Up.Request(ends)
		after, _ := env.Up.Request(starts)
		took := after.Start.Sub(before.End)
		t.Logf("%s went on %v after %s", starts, took.Round(time.Microsecond), ends)
		if took > lateness {
			t.Errorf("%s went on %v after %s", starts, took, ends)
		}
	}
	handOver("old-0", old[0], "old-waiter", oldWaiter) // it came first, whichever VM it is in
	handOver("old-waiter", oldWaiter, "new-waiter", newWaiter)
	mustBeFull("a permit in each")
	last := env.Queue(t, "model", gated("last"))[0]
	handOver("new-waiter", newWaiter, "last", last)

	// Envoy ends what is left of the old listener with its drain, and the old VMs with it.
	rig.Eventually(t, upgradeDrain+10*time.Second, "Envoy has ended the old listener's stream", old[1].Done)
	ended := time.Now()
	successor := env.Send(t, gated("successor"))
	env.AwaitRunning(t, "successor", successor)
	if took := time.Since(ended); took > lease+lateness {
		t.Errorf("the permit of a VM that is gone was back after %v", took)
	}
	mustBeFull("all permits in the new VMs")
	env.Up.Open("last", "successor")
	mustBeOK(t, "last", last.Wait())
	mustBeOK(t, "successor", successor.Wait())
	env.CheckCounts(t, "model", rig.Counts{"reaped": 0, "store_error": 0})
	env.DrainCheck(t, "model", limit)
}

// created is how many VMs Envoy has made.
func created(t *testing.T, env *rig.Env) int64 {
	t.Helper()
	stats, err := env.AdminStats(`^wasm\..*\.created$`)
	if err != nil {
		t.Fatal(err)
	}
	return stats.Count("wasm.envoy.wasm.runtime.v8.created")
}
