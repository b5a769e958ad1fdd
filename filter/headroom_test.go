package filter_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// fits is how many of the model's requests run at once. They end as cancels, which change no limit.
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
		s.HostReply(403, "rbac", 0) // it says nothing of the provider, and gives the permit back at once
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
		g.afterReset()
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

// A waiter runs when the window is over, without any other event.
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

// The limit grows by one a second after a quiet window, and only while the pool is at least half used.
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

// press keeps the pool full for some time with requests of 500 ms, which all end the same way. It tells again and again
// how many run.
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
