package filter_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// patience is how many times longer a busy machine may take.
const patience = 8

const (
	// mostWaiting is up to how many waiters a step beside them stays cheap.
	mostWaiting = 10_000
	// aCrowd is as many waiters as make a crowd.
	aCrowd = 1100
	// longestQueue is the longest that a configuration can ask for.
	longestQueue = 100_000
)

// A crowd is requests that wait for one model on two workers, behind eight that run.
type crowd struct {
	*gateway
	running, waiting []*wasmtest.Stream
}

func startCrowd(t *testing.T, n int) *crowd {
	c := &crowd{gateway: start(t, 2, config(pool("model", 8, "queue", mostWaiting, "max_wait", "60s")))}
	for i := range 8 {
		c.running = append(c.running, c.sendModel(i%2, "m"))
	}
	for i := range n {
		c.waiting = append(c.waiting, c.sendModel(i%2, "m"))
	}
	c.host.Drain()
	require.Equal(t, n, c.gauge("model.queued"))
	return c
}

// turn ends one request, whose permit goes to a waiter, and brings a new one, which joins the queue.
func (c *crowd) turn() {
	c.running[0].Respond(200, "ok")
	c.host.Drain()
	c.running = c.running[1:]
	i := slices.IndexFunc(c.waiting, runs)
	require.GreaterOrEqual(c.t, i, 0, "a waiter has the permit")
	c.running = append(c.running, c.waiting[i])
	c.waiting = append(slices.Delete(c.waiting, i, i+1), c.sendModel(0, "m"))
	c.host.Drain()
}

// cost is what a request costs beside the crowd: the mean of a round.
func (c *crowd) cost() time.Duration {
	const turns = 20
	began := time.Now()
	for range turns {
		c.turn()
	}
	return time.Since(began) / turns
}

// The least of many rounds is compared: a busy machine makes a round longer, and never shorter.
func TestARequestBesideTenThousandWaitersCostsFiveTimesOneBesideTenAtMost(t *testing.T) {
	few, many := startCrowd(t, 10), startCrowd(t, mostWaiting)
	leastFew, leastMany := time.Hour, time.Hour
	for round := 0; round < 30 || leastMany > 5*leastFew && round < 1000; round++ {
		leastFew, leastMany = min(leastFew, few.cost()), min(leastMany, many.cost())
	}
	t.Logf("a request beside 10 waiters %v, beside %d %v: %.1f times", leastFew, mostWaiting, leastMany,
		float64(leastMany)/float64(leastFew))
	require.LessOrEqual(t, leastMany, 5*leastFew)
}

// The clients of a crowd leave in one turn of the event loop: a connection with thousands of streams is closed.
func TestACrowdMayLeaveAtOnce(t *testing.T) {
	for name, leave := range map[string]func(c *crowd) []*wasmtest.Stream{
		"all": func(c *crowd) []*wasmtest.Stream { return c.waiting },
		"every other": func(c *crowd) (half []*wasmtest.Stream) {
			for i := 0; i < len(c.waiting); i += 4 { // of both workers
				half = append(half, c.waiting[i], c.waiting[i+1])
			}
			return half
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := startCrowd(t, mostWaiting)
			gone := leave(c)
			began, swaps := time.Now(), c.host.HostCalls("proxy_set_shared_data")
			for _, s := range gone {
				s.ClientGone()
			}
			c.host.Drain()
			took := time.Since(began)
			swaps = c.host.HostCalls("proxy_set_shared_data") - swaps
			t.Logf("%d left in %v and %d swaps", len(gone), took, swaps)
			require.LessOrEqual(t, took, 250*ms*patience, "a worker is away")
			require.LessOrEqual(t, swaps, 10, "what one turn brings goes together")
			require.Equal(t, mostWaiting-len(gone), c.gauge("model.queued"))
			require.Equal(t, len(gone), c.counter("model.cancelled_waiting"))
			for i := range 8 {
				c.running[i].Respond(200, "ok")
			}
			c.host.Run(spareTime)
			require.Equal(t, min(8, mostWaiting-len(gone)), c.gauge("model.inflight"), "the rest is served")
			c.host.Run(10 * second)
			require.Zero(t, c.counter("model.reaped"))
			require.Zero(t, c.counter("model.store_error"))
		})
	}
}

// A crowd that comes in one turn of the event loop is decided in few swaps, in the order in which it came to its worker.
func TestACrowdComesInFewSwaps(t *testing.T) {
	g := start(t, 2, config(pool("model", 1, "queue", mostWaiting, "max_wait", "60s")))
	holder := g.sendModel(0, "m")
	before := g.host.HostCalls("proxy_set_shared_data")
	var crowd []*wasmtest.Stream
	for range mostWaiting {
		crowd = append(crowd, g.sendModel(0, "m"))
	}
	extra := g.sendModel(0, "m")
	g.host.Drain()
	require.LessOrEqual(t, g.host.HostCalls("proxy_set_shared_data")-before, mostWaiting/8)
	require.Equal(t, mostWaiting, g.gauge("model.queued"))
	g.requireRefused(extra, noPermit, "model", "one more than the queue has room for")
	for i := range 300 {
		holder.Respond(200, "ok")
		g.host.Drain()
		g.requireRunning(crowd[i], "the oldest waiter")
		holder = crowd[i]
	}
}

// The memory of a VM is bounded by what waits, and used again by the next crowd.
func TestACrowdsMemoryIsUsedAgain(t *testing.T) {
	g := start(t, 1, config(pool("model", 1, "queue", mostWaiting, "max_wait", "60s")))
	g.sendModel(0, "m")
	empty := g.host.Worker(0).VMs()[0].MemorySize()
	var sizes []int
	for range 4 {
		var crowd []*wasmtest.Stream
		for range mostWaiting {
			crowd = append(crowd, g.sendModel(0, "m"))
		}
		g.host.Drain()
		for _, s := range crowd {
			s.ClientGone()
		}
		g.host.Drain()
		require.Zero(t, g.gauge("model.queued"))
		sizes = append(sizes, (g.host.Worker(0).VMs()[0].MemorySize()-empty)>>20)
	}
	t.Logf("grown by %v MiB after each crowd", sizes)
	require.LessOrEqual(t, slices.Max(sizes), 60)
	require.Equal(t, sizes[1], sizes[3], "it does not grow further")
}

// The longest queue that a configuration can ask for fills and empties at once: no worker is declared dead for being busy with
// it, and the VM stays far below its bound of 1 GB.
func TestTheLongestQueue(t *testing.T) {
	g := start(t, 2, config(pool("model", 1, "queue", longestQueue, "max_wait", "60s")))
	g.sendModel(0, "m")
	empty := g.host.Worker(1).VMs()[0].MemorySize()
	var crowd []*wasmtest.Stream
	for range longestQueue {
		crowd = append(crowd, g.sendModel(1, "m"))
	}
	g.host.Drain()
	g.host.Run(2 * second)
	require.Equal(t, longestQueue, g.gauge("model.queued"))
	for _, s := range crowd {
		s.ClientGone()
	}
	g.host.Drain()
	require.Zero(t, g.gauge("model.queued"))
	g.host.Run(10 * second)
	require.Zero(t, g.counter("model.reaped"))
	require.Zero(t, g.counter("model.store_error"))
	grown := (g.host.Worker(1).VMs()[0].MemorySize() - empty) >> 20
	t.Logf("grown by %d MiB", grown)
	require.LessOrEqual(t, grown, 160)
}

// The tickets of clients that have left are taken out of the record sooner or later, also if the store fails meanwhile.
func TestACrowdsTicketsAreWithdrawnThoughTheStoreFailed(t *testing.T) {
	g := start(t, 2, config(pool("model", 1, "queue", aCrowd, "max_wait", "10m")))
	holder := g.sendModel(1, "m")
	var waiting []*wasmtest.Stream
	for range aCrowd {
		waiting = append(waiting, g.sendModel(0, "m"))
	}
	g.host.Drain()
	failed := 0
	g.failing(0, "/model/", wasmtest.StatusInternalFailure, func() bool { failed++; return failed <= 3 })
	for _, s := range waiting {
		s.ClientGone()
	}
	g.host.Run(100 * ms)
	require.Greater(t, failed, 3)
	require.Zero(t, g.gauge("model.queued"))
	holder.Respond(200, "ok")
	g.host.Drain()
	require.Zero(t, g.gauge("model.inflight"))
	g.requireCapacity("m", 1)
}
