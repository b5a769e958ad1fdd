package filter_test

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// A traffic is requests that come to all workers at random, at a rate for each, and take a random time.
type traffic struct {
	rate    float64 // requests a second and worker
	service time.Duration
	rnd     *rand.Rand
	live    endings
	running int
	most    int // that ran at once
	sent    int
	refused int
	longest time.Duration // wait
}

// endings are requests in the order of their ends.
type endings []*visit

type visit struct {
	*wasmtest.Stream
	came, end time.Duration
}

func (e endings) Len() int           { return len(e) }
func (e endings) Less(i, j int) bool { return e[i].end < e[j].end }
func (e endings) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *endings) Push(x any)        { *e = append(*e, x.(*visit)) }
func (e *endings) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// pass lets the traffic go on for a while.
func (f *traffic) pass(g *gateway, d time.Duration) {
	for end := g.host.Elapsed() + d; g.host.Elapsed() < end; {
		for w := range g.host.Workers() {
			for range f.poisson(f.rate / 1000) {
				f.sent++
				r := &visit{Stream: g.sendModel(w, "m"), came: g.host.Elapsed()}
				r.end = r.came + time.Duration(f.rnd.ExpFloat64()*float64(f.service))
				heap.Push(&f.live, r)
			}
		}
		f.endDue(g)
		g.host.Run(ms)
	}
}

// endDue ends the requests that have run for their time; those that wait are asked again later.
func (f *traffic) endDue(g *gateway) {
	f.running = 0
	var later []*visit
	for len(f.live) > 0 && f.live[0].end <= g.host.Elapsed() {
		switch r := heap.Pop(&f.live).(*visit); {
		case runs(r.Stream):
			r.Respond(200, "ok")
		case waits(r.Stream):
			f.longest = max(f.longest, g.host.Elapsed()-r.came)
			r.end = g.host.Elapsed() + ms
			later = append(later, r)
		default:
			f.refused++
		}
	}
	for _, r := range later {
		heap.Push(&f.live, r)
	}
	for _, r := range f.live {
		if runs(r.Stream) {
			f.running++
		}
	}
	f.most = max(f.most, f.running)
}

func (f *traffic) poisson(mean float64) (n int) {
	for p := f.rnd.Float64(); p > math.Exp(-mean); n++ {
		p *= f.rnd.Float64()
	}
	return n
}

// A key that is hot and not full costs next to no swaps.
func TestAHotKeyCostsNoSwaps(t *testing.T) {
	for _, c := range []struct {
		name    string
		workers int
		limit   int
		rate    float64
		service time.Duration
		most    float64
	}{
		{"2 workers", 2, 100, 1000, 10 * ms, 0.1},
		{"64 workers at half their limit", 64, 2048, 1600, 10 * ms, 0.1},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := start(t, c.workers, config(all(c.limit, "queue", 100, "max_wait", "5s")))
			f := &traffic{rate: c.rate, service: c.service, rnd: newRand(1)}
			f.pass(g, 200*ms) // it warms up
			swaps, sent := g.host.HostCalls("proxy_set_shared_data"), f.sent
			f.pass(g, 500*ms)
			a := float64(g.host.HostCalls("proxy_set_shared_data")-swaps) / float64(f.sent-sent)
			t.Logf("%d requests, %.3f swaps each, %d of %d at once, %d waited", f.sent-sent, a, f.most, c.limit, g.counter("all.admitted_after_wait"))
			require.LessOrEqual(t, a, c.most)
			require.LessOrEqual(t, f.most, c.limit)
		})
	}
}

// isRecall reports whether a host call sends a message that calls spares back: it names a record.
func isRecall(c *wasmtest.HostCall) bool {
	return c.Name() == "proxy_enqueue_shared_queue" && c.Arg(2) > 12
}

// swaps counts what f stores.
func (g *gateway) swaps(f func()) int {
	before := g.host.HostCalls("proxy_set_shared_data")
	f()
	return g.host.HostCalls("proxy_set_shared_data") - before
}

// leaveSpares makes a worker keep the permits of so many requests, for which it asked in a row.
func (g *gateway) leaveSpares(worker, n int, headers ...string) {
	g.t.Helper()
	var all []*wasmtest.Stream
	for i := range n {
		s := g.send(worker, append([]string{"x-model", "m"}, headers...)...)
		g.requireRunning(s, "a request that leaves a spare")
		if all = append(all, s); i == 0 {
			g.send(worker, append([]string{"x-model", "m"}, headers...)...).Respond(200, "ok") // the key is warm now
		}
	}
	require.Zero(g.t, g.swaps(func() {
		for _, s := range all {
			s.Respond(200, "ok")
		}
	}), "the permits stay with the worker")
}

func TestASpareIsTakenWithoutTheStore(t *testing.T) {
	g := start(t, 2, config(all(20, "queue", 5, "max_wait", "1s")))
	g.leaveSpares(0, 3)
	var streams []*wasmtest.Stream
	require.Zero(t, g.swaps(func() {
		for range 3 {
			streams = append(streams, g.sendModel(0, "m"))
		}
	}))
	require.Equal(t, 3, countRunning(streams))
	require.NotZero(t, g.swaps(func() { streams = append(streams, g.sendModel(0, "m")) }), "there are only three")
	require.NotZero(t, g.swaps(func() { streams = append(streams, g.sendModel(1, "m")) }), "the other worker has none")
	for _, s := range streams {
		s.Respond(200, "ok")
	}
	g.host.Run(spareTime)
	g.requireDrained("all")
	g.requireQuiet()
}

func TestAnIdleWorkerKeepsNoSpares(t *testing.T) {
	g := start(t, 2, config(all(20)))
	g.leaveSpares(0, 6)
	require.GreaterOrEqual(t, g.gauge("all.inflight"), 6, "spares count as inflight")
	took := g.after("the spares are back", func() bool { return g.gauge("all.inflight") == 0 })
	require.LessOrEqual(t, took, 100*ms)
	g.requireQuiet()
}

// What a busy worker doesn't need goes back while it goes on.
func TestSparesThatAreNotNeededAge(t *testing.T) {
	g := start(t, 1, config(all(50)))
	g.leaveSpares(0, 10)
	for range 150 {
		s := g.sendModel(0, "m")
		g.requireRunning(s, "one of those that come all the time")
		s.Respond(200, "ok")
		g.host.Run(ms)
	}
	require.Equal(t, 1, g.gauge("all.inflight"), "the one that is needed")
}

// Only a key that is asked for all the time has spares: one that is not goes by the store as ever.
func TestAColdKeyHasNoSpares(t *testing.T) {
	g := start(t, 1, config(all(50)))
	for range 5 {
		s := g.sendModel(0, "m")
		require.Equal(t, 1, g.gauge("all.inflight"))
		s.Respond(200, "ok")
		require.Zero(t, g.gauge("all.inflight"))
		g.host.Run(110 * ms)
	}
}

// fill takes all permits that the other worker hasn't.
func (g *gateway) fill(worker, n int) (running []*wasmtest.Stream) {
	g.t.Helper()
	for range n {
		s := g.sendModel(worker, "m")
		g.requireRunning(s, "one of those that fit beside the spares")
		running = append(running, s)
	}
	return running
}

func TestAWaiterGetsTheSparesOfOthers(t *testing.T) {
	for _, c := range []struct {
		name  string
		queue int
		lost  bool
		most  time.Duration
	}{
		{"in a queue", 10, false, 3 * ms}, {"in a queue, the recall is lost", 10, true, 110 * ms},
		{"without a queue", 0, false, 10 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := start(t, 2, config(all(12, "queue", c.queue, "max_wait", "1s")))
			g.sendModel(1, "m").Respond(200, "ok") // a seat
			g.leaveSpares(0, 3)
			if c.lost {
				g.host.OnHostCall(func(call *wasmtest.HostCall) {
					if isRecall(call) {
						call.Drop()
					}
				})
			}
			g.fill(1, 9)
			s := g.sendModel(1, "m")
			g.requireWaiting(s, "one that finds no free permit")
			took := g.after("it runs", func() bool { return runs(s) })
			require.LessOrEqual(t, took, c.most)
			require.LessOrEqual(t, g.gauge("all.inflight"), 12)
		})
	}
}

// Who can't wait is refused as soon as no recall is under way, and not before.
func TestARefusalWaitsForARecall(t *testing.T) {
	g := start(t, 2, config(all(12)))
	g.sendModel(1, "m").Respond(200, "ok")
	g.leaveSpares(0, 3)
	g.host.OnHostCall(func(call *wasmtest.HostCall) {
		if isRecall(call) {
			call.Drop()
		}
	})
	g.fill(1, 9)
	s := g.sendModel(1, "m")
	took := g.after("it is refused", func() bool { return s.LocalReply() != nil })
	require.InDelta(t, 20*ms, took, float64(5*ms))
	g.requireRefused(s, noPermit, "all", "one that came while a recall was under way")
	g.host.OnHostCall(nil)
	g.host.Run(spareTime)
	g.requireRunning(g.sendModel(1, "m"), "one that comes when the spares have aged")
}

// A failure is for the record to know, and so is each success after it, until the row of failures is over.
func TestFailuresGoToTheStore(t *testing.T) {
	g := start(t, 2, config(pool("model", 20, "breaker", breaking(3, "penalty", "0s"))))
	g.leaveSpares(0, 3)
	var streams []*wasmtest.Stream
	for range 3 {
		streams = append(streams, g.sendModel(0, "m"))
	}
	require.NotZero(t, g.swaps(func() { streams[0].Respond(503, "") }))
	require.NotZero(t, g.swaps(func() { streams[1].Respond(200, "") }), "it ends the row")
	for range 3 {
		g.sendModel(0, "m").Respond(503, "")
	}
	require.Equal(t, 503, g.sendModel(1, "m").LocalReply().Code, "the breaker is open")
}

// Where a success has something to tell there are no spares.
func TestHoldsLeaveNoSpares(t *testing.T) {
	g := start(t, 1, config(pool("model", 20, "hold", object{"success": "50ms"})))
	for range 5 {
		s := g.sendModel(0, "m")
		require.NotZero(t, g.swaps(func() { s.Respond(200, "ok") }))
	}
	require.Equal(t, 5, g.gauge("model.on_hold"))
	g = start(t, 1, config(pool("model", 20, "hold", object{"cancel": "50ms"})))
	g.leaveSpares(0, 1)
	s := g.sendModel(0, "m")
	require.NotZero(t, g.swaps(func() { s.ClientGone(); g.afterReset() }), "a cancel has a hold of its own")
	require.Equal(t, 1, g.gauge("model.on_hold"))
}

// A spare is a tenant's: another one asks the record.
func TestASpareIsOneTenants(t *testing.T) {
	g := start(t, 1, config(pool("model", 20, "fair_by", "tenant")))
	g.leaveSpares(0, 2, "x-tenant", "a")
	var b *wasmtest.Stream
	require.NotZero(t, g.swaps(func() { b = g.send(0, "x-model", "m", "x-tenant", "b") }))
	g.requireRunning(b, "a request of another tenant")
	require.Zero(t, g.swaps(func() { g.send(0, "x-model", "m", "x-tenant", "a").Respond(200, "ok") }))
	b.Respond(200, "ok")
	g.host.Run(spareTime)
	g.requireDrained("model")
}

func TestSparesOfADeadWorkerComeBack(t *testing.T) {
	g := start(t, 2, with(config(all(12)), "lease", "1s"))
	g.leaveSpares(0, 3)
	g.host.Worker(0).Kill()
	g.fill(1, 9)
	g.host.Run(second + 250*ms)
	require.Equal(t, 9, g.gauge("all.inflight"))
	g.fill(1, 3)
}

// A worker that was declared dead finds it out before it uses a spare, and so no more run than the limit.
func TestAWorkerThatWasDeclaredDeadHasNoSpares(t *testing.T) {
	g := start(t, 2, with(config(all(12)), "lease", "1s"))
	g.leaveSpares(0, 3)
	for end := g.host.Elapsed() + 1500*ms; g.host.Elapsed() < end; { // worker 0 gets no events
		g.host.Advance(5 * ms)
		for _, e := range g.host.Pending() {
			if e.Worker.Index() == 1 {
				g.host.Deliver(e)
			}
		}
		if g.counter("all.evaluated") < 10 {
			g.sendModel(1, "m")
		}
	}
	g.fill(1, 12-g.gauge("all.inflight"))
	require.Equal(t, 12, g.gauge("all.inflight"))
	late := g.sendModel(0, "m")
	require.False(t, runs(late), "at a limit of 12")
	require.NotZero(t, g.counter("all.reaped"))
}

// The context of an earlier configuration gives its spares back at its end.
func TestSparesGoBackAtTheEndOfAContext(t *testing.T) {
	g := start(t, 1, config(all(12)))
	g.leaveSpares(0, 3)
	old := g.plugin
	g.load(config(all(12)))
	old.Retire()
	g.host.Drain()
	require.Zero(t, g.gauge("all.inflight"))
	g.host.Run(spareTime)
	g.requireQuiet()
}

// A lowered limit calls spares back at once.
func TestALoweredLimitCallsSparesBack(t *testing.T) {
	g := start(t, 2, config(all(12)))
	g.leaveSpares(0, 3)
	g.reload(config(all(1)))
	g.host.Run(5 * ms)
	require.Zero(t, g.gauge("all.inflight"))
	g.requireCapacity("m", 1)
}

// Any plugin can write into a worker's queue. What is no message of ours changes nothing but that spares go back.
func TestForgedRecallsAreHarmless(t *testing.T) {
	g := start(t, 2, config(all(12)))
	g.leaveSpares(0, 3)
	running := g.fill(0, 2)
	var name string
	for _, q := range g.host.QueueNames() {
		name = q
		for _, m := range []string{"", "headgate/3/default/all/only", "headgate/3/default/all/", "headgate/3/default/workers", "nothing of ours"} {
			g.host.Enqueue(q, []byte(m))
		}
	}
	require.NotEmpty(t, name)
	g.host.Drain()
	require.Equal(t, 2, g.gauge("all.inflight"), "those that run")
	require.Equal(t, 2, countRunning(running))
	require.Zero(t, g.counter("all.store_error"))
	for _, s := range running {
		s.Respond(200, "ok")
	}
	g.requireDrained("all")
}

// However many keys have spares, a turn looks at 64 of them at most.
func TestAgingIsBounded(t *testing.T) {
	g := start(t, 1, config(pool("model", 20)))
	const models = 200
	for i := range models {
		model := fmt.Sprint("m", i)
		a, b := g.sendModel(0, model), g.sendModel(0, model)
		a.Respond(200, "ok")
		b.Respond(200, "ok")
	}
	require.Equal(t, 2*models, g.gauge("model.inflight"))
	most := 0
	for since := g.host.Elapsed(); g.gauge("model.inflight") > 0; g.host.Advance(ms) {
		require.LessOrEqual(t, g.host.Elapsed()-since, 120*ms)
		for len(g.host.Pending()) > 0 {
			most = max(most, g.swaps(func() { g.host.Step() }))
		}
	}
	require.Equal(t, 64, most)
	g.requireQuiet()
}

// Permits come and go in such numbers that workers keep spares, and are called to give them back, all the time.
func TestAdversaryOnAHotKey(t *testing.T) {
	contests(t, func(t *testing.T, c contest) {
		limit := 5 + 3*c.workers
		a := startAdversary(t, c, 2*c.actions(), config(all(limit, "queue", 1000, "max_wait", "60s")))
		a.total, a.limit, a.most, a.tough, a.calmOf = limit, limit, 5, c.workers > 2, 20*c.workers
		for range 6 { // the tide goes in and out
			a.coming = 5 - a.coming
			a.work(c.actions() / 3)
			a.play(ms)
		}
		require.NotZero(t, a.recalls)
		a.finish()
	})
}
