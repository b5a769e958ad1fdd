package envoy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

// An Envoy that stands still for longer than a lease (its machine is paused, or its share of the CPU is used up) wakes
// up with workers that have not beaten for a lease. None of them takes the others for dead, so no more than the limit
// runs. Only a worker that goes on standing still is taken for dead, and then as many more can run as it held.
func TestStandstillOfTheProcessReapsNobody(t *testing.T) {
	t.Parallel()
	const limit, perWorker, waiting, lease = 4, 2, 3, time.Second
	config := &rig.Config{Pools: []rig.Pool{modelPool(limit, 10, longWait)}, More: rig.Object{"lease": lease.String()}}
	env := rig.New(t, rig.Start(t, rig.Options{Workers: 2}), rig.Setup{Config: config})
	conns := []*rig.H2{env.H2On(t, 0), env.H2On(t, 1)}
	var all []*rig.Pending
	var gates []string
	for i := range perWorker {
		for worker, conn := range conns {
			id := fmt.Sprintf("running-%d-%d", worker, i)
			all, gates = append(all, runOn(t, env, conn, id)), append(gates, id)
		}
	}
	for i := range waiting {
		for worker, conn := range conns {
			id := fmt.Sprintf("waiting-%d-%d", worker, i)
			all, gates = append(all, queueOn(t, env, conn, id)), append(gates, id)
		}
	}

	env.Pause()
	stopped := time.Now()
	rig.Await(t, "two leases have passed", func() bool { return time.Since(stopped) > 2*lease })
	env.Resume()
	resumed, most := time.Now(), 0
	rig.Await(t, "a lease has passed", func() bool {
		most = max(most, env.Up.Running())
		return time.Since(resumed) > lease
	})
	allowed, reaped := limit, env.Pool(t, "model")["reaped"]
	if reaped > 0 { // a busy machine kept one worker for another lease
		allowed += perWorker
	}
	t.Logf("%d ran at once, the limit is %d; reaped: %d", most, limit, reaped)
	if most > allowed {
		t.Errorf("%d ran at once, want at most %d", most, allowed)
	}
	env.CheckCounts(t, "model", rig.Counts{"inflight": int64(env.Up.Running()),
		"queued": int64(len(all) - env.Up.Running())})
	env.CheckRefused(t, env.Do(t, rig.Call{Deadline: 50 * time.Millisecond}), "model", rig.Expired)

	env.Up.Open(gates...)
	for _, r := range rig.WaitAll(all) {
		mustBeOK(t, "a request", r)
	}
	env.AwaitDrained(t, "model")
	env.CheckIdentity(t, "model")
	env.CheckCapacity(t, "model", limit)
}
