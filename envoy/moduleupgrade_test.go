package envoy_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

// An upgradeTest has a pool whose permits are held by streams that outlive the module which admitted them.
type upgradeTest struct {
	*rig.Env
	limit int64
	lease time.Duration
}

// newUpgradeTest starts an Envoy of its own: other tests have no use for its new VMs.
func newUpgradeTest(t *testing.T, limit int64, lease, drain time.Duration) *upgradeTest {
	t.Helper()
	config := &rig.Config{Pools: []rig.Pool{modelPool(limit, 10, longWait)}, More: rig.Object{"lease": lease.String()}}
	env := rig.New(t, rig.Start(t, rig.Options{Workers: 2, Drain: drain}), rig.Setup{Config: config})
	return &upgradeTest{env, limit, lease}
}

// gated is a call whose reply ends when the gate named like its id opens.
func gated(id string) rig.Call { return rig.Call{Script: rig.Script{ID: id, Chunks: 1, Gate: id}} }

// upgrade replaces the module, and checks that there are new VMs.
func (u *upgradeTest) upgrade(t *testing.T) {
	t.Helper()
	vms := u.created(t)
	if err := u.Upgrade(t, rig.NextModule(t, "next")); err != nil {
		t.Fatal(err)
	}
	if u.created(t) <= vms {
		t.Fatal("Envoy made no new VM")
	}
}

// created is how many VMs Envoy has made.
func (u *upgradeTest) created(t *testing.T) int64 {
	t.Helper()
	stats, err := u.AdminStats(`^wasm\..*\.created$`)
	if err != nil {
		t.Fatal(err)
	}
	return stats.Count("wasm.envoy.wasm.runtime.v8.created")
}

func (u *upgradeTest) mustBeFull(t *testing.T, when string) {
	t.Helper()
	r := u.Do(t, rig.Call{Deadline: 50 * time.Millisecond})
	if reaped := u.Pool(t, "model")["reaped"]; reaped > 0 {
		t.Fatalf("%s: a worker stood still for most of its lease of %v, so others took back %d permits and tickets; "+
			"this machine needs a longer lease", when, u.lease, reaped)
	}
	if r.Status != 429 || r.Reason() != rig.Expired {
		t.Errorf("%s: one more than the limit got %s", when, r)
	}
	u.CheckCounts(t, "model", rig.Counts{"inflight": u.limit})
}

// handOver ends one stream, and checks that its permit goes to the one that waits longest.
func (u *upgradeTest) handOver(t *testing.T, ends string, end *rig.Pending, starts string, start *rig.Pending) {
	t.Helper()
	u.Up.Open(ends)
	u.AwaitRunning(t, starts, start)
	mustBeOK(t, ends, end.Wait())
	before, _ := u.Up.Request(ends)
	after, _ := u.Up.Request(starts)
	t.Logf("%s went on %v after %s", starts, after.Start.Sub(before.End).Round(time.Microsecond), ends)
}

// A new module on the same vm_id means new VMs beside the old ones, which live as long as their streams.
func TestModuleUpgradeHandsPermitsOverBetweenVMs(t *testing.T) {
	t.Parallel()
	const limit = 2
	u := newUpgradeTest(t, limit, 2*time.Second, 0)
	old := []*rig.Pending{u.Run(t, gated("old-0")), u.Run(t, gated("old-1"))}
	oldWaiter := u.Queue(t, "model", gated("old-waiter"))[0]
	u.upgrade(t)
	upgraded := time.Now()
	u.mustBeFull(t, "the new VMs, with all permits in the old ones")
	newWaiter := u.Queue(t, "model", gated("new-waiter"))[0]
	rig.Await(t, "two leases have passed", func() bool { return time.Since(upgraded) > 2*u.lease })
	u.mustBeFull(t, "two leases later")
	u.CheckCounts(t, "model", rig.Counts{"queued": 2})

	u.handOver(t, "old-0", old[0], "old-waiter", oldWaiter) // it came first, whichever VM it is in
	u.handOver(t, "old-waiter", oldWaiter, "new-waiter", newWaiter)
	u.mustBeFull(t, "a permit in each")
	last := u.Queue(t, "model", gated("last"))[0]
	u.handOver(t, "new-waiter", newWaiter, "last", last)
	u.Up.Open("old-1", "last")
	mustBeOK(t, "old-1", old[1].Wait())
	mustBeOK(t, "last", last.Wait())
	u.CheckCounts(t, "model", rig.Counts{"store_error": 0})
	u.DrainCheck(t, "model", limit)
}

// At the end of the drain Envoy ends what is left of the old listener, and the old VMs with it. Their permits come back
// at once, not at the end of a lease.
func TestModuleUpgradeFreesThePermitsOfVMsThatEnd(t *testing.T) {
	t.Parallel()
	const limit = 1
	u := newUpgradeTest(t, limit, time.Minute, 3*time.Second)
	old := u.Run(t, gated("old"))
	u.upgrade(t)
	successor := u.Send(t, gated("successor"))
	u.AwaitRunning(t, "successor", successor)
	rig.Await(t, "Envoy has ended the old stream", old.Done)
	if seen := u.AwaitEnd(t, "old"); seen.Ending != rig.EndingCancelled {
		t.Errorf("the old stream ended as %s, want cancelled", seen.Ending)
	}
	u.mustBeFull(t, "the permit in a new VM")
	u.Up.Open("successor")
	mustBeOK(t, "the successor", successor.Wait())
	u.CheckCounts(t, "model", rig.Counts{"reaped": 0, "store_error": 0})
	u.DrainCheck(t, "model", limit)
}
