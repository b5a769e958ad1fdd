package wasmtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

func TestReply_ComesAfterTheCallbackAndEntersTheGuestAgain(t *testing.T) {
	s, plugin := newStage(t)
	inside := false
	s.on("request_headers", func(p *puppet) uint32 {
		inside = true
		p.must(opReply, 429, "too many\tthings", "no", string(encode("x-why", "full")), 8)
		inside = false
		return 1
	})
	s.do("response_headers", func(p *puppet) {
		require.False(t, inside)
		require.Equal(t, "429", p.header(2, ":status").B)
		require.Equal(t, "full", p.header(2, "x-why").B)
	})
	stream := plugin.Stream(0)
	require.NotEqual(t, wasmtest.Continue, stream.RequestHeaders(get, true))
	require.Equal(t, []string{
		"on_context_create", "on_request_headers", "on_response_headers", "on_response_body",
		"on_log", "on_done", "on_delete",
	}, stream.Callbacks())
	r := stream.LocalReply()
	require.Equal(t, 429, r.Code)
	require.Equal(t, "no", string(r.Body))
	require.Equal(t, wasmtest.HeadersOf("x-why", "full"), r.Headers)
	require.Equal(t, 8, r.GRPCStatus)
	require.Equal(t, "too_many_things", r.Details)
	require.Equal(t, wasmtest.Headers{{":status", "429"}, {"x-why", "full"}, {"content-length", "2"},
		{"content-type", "text/plain"}}, stream.Received().Headers)
	require.Nil(t, stream.Forwarded().Headers)
	e, _ := stream.Ended()
	require.Equal(t, wasmtest.End{Cause: wasmtest.Replied, Code: 429, Details: "too_many_things"}, e)
}

func TestReply_StopsItsStreamWhateverTheGuestAnswers(t *testing.T) {
	s, plugin := newStage(t)
	s.do("request_headers", func(p *puppet) { p.must(opReply, 403, "", "", "", -1) }) // answers Continue
	stream := plugin.Stream(0)
	require.Equal(t, wasmtest.StopAllAndWatermark, stream.RequestHeaders(get, true))
	require.Nil(t, stream.Forwarded().Headers)
	require.Equal(t, wasmtest.NoGRPCStatus, stream.LocalReply().GRPCStatus)
	require.Equal(t, []string{"on_response_headers", "on_log"}, stream.Callbacks()[2:4], "no body, no body callback")
}

func TestReply_ToAnotherStreamFromATickIsFine(t *testing.T) {
	s, plugin := pausing(t)
	stream := plugin.Stream(0)
	stream.RequestHeaders(get, true)
	tick(s, plugin, func(p *puppet) { p.reply(stream.ContextID(), 429, "") })
	require.Equal(t, 429, stream.LocalReply().Code)
	require.Empty(t, s.Violations())
}

func TestReply_ToAnotherStreamFromAStreamCallbackHangsTheCaller(t *testing.T) {
	for _, callback := range []string{"request_headers", "request_body", "response_headers", "response_body"} {
		t.Run(callback, func(t *testing.T) {
			s, plugin := pausing(t)
			victim := plugin.Stream(0)
			victim.RequestHeaders(get, true)
			delete(s.scripts, "request_headers")
			s.do(callback, func(p *puppet) {
				if p.ID() != victim.ContextID() {
					p.reply(victim.ContextID(), 503, "")
				}
			})
			caller := plugin.Stream(0)
			caller.RequestHeaders(post, false)
			caller.RequestBody([]byte("x"), true)
			caller.ResponseHeaders(ok, false)
			caller.ResponseBody([]byte("y"), false)
			require.NotNil(t, victim.LocalReply())
			require.True(t, caller.Paused() || caller.ResponsePaused(), "as in the real host")
			require.Equal(t, wasmtest.ReplyFromOtherStream, s.Violations()[0].Kind)
			s.ForgetViolations()
		})
	}
}

func TestReply_FromDoneOrLogOfAnotherStreamIsFine(t *testing.T) {
	s, plugin := pausing(t)
	waiter := plugin.Stream(0)
	waiter.RequestHeaders(get, true)
	delete(s.scripts, "request_headers")
	s.do("done", func(p *puppet) {
		if p.ID() != waiter.ContextID() {
			p.reply(waiter.ContextID(), 429, "")
		}
	})
	other := plugin.Stream(0)
	other.RequestHeaders(get, true)
	other.Complete()
	require.Equal(t, 429, waiter.LocalReply().Code)
	require.Empty(t, s.Violations())
}

func TestReply_AfterTheResponseHasBegunCutsTheStream(t *testing.T) {
	s, plugin := newStage(t)
	s.do("response_body", func(p *puppet) { p.must(opReply, 500, "late", "", "", -1) })
	stream := plugin.Stream(0)
	stream.RequestHeaders(get, true)
	stream.ResponseHeaders(ok, false)
	stream.ResponseBody([]byte("x"), false)
	require.Nil(t, stream.LocalReply())
	e, ended := stream.Ended()
	require.True(t, ended)
	require.Equal(t, 200, e.Code)
}

func TestReply_InsteadOfAResponseAtItsHeadersIsNotSeenByTheFilter(t *testing.T) {
	s, plugin := newStage(t)
	s.do("response_headers", func(p *puppet) { p.must(opReply, 502, "bad", "sorry", "", -1) })
	stream := plugin.Stream(0)
	stream.RequestHeaders(get, true)
	stream.ResponseHeaders(ok, false)
	require.Equal(t, "502", stream.Received().Headers.Get(":status"))
	require.Equal(t, "sorry", string(stream.Received().Body))
	require.Equal(t, []string{"on_response_headers", "on_log", "on_done", "on_delete"}, stream.Callbacks()[2:])
}

func TestReply_ToGRPCIsTrailersOnly(t *testing.T) {
	for _, c := range []struct {
		code, given int
		want        string
	}{{429, -1, "14"}, {429, 8, "8"}, {400, -1, "13"}, {401, -1, "16"}, {403, -1, "7"}, {404, -1, "12"},
		{500, -1, "2"}, {429, 17, "14"}} {
		s, plugin := newStage(t)
		s.do("request_headers", func(p *puppet) { p.must(opReply, c.code, "", "message", "", c.given) })
		stream := plugin.Stream(0)
		stream.RequestHeaders(wasmtest.RequestHeaders("POST", "/s/M", "content-type", "application/grpc"), false)
		h := stream.Received().Headers
		require.Equal(t, "200", h.Get(":status"))
		require.Equal(t, c.want, h.Get("grpc-status"), "%+v", c)
		require.Equal(t, "message", h.Get("grpc-message"))
		require.Empty(t, stream.Received().Body)
	}
}

func TestReply_OfAnAttemptGoesThroughTheClientsStream(t *testing.T) {
	s, plugin := newStage(t)
	attempts := s.MustLoad(wasmtest.PluginConfig{Name: "attempt"})
	client := plugin.Stream(0)
	client.RequestHeaders(get, true)
	attempt := attempts.Stream(0, wasmtest.Upstream(), wasmtest.OfRequest(client.Request()))
	s.do("request_headers", func(p *puppet) { p.must(opReply, 429, "full", "no", "", -1) })
	attempt.RequestHeaders(get, true)
	require.Equal(t, []string{"on_context_create", "on_request_headers", "on_done", "on_delete"}, attempt.Callbacks())
	require.Equal(t, []string{"on_response_headers", "on_response_body", "on_log", "on_done", "on_delete"},
		client.Callbacks()[2:])
	require.Equal(t, "429", client.Received().Headers.Get(":status"))
	require.Equal(t, 429, attempt.LocalReply().Code)
}

func TestReply_OfTheHostEntersTheGuest(t *testing.T) {
	_, plugin := pausing(t)
	stream := plugin.Stream(0)
	stream.RequestHeaders(get, true)
	stream.HostReply(504, "stream_idle_timeout", wasmtest.FlagStreamIdleTimeout)
	require.Equal(t, []string{"on_response_headers", "on_log", "on_done", "on_delete"}, stream.Callbacks()[2:])
	e, _ := stream.Ended()
	require.Equal(t, wasmtest.End{Cause: wasmtest.Replied, Code: 504, Flags: 1 << 16, Details: "stream_idle_timeout"}, e)

	early := plugin.Stream(0)
	early.RequestHeaders(get, true)
	early.UpstreamReset()
	require.Equal(t, 503, early.LocalReply().Code)
}
