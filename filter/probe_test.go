package filter_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

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
		}, undecided},
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
