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

// A probeVerdict is what a probe's ending says of the breaker.
type probeVerdict int

const (
	undecided probeVerdict = iota
	closes
	reopens
)

// sent is a probe that is sent to its provider, and ends so.
func sent(end ending) func(*gateway) {
	return func(g *gateway) {
		s := g.sendProbe()
		g.requireOpen(g.sendModel(0, "m"), 1, "a request beside the probe")
		end(s)
		g.afterReset()
	}
}

func (g *gateway) sendProbe() *wasmtest.Stream {
	g.t.Helper()
	s := g.send(1, "x-model", "m", "x-tenant", "t")
	g.requireRunning(s, "the probe")
	return s
}

// withoutSwaps does something while no swap succeeds.
func (g *gateway) withoutSwaps(do func()) {
	g.host.OnHostCall(func(c *wasmtest.HostCall) {
		if c.Name() == "proxy_set_shared_data" {
			c.Fail(wasmtest.StatusCasMismatch)
		}
	})
	do()
	g.afterReset()
	g.host.OnHostCall(nil)
	g.host.Run(100 * ms)
}

// sentProbes are the endings of a probe that is sent.
var sentProbes = map[string]struct {
	end     ending
	verdict probeVerdict
}{
	"the client leaves":                   {clientGone, undecided},
	"400":                                 {answer(400), closes},
	"401":                                 {answer(401), closes},
	"a bare 403":                          {answer(403), closes},
	"another filter answers 403":          {hostReply(403, "rbac"), undecided},
	"another filter answers 200":          {hostReply(200, "health_check_ok"), undecided},
	"another filter answers 503":          {hostReply(503, "fault_filter_abort"), undecided},
	"Envoy's own circuit breaker":         {hostReply(503, "upstream_reset_before_response_started{overflow}"), undecided},
	"it is reset before headers":          {upstreamReset, reopens},
	"it times out":                        {hostReply(504, "upstream_response_timeout"), reopens},
	"503":                                 {answer(503), reopens},
	"429":                                 {answer(429), reopens},
	"the client leaves after the headers": {inMidStream(clientGone), closes},
	"it is cut after the headers":         {inMidStream(upstreamReset), closes},
	"101":                                 {upgraded(clientGone), closes},
}

// unansweredProbes are other ways in which a probe ends without a verdict.
var unansweredProbes = map[string]func(*gateway){
	"the client leaves after a while": func(g *gateway) {
		s := g.sendProbe()
		g.host.Run(3 * second)
		s.ClientGone()
		g.afterReset()
	},
	"a later pool refuses it": func(g *gateway) {
		g.requireRefused(g.send(1, "x-model", "m", "x-tenant", "closed"), noPermit, "later", "the probe")
	},
	"its deadline passes in a later queue": func(g *gateway) {
		s := g.send(1, "x-model", "m", "x-tenant", "busy", "x-request-timeout-ms", "300")
		g.requireWaiting(s, "the probe, in the later pool's queue")
		g.host.Run(300*ms + tick)
		g.requireRefused(s, tooLate, "later", "the probe")
	},
	"its budget ends in a later queue": func(g *gateway) {
		s := g.send(0, "x-model", "m", "x-tenant", "busy")
		g.host.Run(500*ms + tick)
		g.requireRefused(s, tooLate, "later", "the probe")
	},
	"its client leaves a later queue": func(g *gateway) {
		s := g.send(0, "x-model", "m", "x-tenant", "busy")
		g.requireWaiting(s, "the probe, in the later pool's queue")
		s.ClientGone()
	},
	"its worker dies": func(g *gateway) {
		g.sendProbe()
		g.host.Worker(1).Kill()
		require.NoError(g.t, g.host.Worker(1).Reload())
		g.host.Run(second + 2*tick) // the lease
		g.sendModel(1, "n").Respond(200, "ok")
	},
	"no swap succeeds at its end": func(g *gateway) {
		s := g.sendProbe()
		g.withoutSwaps(s.ClientGone)
	},
}

// Every ending of a probe gives its place back: the next request is let through, and closes the breaker.
func TestCase_O23_EveryEndingOfTheProbe(t *testing.T) {
	for name, c := range sentProbes {
		t.Run(name, func(t *testing.T) { requirePlaceBack(t, sent(c.end), c.verdict) })
	}
	for name, probe := range unansweredProbes {
		t.Run(name, func(t *testing.T) { requirePlaceBack(t, probe, undecided) })
	}
	t.Run("no swap succeeds at its headers", func(t *testing.T) {
		requirePlaceBack(t, func(g *gateway) {
			s := g.sendProbe()
			g.withoutSwaps(func() { s.ResponseHeaders(wasmtest.ResponseHeaders(200), false) })
			s.ResponseBody([]byte("{}"), true)
		}, closes)
	})
}

// requirePlaceBack opens a breaker, lets a probe end, and checks that the breaker closes as the verdict says.
func requirePlaceBack(t *testing.T, probe func(*gateway), verdict probeVerdict) {
	t.Helper()
	later := object{"name": "later", "key": []string{"tenant"}, "limit": 1, "queue": 1, "max_wait": "500ms",
		"keys": object{"closed": object{"limit": 0}}}
	g := start(t, 2, with(config(guardedPool(breaking(5)), later), "lease", "1s"))
	for i := range 5 {
		answer(503)(g.send(i%2, "x-model", "m", "x-tenant", fmt.Sprint(i)))
	}
	g.requireRunning(g.send(0, "x-model", "other", "x-tenant", "busy"), "the one that fills the later pool for a tenant")
	g.host.Run(2 * second)
	probe(g)
	if verdict == reopens {
		g.requireOpen(g.sendModel(0, "m"), 4, "the request after the failed probe")
		g.host.Run(4 * second)
	}
	if verdict != closes {
		s := g.send(0, "x-model", "m", "x-tenant", "u")
		g.requireRunning(s, "the next probe")
		g.requireNotClosed(g.send(1, "x-model", "m", "x-tenant", "v"), "a request beside it")
		s.Respond(200, "ok")
	}
	for i := range 10 {
		g.requireRunning(g.send(i%2, "x-model", "m", "x-tenant", fmt.Sprint("closed", i)), "a request after the good probe")
	}
}

// With one request a second the breaker is closed after one more probe at most, whatever became of the first.
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

// The beginning of the answer decides, since a stream may go on for hours.
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
		g.afterReset()
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
