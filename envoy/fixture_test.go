package envoy_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

// longWait is a max_wait that no test sees the end of.
const longWait = "10m"

// modelPool is the pool of most tests.
func modelPool(limit, queue int64, wait string) rig.Pool {
	return rig.Pool{Name: "model", Key: []string{"model"}, Limit: limit, Queue: queue, MaxWait: wait}
}

func tenantPool(limit, queue int64) rig.Pool {
	return rig.Pool{Name: "tenant", Key: []string{"tenant"}, Limit: limit, Queue: queue, MaxWait: longWait}
}

// governed is a listener with these pools in the Envoy that tests share.
func governed(t *testing.T, workers int, pools ...rig.Pool) *rig.Env {
	t.Helper()
	return rig.New(t, rig.Shared(t, workers), rig.Setup{Config: &rig.Config{Pools: pools}})
}

func mustUpdate(t *testing.T, env *rig.Env, pools ...rig.Pool) {
	t.Helper()
	if err := env.Update(t, rig.Config{Pools: pools}); err != nil {
		t.Fatal(err)
	}
}

func mustBeOK(t *testing.T, what string, r *rig.Reply) {
	t.Helper()
	if r.Status != http.StatusOK || r.Err != nil {
		t.Fatalf("%s: got %s, want 200", what, r)
	}
}

// streaming is a call whose reply sends three events and then hangs.
func streaming(id string) rig.Call {
	return rig.Call{Script: rig.Script{ID: id, Chunks: 3, Hang: true}}
}

func leaveStream(t *testing.T, p *rig.Pending, how rig.Leave) {
	t.Helper()
	p.AwaitBody(t, "data: 1")
	p.Leave(how)
}

// grain is how much the clocks and timers of Envoy and of the test may disagree.
const grain = 5 * time.Millisecond

// lateness is what a busy machine may add to a wait. The filter itself adds one tick (10 ms): the tests of the filter,
// which have a virtual clock, hold it to that.
const lateness = 5 * time.Second

// checkTook checks that a reply came no sooner than it should, and not much later.
func checkTook(t *testing.T, r *rig.Reply, want time.Duration) {
	t.Helper()
	if took := r.Took(); took < want-20*time.Millisecond || took > want+lateness {
		t.Errorf("%s, want it after %v", r, want)
	}
}

// withEnoughTime runs a scenario whose steps have to be done within a given time. The scenario returns false if they
// were not; then it runs again with three times as long. So an idle machine loses no time, and a busy one gets enough.
func withEnoughTime(t *testing.T, within time.Duration,
	scenario func(t *testing.T, within time.Duration) (inTime bool)) {
	t.Helper()
	for range 4 {
		if scenario(t, within) {
			return
		}
		t.Logf("%v was not enough on this machine", within)
		within *= 3
	}
	t.Fatal("the steps took longer than any time they were given")
}
