package envoy_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

// trapHeader ends the VM that gets to see it, in the module that is built with -tags trap.
const trapHeader = "x-headgate-test-trap"

// crashLease is the lease in the tests of crashes.
const crashLease = time.Second

// fragile is a listener in an Envoy of the test's own whose VMs end on demand.
func fragile(t *testing.T, workers int, pools ...rig.Pool) *rig.Env {
	t.Helper()
	module := rig.BuildModule(t, "trap")
	config := &rig.Config{Pools: pools, More: rig.Object{"lease": crashLease.String()}}
	return rig.NewWithModule(t, rig.Start(t, rig.Options{Workers: workers}), module, rig.Setup{Config: config})
}

func trapping() rig.Call {
	return rig.Call{Header: []rig.Field{{Name: trapHeader, Value: "1"}}}
}

func TestShippedModuleHasNoTrap(t *testing.T) {
	shipped, err := rig.WasmPath()
	if err != nil {
		t.Fatal(err)
	}
	for module, want := range map[string]bool{shipped: false, rig.BuildModule(t, "trap"): true} {
		text, err := os.ReadFile(module)
		if err != nil {
			t.Fatal(err)
		}
		if has := bytes.Contains(text, []byte(trapHeader)); has != want {
			t.Errorf("%s has the trap: %t, want %t", module, has, want)
		}
	}
}

// crash ends the VM of the worker that serves the connection.
func crash(t *testing.T, env *rig.Env, conn *rig.H2) {
	t.Helper()
	conn.Send(trapping())
	env.AwaitTrap(t)
}

// Worker 0 dies with two of three permits and a ticket; worker 1 has the third permit, and two waiters. The
// streams of a dead VM get no callback any more, so what it held comes back by the lease alone.
func TestCrashedWorkerGivesItsPermitsBackWithinTheLease(t *testing.T) {
	for _, workers := range []int{2, 4} {
		t.Run(fmt.Sprintf("%d workers", workers), func(t *testing.T) {
			t.Parallel()
			const limit = 3
			env := fragile(t, workers, modelPool(limit, 10, longWait))
			doomed, spared := env.H2On(t, 0), env.H2On(t, 1)
			lost := []*rig.Pending{runOn(t, env, doomed, "lost-0"), runOn(t, env, doomed, "lost-1")}
			kept := runOn(t, env, spared, "kept")
			lostWaiter := queueOn(t, env, doomed, "lost-waiter")
			waiters := []*rig.Pending{queueOn(t, env, spared, "waiter-0"), queueOn(t, env, spared, "waiter-1")}

			crash(t, env, doomed)
			died := time.Now()
			for i, w := range waiters {
				env.AwaitRunning(t, fmt.Sprint("waiter-", i), w)
			}
			back := time.Since(died)
			t.Logf("the permits were back %v after the crash", back.Round(time.Millisecond))
			if back > crashLease+lateness {
				t.Errorf("the permits were back %v after the crash, the lease is %v", back, crashLease)
			}
			env.CheckCounts(t, "model", rig.Counts{"inflight": limit, "queued": 0, "reaped": 3})
			env.CheckRefused(t, spared.Do(rig.Call{Deadline: 50 * time.Millisecond}), "model", rig.Expired)
			if env.Up.Saw("lost-waiter") {
				t.Error("the waiter of the dead VM reached the upstream")
			}
			doomed.Kill()
			rig.WaitAll(append(lost, lostWaiter))

			awaitReload(t, env, 0)
			env.CheckCounts(t, "model", rig.Counts{"inflight": limit, "queued": 0})
			env.Up.Open("kept", "waiter-0", "waiter-1")
			for _, r := range rig.WaitAll(append(waiters, kept)) {
				mustBeOK(t, "a stream of a VM that lives", r)
			}
			env.AwaitDrained(t, "model")
			env.CheckCapacity(t, "model", limit)
			env.CheckCounts(t, "model", rig.Counts{"reaped": 3, "store_error": 0})
		})
	}
}

func runOn(t *testing.T, env *rig.Env, conn *rig.H2, id string) *rig.Pending {
	t.Helper()
	p := conn.Send(rig.Call{Script: rig.Script{ID: id, Chunks: 1, Gate: id}})
	env.AwaitRunning(t, id, p)
	return p
}

func queueOn(t *testing.T, env *rig.Env, conn *rig.H2, id string) *rig.Pending {
	t.Helper()
	queued := env.Gauge(t, "model", "queued")
	p := conn.Send(rig.Call{Script: rig.Script{ID: id, Chunks: 1, Gate: id}})
	env.AwaitGauge(t, "model", "queued", queued+1)
	return p
}

// awaitReload waits until a worker has a new VM: until then it answers 503 to all.
func awaitReload(t *testing.T, env *rig.Env, worker int) {
	t.Helper()
	conn := env.H2On(t, worker)
	rig.Await(t, fmt.Sprintf("worker %d has a new VM", worker), func() bool {
		r := conn.Do(rig.Call{Deadline: 20 * time.Millisecond})
		return r.Status != http.StatusServiceUnavailable
	})
}

// Every worker dies once while many clients come and go. What the dead held is back within the lease, and no other
// count changes.
func TestCrashesUnderChurnLeaveTheCountsRight(t *testing.T) {
	t.Parallel()
	const workers, clients, limit, duration, enough = 4, 100, 6, 4 * time.Second, 100
	env := fragile(t, workers, modelPool(limit, 2*clients, longWait))
	var c churn
	var crashed atomic.Bool
	churned := make(chan struct{})
	var doomed []*rig.H2
	for worker := range workers {
		doomed = append(doomed, env.H2On(t, worker))
	}
	go func() {
		defer close(churned)
		c.run(t, env, clients, 3*time.Second, func() bool { return crashed.Load() && c.served.Load() >= enough })
	}()
	start := time.Now()
	for worker, conn := range append(doomed, nil) {
		at := start.Add(duration * time.Duration(worker+1) / (workers + 1))
		rig.Await(t, "it is time for the next crash, or for the end", func() bool { return time.Now().After(at) })
		if conn != nil {
			crash(t, env, conn)
			conn.Kill()
		}
	}
	crashed.Store(true)
	<-churned
	ended := time.Now()
	env.AwaitGaugeWithin(t, crashLease+lateness, "model", "inflight", 0)
	env.AwaitGaugeWithin(t, crashLease+lateness, "model", "queued", 0)
	counts := env.Pool(t, "model")
	t.Logf("%d requests, %d served, %d left, %d failed with their VM; drained %v after; %v", c.sent.Load(),
		c.served.Load(), len(c.left), c.odd.Load(),
		time.Since(ended).Round(time.Millisecond), counts)
	if counts["reaped"] == 0 {
		t.Error("no VM died with a permit or a ticket")
	}
	if peak := env.Up.PeakUntil(c.left); peak > limit {
		t.Errorf("%d ran at once, the limit is %d", peak, limit)
	}
	for worker := range workers {
		awaitReload(t, env, worker)
	}
	env.AwaitDrained(t, "model")
	env.CheckCapacity(t, "model", limit)
	env.CheckCounts(t, "model", rig.Counts{"store_error": 0})
}
