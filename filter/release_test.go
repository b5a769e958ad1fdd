package filter_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/wasmtest"
)

// A permit is free when its stream ends, whatever ends it, and not before.
func TestEveryEndGivesThePermitBack(t *testing.T) {
	ends := map[string]func(s *wasmtest.Stream){
		"a whole response":                   func(s *wasmtest.Stream) { s.Respond(200, "ok") },
		"a response without a body":          func(s *wasmtest.Stream) { s.ResponseHeaders(wasmtest.ResponseHeaders(204), true) },
		"a client that leaves early":         (*wasmtest.Stream).ClientGone,
		"an upstream that resets early":      (*wasmtest.Stream).UpstreamReset,
		"another filter's reply":             func(s *wasmtest.Stream) { s.HostReply(403, "rbac", 0) },
		"a timeout":                          func(s *wasmtest.Stream) { s.HostReply(504, "timeout", wasmtest.FlagUpstreamTimeout) },
		"a client that leaves a stream":      func(s *wasmtest.Stream) { begin(s); s.ClientGone() },
		"an upstream that resets mid-stream": func(s *wasmtest.Stream) { begin(s); s.UpstreamReset() },
		"trailers":                           func(s *wasmtest.Stream) { begin(s); s.ResponseTrailers(wasmtest.HeadersOf("grpc-status", "0")) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			g := start(t, 2, config(pool("model", 1, "queue", 1)))
			first := g.sendModel(0, "m")
			next := g.sendModel(1, "m")
			g.requireRunning(first, "the first request")
			g.requireWaiting(next, "the second request")
			end(first)
			g.host.Drain()
			g.requireRunning(next, "the second request, once the first ended")
			next.Respond(200, "ok")
			g.requireDrained("model")
		})
	}
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
