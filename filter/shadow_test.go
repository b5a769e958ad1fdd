package filter_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// In shadow the request is at the upstream before its body has named the model: the attempt counts when its answer
// begins.
func TestShadowInTwoStagesCountsTheModelInTheBody(t *testing.T) {
	c := with(twoPools(9, 1), "mode", "shadow")
	c["identity"] = object{"model": []object{{"json_body": "model"}}}
	g := startStages(t, 1, c)
	try := func(model string) *wasmtest.Stream {
		s := g.plugin.Stream(0)
		s.RequestHeaders(wasmtest.RequestHeaders("POST", "/v1/chat/completions", "content-type", "application/json"), false)
		a := g.attempts.Stream(0, wasmtest.Upstream(), wasmtest.OfRequest(s.Request()))
		a.RequestHeaders(s.Forwarded().Headers, false)
		s.RequestBody([]byte(chat(model)), true)
		a.ResponseHeaders(wasmtest.ResponseHeaders(200), false)
		return a
	}
	try("a")
	try("b")
	require.Zero(t, g.counter("model.shadow_would_wait"), "two models, one permit each")
	try("a")
	require.Equal(t, 1, g.counter("model.shadow_would_wait"), "a second request of the first model")
	require.Equal(t, 3, g.counter("model.evaluated"))
}

func TestShadowWithTheModelInTheBodyHasOutcomes(t *testing.T) {
	c := with(config(pool("model", 4, "breaker", object{"failures": 1, "window": "30s", "open": "10s"})), "mode", "shadow")
	c["identity"] = object{"model": []object{{"json_body": "model"}}}
	g := start(t, 1, c)
	for _, status := range []int{503, 200} {
		s := g.plugin.Stream(0)
		s.RequestHeaders(wasmtest.RequestHeaders("POST", "/v1/chat/completions", "content-type", "application/json"), false)
		s.RequestBody([]byte(`{"model":"m"}`), true)
		s.Respond(status, "x")
		g.host.Drain()
	}
	require.Equal(t, 2, g.counter("model.evaluated"))
	require.Equal(t, 1, g.counter("model.completed"), "the first one; the second would have been refused by the breaker")
	require.Equal(t, 1, g.counter("model.shadow_would_reject"))
}

func TestShadowNeverPausesForABody(t *testing.T) {
	g := start(t, 1, shadow(fromBody(pool("model", 1, "queue", 1, "max_wait", "1s"))))
	for i := range 4 {
		s := g.plugin.Stream(0)
		require.Equal(t, wasmtest.Continue, s.RequestHeaders(wasmtest.RequestHeaders("POST", "/v1/chat/completions"), false))
		require.Equal(t, wasmtest.Continue, s.RequestBody([]byte(chat("m")[:40]), false))
		require.Equal(t, 40, len(s.Forwarded().Body))
		if i == 3 {
			require.Equal(t, wasmtest.Continue, s.RequestTrailers(nil))
			break
		}
		require.Equal(t, wasmtest.Continue, s.RequestBody([]byte(chat("m")[40:]), true))
		requireForwarded(t, s, chat("m"))
	}
	g.wouldHave("model", 1, 1, 0, "three of one model, one unknown")
	require.Equal(t, 4, g.counter("model.evaluated"))
	stalled := g.open(0) // in shadow nothing waits for it, so its stall shows nothing
	g.host.Run(10 * time.Second)
	g.requireRunning(stalled, "a stalled request in shadow")
	require.Equal(t, 5, g.counter("model.evaluated"))
	require.Empty(t, g.host.Logs())
	g.post(0, chat("other"))
	g.wouldHave("model", 2, 1, 2, "the stalled one counted as unknown, the next one's body is read all the same")
}

func shadow(c object) object { return with(c, "mode", "shadow") }

// wouldHave checks the counters of what enforcing would have done.
func (g *gateway) wouldHave(pool string, wait, reject, expire int, when string) {
	g.t.Helper()
	require.Equal(g.t, [3]int{wait, reject, expire}, [3]int{g.counter(pool + ".shadow_would_wait"),
		g.counter(pool + ".shadow_would_reject"), g.counter(pool + ".shadow_would_expire")}, "would wait, reject, expire: %s", when)
	require.Equal(g.t, g.counter(pool+".evaluated"), g.counter(pool+".admitted"), "in shadow every evaluated request is admitted")
	for _, o := range outcomes[1:] {
		require.Zero(g.t, g.counter(pool+"."+o), o)
	}
	require.Zero(g.t, g.counter(pool+".admitted_after_wait"))
}

func TestShadowLetsEverythingPassUntouched(t *testing.T) {
	g := start(t, 2, shadow(config(pool("model", 1, "queue", 1, "max_wait", "1s"), pool("closed", 0))))
	headers := []string{"x-model", "m", "x-request-timeout-ms", "4000", "grpc-timeout", "0m"}
	for i := range 6 {
		s := g.plugin.Stream(i % 2)
		in := wasmtest.RequestHeaders("POST", "/v1/chat/completions", headers...)
		require.Equal(t, wasmtest.Continue, s.RequestHeaders(in, true))
		require.Equal(t, in, s.Forwarded().Headers)
		g.host.Run(2 * time.Second)
		g.requireRunning(s, "a request in shadow")
		require.Equal(t, in, s.Forwarded().Headers)
	}
	s := g.send(0, "x-model", "a", "x-model", "b")
	g.requireRunning(s, "an ambiguous request in shadow")
	require.Equal(t, 1, g.counter("ambiguous_identity"))
}

func TestShadowPassesAttemptsUntouched(t *testing.T) {
	g := startStages(t, 1, shadow(twoPools(1, 1)))
	c := g.call(0, "a", "x-request-timeout-ms", "1000")
	for range 3 {
		s := c.try()
		g.requireRunning(s, "a try in shadow")
		require.Equal(t, "1000", s.Forwarded().Headers.Get("x-request-timeout-ms"))
		g.host.Run(700 * ms)
	}
	g.wouldHave("model", 1, 0, 2, "two of three tries at once, one past its deadline")
	g.wouldHave("tenant", 0, 0, 0, "one call")
}

// Ten come at once, with limit 2 and queue 3. Then the virtual waits end one by one.
func TestShadowCountsVirtualWaits(t *testing.T) {
	g := start(t, 2, shadow(config(pool("model", 2, "queue", 3, "max_wait", "5s"))))
	var s []*wasmtest.Stream
	for i := range 10 {
		s = append(s, g.sendModel(i%2, "m"))
		g.requireRunning(s[i], "a request in shadow")
	}
	g.wouldHave("model", 3, 5, 0, "ten at once")
	require.Equal(t, 2, g.gauge("model.inflight"))
	require.Equal(t, 3, g.gauge("model.queued"))
	g.host.Run(700 * ms)
	s[0].Respond(200, "ok")
	g.host.Drain()
	require.Equal(t, []uint64{700}, g.host.Histogram("headgate.model.wait_ms"))
	s[9].Respond(200, "ok") // would have been refused: it holds nothing
	require.Equal(t, 2, g.gauge("model.inflight"))
	s[3].Respond(200, "ok") // it goes on waiting
	g.host.Drain()
	require.Equal(t, 2, g.gauge("model.queued"))
	g.host.Run(4300*ms + tick)
	g.wouldHave("model", 3, 5, 2, "the max_wait of two")
	require.Zero(t, g.gauge("model.queued"))
	s[2].Respond(200, "ok") // took 5 s, and would have begun 700 ms later
	require.Equal(t, 2, g.gauge("model.inflight"))
	for _, r := range s {
		r.Respond(200, "ok")
	}
	require.Equal(t, 1, g.gauge("model.inflight"))
	g.host.Run(699 * ms)
	require.Equal(t, 1, g.gauge("model.inflight"))
	g.host.Run(2 * ms)
	require.Zero(t, g.gauge("model.inflight"))
	require.Equal(t, []uint64{700}, g.host.Histogram("headgate.model.wait_ms"))
	g.wouldHave("model", 3, 5, 2, "at the end")
	g.requireDrained("model")
}

func TestShadowCountsDeadlines(t *testing.T) {
	g := start(t, 1, shadow(config(pool("model", 1, "queue", 3, "max_wait", "5s"))))
	g.sendModel(0, "m")
	g.send(0, "x-model", "m", "x-request-timeout-ms", "300")
	g.host.Run(299 * ms)
	g.wouldHave("model", 1, 0, 0, "before the deadline")
	g.host.Run(ms + tick)
	g.wouldHave("model", 1, 0, 1, "after the deadline")
	g.send(0, "x-model", "free", "x-request-timeout-ms", "0")
	g.wouldHave("model", 1, 0, 2, "an expired request")
}

// A request that would wait in one pool comes to the next one when its wait would end. One that would be refused never
// does.
func TestShadowAsksLaterPoolsWhenEnforceWould(t *testing.T) {
	second := object{"name": "second", "limit": 1, "queue": 1, "max_wait": "5s"}
	g := start(t, 2, shadow(config(pool("first", 1, "queue", 1, "max_wait", "5s"), second)))
	a := g.sendModel(0, "m")
	require.Equal(t, 1, g.counter("second.evaluated"))
	b := g.sendModel(1, "m")
	g.sendModel(0, "m")
	g.wouldHave("first", 1, 1, 0, "three at once")
	require.Equal(t, 1, g.counter("second.evaluated"))
	c := g.sendModel(1, "other")
	g.wouldHave("second", 1, 0, 0, "another model's request")
	g.host.Run(time.Second)
	a.Respond(200, "ok")
	g.host.Drain()
	require.Equal(t, 3, g.counter("second.evaluated"), "the waiter came on")
	g.wouldHave("second", 2, 0, 0, "both wait for the second pool in turn")
	require.Equal(t, []uint64{1000}, g.host.Histogram("headgate.second.wait_ms"))
	for _, s := range []*wasmtest.Stream{b, c} {
		s.Respond(200, "ok")
	}
	require.Equal(t, 2, g.gauge("first.inflight"), "one of each model")
	require.Equal(t, 1, g.gauge("second.inflight"))
	g.host.Run(1010 * ms) // c had the second pool for a second
	require.Equal(t, 1, g.gauge("second.inflight"), "b has it for a second")
	g.host.Run(time.Second)
	g.requireDrained("first", "second")
	require.Equal(t, []uint64{1000, 1000}, g.host.Histogram("headgate.second.wait_ms"))
}

func TestSwitchingModesKeepsTheCounts(t *testing.T) {
	c := config(pool("model", 2, "queue", 4, "max_wait", "60s"))
	g := start(t, 2, shadow(c))
	a, b := g.sendModel(0, "m"), g.sendModel(1, "m")
	virtual := g.sendModel(0, "m")
	g.reload(c)
	require.Equal(t, 2, g.gauge("model.inflight"))
	w := g.sendModel(1, "m")
	g.requireWaiting(w, "a request under enforce, both permits held by requests of shadow")
	a.Respond(200, "ok")
	g.host.Drain()
	g.requireWaiting(w, "a request behind a virtual waiter")
	b.Respond(200, "ok")
	g.host.Drain()
	g.requireRunning(w, "the waiter")
	g.reload(shadow(c))
	x := g.sendModel(0, "m")
	g.requireRunning(x, "a request in shadow again")
	require.Equal(t, 2, g.counter("model.shadow_would_wait"))
	virtual.Respond(200, "ok")
	g.host.Drain()
	require.Equal(t, 2, g.gauge("model.inflight"))
	require.Equal(t, 1, g.gauge("model.queued"), "it waits on")
	w.Respond(200, "ok")
	x.Respond(200, "ok")
	g.host.Run(second)
	g.requireDrained("model")
	g.reload(c)
	g.requireCapacity("m", 2)
}

// With the same clients, shadow counts what enforce does.
func TestShadowCountsWhatEnforceDoes(t *testing.T) {
	for seed := range uint64(15) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c := config(
				pool("model", 1+int(seed%3), "queue", 2, "max_wait", "1020ms", "fair_by", "tenant"),
				object{"name": "all", "limit": 3, "queue": 3, "max_wait": "730ms"})
			enforced, shadowed := start(t, 2, c), start(t, 2, shadow(c))
			inStep(t, rand.New(rand.NewPCG(seed, 1)), enforced, shadowed)
			for _, p := range []string{"model", "all"} {
				n := func(name string) int { return enforced.counter(p + "." + name) }
				require.Equal(t, n("evaluated"), shadowed.counter(p+".evaluated"))
				require.Equal(t, n("rejected_queue_full"), shadowed.counter(p+".shadow_would_reject"))
				require.Equal(t, n("expired_max_wait")+n("expired_deadline"), shadowed.counter(p+".shadow_would_expire"))
				require.GreaterOrEqual(t, shadowed.counter(p+".shadow_would_wait"), n("admitted_after_wait"))
				require.Equal(t, shadowed.counter(p+".evaluated"), shadowed.counter(p+".admitted"))
				waits := func(g *gateway) []uint64 {
					h := g.host.Histogram("headgate." + p + ".wait_ms")
					slices.Sort(h)
					return h
				}
				require.InDeltaSlice(t, waits(enforced), waits(shadowed), 1, "enforcing waits for a reset to be written")
				enforced.requireDrained(p)
				shadowed.requireDrained(p)
			}
			require.NotZero(t, shadowed.counter("model.shadow_would_wait"))
			require.NotZero(t, shadowed.counter("model.shadow_would_reject"))
		})
	}
}

// inStep plays the same arrivals and departures on both gateways and compares their gauges after each.
func inStep(t *testing.T, rnd *rand.Rand, gs ...*gateway) {
	type client struct {
		streams []*wasmtest.Stream
		leaves  int
	}
	var clients []client
	for step := range 200 {
		if step < 120 && rnd.IntN(2) == 0 {
			headers := []string{"x-model", fmt.Sprint("m", rnd.IntN(2)), "x-tenant", fmt.Sprint("t", rnd.IntN(2))}
			if rnd.IntN(4) == 0 {
				headers = append(headers, "x-request-timeout-ms", fmt.Sprint(rnd.IntN(6)*130))
			}
			c := client{leaves: step + 1 + rnd.IntN(25)}
			worker := rnd.IntN(2)
			for _, g := range gs {
				c.streams = append(c.streams, g.send(worker, headers...))
			}
			clients = append(clients, c)
		}
		for _, g := range gs {
			g.host.Run(50 * ms)
		}
		for _, c := range clients {
			if c.leaves == step {
				for _, s := range c.streams {
					s.ClientGone()
				}
			}
		}
		for _, g := range gs {
			g.host.Run(50 * ms)
			for _, gauge := range []string{"model.inflight", "model.queued", "all.inflight", "all.queued"} {
				require.Equal(t, gs[0].gauge(gauge), g.gauge(gauge), "%s after step %d", gauge, step)
			}
		}
	}
}

// The access log says what enforcing would have done, as far as it is known when the request ends.
func TestFinding_A2_TheAccessLogSaysWhatEnforcingWouldDo(t *testing.T) {
	told := func(s *wasmtest.Stream) string { v, _ := s.Request().FilterState("headgate"); return string(v) }
	says := func(wait int, would string) string {
		return fmt.Sprintf(`{"outcome":"admitted","pool":"model","wait_ms":%d,"attempts":1,"would":%q}`, wait, would)
	}
	g := start(t, 1, shadow(fromBody(pool("model", 1, "queue", 2, "max_wait", "1s", "keys", object{"closed": object{"limit": 0}}))))
	post := func(model string, headers ...string) *wasmtest.Stream {
		s := g.plugin.Stream(0)
		s.RequestHeaders(wasmtest.RequestHeaders("POST", "/v1/chat/completions", headers...), false)
		s.RequestBody([]byte(chat(model)), true)
		return s
	}
	first, second, third := post("m"), post("m"), post("m")
	require.JSONEq(t, says(0, "admitted"), told(first))
	require.JSONEq(t, says(0, "waited"), told(second))
	require.JSONEq(t, says(0, "rejected"), told(post("m")))
	require.JSONEq(t, says(0, "rejected"), told(post("closed")))
	require.JSONEq(t, says(0, "expired"), told(post("free", "x-request-timeout-ms", "0")))
	g.host.Run(300 * ms)
	first.Respond(200, "ok")
	g.host.Drain()
	require.JSONEq(t, says(300, "waited"), told(second))
	third.Respond(200, "ok")
	require.JSONEq(t, says(0, "waited"), told(third), "its real end comes first")
	fourth := post("m")
	g.host.Run(1100 * ms)
	require.JSONEq(t, says(1000, "expired"), told(fourth))
	second.Respond(200, "ok")
	g.host.Run(minute)
	g.requireDrained("model")
	g.wouldHave("model", 3, 2, 3, "at the end")
	require.Empty(t, g.host.Logs())
}

// A plugin context that ends takes its virtual requests with it.
func TestVirtualRequestsEndWithTheirContext(t *testing.T) {
	c := config(pool("model", 1, "queue", 3, "max_wait", "1h"))
	g := start(t, 2, shadow(c))
	long := g.sendModel(0, "m")
	short := g.sendModel(1, "m")
	g.host.Run(second)
	long.Respond(200, "ok")
	short.Respond(200, "ok")
	require.NotZero(t, g.gauge("model.queued")+g.gauge("model.inflight"))
	g.reload(shadow(c))
	g.host.Run(second)
	g.requireDrained("model")
	g.requireQuiet()
}
