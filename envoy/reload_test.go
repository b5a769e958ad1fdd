package envoy_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

// A load is clients that send one request after another, each on a connection of its own: an updated listener closes
// those of the one before.
type load struct {
	env     *rig.Env
	done    []atomic.Int64 // requests by client
	stopped atomic.Bool
	all     sync.WaitGroup
}

func startLoad(t *testing.T, env *rig.Env, clients int, call rig.Call) *load {
	t.Helper()
	l := &load{env: env, done: make([]atomic.Int64, clients)}
	for i := range clients {
		l.all.Go(func() {
			for !l.stopped.Load() {
				r := env.Do(t, call)
				l.done[i].Add(1)
				if r.Status != http.StatusOK || r.Err != nil {
					t.Errorf("under load: got %s, want 200", r)
					return
				}
			}
		})
	}
	return l
}

// await waits until every client has had that many more replies.
func (l *load) await(t *testing.T, more int64) {
	t.Helper()
	want := make([]int64, len(l.done))
	for i := range want {
		want[i] = l.done[i].Load() + more
	}
	for i := range want {
		rig.Await(t, fmt.Sprintf("client %d has had %d more replies", i, more),
			func() bool { return l.done[i].Load() >= want[i] })
	}
}

func (l *load) stop() {
	l.stopped.Store(true)
	l.all.Wait()
}

func TestCase_O11_RaisedLimitWakesTheOldestAndNobodyJumpsTheQueue(t *testing.T) {
	pool := modelPool(1, 20, longWait)
	env := governed(t, 2, pool)
	running := []*rig.Pending{env.Hold(t, "0")}
	gated := func(i int) rig.Call {
		return rig.Call{Script: rig.Script{ID: fmt.Sprint(i), HeaderGate: fmt.Sprint(i)}}
	}
	waiters := env.Queue(t, "model", gated(1), gated(2), gated(3), gated(4), gated(5))
	pool.Limit = 4
	mustUpdate(t, env, pool)
	for i := 1; i <= 3; i++ {
		env.AwaitRunning(t, fmt.Sprint(i), waiters[i-1])
	}
	newcomer := env.Queue(t, "model", gated(6))
	env.CheckCounts(t, "model", rig.Counts{"inflight": 4, "queued": 3})
	all := slices.Concat(running, waiters, newcomer)
	for i := range 3 { // each end lets the oldest waiter in: 4, 5, and the newcomer last
		env.Up.Open(fmt.Sprint(i))
		env.AwaitRunning(t, fmt.Sprint(i+4), all[i+4])
		env.CheckCounts(t, "model", rig.Counts{"queued": int64(2 - i)})
	}
	env.Up.Open("3", "4", "5", "6")
	for _, r := range rig.WaitAll(all) {
		mustBeOK(t, "an admitted one", r)
	}
	env.DrainCheck(t, "model", 4)
}

// Whatever configuration comes, the streams that run count in it: a new limit, another pool's, an earlier one again.
func TestCase_O12_ConfigurationChangesKeepTheCounts(t *testing.T) {
	const limit = 3
	env := governed(t, 2, modelPool(limit, 0, ""))
	var held []*rig.Pending
	for i := range limit {
		held = append(held, env.Hold(t, fmt.Sprint(i)))
	}
	mustRefuse := func(what string) {
		t.Helper()
		for range limit {
			env.CheckRefused(t, env.Do(t, rig.Call{}), "model", rig.Rejected)
		}
		if n := env.Gauge(t, "model", "inflight"); n != limit {
			t.Errorf("%s: inflight is %d while %d streams run", what, n, limit)
		}
	}
	for i := range 10 {
		mustUpdate(t, env, modelPool(limit, 0, ""), tenantPool(int64(10+i), 0))
		mustRefuse("another pool changes")
	}
	mustUpdate(t, env, modelPool(limit-1, 0, ""))
	mustRefuse("a lower limit")
	mustUpdate(t, env, modelPool(limit, 0, ""))
	mustRefuse("the first configuration again")
	for i, p := range held {
		env.Up.Open(fmt.Sprint(i))
		mustBeOK(t, "a stream of the first configuration", p.Wait())
	}
	env.DrainCheck(t, "model", limit)
}

// However the limit changes, nobody is refused and no waiter is lost. Once the requests of the last configuration are
// gone, exactly as many run as the new limit says.
func TestCase_O12_LimitFollowsUpdatesUnderLoad(t *testing.T) {
	pool := modelPool(3, 60, longWait)
	env := governed(t, 2, pool)
	l := startLoad(t, env, 16, rig.Call{Script: rig.Script{Delay: 8 * time.Millisecond}})
	for _, limit := range []int64{2, 3, 2, 5, 3} {
		pool.Limit = limit
		mustUpdate(t, env, pool)
		l.await(t, 2) // each client's next but one was sent to the new listener
		env.Up.ResetPeak()
		l.await(t, 4)
		if peak := env.Up.Peak(); int64(peak) != limit {
			t.Errorf("%d ran at once at most under limit %d", peak, limit)
		}
	}
	l.stop()
	env.CheckCounts(t, "model", rig.Counts{"rejected_queue_full": 0, "cancelled_waiting": 0, "expired_max_wait": 0,
		"store_error": 0, "reaped": 0})
	env.Up.ResetPeak()
	env.DrainCheck(t, "model", 3)
}

// Fifty updates: identical, other pools, other limits, refused ones. Three streams and two waiters outlive them all.
func TestCase_O12_FiftyUpdatesInARow(t *testing.T) {
	const limit = 3
	pool := modelPool(limit, 10, longWait)
	env := governed(t, 2, pool)
	var held []*rig.Pending
	for i := range limit {
		held = append(held, env.Hold(t, fmt.Sprint("held-", i)))
	}
	waiters := env.Queue(t, "model", rig.Call{}.With("waiter-0"), rig.Call{}.With("waiter-1"))
	since := time.Now()
	for i := range 10 {
		lower, broken, last := pool, pool, pool
		lower.Limit, broken.MaxWait, last.Limit = limit-1, "soon", limit
		mustUpdate(t, env, pool)
		mustUpdate(t, env, pool, tenantPool(int64(50+i), 0))
		mustUpdate(t, env, lower)
		err := env.Update(t, rig.Config{Pools: []rig.Pool{tenantPool(9, 0), broken}})
		if !errors.Is(err, rig.ErrUpdateRejected) {
			t.Fatalf("max_wait \"soon\": %v, want %v", err, rig.ErrUpdateRejected)
		}
		mustUpdate(t, env, last, tenantPool(int64(90+i), 0))
		env.CheckRefused(t, env.Do(t, rig.Call{Deadline: 30 * time.Millisecond}), "model", rig.Expired)
		env.CheckCounts(t, "model", rig.Counts{"inflight": limit, "queued": 2})
	}
	t.Logf("50 updates in %v", time.Since(since).Round(time.Millisecond))
	if peak := env.Up.Peak(); peak != limit {
		t.Errorf("%d ran at once, the limit is %d", peak, limit)
	}
	for i, p := range held {
		env.Up.Open(fmt.Sprint("held-", i))
		mustBeOK(t, "a stream of the first configuration", p.Wait())
	}
	for _, r := range rig.WaitAll(waiters) {
		mustBeOK(t, "a waiter of the first configuration", r)
	}
	env.CheckCounts(t, "model", rig.Counts{"reaped": 0, "store_error": 0})
	env.DrainCheck(t, "model", limit)
}

// Envoy can go back to the root context of an earlier configuration without telling the module. The limit of that
// configuration comes back with the next request through it. The waiters keep their order through all changes.
func TestCase_O12_BackToTheFirstConfigurationByteForByte(t *testing.T) {
	pool := modelPool(3, 10, longWait)
	env := governed(t, 2, pool)
	var calls []*rig.Pending
	for i := range 3 {
		calls = append(calls, env.Hold(t, fmt.Sprint(i)))
	}
	gated := func(i int) rig.Call {
		return rig.Call{Script: rig.Script{ID: fmt.Sprint(i), HeaderGate: fmt.Sprint(i)}}
	}
	calls = append(calls, env.Queue(t, "model", gated(3), gated(4))...)

	mustBeFull := func() {
		t.Helper()
		env.CheckRefused(t, env.Do(t, rig.Call{Deadline: 50 * time.Millisecond}), "model", rig.Expired)
	}
	pool.Limit = 2
	mustUpdate(t, env, pool)
	mustBeFull()
	env.Up.Open("0")
	mustBeOK(t, "the first to end", calls[0].Wait())
	mustBeFull()
	env.CheckCounts(t, "model", rig.Counts{"inflight": 2, "queued": 2})

	pool.Limit = 3
	mustUpdate(t, env, pool)
	calls = append(calls, env.Send(t, gated(5)))
	env.AwaitRunning(t, "3", calls[3])
	env.AwaitGauge(t, "model", "queued", 2)
	if env.Up.Saw("4") || env.Up.Saw("5") {
		t.Error("more than the limit of the first configuration run")
	}
	env.Up.Open("1")
	env.AwaitRunning(t, "4", calls[4])
	env.Up.Open("2", "3", "4", "5")
	for _, r := range rig.WaitAll(calls) {
		mustBeOK(t, "a request", r)
	}
	env.DrainCheck(t, "model", 3)
}

func TestCase_O12_RemovedPoolComesBackWithItsCounts(t *testing.T) {
	pool := modelPool(2, 10, longWait)
	env := governed(t, 2, pool)
	first, second := env.Hold(t, "first"), env.Hold(t, "second")
	waiter := env.Queue(t, "model", rig.Call{Script: rig.Script{ID: "waiter", HeaderGate: "waiter"}})[0]

	mustUpdate(t, env, tenantPool(9, 0))
	mustBeOK(t, "a request that the pool would have made wait", env.Do(t, rig.Call{}))
	env.Up.Open("first")
	mustBeOK(t, "a stream of the pool that is gone", first.Wait())
	env.AwaitRunning(t, "waiter", waiter)

	pool.Queue = 11
	mustUpdate(t, env, pool)
	env.CheckRefused(t, env.Do(t, rig.Call{Deadline: 50 * time.Millisecond}), "model", rig.Expired)
	env.CheckCounts(t, "model", rig.Counts{"inflight": 2, "queued": 0})
	env.Up.Open("second", "waiter")
	mustBeOK(t, "a stream of the first configuration", second.Wait())
	mustBeOK(t, "a waiter of the first configuration", waiter.Wait())
	env.Up.ResetPeak()
	env.DrainCheck(t, "model", 2)
}

// A configuration that is replaced leaves nothing in Envoy's memory.
func TestCase_O12_MemoryStaysFlatOverUpdates(t *testing.T) {
	const updates = 40
	t.Parallel()
	env := rig.New(t, rig.Start(t, rig.Options{Workers: 2, Drain: time.Second}),
		rig.Setup{Config: &rig.Config{Pools: []rig.Pool{modelPool(2, 5, longWait)}}})
	next := int64(100)
	round := func() int64 {
		for range updates {
			next++
			mustUpdate(t, env, modelPool(2, 5, longWait), tenantPool(next, 0))
			mustBeOK(t, "a request between updates", env.Do(t, rig.Call{}))
		}
		rig.Await(t, "the old listeners have drained", func() bool {
			stats, err := env.AdminStats("^listener_manager")
			return err == nil && stats.Count("listener_manager.total_listeners_draining") == 0
		})
		return resident(t, env)
	}
	round()
	before := round()
	after := round()
	t.Logf("%d MiB resident, %+d KiB in the last %d updates", after>>20, (after-before)>>10, updates)
	if after-before > 8<<20 {
		t.Errorf("%d updates take %d MiB", updates, (after-before)>>20)
	}
	env.DrainCheck(t, "model", 2)
}

// New configurations of both stages, with streams running, in back-off and waiting: everything still counts.
func TestReloadKeepsWhatBothStagesHold(t *testing.T) {
	env := staged(t, tenantPool(2, 0), attemptPool(1, 5))
	backing := env.Send(t, tries("backing", failedThenWaits(time.Second), rig.Script{}))
	env.AwaitEnd(t, "backing")
	held := env.Hold(t, "held", rig.Call{Tenant: "a"})
	waiter := env.Send(t, rig.Call{Tenant: "b"}.With("waiter"))
	env.AwaitGauge(t, "tenant", "inflight", 3)
	for _, limit := range []int64{3, 2} {
		mustUpdate(t, env, tenantPool(limit, 0), attemptPool(1, 5+limit))
		env.CheckCounts(t, "tenant", rig.Counts{"inflight": 3})
		env.CheckCounts(t, "model", rig.Counts{"inflight": 1})
	}
	env.CheckRefused(t, env.Do(t, rig.Call{Tenant: "a"}), "tenant", rig.Rejected)
	// A raised limit of the attempt stage admits the waiting tries.
	mustUpdate(t, env, tenantPool(2, 0), attemptPool(3, 5))
	mustBeOK(t, "the waiter", waiter.Wait())
	mustBeOK(t, "the retried one", backing.Wait())
	env.CheckCounts(t, "model", rig.Counts{"inflight": 1})
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	env.AwaitDrained(t, "tenant", "model")
	env.CheckIdentity(t, "model")
	env.DrainCheck(t, "tenant", 2, rig.Call{Tenant: "a"})
}
