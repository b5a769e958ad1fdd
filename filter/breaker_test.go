package filter_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// breaking is a breaker without a penalty; more fields by name and value.
func breaking(failures int, more ...any) object {
	o := object{"failures": failures, "window": "10s", "open": "2s", "max_open": "8s", "penalty": "0s",
		"max_penalty": "0s"}
	for i := 0; i < len(more); i += 2 {
		o[more[i].(string)] = more[i+1]
	}
	return o
}

// guarded is a model pool of ten permits with a breaker.
func guarded(b object, more ...any) object { return config(guardedPool(b, more...)) }

func guardedPool(b object, more ...any) object {
	return pool("model", 10, append([]any{"breaker", b}, more...)...)
}

// fail lets n requests to model m through, one after the other. Each fails.
func (g *gateway) fail(n int) {
	g.t.Helper()
	for i := range n {
		s := g.sendModel(i%len(g.host.Workers()), "m")
		g.requireRunning(s, fmt.Sprintf("failure %d", i+1))
		answer(503)(s)
	}
}

// pass lets n requests to model m through at once. All succeed.
func (g *gateway) pass(n int, what string) {
	g.t.Helper()
	var all []*wasmtest.Stream
	for i := range n {
		all = append(all, g.sendModel(i%len(g.host.Workers()), "m"))
		g.requireRunning(all[i], what)
	}
	for _, s := range all {
		s.Respond(200, "ok")
	}
	g.host.Drain()
}

func TestBreakerTripsAtTheFailuresInItsWindow(t *testing.T) {
	for name, c := range map[string]struct {
		end   ending
		trips bool
	}{
		"500":                   {answer(500), true},
		"429":                   {answer(429), true},
		"403 of a rate limit":   {answer(403, "x-ratelimit-remaining", "0"), true},
		"a reset":               {upstreamReset, true},
		"a cut":                 {inMidStream(upstreamReset), true},
		"a timeout":             {hostReply(504, "upstream_response_timeout"), true},
		"200":                   {answer(200), false},
		"a bare 403":            {answer(403), false},
		"404":                   {answer(404), false},
		"a client that leaves":  {clientGone, false},
		"... in mid-stream":     {inMidStream(clientGone), false},
		"another filter's 503":  {hostReply(503, "fault_filter_abort"), false},
		"another filter's 200":  {hostReply(200, "health_check_ok"), false},
		"Envoy's own overflow":  {hostReply(503, "upstream_reset_before_response_started{overflow}"), false},
		"no healthy host":       {hostReply(503, "no_healthy_upstream"), false},
		"upgrade that is reset": {upgraded(upstreamReset), false},
		"upgrade that fails":    {hostReply(403, "upgrade_failed"), false},
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, 2, guarded(breaking(5)))
			for i := range 5 {
				s := g.sendModel(i%2, "m")
				g.requireRunning(s, "a request of the first five")
				c.end(s)
				g.afterReset()
			}
			s := g.sendModel(0, "m")
			if !c.trips {
				g.requireRunning(s, "the sixth")
				return
			}
			g.requireOpen(s, 2, "the sixth")
			require.Equal(t, 1, g.counter("model.rejected_breaker"))
			n := g.sendModel(1, "n")
			g.requireRunning(n, "another model")
			n.Respond(200, "ok")
			g.host.Drain()
			g.requireDrained("model")
		})
	}
}

// Successes in between don't undo failures: the failures in the window count.
func TestBreakerCountsFailuresNotStreaks(t *testing.T) {
	g := start(t, 2, guarded(breaking(5)))
	for range 4 {
		g.fail(1)
		g.pass(3, "a request between failures")
	}
	g.fail(1)
	g.requireOpen(g.sendModel(0, "m"), 2, "the request after the fifth")
}

// Failures without a success in between open the breaker however far apart they are: with a limit of one, the penalty
// of each keeps the next one away, longer and longer.
func TestFinding_B1_FailuresInARowOpenTheBreaker(t *testing.T) {
	b := breaking(5, "window", "30s", "penalty", "2s", "max_penalty", "1m")
	g := start(t, 2, config(pool("model", 1, "queue", 9, "max_wait", "1m", "breaker", b)))
	for i := range 5 {
		s := g.sendModel(i%2, "m")
		g.host.RunUntil(time.Minute, func() bool { return runs(s) })
		g.requireRunning(s, fmt.Sprintf("failure %d", i+1))
		answer(500)(s)
	}
	require.Equal(t, 30*second, g.host.Elapsed().Round(second), "2, 4, 8 and 16 s between them")
	g.requireOpen(g.sendModel(0, "m"), 32, "the request after the fifth: the probe will need the permit")
}

// A success ends a row, and begins a new one.
func TestFinding_B1_ASuccessEndsARow(t *testing.T) {
	g := start(t, 2, guarded(breaking(3, "window", "1s")))
	for range 5 {
		g.fail(2)
		g.host.Run(2 * second)
		g.pass(1, "a request after two failures")
	}
	g.fail(3)
	g.requireOpen(g.sendModel(0, "m"), 2, "the request after three in a row")
}

// The window slides in tenths: a failure counts for the window, less a tenth at most.
func TestBreakerWindowSlides(t *testing.T) {
	for _, c := range []struct {
		at    []time.Duration
		trips bool
	}{
		{[]time.Duration{0, 0, 10*second - ms}, true},
		{[]time.Duration{0, 0, 10 * second}, false},
		{[]time.Duration{0, 900 * ms, 9999 * ms}, true},
		{[]time.Duration{0, 900 * ms, 10 * second}, false}, // both in the tenth that has gone
		{[]time.Duration{0, second, 10*second - ms}, true},
		{[]time.Duration{0, second, 10 * second}, false},
		{[]time.Duration{0, 5 * second, 10 * second, 14999 * ms}, true},
		{[]time.Duration{0, 5 * second, 10 * second, 15 * second}, false},
		{[]time.Duration{0, 4 * second, 8 * second}, true},
		{[]time.Duration{0, 6 * second, 12 * second, 18 * second, 24 * second}, false},
		{[]time.Duration{0, minute, minute, minute}, true},
		{[]time.Duration{0, 0, time.Hour, 2 * time.Hour}, false},
	} {
		t.Run(fmt.Sprint(c.at), func(t *testing.T) {
			g := start(t, 2, guarded(breaking(3)))
			begun := g.host.Elapsed()
			for i, at := range c.at {
				g.host.Run(at - (g.host.Elapsed() - begun))
				if i > 0 { // so many in a row would open it, too
					g.pass(1, "a success in between")
				}
				g.fail(1)
			}
			require.Equal(t, c.trips, !runs(g.sendModel(0, "m")))
		})
	}
}

// Two counters say how a breaker turns. A failed probe is no turn.
func TestBreakerTurnsAreCounted(t *testing.T) {
	g := start(t, 2, guarded(breaking(2)))
	requireTurns := func(opened, closed int, when string) {
		require.Equal(t, []int{opened, closed}, []int{g.counter("model.breaker_opened"), g.counter("model.breaker_closed")}, when)
	}
	for round := range 2 {
		g.fail(1)
		requireTurns(round, round, "one failure")
		g.fail(1)
		requireTurns(round+1, round, "two failures")
		g.host.Advance(2 * second)
		g.fail(1)
		requireTurns(round+1, round, "a probe that failed")
		g.host.Advance(4 * second)
		g.pass(1, "the probe")
		requireTurns(round+1, round+1, "a probe that passed")
	}
}

// An open breaker is open to the nanosecond, and says for how long.
func TestBreakerOpenTimeIsExact(t *testing.T) {
	g := start(t, 2, guarded(breaking(1)))
	g.fail(1)
	for _, c := range []struct {
		pass       time.Duration
		retryAfter int
	}{{0, 2}, {time.Nanosecond, 2}, {999999999, 1}, {500 * ms, 1}, {500*ms - 1, 1}} {
		g.host.Advance(c.pass)
		g.requireOpen(g.sendModel(0, "m"), c.retryAfter, "a request while it is open")
	}
	g.host.Advance(1)
	g.requireRunning(g.sendModel(1, "m"), "the probe")
}

func TestBreakerRetryAfterIsCappedAtAMinute(t *testing.T) {
	g := start(t, 2, guarded(breaking(1, "open", "90s", "max_open", "90s")))
	g.fail(1)
	for _, c := range []struct {
		pass       time.Duration
		retryAfter int
	}{{0, 60}, {30*second - ms, 60}, {ms, 60}, {ms, 60}, {second, 59}} {
		g.host.Run(c.pass)
		g.requireOpen(g.sendModel(0, "m"), c.retryAfter, "a request while it is open")
	}
}

// Each failed probe doubles the open time, up to the maximum; a success begins anew.
func TestBreakerOpenTimeDoubles(t *testing.T) {
	g := start(t, 2, guarded(breaking(2, "max_open", "10s")))
	for range 2 {
		g.fail(2)
		for _, open := range []time.Duration{2 * second, 4 * second, 8 * second, 10 * second, 10 * second} {
			g.requireOpen(g.sendModel(0, "m"), int(open/second), "a request right after the failure")
			g.host.Run(open - ms)
			g.requireOpen(g.sendModel(1, "m"), 1, "a request at the end of the open time")
			g.host.Run(ms)
			g.fail(1)
		}
		g.host.Run(10 * second)
		g.pass(1, "the probe that succeeds")
		g.pass(10, "a request after the good probe")
		g.fail(1)
		g.pass(1, "a request after one failure of two: the window is empty")
		g.host.Run(11 * second)
	}
	g.host.Run(30 * second)
	g.requireDrained("model")
	g.requireCapacity("m", 10)
}

// An open breaker needs no time: no worker ticks for it once its time is over, and none for long before.
func TestOpenBreakerDoesNotTick(t *testing.T) {
	g := start(t, 3, guarded(breaking(1)))
	g.fail(1)
	require.Less(t, g.host.Run(minute), 20)
	g.requireQuiet()
	g.fail(1) // the probe
	g.requireOpen(g.sendModel(0, "m"), 4, "a request after the failed probe")
	g.requireQuiet()
	g.pass(1, "the next probe")
	g.pass(10, "a request after it")
	g.requireQuiet()
}

// How a request ends counts only in the state of the breaker in which it began.
func TestResultsOfAnEarlierStateAreIgnored(t *testing.T) {
	late := func(g *gateway, n int) (all []*wasmtest.Stream) {
		for i := range n {
			all = append(all, g.sendModel(i%2, "m"))
		}
		return all
	}
	t.Run("successes while open and half open", func(t *testing.T) {
		g := start(t, 2, guarded(breaking(1)))
		old := late(g, 4)
		g.fail(1)
		answer(200)(old[0])
		g.requireOpen(g.sendModel(0, "m"), 2, "a request after an old one's success")
		g.host.Run(2 * second)
		answer(200)(old[1])
		probe := g.sendModel(0, "m")
		g.requireRunning(probe, "the probe: the old success is none")
		answer(200)(old[2])
		g.requireOpen(g.sendModel(0, "m"), 1, "a request beside the probe, after another old success")
		answer(503)(probe)
		answer(200)(old[3])
		g.requireOpen(g.sendModel(0, "m"), 4, "a request after the failed probe and an old success")
	})
	t.Run("failures while open and half open", func(t *testing.T) {
		g := start(t, 2, guarded(breaking(1)))
		old := late(g, 4)
		g.fail(1)
		g.host.Run(second)
		answer(503)(old[0])
		g.requireOpen(g.sendModel(0, "m"), 1, "a request after an old failure: not a moment longer")
		g.host.Run(second)
		probe := g.sendModel(0, "m")
		answer(503)(old[1])
		answer(429)(old[2])
		begin(probe)
		g.pass(8, "a request after the good probe")
		answer(503)(old[3])
		g.pass(9, "a request after a failure that began before all this")
	})
	t.Run("failures of half-open probes that were given up", func(t *testing.T) {
		g := start(t, 2, guarded(breaking(2)))
		g.fail(2)
		g.host.Run(2 * second)
		begin2 := g.sendModel(0, "m")
		begin(begin2)
		g.fail(1)
		begin2.UpstreamReset()
		g.pass(9, "a request after one failure of two, the other being the former probe's cut")
	})
}

// Waiters stay in the queue while the breaker is open. Then the oldest becomes the probe without a new request.
func TestWaitersWhenTheBreakerOpens(t *testing.T) {
	setup := func(t *testing.T, wait string) (g *gateway, running, waiting []*wasmtest.Stream) {
		g = start(t, 2, config(pool("model", 2, "queue", 4, "max_wait", wait, "breaker", breaking(2))))
		for i := range 2 {
			running = append(running, g.sendModel(i%2, "m"))
		}
		for i := range 4 {
			waiting = append(waiting, g.sendModel(i%2, "m"))
		}
		answer(503)(running[0])
		g.host.Drain()
		g.requireRunning(waiting[0], "the oldest waiter, one failure of two")
		answer(503)(running[1])
		g.host.Drain()
		for _, w := range waiting[1:] {
			g.requireWaiting(w, "a waiter, the breaker open")
		}
		g.requireOpen(g.sendModel(0, "m"), 2, "a newcomer")
		return g, running, waiting[1:]
	}
	t.Run("a good probe wakes the others at once", func(t *testing.T) {
		g, _, w := setup(t, "60s")
		require.Equal(t, 2*second, g.after("the probe runs", func() bool { return runs(w[0]) }))
		g.host.Run(second)
		g.requireWaiting(w[1], "a waiter behind the probe")
		begin(w[0])
		g.host.Drain()
		g.requireWaiting(w[1], "two of two run: the former waiter and the probe")
		w[0].Complete()
		g.host.Drain()
		g.requireRunning(w[1], "the next waiter")
	})
	t.Run("a failed probe leaves them waiting for the next", func(t *testing.T) {
		g, _, w := setup(t, "60s")
		g.after("the probe runs", func() bool { return runs(w[0]) })
		answer(503)(w[0])
		require.Equal(t, 4*second, g.after("the next probe runs", func() bool { return runs(w[1]) }))
		w[1].ClientGone()
		g.afterReset()
		g.requireRunning(w[2], "the last waiter, once the probe's client has left")
		g.host.Drain()
		w[2].Respond(200, "ok")
		g.host.Drain()
		g.pass(1, "a newcomer after the good probe")
	})
	t.Run("their waits end as ever", func(t *testing.T) {
		g, _, w := setup(t, "1s")
		g.host.Run(second + tick)
		for _, s := range w {
			g.requireRefused(s, tooLate, "model", "a waiter whose budget ends while it is open")
			g.requireRetryAfter(1, s.LocalReply(), "a waiter")
		}
		require.Equal(t, 3, g.counter("model.expired_max_wait"))
	})
	t.Run("the probe's worker dies", func(t *testing.T) {
		g, _, w := setup(t, "60s")
		g.after("the probe runs", func() bool { return runs(w[0]) })
		g.host.Worker(1).Kill() // it runs w[0], and w[2] waits there
		require.LessOrEqual(t, g.after("the next probe runs", func() bool { return runs(w[1]) }), 5*second+tick)
	})
}

// A breaker that is taken out of the configuration stops no request, and one that comes back begins closed.
func TestBreakerAcrossReloads(t *testing.T) {
	g := start(t, 2, guarded(breaking(1, "open", "1h", "max_open", "1h")))
	g.fail(1)
	g.reload(guarded(breaking(1, "open", "30m", "max_open", "1h")))
	g.requireOpen(g.sendModel(0, "m"), 60, "a request under another configuration of the breaker")
	g.reload(config(pool("model", 1, "queue", 3, "max_wait", "60s")))
	a, b := g.sendModel(0, "m"), g.sendModel(1, "m")
	g.requireRunning(a, "a request without a breaker")
	g.requireWaiting(b, "the next: it waits as without a breaker")
	g.reload(guarded(breaking(1)))
	g.host.Drain()
	g.requireRunning(b, "the waiter, the limit being ten")
	g.pass(8, "a request under a new breaker")
	a.Respond(200, "ok")
	b.Respond(200, "ok")
	g.fail(1)
	g.requireOpen(g.sendModel(0, "m"), 2, "a request after a failure")
	g.reload(guarded(breaking(1, "window", "11s")))
	g.host.Run(2 * second)
	probe := g.sendModel(0, "m")
	g.requireRunning(probe, "the probe")
	g.reload(guarded(breaking(1, "window", "12s")))
	g.requireOpen(g.sendModel(1, "m"), 1, "a request beside a probe of the old configuration")
	answer(200)(probe)
	g.host.Drain()
	g.pass(10, "a request after the probe of the old configuration")
}

// A key whose breaker is open doesn't lose its place to other keys.
func TestOpenBreakerKeepsItsPlace(t *testing.T) {
	g := start(t, 2, with(guarded(breaking(1, "open", "1m", "max_open", "1m")), "max_keys", 2))
	g.fail(1)
	for i := range 20 {
		s := g.sendModel(i%2, fmt.Sprint("other", i))
		g.requireRunning(s, "another model")
		s.Respond(200, "ok")
	}
	g.requireOpen(g.sendModel(0, "m"), 60, "a request while it is open")
}

// If all permits are on hold for longer than the breaker is open, clients are told when the first comes free.
func TestBreakerRetryAfterKnowsOfThePenalty(t *testing.T) {
	g := start(t, 2, config(pool("model", 1, "breaker", breaking(1, "penalty", "10s", "max_penalty", "10s"))))
	g.fail(1)
	g.requireOpen(g.sendModel(0, "m"), 10, "a request while it is open and the permit on hold")
	g.host.Run(3 * second)
	g.requireOpen(g.sendModel(1, "m"), 7, "a request when it could be half open")
	g.host.Run(7 * second)
	g.pass(1, "the probe")
}

// A client that names other models doesn't make a key with an open breaker forgotten.
func TestEvictionKeepsATrippedBreaker(t *testing.T) {
	breaker := object{"failures": 1, "window": "30s", "open": "10s"}
	g := start(t, 1, with(config(pool("model", 4, "breaker", breaker)), "max_keys", 1))
	g.sendModel(0, "m").Respond(503, "x")
	g.host.Run(11 * time.Second)
	g.sendModel(0, "n").Respond(200, "x")
	a, b := g.sendModel(0, "m"), g.sendModel(0, "m")
	g.requireRunning(a, "the probe")
	require.False(t, runs(b), "a second request runs beside the probe")
}

// An ending that a client causes is no failure of the provider.
func TestClientsCannotTripTheBreaker(t *testing.T) {
	for name, end := range map[string]wasmtest.End{
		"a reset stream":                   {Cause: wasmtest.ClientGone, Code: 200, Details: "http2.remote_reset", Flags: wasmtest.FlagDownstreamRemoteReset},
		"a closed connection":              {Cause: wasmtest.ClientGone, Code: 200, Details: "downstream_remote_disconnect", Flags: wasmtest.FlagDownstreamTermination},
		"a client that no longer reads":    {Cause: "timeout", Code: 200, Details: "stream_idle_timeout", Flags: wasmtest.FlagStreamIdleTimeout},
		"a stream that lasts for too long": {Cause: "timeout", Code: 200, Details: "max_duration_timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, 1, config(pool("model", 4, "hold", object{"cancel": "1s"},
				"breaker", object{"failures": 1, "window": "30s", "open": "10s"})))
			s := g.sendModel(0, "m")
			begin(s)
			s.End(end)
			g.afterReset()
			require.Equal(t, 1, g.gauge("model.on_hold"), "it is a cancel, and its permit is on hold as after one")
			g.requireRunning(g.sendModel(0, "m"), "another client's request")
			require.Zero(t, g.counter("model.provider_failure"))
			require.Equal(t, 1, g.counter("model.aborted"))
		})
	}
}
