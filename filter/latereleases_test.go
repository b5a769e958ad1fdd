package filter_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// When a client leaves, the host resets the upstream later in the same turn, or writes the reset in the next one. So the
// permit is back with a tick, and not with a message.
func TestAPermitOfAClientThatLeftIsBackATickLater(t *testing.T) {
	g := start(t, 2, config(pool("model", 1, "queue", 1, "max_wait", "5s")))
	g.sendModel(1, "n").Respond(200, "ok") // a seat
	s := g.sendModel(0, "m")
	s.ClientGone()
	next := g.sendModel(1, "m")
	g.requireWaiting(next, "a request in the turn in which the client leaves")
	g.host.Drain()
	g.requireWaiting(next, "the request, when all messages have come")
	g.host.Run(ms)
	g.requireRunning(next, "the request, a tick later")
}

// A release that lost all its swaps is called back by a message. If that is lost, a tick takes its place at once, and
// not at the next beat.
func TestALateReleaseWithoutItsMessageComesWithTheNextTick(t *testing.T) {
	g := start(t, 2, config(pool("model", 1)))
	s := g.sendModel(0, "m")
	lost := 0
	g.host.OnHostCall(func(c *wasmtest.HostCall) {
		switch c.Name() {
		case "proxy_enqueue_shared_queue":
			c.Drop()
		case "proxy_set_shared_data":
			lost++
			c.Fail(wasmtest.StatusCasMismatch)
		}
	})
	s.Respond(200, "ok")
	g.host.OnHostCall(nil)
	require.Equal(t, enough, lost, "it tried in its own turn")
	took := g.after("the permit is back", func() bool { return g.gauge("model.inflight") == 0 })
	require.LessOrEqual(t, took, 10*ms)
	g.requireCapacity("m", 1)
}

// A probe's end that could not be stored in its turn is stored in a later one, and frees the probe's place.
func TestAProbeThatEndsWithoutASwapGivesItsPlaceBack(t *testing.T) {
	for name, end := range map[string]ending{"its client leaves": clientGone, "another filter answers": hostReply(403, "rbac")} {
		t.Run(name, func(t *testing.T) {
			g := start(t, 2, guarded(breaking(1)))
			g.fail(1)
			g.host.Run(2 * second)
			probe := g.sendModel(1, "m")
			g.requireRunning(probe, "the probe")
			g.host.OnHostCall(func(c *wasmtest.HostCall) {
				if c.Name() == "proxy_set_shared_data" {
					c.Fail(wasmtest.StatusCasMismatch)
				}
			})
			end(probe)
			g.afterReset() // the release of a client that left comes a tick later
			g.host.OnHostCall(nil)
			g.host.Run(100 * ms)
			next := g.sendModel(0, "m")
			g.requireRunning(next, "the next probe")
		})
	}
}

// A try that fails has a permit until its upstream is reset, a tick later. The next try can come before: it finds the
// breaker as the failure has left it.
func TestANextTryFindsTheBreakerThatAFailedOneHasOpened(t *testing.T) {
	g := retried(t, 9, "breaker", breaking(2, "penalty", "0s"))
	c := g.call(0, "a")
	for range 2 {
		s := c.try()
		require.False(t, s.Paused())
		s.ResponseHeaders(wasmtest.ResponseHeaders(503), false)
		s.End(wasmtest.End{Cause: wasmtest.UpstreamGone, Flags: wasmtest.FlagUpstreamRemoteReset})
	}
	require.Equal(t, 2, g.gauge("model.inflight"), "the permits come back later")
	third := c.try()
	require.NotNil(t, third.LocalReply(), "a third try, before that")
	require.Equal(t, 503, third.LocalReply().Code)
	g.afterReset()
	require.Zero(t, g.gauge("model.inflight"))
	require.Equal(t, 2, g.counter("model.provider_failure"))
	require.Equal(t, 1, g.counter("model.breaker_opened"))
}
