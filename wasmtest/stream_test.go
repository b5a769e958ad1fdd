package wasmtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

var (
	get  = wasmtest.RequestHeaders("GET", "/")
	post = wasmtest.RequestHeaders("POST", "/")
	ok   = wasmtest.ResponseHeaders(200)
)

// pausing makes the guest pause every request at its headers.
func pausing(t *testing.T, options ...wasmtest.Option) (*stage, *wasmtest.Plugin) {
	s, plugin := newStage(t, options...)
	s.on("request_headers", func(*puppet) uint32 { return 1 })
	return s, plugin
}

// tick runs script in a tick of worker 0's root, the way a paused stream is resumed.
func tick(s *stage, plugin *wasmtest.Plugin, script func(*puppet)) {
	s.t.Helper()
	before := s.scripts["request_headers"]
	as(s, plugin, 0, func(p *puppet) { p.must(opTick, 1) })
	s.do("tick", func(p *puppet) { p.must(opTick, 0); script(p) })
	s.Run(1e6)
	s.scripts["request_headers"] = before
}

func TestStream_CallbacksFromFirstToLast(t *testing.T) {
	s, plugin := newStage(t)
	stream := plugin.Stream(0)
	s.calls = nil
	require.Equal(t, wasmtest.Continue, stream.RequestHeaders(post, false))
	stream.RequestBody([]byte("body"), false)
	stream.RequestTrailers(wasmtest.HeadersOf("x-t", "1"))
	stream.ResponseHeaders(ok, false)
	stream.ResponseBody([]byte("hello"), false)
	stream.ResponseTrailers(wasmtest.HeadersOf("x-t", "2"))
	require.Equal(t, []string{
		"w0 context_create[2,1]", "w0 request_headers[2,4,0]", "w0 request_body[2,4,0]", "w0 request_trailers[2,1]",
		"w0 response_headers[2,1,0]", "w0 response_body[2,5,0]", "w0 response_trailers[2,1]",
		"w0 log[2]", "w0 done[2]", "w0 delete[2]",
	}, s.calls)
	e, ended := stream.Ended()
	require.True(t, ended, "a response that is over ends its stream")
	require.Equal(t, wasmtest.End{Cause: wasmtest.Completed, Code: 200, Details: "via_upstream"}, e)
	require.Equal(t, "body", string(stream.Forwarded().Body))
	require.Equal(t, "1", stream.Forwarded().Trailers.Get("x-t"))
	require.Equal(t, "hello", string(stream.Received().Body))
	require.Equal(t, "2", stream.Received().Trailers.Get("x-t"))
}

func TestStream_EveryEndMakesTheSameCallbacksOnceAndTellsWhy(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*wasmtest.Stream)
		want wasmtest.End
	}{
		"complete": {(*wasmtest.Stream).Complete, wasmtest.End{Cause: wasmtest.Completed, Code: 200,
			Details: "via_upstream"}},
		"client gone": {(*wasmtest.Stream).ClientGone, wasmtest.End{
			Cause: wasmtest.ClientGone, Code: 200, Flags: 1 << 14, Details: "downstream_remote_disconnect"}},
		"upstream reset": {(*wasmtest.Stream).UpstreamReset, wasmtest.End{
			Cause: wasmtest.UpstreamGone, Code: 200, Flags: 1 << 4, Details: "upstream_reset_after_response_started{remote_reset}"}},
		"other": {func(s *wasmtest.Stream) { s.End(wasmtest.End{Cause: "drain", Code: 7}) },
			wasmtest.End{Cause: "drain", Code: 7}},
	} {
		t.Run(name, func(t *testing.T) {
			s, plugin := newStage(t)
			var code, details string
			s.do("done", func(p *puppet) {
				code = p.call(opGetProperty, "response\x00code").B
				details = p.call(opGetProperty, "response\x00code_details").B
			})
			stream := plugin.Stream(0)
			stream.RequestHeaders(get, true)
			stream.ResponseHeaders(ok, false)
			c.end(stream)
			c.end(stream)
			require.Equal(t, []string{"on_log", "on_done", "on_delete"}, stream.Callbacks()[3:])
			e, _ := stream.Ended()
			require.Equal(t, c.want, e)
			require.Equal(t, byte(c.want.Code), code[0])
			require.Equal(t, c.want.Details, details)
			require.Equal(t, wasmtest.Ended, stream.ResponseBody([]byte("late"), true))
		})
	}
}

func TestStream_NeverSeenByTheFilterIsLoggedWithoutHeaders(t *testing.T) {
	s, plugin := newStage(t)
	stream := plugin.Stream(0)
	stream.HostReply(400, "http1.codec_error", 0)
	require.Equal(t, []string{"on_context_create", "on_log", "on_done", "on_delete"}, stream.Callbacks())
	require.Equal(t, "400", stream.Received().Headers.Get(":status"))

	attempt := plugin.Stream(0, wasmtest.Upstream())
	attempt.ClientGone()
	require.Empty(t, attempt.Callbacks(), "an attempt isn't logged, and so never created")
	require.NoError(t, s.Verify())
}

func TestStream_AnAttemptIsNeverLogged(t *testing.T) {
	_, plugin := newStage(t)
	stream := plugin.Stream(0, wasmtest.Upstream())
	stream.RequestHeaders(get, true)
	stream.UpstreamReset()
	require.Equal(t, []string{"on_context_create", "on_request_headers", "on_done", "on_delete"}, stream.Callbacks())
}

func TestStream_PausedAtHeadersHoldsTheBodyToo(t *testing.T) {
	s, plugin := pausing(t)
	stream := plugin.Stream(0)
	require.Equal(t, wasmtest.Pause, stream.RequestHeaders(post, false))
	require.True(t, stream.Paused())
	require.Equal(t, wasmtest.Held, stream.RequestBody([]byte("a"), false))
	require.Equal(t, wasmtest.Held, stream.RequestBody([]byte("b"), false))
	require.Equal(t, wasmtest.Held, stream.RequestTrailers(wasmtest.HeadersOf("x", "y")))
	require.Nil(t, stream.Forwarded().Headers, "nothing goes upstream")
	require.Equal(t, []string{"on_context_create", "on_request_headers"}, stream.Callbacks())

	s.calls = nil
	tick(s, plugin, func(p *puppet) { p.resume(stream.ContextID()) })
	require.False(t, stream.Paused())
	require.Equal(t, []string{"on_request_body", "on_request_trailers"}, stream.Callbacks()[2:])
	require.Contains(t, s.calls, "w0 request_body[2,2,0]", "what was held comes in one piece")
	require.Equal(t, "ab", string(stream.Forwarded().Body))
	require.True(t, stream.Forwarded().Ended)
}

func TestStream_WithTheFlagTheGuestSeesTheBodyWhileHeadersWait(t *testing.T) {
	s := emptyStage(t)
	plugin := s.MustLoad(wasmtest.PluginConfig{AllowOnHeadersStopIteration: true})
	s.on("request_headers", func(*puppet) uint32 { return 1 })
	answers := []uint32{2, 2, 0}
	var pieces []string
	s.on("request_body", func(p *puppet) uint32 {
		pieces = append(pieces, p.must(opGetBuffer, 0, 0, 100).B)
		return answers[len(pieces)-1]
	})
	stream := plugin.Stream(0)
	stream.RequestHeaders(post, false)
	require.Equal(t, wasmtest.StopAndWatermark, stream.RequestBody([]byte("a"), false))
	require.Equal(t, wasmtest.StopAndWatermark, stream.RequestBody([]byte("b"), false))
	require.True(t, stream.Paused())
	require.Nil(t, stream.Forwarded().Headers)
	require.Equal(t, wasmtest.Continue, stream.RequestBody([]byte("c"), true))
	require.Equal(t, []string{"a", "b", "c"}, pieces, "with 2 each piece is seen once")
	require.False(t, stream.Paused(), "continue from a body piece lets the headers go too")
	require.Equal(t, "abc", string(stream.Forwarded().Body))
	require.NotNil(t, stream.Forwarded().Headers)
}

func TestStream_BufferingShowsTheWholeBufferAndHasALimit(t *testing.T) {
	s, plugin := newStage(t, wasmtest.WithBodyLimit(4))
	var pieces []string
	s.on("request_body", func(p *puppet) uint32 {
		pieces = append(pieces, p.must(opGetBuffer, 0, 0, 100).B)
		return 1
	})
	stream := plugin.Stream(0)
	stream.RequestHeaders(post, false)
	stream.RequestBody([]byte("ab"), false)
	stream.RequestBody([]byte("cd"), false)
	require.Equal(t, []string{"ab", "abcd"}, pieces)
	_, ended := stream.Ended()
	require.False(t, ended)
	stream.RequestBody([]byte("e"), false)
	require.Equal(t, []string{"ab", "abcd"}, pieces, "the piece that breaks the limit is not seen")
	require.Equal(t, 413, stream.LocalReply().Code)
	require.Empty(t, stream.Forwarded().Body)
}

func TestStream_ContinueFromTheMiddleOfTheBodySendsWhatWaited(t *testing.T) {
	s, plugin := newStage(t)
	s.on("request_body", func(*puppet) uint32 { return 1 })
	stream := plugin.Stream(0)
	stream.RequestHeaders(post, false)
	require.NotNil(t, stream.Forwarded().Headers)
	stream.RequestBody([]byte("ab"), true)
	require.Empty(t, stream.Forwarded().Body)
	tick(s, plugin, func(p *puppet) {
		p.must(opEffective, stream.ContextID())
		require.Equal(t, "ab", p.must(opGetBuffer, 0, 0, 9).B, "a buffered body can be read later")
		p.must(opContinue, 0)
	})
	require.Equal(t, "ab", string(stream.Forwarded().Body))
	require.True(t, stream.Forwarded().Ended)
}

func TestStream_ResponsesPauseLikewise(t *testing.T) {
	s, plugin := newStage(t)
	s.on("response_headers", func(*puppet) uint32 { return 1 })
	stream := plugin.Stream(0)
	stream.RequestHeaders(get, true)
	stream.ResponseHeaders(ok, false)
	require.Equal(t, wasmtest.Held, stream.ResponseBody([]byte("x"), true))
	require.True(t, stream.ResponsePaused())
	tick(s, plugin, func(p *puppet) {
		p.must(opEffective, stream.ContextID())
		p.must(opContinue, 1)
	})
	require.Equal(t, "x", string(stream.Received().Body))
	_, ended := stream.Ended()
	require.True(t, ended)
}

func TestStream_AnswersOutOfRangeAreTheStrictest(t *testing.T) {
	s, plugin := newStage(t)
	s.on("request_headers", func(*puppet) uint32 { return 77 })
	require.Equal(t, wasmtest.StopAllAndWatermark, plugin.Stream(0).RequestHeaders(get, true))
}

func TestStream_ContextIDsCountUpPerVM(t *testing.T) {
	_, plugin := newStage(t, wasmtest.WithWorkers(2))
	require.EqualValues(t, 2, plugin.Stream(0).ContextID())
	require.EqualValues(t, 3, plugin.Stream(0).ContextID())
	require.EqualValues(t, 2, plugin.Stream(1).ContextID(), "other VM, same id")
}

func TestStream_CloseResetsIt(t *testing.T) {
	s, plugin := pausing(t)
	stream := plugin.Stream(0)
	stream.RequestHeaders(get, true)
	tick(s, plugin, func(p *puppet) {
		p.must(opEffective, stream.ContextID())
		p.must(opClose, 0)
		require.Equal(t, wasmtest.StatusBadArgument, p.call(opClose, 4).Status)
		require.Equal(t, wasmtest.StatusBadArgument, p.call(opContinue, 4).Status)
		_, ended := stream.Ended()
		require.False(t, ended, "after the callback, not in it")
	})
	e, _ := stream.Ended()
	require.Equal(t, wasmtest.Closed, e.Cause)
	require.Equal(t, "wasm_close_stream", e.Details)
	require.Nil(t, stream.LocalReply())
}
