package filter_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// A blame is whom an ending counts for.
type blame int

const (
	nobodys blame = iota
	clients
	providers
)

// gone ends a stream as Envoy does when the client's side has ended it with nothing answered.
func gone(details string, flags wasmtest.ResponseFlags) ending {
	return func(s *wasmtest.Stream) {
		s.End(wasmtest.End{Cause: wasmtest.ClientGone, Details: details, Flags: flags})
	}
}

// connectedTo is an ending after which the stream's upstream had a connection.
func connectedTo(end ending) ending {
	return func(s *wasmtest.Stream) {
		s.SetProperty("127.0.0.1:40000", "upstream", "local_address")
		end(s)
	}
}

// causes are endings as Envoy 1.40 shows them to the stage request. envoy/cause_test.go makes them happen.
var causes = map[string]struct {
	end  ending
	want blame
}{
	"a broken chunk":                               {hostReply(400, "http1.codec_error"), clients},
	"a body slower than request_timeout":           {hostReply(408, "request_overall_timeout"), clients},
	"max_stream_duration before the answer":        {hostReply(504, "max_duration_timeout"), clients},
	"stream_idle_timeout before the answer":        {hostReply(504, "stream_idle_timeout"), clients},
	"RST_STREAM with code 0 before the answer":     {gone("", 0), clients},
	"RST_STREAM with code 0 in the answer":         {inMidStream(gone("via_upstream", 0)), clients},
	"RST_STREAM with code 1":                       {inMidStream(gone("http2.remote_reset", 1<<18)), clients},
	"RST_STREAM with code 8":                       {inMidStream(gone("http2.remote_reset", 1<<28)), clients},
	"a broken frame":                               {inMidStream(gone("codec_error:The_user_callback_function_failed", 1<<18)), clients},
	"max_stream_duration in the answer":            {inMidStream(gone("max_duration_timeout", 0)), clients},
	"the route's timeout in the answer":            {inMidStream(gone("response_timeout", 1<<2)), providers},
	"the upstream's reset in the answer":           {inMidStream(gone("upstream_reset_after_response_started{remote_reset}", 1<<4)), providers},
	"the cluster's max_stream_duration":            {inMidStream(gone("upstream_max_stream_duration_reached", 1<<19)), providers},
	"another filter's answer without any details":  {hostReply(503, ""), nobodys},
	"another filter's answer in place of a stream": {hostReply(500, "lua_response"), nobodys},
}

func TestCausesOfEndings(t *testing.T) {
	for name, c := range causes {
		t.Run(name, func(t *testing.T) {
			g := start(t, 1, config(pool("model", 2, "hold", object{"cancel": "1m"})))
			c.end(g.sendModel(0, "m"))
			g.requireBlame(c.want)
		})
	}
}

// requireBlame checks how the only ending counted: a cancel has a hold, and a failure has none.
func (g *gateway) requireBlame(want blame) {
	g.t.Helper()
	g.afterReset()
	require.Equal(g.t, want == clients, g.gauge("model.on_hold") == 1, "it is a cancel")
	require.Equal(g.t, want == providers, g.counter("model.provider_failure") == 1, "it is a failure")
	require.Zero(g.t, g.gauge("model.inflight"))
	require.Equal(g.t, 1, g.counter("model.aborted"))
}

// tried ends a call as the stage attempt sees it: the router ends the try before Envoy answers the call, or after the
// call has ended.
var tried = map[string]struct {
	end  func(c *call, try *wasmtest.Stream)
	want blame
}{
	"a broken chunk":                     {func(_ *call, try *wasmtest.Stream) { gone("http1.codec_error", 0)(try) }, clients},
	"a body slower than request_timeout": {func(_ *call, try *wasmtest.Stream) { gone("request_overall_timeout", 0)(try) }, clients},
	"max_stream_duration":                {func(_ *call, try *wasmtest.Stream) { gone("max_duration_timeout", 0)(try) }, clients},
	"RST_STREAM with code 0 before the answer": {func(c *call, try *wasmtest.Stream) {
		gone("", 0)(c.Stream)
		gone("", 0)(try)
	}, clients},
	"RST_STREAM with code 0 in the answer": {func(c *call, try *wasmtest.Stream) {
		begin(try)
		begin(c.Stream)
		gone("via_upstream", 0)(c.Stream)
		gone("via_upstream", 0)(try)
	}, clients},
	"a client that leaves": {func(c *call, try *wasmtest.Stream) {
		c.ClientGone()
		gone("", 0)(try)
	}, clients},
	"another try's answer": {func(c *call, try *wasmtest.Stream) {
		begin(c.Stream)
		gone("via_upstream", 0)(try)
	}, clients},
	"another filter's answer to the call":    {func(_ *call, try *wasmtest.Stream) { gone("ext_proc_error", 0)(try) }, clients},
	"the upstream's reset before the answer": {func(_ *call, try *wasmtest.Stream) { connectedTo(upstreamReset)(try) }, providers},
	"no connection":                          {func(_ *call, try *wasmtest.Stream) { try.UpstreamReset() }, nobodys},
	"the upstream's reset in the answer": {func(c *call, try *wasmtest.Stream) {
		begin(try)
		begin(c.Stream)
		try.UpstreamReset()
	}, providers},
}

func TestCausesOfATrysEnding(t *testing.T) {
	for name, c := range tried {
		t.Run(name, func(t *testing.T) {
			g := startStages(t, 1, twoPools(2, 2, "hold", object{"cancel": "1m"}))
			a := g.call(0, "a")
			c.end(a, a.try())
			g.requireBlame(c.want)
		})
	}
}

// A provider that ends a request before its client has sent it all may have lost its patience with the client.
func TestWhoSendsSlowlyMakesNoFailure(t *testing.T) {
	reset := connectedTo(hostReply(503, "upstream_reset_before_response_started{connection_termination}"))
	for name, c := range map[string]struct {
		send func(s *wasmtest.Stream) // what comes after the headers
		end  ending
		want blame
	}{
		"nothing of the body":      {func(*wasmtest.Stream) {}, reset, clients},
		"a part of the body":       {func(s *wasmtest.Stream) { s.RequestBody([]byte("{"), false) }, reset, clients},
		"the body":                 {func(s *wasmtest.Stream) { s.RequestBody([]byte("{}"), true) }, reset, providers},
		"the body and trailers":    {func(s *wasmtest.Stream) { s.RequestBody([]byte("{}"), false); s.RequestTrailers(nil) }, reset, providers},
		"no connection":            {func(*wasmtest.Stream) {}, hostReply(503, "upstream_reset_before_response_started{remote_connection_failure|x}"), nobodys},
		"a failure's answer":       {func(*wasmtest.Stream) {}, func(s *wasmtest.Stream) { s.ResponseHeaders(wasmtest.ResponseHeaders(503), false); s.UpstreamReset() }, providers},
		"an answer that has begun": {func(*wasmtest.Stream) {}, inMidStream(upstreamReset), providers},
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, 1, config(pool("model", 2, "hold", object{"cancel": "1m"})))
			s := g.plugin.Stream(0)
			s.RequestHeaders(wasmtest.RequestHeaders("POST", "/v1/chat/completions", "x-model", "m"), false)
			c.send(s)
			c.end(s)
			g.requireBlame(c.want)
		})
	}
}

// The same at the stage attempt, where nothing says whether there was a connection but its own address.
func TestWhoSendsSlowlyMakesNoFailureOfATry(t *testing.T) {
	for name, c := range map[string]struct {
		end  ending
		want blame
	}{
		"a reset":       {connectedTo(upstreamReset), clients},
		"no connection": {upstreamReset, nobodys},
	} {
		t.Run(name, func(t *testing.T) {
			g := startStages(t, 1, twoPools(2, 2, "hold", object{"cancel": "1m"}))
			a := g.call(0, "a")
			s := g.attempts.Stream(0, wasmtest.Upstream(), wasmtest.OfRequest(a.Request()))
			s.RequestHeaders(a.Forwarded().Headers, false)
			c.end(s)
			g.requireBlame(c.want)
		})
	}
}

// In back-off nothing runs, and the whole answer is an earlier try's.
func TestLeavingInBackOffAfterAWholeFailureIsACancel(t *testing.T) {
	g := start(t, 1, config(pool("model", 2, "hold", object{"cancel": "1m"})))
	s := g.sendModel(0, "m")
	s.SetProperty(1, "response", "backend_latency")
	s.ClientGone()
	g.requireBlame(clients)
}

// A whole answer takes one look.
func TestAWholeAnswerReadsOneProperty(t *testing.T) {
	for name, end := range map[string]ending{"an answer": answer(200), "a stream": inMidStream(func(s *wasmtest.Stream) { s.ResponseBody(nil, true) })} {
		t.Run(name, func(t *testing.T) {
			g := start(t, 1, config(pool("model", 2)))
			s := g.sendModel(0, "m")
			var read int
			g.host.OnHostCall(func(c *wasmtest.HostCall) {
				if c.Name() == "proxy_get_property" {
					read++
				}
			})
			end(s)
			require.Equal(t, 1, read)
		})
	}
}
