package envoy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

func TestCase_O18_WorkersShareOneLimitExactly(t *testing.T) {
	const clients, limit, duration = 100, 10, 5 * time.Second
	env := governed(t, 4, modelPool(limit, clients, "10s"))
	conns := make([]*rig.Conn, clients)
	for i := range conns {
		conns[i] = env.Dial(t)
	}
	var sent, failed atomic.Int64
	var all sync.WaitGroup
	end := time.Now().Add(duration)
	for _, conn := range conns {
		all.Go(func() {
			for time.Now().Before(end) {
				delay := time.Duration(5+rand.IntN(15)) * time.Millisecond
				sent.Add(1)
				if r := conn.Do(rig.Call{Script: rig.Script{Delay: delay}}); r.Status != 200 || r.Err != nil {
					failed.Add(1)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d requests", sent.Load())
	if failed.Load() > 0 {
		t.Errorf("%d of %d requests failed", failed.Load(), sent.Load())
	}
	if peak := env.Up.Peak(); peak != limit {
		t.Errorf("%d ran at once at most, want exactly %d", peak, limit)
	}
	env.AwaitDrained(t, "model")
	env.CheckCounts(t, "model", rig.Counts{"evaluated": sent.Load(), "admitted": sent.Load(), "store_error": 0, "reaped": 0})
	env.Up.Forget()
	env.DrainCheck(t, "model", limit)
}

// Each waiter comes on a fresh connection, so mostly on another worker than the one that releases.
func TestReleaseWakesAWaiterOfAnotherWorkerWithoutATick(t *testing.T) {
	const handOffs = 60
	env := governed(t, 4, modelPool(1, 5, "15s"))
	lone := median(loneRequests(t, env, 40))
	running := env.Hold(t, "0")
	var wakes []time.Duration
	for i := 1; i <= handOffs; i++ {
		id, before := fmt.Sprint(i), fmt.Sprint(i-1)
		next := rig.Call{Script: rig.Script{ID: id, HeaderGate: id}}
		waiter := env.Queue(t, "model", next)[0]
		env.Up.Open(before)
		env.AwaitRunning(t, id, waiter)
		mustBeOK(t, "the one before", running.Wait())
		ended, _ := env.Up.Request(before)
		started, _ := env.Up.Request(id)
		wakes = append(wakes, started.Start.Sub(ended.End))
		running = waiter
	}
	env.Up.Open(fmt.Sprint(handOffs))
	mustBeOK(t, "the last one", running.Wait())
	// Waking by a tick of 10 ms would take 5 ms on top of the way to the upstream, at the median.
	wake, bound := median(wakes), 2*lone+3*time.Millisecond
	t.Logf("median of %d hand-offs %v, a lone request takes %v", handOffs, wake, lone)
	if wake > bound {
		t.Errorf("median of %d hand-offs is %v, want at most %v (a lone request takes %v)", handOffs, wake, bound, lone)
	}
	if peak := env.Up.Peak(); peak != 1 {
		t.Errorf("%d ran at once", peak)
	}
	env.CheckCounts(t, "model", rig.Counts{"admitted_after_wait": handOffs})
	env.DrainCheck(t, "model", 1)
}

func loneRequests(t *testing.T, env *rig.Env, n int) []time.Duration {
	t.Helper()
	var took []time.Duration
	for range n {
		r := env.Do(t, rig.Call{})
		mustBeOK(t, "a lone request", r)
		took = append(took, r.Took())
	}
	return took
}

func median(durations []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(durations))
	return sorted[len(sorted)/2]
}

func TestWaitersOfAllWorkersAreServedInOrderOfArrival(t *testing.T) {
	const waiters = 14
	env := governed(t, 4, modelPool(1, waiters, "15s"))
	held := env.Hold(t, "0")
	var want []string
	var calls []rig.Call
	for i := range waiters {
		calls = append(calls, rig.Call{Script: rig.Script{ID: fmt.Sprint(i + 1), Delay: 5 * time.Millisecond}})
	}
	queued := env.Queue(t, "model", calls...)
	env.Up.Open("0")
	mustBeOK(t, "the held one", held.Wait())
	for _, r := range rig.WaitAll(queued) {
		mustBeOK(t, "a waiter", r)
	}
	for i := range waiters + 1 {
		want = append(want, fmt.Sprint(i))
	}
	if ids := env.Up.IDs(); !slices.Equal(ids, want) {
		t.Errorf("served in the order %v", ids)
	}
	env.DrainCheck(t, "model", 1)
}

func TestStreamsOutliveTheLease(t *testing.T) {
	const lease = time.Second
	env := rig.New(t, rig.Shared(t, 2), rig.Setup{Config: &rig.Config{Pools: []rig.Pool{modelPool(1, 1, "20s")}, More: rig.Object{"lease": "1s"}}})
	held := env.Hold(t, "held")
	waiter := env.Queue(t, "model", rig.Call{}.With("waiter"))[0]
	since := time.Now()
	rig.Eventually(t, 10*time.Second, "three leases have passed", func() bool { return time.Since(since) > 3*lease })
	if waiter.Done() || env.Up.Saw("waiter") {
		t.Errorf("the waiter did not wait for the stream: %s", waiter.Wait())
	}
	env.CheckRefused(t, env.Do(t, rig.Call{}), "model", rig.Rejected)
	env.CheckCounts(t, "model", rig.Counts{"inflight": 1, "queued": 1, "reaped": 0})
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	mustBeOK(t, "the waiter", waiter.Wait())
	env.DrainCheck(t, "model", 1)
}
