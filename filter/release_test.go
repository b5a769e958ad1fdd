package filter_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// A permit is free when its stream ends, whatever ends it, and not before. Where the upstream may still be at work, it
// is free when Envoy has reset that.
func TestEveryEndGivesThePermitBack(t *testing.T) {
	const atOnce, later = 0, ms
	for name, c := range map[string]struct {
		end ending
		in  time.Duration
	}{
		"a whole response":          {answer(200), atOnce},
		"a whole failure":           {answer(503), atOnce},
		"a response without a body": {func(s *wasmtest.Stream) { s.ResponseHeaders(wasmtest.ResponseHeaders(204), true) }, atOnce},
		"trailers":                  {inMidStream(func(s *wasmtest.Stream) { s.ResponseTrailers(wasmtest.HeadersOf("grpc-status", "0")) }), atOnce},
		"another filter's reply":    {hostReply(403, "rbac"), atOnce},
		"another filter's reply, in an answer's place": {connectedTo(hostReply(500, "lua_response")), later},
		"no connection to the upstream":                {hostReply(503, "upstream_reset_before_response_started{remote_connection_failure}"), atOnce},
		"an upstream that resets early":                {connectedTo(upstreamReset), atOnce},
		"an upstream that resets in mid-stream":        {inMidStream(upstreamReset), atOnce},
		"an upstream that breaks its protocol":         {inMidStream(gone("upstream_reset_after_response_started{protocol_error}", 1<<23)), later},
		"our own refusal at the stage attempt":         {connectedTo(hostReply(429, "headgate_rejected")), atOnce},
		"a redirect of Envoy's":                        {hostReply(301, "direct_response"), atOnce},
		"a timeout":                                    {connectedTo(hostReply(504, "response_timeout")), later},
		"a client that leaves early":                   {clientGone, later},
		"a client that leaves a stream":                {inMidStream(clientGone), later},
		"a client that leaves a failure":               {func(s *wasmtest.Stream) { s.ResponseHeaders(wasmtest.ResponseHeaders(503), false); s.ClientGone() }, later},
		"a client that leaves a push-back":             {func(s *wasmtest.Stream) { s.ResponseHeaders(wasmtest.ResponseHeaders(429), false); s.ClientGone() }, later},
		"an upgraded connection":                       {upgraded(clientGone), later},
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, 2, config(pool("model", 1, "queue", 1)))
			first := g.sendModel(0, "m")
			next := g.sendModel(1, "m")
			g.requireRunning(first, "the first request")
			g.requireWaiting(next, "the second request")
			c.end(first)
			require.Equal(t, c.in, g.after("the second request runs", func() bool { return runs(next) }))
			next.Respond(200, "ok")
			g.requireDrained("model")
		})
	}
}

// A tick that was on its way when a request ended comes in the same turn of Envoy's event loop, before the reset.
func TestATickThatWasOnItsWayReleasesNothing(t *testing.T) {
	g := start(t, 2, config(pool("model", 3, "queue", 3)))
	first, second, third := g.sendModel(0, "m"), g.sendModel(0, "m"), g.sendModel(0, "m")
	var waiting []*wasmtest.Stream
	for range 3 {
		waiting = append(waiting, g.sendModel(1, "m"))
	}
	first.ClientGone()
	g.host.Advance(ms) // the tick for the first is due
	second.ClientGone()
	g.host.Drain()
	require.Equal(t, 1, countRunning(waiting), "the first one's permit is used again, and the second one's not yet")
	third.ClientGone()
	g.host.Run(ms)
	require.Equal(t, 2, countRunning(waiting), "the second one's")
	g.host.Run(ms)
	require.Equal(t, 3, countRunning(waiting), "the third one's")
}

// Whoever comes to an end in ever new turns keeps nobody else's permit away.
func TestASteadyStreamOfLeaversKeepsNobodyWaiting(t *testing.T) {
	g := start(t, 2, config(pool("model", 100, "queue", 1)))
	var running []*wasmtest.Stream
	for range 100 {
		running = append(running, g.sendModel(0, "m"))
	}
	waiter := g.sendModel(1, "m")
	for i, s := range running {
		s.ClientGone()
		g.host.Run(ms / 4)
		if i > 8 {
			g.requireRunning(waiter, "the waiter, two ticks after the first one has left")
		}
	}
}

// The host ticks no more in a context that has ended.
func TestLeaversOfAContextThatEndsAreReleased(t *testing.T) {
	c := config(pool("model", 2, "queue", 2))
	g := start(t, 2, c)
	a, b := g.sendModel(0, "m"), g.sendModel(0, "m")
	g.reload(with(c, "max_keys", 7))
	w1, w2 := g.sendModel(1, "m"), g.sendModel(1, "m")
	g.requireWaiting(w1, "a request under the new configuration")
	a.ClientGone()
	b.ClientGone() // the old context's last one
	g.host.Drain()
	g.afterReset()
	g.requireRunning(w1, "it runs")
	g.requireRunning(w2, "and the next")
	w1.Respond(200, "ok")
	w2.Respond(200, "ok")
	g.requireDrained("model")
}

func TestCase_O02_StreamKeepsItsPermitToTheLastByte(t *testing.T) {
	g := start(t, 2, config(pool("model", 1, "queue", 1, "max_wait", "20s")))
	a := g.sendModel(0, "m")
	begin(a)
	c := g.sendModel(1, "m")
	for range 10 {
		g.host.Run(time.Second)
		a.ResponseBody([]byte("data: 2\n\n"), false)
		g.requireWaiting(c, "a request behind a running stream")
	}
	a.ResponseBody([]byte("data: [DONE]\n\n"), true)
	g.host.Drain()
	g.requireRunning(c, "the request behind the stream that ended")
}
