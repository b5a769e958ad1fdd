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
	env := governed(t, 4, modelPool(limit, clients, longWait))
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
	env.CheckCounts(t, "model", rig.Counts{"evaluated": sent.Load(), "admitted": sent.Load(), "store_error": 0,
		"reaped": 0})
	env.Up.Forget()
	env.DrainCheck(t, "model", limit)
}

// Each waiter comes on a fresh connection, so mostly on another worker than the one that releases.
func TestReleaseWakesAWaiterOfAnotherWorkerWithoutATick(t *testing.T) {
	const handOffs = 60
	env := governed(t, 4, modelPool(1, 5, longWait))
	lone := quarter(loneRequests(t, env, 40))
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
	// Every 50 ms a tick looks for grants whose message was lost. If only the tick woke the waiter, each hand-off would
	// take some 40 ms. A busy machine delays some of the hand-offs, but not all.
	wake, bound := quarter(wakes), 2*lone+10*time.Millisecond
	t.Logf("a quarter of %d hand-offs took at most %v; of the lone requests, at most %v", handOffs, wake, lone)
	if wake > bound {
		t.Errorf("a quarter of %d hand-offs took at most %v, want %v", handOffs, wake, bound)
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

// quarter is the duration that a quarter of them does not exceed.
func quarter(durations []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(durations))
	return sorted[len(sorted)/4]
}

func median(durations []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(durations))
	return sorted[len(sorted)/2]
}

func TestWaitersOfAllWorkersAreServedInOrderOfArrival(t *testing.T) {
	const waiters = 14
	env := governed(t, 4, modelPool(1, waiters, longWait))
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

// If the machine lets a worker stand still for most of a lease, the others take it for dead. Then the lease is too
// short for this machine.
func TestStreamsOutliveTheLease(t *testing.T) {
	withEnoughTime(t, time.Second, func(t *testing.T, lease time.Duration) bool {
		env := rig.New(t, rig.Shared(t, 2), rig.Setup{Config: &rig.Config{Pools: []rig.Pool{modelPool(1, 1, longWait)},
			More: rig.Object{"lease": lease.String()}}})
		held := env.Hold(t, "held")
		waiter := env.Queue(t, "model", rig.Call{}.With("waiter"))[0]
		since := time.Now()
		rig.Await(t, "three leases have passed", func() bool { return time.Since(since) > 3*lease })
		early := waiter.Done() || env.Up.Saw("waiter")
		refused := env.Do(t, rig.Call{Deadline: 50 * time.Millisecond})
		counts := env.Pool(t, "model")
		env.Up.Open("held")
		mustBeOK(t, "the held one", held.Wait())
		mustBeOK(t, "the waiter", waiter.Wait())
		if counts["reaped"] > 0 {
			env.CheckCapacity(t, "model", 1)
			return false
		}
		env.DrainCheck(t, "model", 1)
		if early {
			t.Error("the waiter did not wait for the stream")
		}
		env.CheckRefused(t, refused, "model", rig.Rejected)
		if counts["inflight"] != 1 || counts["queued"] != 1 {
			t.Errorf("after three leases the counts are %v, want one running and one waiting", counts)
		}
		return true
	})
}
