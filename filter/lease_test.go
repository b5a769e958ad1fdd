package filter_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

func TestPermitsOfADeadWorkerAreBackWithinTheLease(t *testing.T) {
	g := start(t, 3, with(config(pool("model", 2, "queue", 4, "max_wait", "60s")), "lease", "2s"))
	g.sendModel(0, "m")
	g.sendModel(0, "m")
	doomed := g.sendModel(0, "m")
	w := g.sendModel(1, "m")
	g.requireWaiting(doomed, "the dead worker's waiter")
	g.host.Run(5 * time.Second)
	g.requireWaiting(w, "a waiter while the permits' worker lives")
	g.host.Worker(0).Kill()
	died := g.host.Elapsed()
	require.True(t, g.host.RunUntil(10*time.Second, func() bool { return runs(w) }), "the waiter never ran")
	require.LessOrEqual(t, g.host.Elapsed()-died, 2*time.Second+tick)
	g.requireRunning(g.sendModel(2, "m"), "a request for the other permit of the dead worker")
	require.Equal(t, 3, g.counter("model.reaped"), "two permits and one ticket")
	require.Equal(t, 2, g.gauge("model.inflight"))
	require.Zero(t, g.gauge("model.queued"))
}

// With nobody waiting, the first request that comes finds the dead worker's permits free.
func TestPermitsOfADeadWorkerDoNotMeetTheNextRequest(t *testing.T) {
	g := start(t, 2, with(config(pool("model", 1)), "lease", "1s"))
	g.sendModel(0, "m")
	g.host.Worker(0).Kill()
	g.host.Run(time.Minute)
	g.requireRunning(g.sendModel(1, "m"), "a request long after the worker died")
}

// A worker whose requests were all refused has a seat and nothing else. Were it to keep the seat, each of its beats would
// be late, and it would never declare anybody dead.
func TestPermitsOfADeadWorkerDoNotMeetSeldomRequests(t *testing.T) {
	g := start(t, 2, with(config(pool("model", 1)), "lease", "1s"))
	g.sendModel(0, "m")
	g.host.Worker(0).Kill()
	g.requireRefused(g.sendModel(1, "m"), noPermit, "model", "a request before the lease is over")
	g.host.Run(1100 * ms)
	g.requireRunning(g.sendModel(1, "m"), "the next one after it")
}

func TestReloadedWorkerStartsAfresh(t *testing.T) {
	g := start(t, 2, with(config(pool("model", 2, "queue", 2, "max_wait", "30s")), "lease", "1s"))
	g.sendModel(0, "m")
	g.sendModel(0, "m")
	g.host.Worker(0).Kill()
	require.NoError(t, g.host.Worker(0).Reload())
	s := g.sendModel(0, "m")
	g.requireWaiting(s, "a request on the new VM, before the old one's lease is over")
	g.host.Run(time.Second + 2*tick)
	g.requireRunning(s, "the request on the new VM")
	s.Respond(200, "ok")
	g.requireDrained("model")
	g.requireCapacity("m", 2)
}

func TestStreamsOutliveEveryLease(t *testing.T) {
	g := start(t, 2, with(config(pool("model", 1, "queue", 1, "max_wait", "24h")), "lease", "1s"))
	a := g.sendModel(0, "m")
	b := g.sendModel(1, "m")
	g.host.Run(3 * time.Hour)
	g.requireWaiting(b, "a waiter behind a stream of three hours")
	require.Zero(t, g.counter("model.reaped"))
	a.Respond(200, "ok")
	g.host.Drain()
	g.requireRunning(b, "the waiter")
	b.Respond(200, "ok")
	g.requireDrained("model")
}

// A worker that stands still for longer than its lease is declared dead. It finds out, and counts anew what it has.
func TestWorkerReapedByMistakeReassertsWhatItHolds(t *testing.T) {
	g := start(t, 2, with(config(pool("model", 2, "queue", 4, "max_wait", "60s")), "lease", "1s"))
	a, b := g.sendModel(0, "m"), g.sendModel(0, "m")
	frozen := g.sendModel(0, "m")
	w := g.sendModel(1, "m")
	// worker 0 gets no events for two seconds
	end := g.host.Elapsed() + 2*time.Second
	for g.host.Elapsed() < end {
		g.host.Advance(10 * ms)
		for _, e := range g.host.Pending() {
			if e.Worker.Index() == 1 {
				g.host.Deliver(e)
			}
		}
	}
	g.requireRunning(w, "the other worker's waiter, after the frozen worker's lease")
	g.host.Run(100 * ms) // it wakes up
	require.Equal(t, 3, g.gauge("model.inflight"), "what runs is counted, above the limit")
	g.requireWaiting(frozen, "the frozen worker's waiter: the pool is over its limit")
	a.Respond(200, "ok")
	g.host.Drain()
	g.requireWaiting(frozen, "the waiter: two still run")
	b.Respond(200, "ok")
	g.host.Drain()
	g.requireRunning(frozen, "the waiter, once the pool is below its limit")
	frozen.Respond(200, "ok")
	w.Respond(200, "ok")
	g.requireDrained("model")
	g.requireCapacity("m", 2)
}

// A grant whose message is lost is found by the tick.
func TestLostMessageCostsTimeOnly(t *testing.T) {
	g := start(t, 2, config(pool("model", 1, "queue", 1, "max_wait", "60s")))
	a := g.sendModel(0, "m")
	w := g.sendModel(1, "m")
	g.host.OnHostCall(func(c *wasmtest.HostCall) {
		if c.Name() == "proxy_enqueue_shared_queue" {
			c.Drop()
		}
	})
	a.Respond(200, "ok")
	g.host.OnHostCall(nil)
	require.True(t, g.host.RunUntil(time.Second, func() bool { return runs(w) }))
	require.LessOrEqual(t, g.host.Elapsed(), 100*ms)
	w.Respond(200, "ok")
	g.requireDrained("model")
}

// A release that finds no free swap is not forgotten.
func TestReleaseThatFailsIsMadeUpFor(t *testing.T) {
	g := start(t, 2, config(pool("model", 1, "queue", 1, "max_wait", "60s")))
	a := g.sendModel(0, "m")
	w := g.sendModel(1, "m")
	g.host.OnHostCall(func(c *wasmtest.HostCall) {
		if c.Name() == "proxy_set_shared_data" && c.Worker().Index() == 0 {
			c.Fail(wasmtest.StatusCasMismatch)
		}
	})
	a.Respond(200, "ok")
	g.host.Drain()
	g.requireWaiting(w, "the waiter, while no swap succeeds")
	g.host.OnHostCall(nil)
	require.True(t, g.host.RunUntil(100*ms, func() bool { return runs(w) }))
	require.Zero(t, g.counter("model.store_error"))
	require.NotZero(t, g.counter("model.contended"))
	require.GreaterOrEqual(t, g.counter("model.cas_retry"), enough)
	w.Respond(200, "ok")
	g.requireDrained("model")
	g.requireCapacity("m", 1)
}

// A cancel that finds no free swap leaves no ticket behind.
func TestCancelThatFailsIsMadeUpFor(t *testing.T) {
	g := start(t, 2, config(pool("model", 1, "queue", 1, "max_wait", "60s")))
	g.sendModel(0, "m")
	w := g.sendModel(1, "m")
	g.host.OnHostCall(func(c *wasmtest.HostCall) {
		if c.Name() == "proxy_set_shared_data" {
			c.Fail(wasmtest.StatusCasMismatch)
		}
	})
	w.ClientGone()
	g.host.OnHostCall(nil)
	g.host.Run(100 * ms)
	require.Zero(t, g.gauge("model.queued"))
	g.requireWaiting(g.sendModel(1, "m"), "the next request: there is room in the queue")
}

func TestStoreThatFailsFollowsOnError(t *testing.T) {
	for _, c := range []struct {
		policy  string
		outcome string
	}{{"open", "admitted"}, {"closed", "rejected_closed"}} {
		g := start(t, 1, with(config(pool("model", 1)), "on_error", c.policy))
		g.host.OnHostCall(func(c *wasmtest.HostCall) {
			if c.Name() == "proxy_set_shared_data" {
				c.Fail(wasmtest.StatusInternalFailure)
			}
		})
		s := g.sendModel(0, "m")
		g.host.OnHostCall(nil)
		if c.policy == "open" {
			g.requireRunning(s, "a request that the store failed to decide")
			s.Respond(200, "ok")
		} else {
			g.requireRefused(s, noPermit, "model", "a request that the store failed to decide")
		}
		g.host.Drain()
		require.Equal(t, 1, g.counter("model."+c.outcome))
		require.NotZero(t, g.counter("model.store_error"))
		g.requireDrained("model")
		g.requireCapacity("m", 1)
	}
}

// A record that is damaged, of another version or gone is replaced. What runs is counted anew.
func TestDamagedRecordIsReplaced(t *testing.T) {
	for name, damage := range map[string]func(d *wasmtest.SharedData, key string){
		"noise":           func(d *wasmtest.SharedData, key string) { d.Set(key, []byte("\x01noise that is no record of ours")) },
		"another version": func(d *wasmtest.SharedData, key string) { v, _, _ := d.Get(key); v[0]++; d.Set(key, v) },
		"cut short":       func(d *wasmtest.SharedData, key string) { v, _, _ := d.Get(key); d.Set(key, v[:len(v)-3]) },
		"gone":            func(d *wasmtest.SharedData, key string) { d.Delete(key) },
		"all gone":        func(d *wasmtest.SharedData, _ string) { d.Clear() },
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, 2, config(pool("model", 2, "queue", 2, "max_wait", "60s")))
			a, b := g.sendModel(0, "m"), g.sendModel(1, "m")
			w := g.sendModel(0, "m")
			g.requireWaiting(w, "the third request")
			damage(g.host.SharedData(), "headgate/3/default/model/0")
			g.host.Run(2 * time.Second)
			g.requireWaiting(w, "the waiter, once both workers have said what they hold")
			a.Respond(200, "ok")
			g.host.Run(100 * ms)
			g.requireRunning(w, "the waiter, after a release")
			b.Respond(200, "ok")
			w.Respond(200, "ok")
			g.host.Run(2 * time.Second)
			g.requireCapacity("m", 2)
			g.host.Run(20 * time.Second)
			require.Zero(t, g.gauge("model.inflight"), "the gauges are right again once all is quiet")
			require.Zero(t, g.gauge("model.queued"))
		})
	}
}

// What a dead worker had admitted may still run upstream. With reap_hold its permits stay out of use for a while.
func TestReapHoldKeepsADeadWorkersPermitsOutOfUse(t *testing.T) {
	g := start(t, 2, with(with(config(pool("model", 1, "queue", 1, "max_wait", "60s")), "lease", "1s"), "reap_hold", "5s"))
	g.requireRunning(g.sendModel(0, "m"), "the request of the worker that dies")
	w := g.sendModel(1, "m")
	g.host.Worker(0).Kill()
	g.host.Run(1200 * ms)
	require.Equal(t, 1, g.counter("model.reaped"))
	require.Equal(t, 1, g.gauge("model.on_hold"))
	g.requireWaiting(w, "a request during the hold")
	require.InDelta(t, 5*second, g.after("the waiter runs", func() bool { return runs(w) }), float64(400*ms))
	w.Respond(200, "ok")
	g.requireDrained("model")
	g.host.ForgetFailures()
}

// A process that stood still for longer than the lease wakes up worker by worker. None of them takes the others for dead, so
// nothing runs beside what they run.
func TestAProcessThatStoodStillReapsNobody(t *testing.T) {
	g := start(t, 4, with(config(pool("model", 4, "queue", 8, "max_wait", "60s")), "lease", "1s"))
	var streams []*wasmtest.Stream
	for i := range 8 {
		streams = append(streams, g.sendModel(i%4, "m"))
	}
	g.host.Run(500 * ms)
	g.host.Advance(3 * second)
	for range 5 {
		streams = append(streams, g.sendModel(0, "m"))
		require.Equal(t, 4, countRunning(streams))
	}
	g.host.Run(3 * second)
	require.Equal(t, 4, countRunning(streams))
	require.Zero(t, g.counter("model.reaped"))
}
