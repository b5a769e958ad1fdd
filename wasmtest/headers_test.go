package wasmtest_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// encode is the serialisation of a header map, written out independently of the host's.
func encode(namesAndValues ...string) (b []byte) {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(namesAndValues)/2))
	for _, s := range namesAndValues {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
	}
	for _, s := range namesAndValues {
		b = append(append(b, s...), 0)
	}
	return b
}

func TestHeaders_GuestReadsThem(t *testing.T) {
	s, plugin := newStage(t)
	s.do("request_headers", func(p *puppet) {
		require.Equal(t, "1", p.header(0, "X-A").B, "only the first of repeated values, whatever the name's case")
		require.Equal(t, wasmtest.StatusNotFound, p.header(0, "x-none").Status)
		require.Equal(t, string(encode(":method", "GET", ":scheme", "http", ":authority", "example.test", ":path", "/p",
			"x-a", "1", "x-a", "2", "x-empty", "")), p.must(opGetPairs, 0).B)
		require.EqualValues(t, len(":methodGET:schemehttp:authorityexample.test:path/px-a1x-a2x-empty"),
			p.must(opGetHeaderSize, 0).N, "bytes, not entries")
		require.Equal(t, wasmtest.StatusBadArgument, p.header(2, ":status").Status, "no response yet")
		require.Empty(t, p.must(opGetPairs, 2).B, "pairs of no map are Ok and empty")
		require.Equal(t, wasmtest.StatusBadArgument, p.call(opGetPairs, 8).Status)
		require.Equal(t, wasmtest.StatusBadArgument, p.call(opAddHeader, 2, "a", "b").Status)
	})
	plugin.Stream(0).RequestHeaders(
		wasmtest.RequestHeaders("GET", "/p", "x-a", "1", "X-A", "2", "x-empty", ""), true)
}

func TestHeaders_GuestChangesThem(t *testing.T) {
	s, plugin := newStage(t)
	s.do("request_headers", func(p *puppet) {
		p.must(opAddHeader, 0, "X-Added", "1")
		p.must(opAddHeader, 0, "x-added", "2")
		p.must(opReplaceHeader, 0, "x-many", "only")
		p.must(opReplaceHeader, 0, "x-new", "n")
		p.must(opRemoveHeader, 0, "x-gone")
	})
	s.do("response_headers", func(p *puppet) {
		p.must(opSetPairs, 2, string(encode(":status", "201", "x-b", "c")))
	})
	stream := plugin.Stream(0)
	given := wasmtest.RequestHeaders("GET", "/", "x-many", "1", "x-gone", "1", "x-many", "2", "x-gone", "2")
	stream.RequestHeaders(given, true)
	require.Equal(t, wasmtest.RequestHeaders("GET", "/", "x-many", "only", "x-added", "1", "x-added", "2", "x-new", "n"),
		stream.Forwarded().Headers)
	require.Equal(t, []string{"1", "2"}, given.Values("x-many"), "the test's own map is left alone")
	stream.ResponseHeaders(ok, true)
	require.Equal(t, wasmtest.ResponseHeaders(201, "x-b", "c"), stream.Received().Headers)
}

func TestHeaders_CanBeReachedFromTheirCallbackUntilTheyGoOn(t *testing.T) {
	s, plugin := newStage(t)
	reach := func(p *puppet) [3]wasmtest.Status {
		return [3]wasmtest.Status{p.header(0, ":path").Status, p.header(2, ":status").Status,
			p.call(opAddHeader, 0, "a", "b").Status}
	}
	got := map[string][3]wasmtest.Status{}
	for _, callback := range []string{"request_headers", "request_body", "response_headers", "log", "done", "delete"} {
		s.do(callback, func(p *puppet) { got[callback] = reach(p) })
	}
	stream := plugin.Stream(0)
	stream.RequestHeaders(post, false)
	stream.RequestBody([]byte("x"), true)
	stream.ResponseHeaders(ok, true)
	const yes, no, none = wasmtest.StatusOk, wasmtest.StatusBadArgument, wasmtest.StatusNotFound
	require.Equal(t, map[string][3]wasmtest.Status{
		"request_headers":  {yes, no, yes},
		"request_body":     {no, no, no},
		"response_headers": {no, yes, no},
		"log":              {yes, yes, no},
		"done":             {no, no, no},
		"delete":           {no, no, no},
	}, got)

	refused := plugin.Stream(0)
	refused.Complete()
	require.Equal(t, [3]wasmtest.Status{none, none, no}, got["log"], "a request without headers")
}

func TestHeaders_OfAPausedStreamCanBeEditedUntilTheContinue(t *testing.T) {
	s, plugin := pausing(t)
	w := waiters(plugin, 1)
	tick(s, plugin, func(p *puppet) {
		p.must(opEffective, w[0].ContextID())
		p.must(opReplaceHeader, 0, "x-left", "42")
		p.must(opContinue, 0)
		require.Equal(t, wasmtest.StatusBadArgument, p.call(opReplaceHeader, 0, "x-left", "43").Status)
	})
	require.Equal(t, "42", w[0].Forwarded().Headers.Get("x-left"))
}

func TestHeaders_MalformedPairsAreEmptyAndAViolation(t *testing.T) {
	s, plugin := newStage(t)
	good := string(encode("a", "b"))
	for _, bad := range []string{"abc", good[:len(good)-1], good + "x", "\xff\xff\xff\xff" + good[4:],
		"\x01\x04\x00\x00" + good[4:]} {
		s.do("request_headers", func(p *puppet) { p.must(opSetPairs, 0, bad) })
		stream := plugin.Stream(0)
		stream.RequestHeaders(get, true)
		require.Empty(t, stream.Forwarded().Headers)
		require.Len(t, s.Violations(), 1, "%q", bad)
		require.Equal(t, wasmtest.BadPairs, s.Violations()[0].Kind)
		s.ForgetViolations()
	}
}

func TestHeaders_TrailersCanBeMadeAtTheLastPiece(t *testing.T) {
	s, plugin := newStage(t)
	s.do("response_body", func(p *puppet) {
		want := wasmtest.StatusBadArgument
		if p.Args[2] == 1 {
			want = wasmtest.StatusOk
		}
		require.Equal(t, want, p.call(opAddHeader, 3, "x-sum", "1").Status)
	})
	stream := plugin.Stream(0)
	stream.RequestHeaders(get, true)
	stream.ResponseHeaders(ok, false)
	stream.ResponseBody([]byte("a"), false)
	stream.ResponseBody([]byte("b"), true)
	require.Equal(t, wasmtest.HeadersOf("x-sum", "1"), stream.Received().Trailers)
}

func TestHeadersOf_NeedsPairs(t *testing.T) {
	odd := []string{"a", "1", "b"}
	require.PanicsWithValue(t, `wasmtest: header "b" has no value`, func() { wasmtest.HeadersOf(odd...) })
	h := wasmtest.HeadersOf("A", "1", "a", "2")
	require.Equal(t, "1", h.Get("a"))
	require.True(t, h.Has("A"))
	require.Equal(t, []string{"1", "2"}, h.Values("a"))
}
