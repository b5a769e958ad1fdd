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
	o := object{"failures": failures, "window": "10s", "open": "2s", "max_open": "8s", "penalty": "0s", "max_penalty": "0s"}
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

// fail lets a request to model m through and fail.
func (g *gateway) fail(n int) {
	g.t.Helper()
	for i := range n {
		s := g.sendModel(i%len(g.host.Workers()), "m")
		g.requireRunning(s, fmt.Sprintf("failure %d", i+1))
		answer(503)(s)
	}
}

// pass lets n requests to model m through at once and succeed.
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

// Successes in between don't undo failures: it is so many failures in the window.
func TestBreakerCountsFailuresNotStreaks(t *testing.T) {
	g := start(t, 2, guarded(breaking(5)))
	for range 4 {
		g.fail(1)
		g.pass(3, "a request between failures")
	}
	g.fail(1)
	g.requireOpen(g.sendModel(0, "m"), 2, "the request after the fifth")
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
		{[]time.Duration{0, second, second, 10 * second}, true}, // the first has gone, the two count
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
			for _, at := range c.at {
				g.host.Run(at - (g.host.Elapsed() - begun))
				g.fail(1)
			}
			require.Equal(t, c.trips, !runs(g.sendModel(0, "m")))
		})
	}
}

// Open it is open to the nanosecond, and says for how long.
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

func TestHalfOpenLetsExactlyOneThrough(t *testing.T) {
	for workers := 1; workers <= 4; workers++ {
		for _, queue := range []int{0, 5} {
			t.Run(fmt.Sprintf("%d workers, queue %d", workers, queue), func(t *testing.T) {
				g := start(t, workers, guarded(breaking(1), "queue", queue, "max_wait", "60s"))
				g.fail(1)
				g.host.Run(2 * second)
				var all []*wasmtest.Stream
				for i := range 8 {
					all = append(all, g.sendModel(i%workers, "m"))
				}
				g.requireRunning(all[0], "the probe")
				for _, s := range all[1:] {
					g.requireOpen(s, 1, "a request beside the probe")
				}
				g.host.Run(minute)
				g.requireOpen(g.sendModel(0, "m"), 1, "a request beside a long probe")
				all[0].Respond(200, "ok")
				g.host.Drain()
				g.pass(10, "a request after the probe")
				g.requireDrained("model")
			})
		}
	}
}

// The open breaker needs no time of ours: nobody ticks for it once its time is over, or for long before.
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

// Every ending of a probe gives its place back: the next request is let through, and closes the breaker.
func TestCase_O23_EveryEndingOfTheProbe(t *testing.T) {
	type verdict int
	const (
		undecided verdict = iota
		closes
		reopens
	)
	later := object{"name": "later", "key": []string{"tenant"}, "limit": 1, "queue": 1, "max_wait": "500ms", "keys": object{"closed": object{"limit": 0}}}
	sent := func(end ending) func(*gateway) {
		return func(g *gateway) {
			s := g.send(1, "x-model", "m", "x-tenant", "t")
			g.requireRunning(s, "the probe")
			g.requireOpen(g.sendModel(0, "m"), 1, "a request beside the probe")
			end(s)
			g.host.Drain()
		}
	}
	for name, c := range map[string]struct {
		probe   func(g *gateway)
		verdict verdict
	}{
		"a: the client leaves":               {sent(clientGone), undecided},
		"a: the client leaves after a while": {sent(func(s *wasmtest.Stream) { s.ClientGone() }), undecided},
		"b: 400":                             {sent(answer(400)), closes},
		"b: 401":                             {sent(answer(401)), closes},
		"b: a bare 403":                      {sent(answer(403)), closes},
		"c: a later pool refuses it": {func(g *gateway) {
			g.requireRefused(g.send(1, "x-model", "m", "x-tenant", "closed"), noPermit, "later", "the probe")
		}, undecided},
		"d: another filter answers 403":       {sent(hostReply(403, "rbac")), undecided},
		"d: another filter answers 200":       {sent(hostReply(200, "health_check_ok")), undecided},
		"d: another filter answers 503":       {sent(hostReply(503, "fault_filter_abort")), undecided},
		"d: Envoy's own circuit breaker":      {sent(hostReply(503, "upstream_reset_before_response_started{overflow}")), undecided},
		"e: it is reset before headers":       {sent(upstreamReset), reopens},
		"e: it times out":                     {sent(hostReply(504, "upstream_response_timeout")), reopens},
		"503":                                 {sent(answer(503)), reopens},
		"429":                                 {sent(answer(429)), reopens},
		"the client leaves after the headers": {sent(inMidStream(clientGone)), closes},
		"it is cut after the headers":         {sent(inMidStream(upstreamReset)), closes},
		"101":                                 {sent(upgraded(clientGone)), closes},
		"f: its deadline passes in a later queue": {func(g *gateway) {
			s := g.send(1, "x-model", "m", "x-tenant", "busy", "x-request-timeout-ms", "300")
			g.requireWaiting(s, "the probe, in the later pool's queue")
			g.host.Run(300*ms + tick)
			g.requireRefused(s, tooLate, "later", "the probe")
		}, undecided},
		"f: its budget ends in a later queue": {func(g *gateway) {
			s := g.send(0, "x-model", "m", "x-tenant", "busy")
			g.host.Run(500*ms + tick)
			g.requireRefused(s, tooLate, "later", "the probe")
		}, undecided},
		"its client leaves a later queue": {func(g *gateway) {
			s := g.send(0, "x-model", "m", "x-tenant", "busy")
			g.requireWaiting(s, "the probe, in the later pool's queue")
			s.ClientGone()
		}, undecided},
		"its worker dies": {func(g *gateway) {
			g.requireRunning(g.send(1, "x-model", "m", "x-tenant", "t"), "the probe")
			g.host.Worker(1).Kill()
			require.NoError(g.t, g.host.Worker(1).Reload())
			g.host.Run(second + 2*tick) // the lease
			g.sendModel(1, "n").Respond(200, "ok")
		}, undecided},
		"no swap succeeds at its end": {func(g *gateway) {
			s := g.send(1, "x-model", "m", "x-tenant", "t")
			g.requireRunning(s, "the probe")
			g.host.OnHostCall(func(c *wasmtest.HostCall) {
				if c.Name() == "proxy_set_shared_data" {
					c.Fail(wasmtest.StatusCasMismatch)
				}
			})
			s.ClientGone()
			g.host.OnHostCall(nil)
			g.host.Run(100 * ms)
		}, undecided},
		"no swap succeeds at its headers": {func(g *gateway) {
			s := g.send(1, "x-model", "m", "x-tenant", "t")
			g.requireRunning(s, "the probe")
			g.host.OnHostCall(func(c *wasmtest.HostCall) {
				if c.Name() == "proxy_set_shared_data" {
					c.Fail(wasmtest.StatusCasMismatch)
				}
			})
			s.ResponseHeaders(wasmtest.ResponseHeaders(200), false)
			g.host.OnHostCall(nil)
			g.host.Run(100 * ms)
			s.ResponseBody([]byte("{}"), true)
		}, closes},
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, 2, with(config(guardedPool(breaking(5)), later), "lease", "1s"))
			for i := range 5 {
				answer(503)(g.send(i%2, "x-model", "m", "x-tenant", fmt.Sprint(i)))
			}
			g.requireRunning(g.send(0, "x-model", "other", "x-tenant", "busy"), "the one that fills the later pool for a tenant")
			g.host.Run(2 * second)
			c.probe(g)
			if c.verdict == reopens {
				g.requireOpen(g.sendModel(0, "m"), 4, "the request after the failed probe")
				g.host.Run(4 * second)
			}
			if c.verdict != closes {
				s := g.send(0, "x-model", "m", "x-tenant", "u")
				g.requireRunning(s, "the next probe")
				g.requireOpen(g.send(1, "x-model", "m", "x-tenant", "v"), 1, "a request beside it")
				s.Respond(200, "ok")
			}
			for i := range 10 {
				g.requireRunning(g.send(i%2, "x-model", "m", "x-tenant", fmt.Sprint("closed", i)), "a request after the good probe")
			}
		})
	}
}

// One request a second: whatever became of the probe, the breaker is closed after at most one more probe interval.
func TestCase_O23_OneRequestASecondClosesIt(t *testing.T) {
	for name, end := range map[string]ending{"cancelled": clientGone, "failed": upstreamReset, "answered elsewhere": hostReply(403, "rbac")} {
		t.Run(name, func(t *testing.T) {
			g := start(t, 2, guarded(breaking(5)))
			g.fail(5)
			g.host.Run(2 * second)
			end(g.sendModel(1, "m"))
			seconds := 0
			for ; seconds < 20; seconds++ {
				s := g.sendModel(seconds%2, "m")
				if runs(s) {
					s.Respond(200, "ok")
					break
				}
				g.host.Run(second)
			}
			require.LessOrEqual(t, seconds, 4)
			g.pass(10, "a request once it is closed")
		})
	}
}

// The answer's beginning decides: a stream may go on for hours.
func TestProbeDecidesAtItsHeaders(t *testing.T) {
	t.Run("success", func(t *testing.T) {
		g := start(t, 2, guarded(breaking(1)))
		g.fail(1)
		g.host.Run(2 * second)
		probe := g.sendModel(0, "m")
		g.requireOpen(g.sendModel(1, "m"), 1, "a request before the probe's headers")
		begin(probe)
		g.requireRunning(probe, "the probe")
		g.pass(9, "a request beside the probe's long stream")
		g.host.Run(3 * time.Hour)
		g.fail(0)
		probe.UpstreamReset() // the answer had begun well: that is no failure of a probe any more
		g.pass(10, "a request after the probe's stream was cut")
	})
	t.Run("failure", func(t *testing.T) {
		g := start(t, 2, guarded(breaking(1)))
		g.fail(1)
		g.host.Run(2 * second)
		probe := g.sendModel(0, "m")
		probe.ResponseHeaders(wasmtest.ResponseHeaders(500), false)
		g.requireOpen(g.sendModel(1, "m"), 4, "a request right after the probe's headers")
		g.host.Run(second)
		probe.ResponseBody([]byte("{}"), true)
		g.requireOpen(g.sendModel(1, "m"), 3, "a request after the probe's end: it counted once")
		g.host.Run(3 * second)
		g.pass(1, "the next probe")
		g.pass(10, "a request after it")
	})
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

// With a penalty, failing permits are held for that in place of the failure's hold, doubling with each failure in a row.
func TestPenaltyDoubles(t *testing.T) {
	heldFor := func(g *gateway) time.Duration {
		return g.after("nothing is held", func() bool { return g.gauge("model.on_hold") == 0 })
	}
	b := breaking(1000, "penalty", "1s", "max_penalty", "5s")
	for _, c := range []struct {
		hold object
		plus time.Duration
	}{{object{"failure": "30s"}, 0}, {object{}, 0}, {object{"failure": "30s", "success": "200ms"}, 200 * ms}} {
		t.Run(fmt.Sprint(c.hold), func(t *testing.T) {
			g := start(t, 2, guarded(b, "hold", c.hold))
			for range 2 {
				for _, want := range []time.Duration{second, 2 * second, 4 * second, 5 * second, 5 * second} {
					g.fail(1)
					require.Equal(t, want+c.plus, heldFor(g))
				}
				g.pass(1, "a request that succeeds")
				heldFor(g)
			}
			answer(503, "retry-after", "30")(g.sendModel(0, "m"))
			require.Equal(t, 30*second+c.plus, heldFor(g), "the provider's word lengthens it")
			g.sendModel(0, "m").ClientGone()
			heldFor(g)
			hostReply(403, "rbac")(g.sendModel(1, "m"))
			g.fail(1)
			require.Equal(t, 2*second+c.plus, heldFor(g), "what is no verdict neither doubles nor begins anew")
			g.requireDrained("model")
		})
	}
}

// The penalty goes on doubling over trips, and ends with a success.
func TestPenaltyOverTrips(t *testing.T) {
	g := start(t, 2, guarded(breaking(2, "penalty", "1s", "max_penalty", "1m")))
	g.fail(2) // 1 s, 2 s
	require.Equal(t, 2, g.gauge("model.on_hold"))
	g.host.Run(2 * second)
	require.Zero(t, g.gauge("model.on_hold"))
	g.fail(1) // the probe: 4 s
	g.host.Run(4*second - ms)
	require.Equal(t, 1, g.gauge("model.on_hold"))
	g.host.Run(ms)
	require.Zero(t, g.gauge("model.on_hold"))
	g.pass(1, "the probe")
	g.fail(1)
	g.host.Run(second)
	require.Zero(t, g.gauge("model.on_hold"), "one second again")
}

// Waiters stay in the queue while it is open, and the oldest becomes the probe by itself.
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
		g.host.Drain()
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
			require.Equal(t, "1", s.LocalReply().Headers.Get("retry-after"))
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

// A breaker that is taken out of the configuration stops nobody, and one that comes back begins closed.
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

// Open breakers of many keys are not forgotten for want of places.
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

// --- headroom ---

// fits is how many of the model's requests run at once; they leave no trace but cancels, which are no signal.
func (g *gateway) fits(model string, tries int) int {
	g.t.Helper()
	var all []*wasmtest.Stream
	n := 0
	for i := range tries {
		s := g.sendModel(i%len(g.host.Workers()), model)
		if runs(s) {
			n++
		}
		all = append(all, s)
	}
	for _, s := range all {
		s.ClientGone()
	}
	g.host.Drain()
	return n
}

func TestHeadroomStep(t *testing.T) {
	g := start(t, 2, config(pool("model", 3, "headroom", object{"window": "4s"})))
	push := func() { answer(429)(g.sendModel(0, "m")) }
	require.Equal(t, 3, g.fits("m", 6), "at first; refusals of our own are no pushback")
	require.Equal(t, 3, g.fits("m", 6))
	push()
	require.Equal(t, 2, g.fits("m", 6), "after a 429")
	require.Equal(t, 3, g.fits("n", 6), "of another model")
	g.host.Run(3 * second)
	push()
	push()
	require.Equal(t, 2, g.fits("m", 6), "one less, not more")
	g.host.Run(4*second - ms)
	require.Equal(t, 2, g.fits("m", 6), "each 429 begins the window anew")
	g.host.Run(ms)
	require.Equal(t, 3, g.fits("m", 6), "after the quiet window")
	for _, end := range []ending{answer(500), answer(503, "retry-after", "9"), upstreamReset, answer(403, "x-ratelimit-remaining", "0"), clientGone, hostReply(429, "request_rate_limited")} {
		end(g.sendModel(1, "m"))
		g.host.Drain()
	}
	require.Equal(t, 3, g.fits("m", 6), "only a provider's 429 is pushback")
	require.Zero(t, g.gauge("model.on_hold"))
	require.Equal(t, 3, g.counter("model.provider_429"))
	g.requireQuiet()
	g.requireDrained("model")
}

func TestHeadroomKeepsItsMinimum(t *testing.T) {
	for _, c := range []struct{ limit, least, want int }{{1, 1, 1}, {2, 1, 1}, {2, 2, 2}, {3, 2, 2}, {3, 3, 3}} {
		for _, mode := range []string{"step", "aimd"} {
			g := start(t, 2, config(pool("model", c.limit, "headroom", object{"mode": mode, "window": "1m", "min": c.least})))
			for range 5 {
				answer(429)(g.sendModel(0, "m"))
				g.host.Run(second)
			}
			want := c.want
			if mode == "aimd" {
				want = c.least
			}
			require.Equal(t, want, g.fits("m", 6), "%s %+v", mode, c)
			g.host.Close()
		}
	}
}

// Nothing but time happens, and the waiter runs when the window is over.
func TestHeadroomWakesAWaiter(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		t.Run(fmt.Sprintf("queued before the 429 %t", elsewhere), func(t *testing.T) {
			g := start(t, 2, config(pool("model", 2, "queue", 2, "max_wait", "60s", "headroom", object{"window": "4s"})))
			a, b := g.sendModel(0, "m"), g.sendModel(0, "m")
			var w *wasmtest.Stream
			if elsewhere {
				w = g.sendModel(1, "m")
			}
			answer(429)(b)
			if !elsewhere {
				w = g.sendModel(1, "m")
			}
			g.host.Drain()
			g.requireWaiting(w, "the waiter, the limit being one less")
			require.Equal(t, 4*second, g.after("the waiter runs", func() bool { return runs(w) }))
			a.Respond(200, "ok")
			w.Respond(200, "ok")
			g.host.Drain()
			g.requireDrained("model")
			g.requireQuiet()
		})
	}
}

func TestHeadroomNeitherPreemptsNorForgets(t *testing.T) {
	g := start(t, 2, config(pool("model", 3, "headroom", object{"window": "1m"})))
	var all []*wasmtest.Stream
	for i := range 3 {
		all = append(all, g.sendModel(i%2, "m"))
	}
	answer(429)(all[0])
	g.requireRunning(all[1], "one that runs")
	g.requireRunning(all[2], "one that runs")
	require.Equal(t, 0, g.fits("m", 2))
	g.reload(config(pool("model", 3, "headroom", object{"window": "61s"})))
	require.Equal(t, 0, g.fits("m", 2), "after a reload")
	g.host.Worker(0).Kill()
	require.NoError(t, g.host.Worker(0).Reload())
	g.host.Run(6 * second)
	require.Equal(t, 1, g.fits("m", 3), "after the death of the worker with one of the two")
	g.reload(config(pool("model", 3)))
	require.Equal(t, 2, g.fits("m", 3), "without headroom")
}

func TestHeadroomAIMDStepsDown(t *testing.T) {
	g := start(t, 2, config(pool("model", 20, "headroom", object{"mode": "aimd", "window": "10s", "min": 2})))
	for _, want := range []int{16, 13, 11, 9, 8, 7, 6, 5, 4, 3, 2, 2, 2} {
		answer(429)(g.sendModel(0, "m"))
		require.Equal(t, want, g.fits("m", 30))
		answer(429)(g.sendModel(1, "m"))
		g.host.Run(999 * ms)
		answer(429)(g.sendModel(1, "m"))
		require.Equal(t, want, g.fits("m", 30), "one burst is one signal")
		g.host.Run(ms)
	}
}

// It grows by one a second after a quiet window, and only while the pool is really used.
func TestHeadroomAIMDRecoversUnderUse(t *testing.T) {
	g := start(t, 2, config(pool("model", 10, "headroom", object{"mode": "aimd", "window": "5s", "min": 1})))
	answer(429)(g.sendModel(0, "m"))
	require.Equal(t, 8, g.fits("m", 20))
	g.host.Run(minute)
	require.Equal(t, 8, g.fits("m", 20), "after an idle minute")
	g.pass(1, "one request: three in eight are no use worth growing for")
	require.Equal(t, 8, g.fits("m", 20))
	g.pass(3, "three requests at once")
	require.Equal(t, 8, g.fits("m", 20))
	g.pass(8, "eight at once")
	require.Equal(t, 9, g.fits("m", 20), "one more, not one for each")
	g.pass(9, "nine at once")
	require.Equal(t, 9, g.fits("m", 20), "in the same second")
	g.host.Run(second)
	g.pass(9, "nine at once")
	require.Equal(t, 10, g.fits("m", 20))
	g.host.Run(second)
	g.pass(10, "ten at once")
	require.Equal(t, 10, g.fits("m", 20), "never above the limit")
	answer(429)(g.sendModel(0, "m"))
	require.Equal(t, 8, g.fits("m", 20))
	g.host.Run(5*second - ms)
	g.pass(8, "eight at once")
	require.Equal(t, 8, g.fits("m", 20), "before the window is quiet")
	g.host.Run(ms)
	g.pass(8, "eight at once")
	require.Equal(t, 9, g.fits("m", 20))
}

// press sends requests of 500 ms to keep the pool full for that long, each ending as said, and reports each second's limit.
func (g *gateway) press(d time.Duration, clients int, end ending, each func(running int)) {
	g.t.Helper()
	type call struct {
		s    *wasmtest.Stream
		ends time.Duration
	}
	var running []call
	for until := g.host.Elapsed() + d; g.host.Elapsed() < until; g.host.Run(100 * ms) {
		kept := running[:0]
		for _, c := range running {
			if g.host.Elapsed() < c.ends {
				kept = append(kept, c)
				continue
			}
			end(c.s)
		}
		running = kept
		g.host.Drain()
		for len(running) < clients {
			s := g.sendModel(len(running)%2, "m")
			if !runs(s) {
				break
			}
			running = append(running, call{s, g.host.Elapsed() + 500*ms})
		}
		each(len(running))
	}
	for _, c := range running {
		end(c.s)
	}
	g.host.Drain()
}

func TestCase_O26_AdaptiveLimitMovesBothWays(t *testing.T) {
	g := start(t, 2, config(pool("model", 20, "headroom", object{"mode": "aimd", "min": 2})))
	within := func(n int) { require.LessOrEqual(t, n, 20) }
	g.press(10*second, 30, answer(200), within)
	require.Equal(t, 20, g.fits("m", 50))
	last := 20
	g.press(minute, 30, answer(429), func(n int) {
		within(n)
		last = n
	})
	require.LessOrEqual(t, last, 2, "down while everything fails")
	require.Equal(t, 2, g.fits("m", 50), "never below the minimum")
	g.press(minute, 30, answer(200), within)
	require.Equal(t, 20, g.fits("m", 50), "up again without a restart")
	g.host.Run(5 * minute)
	require.Equal(t, 20, g.fits("m", 50), "fifty at once after five idle minutes")
	g.requireQuiet()
	g.requireDrained("model")
}

func TestCase_O26_WhatIsNoSignal(t *testing.T) {
	for name, end := range map[string]ending{"cancels": clientGone, "cancels in mid-stream": inMidStream(clientGone), "500": answer(500), "resets": upstreamReset,
		"another filter's 429": hostReply(429, "request_rate_limited")} {
		for _, mode := range []string{"step", "aimd"} {
			t.Run(mode+" "+name, func(t *testing.T) {
				g := start(t, 2, config(pool("model", 20, "headroom", object{"mode": mode, "min": 2})))
				g.press(30*second, 30, end, func(int) {})
				require.Equal(t, 20, g.fits("m", 50))
			})
		}
	}
}

// An open breaker whose every permit is held longer than it is open says when the first comes free.
func TestBreakerRetryAfterKnowsOfThePenalty(t *testing.T) {
	g := start(t, 2, config(pool("model", 1, "breaker", breaking(1, "penalty", "10s", "max_penalty", "10s"))))
	g.fail(1)
	g.requireOpen(g.sendModel(0, "m"), 10, "a request while it is open and the permit held")
	g.host.Run(3 * second)
	g.requireOpen(g.sendModel(1, "m"), 7, "a request when it could be half open")
	g.host.Run(7 * second)
	g.pass(1, "the probe")
}
