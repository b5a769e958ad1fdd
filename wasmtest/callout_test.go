package wasmtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// callOut makes an HTTP call and returns its token.
func callOut(p *puppet) uint64 {
	return p.must(opHTTPCall, "cluster", string(encode(":method", "GET", ":path", "/", ":authority", "a")), "body",
		string(encode("t", "1")), 250).N
}

func TestCallout_IsAnsweredByTheTest(t *testing.T) {
	s, plugin := newStage(t)
	var token uint64
	as(s, plugin, 0, func(p *puppet) {
		require.Equal(t, wasmtest.StatusBadArgument, p.call(opHTTPCall, "c", string(encode(":path", "/")), "", "", 0).Status)
		token = callOut(p)
	})
	c := s.Callouts()[0]
	require.Equal(t, "cluster", c.Cluster)
	require.Equal(t, "body", string(c.Body))
	require.Equal(t, wasmtest.HeadersOf("t", "1"), c.Trailers)
	require.Equal(t, 250*time.Millisecond, c.Timeout)
	require.Same(t, plugin.Root(0), c.Root())

	answered := 0
	s.do("http_call_response", func(p *puppet) {
		answered++
		require.Equal(t, []uint32{plugin.Root(0).ContextID(), uint32(token), 2, 4, 1}, p.Args)
		require.Equal(t, "200", p.header(6, ":status").B)
		require.Equal(t, "u", p.header(7, "t").B)
		require.Equal(t, "pong", p.must(opGetBuffer, 4, 0, 100).B)
		require.Equal(t, wasmtest.StatusBadArgument, p.call(opAddHeader, 6, "a", "b").Status)
	})
	c.Answer(wasmtest.ResponseHeaders(200, "a", "b"), []byte("pong"), wasmtest.HeadersOf("t", "u"))
	c.Answer(nil, nil, nil)
	require.Equal(t, 1, answered)
	require.Empty(t, s.Callouts())
	tick(s, plugin, func(p *puppet) { require.Equal(t, wasmtest.StatusBadArgument, p.header(6, ":status").Status) })
}

func TestCallout_CanBreak(t *testing.T) {
	s, plugin := newStage(t)
	as(s, plugin, 0, func(p *puppet) { callOut(p) })
	s.do("http_call_response", func(p *puppet) {
		require.Equal(t, []uint32{0, 0, 0}, p.Args[2:])
		a := p.must(opStatus)
		require.EqualValues(t, wasmtest.StatusBrokenConnection, a.N)
		require.Equal(t, "reset", a.B)
	})
	s.Callouts()[0].Fail()
	require.Contains(t, s.calls, "w0 http_call_response[1,1,0,0,0]")
}

func TestCallout_TheAnswerForADeadVMReachesNobody(t *testing.T) {
	s, plugin := newStage(t)
	as(s, plugin, 0, func(p *puppet) { callOut(p) })
	c := s.Callouts()[0]
	s.Worker(0).Kill()
	s.calls = nil
	c.Answer(wasmtest.ResponseHeaders(200), nil, nil)
	require.Empty(t, s.calls)
}

func TestForeignFunction_IsTheTests(t *testing.T) {
	s, plugin := newStage(t)
	s.SetForeignFunction("f", func(vm *wasmtest.VM, argument []byte) ([]byte, wasmtest.Status) {
		require.Equal(t, "w0", vm.Worker().Name())
		return append(argument, '!'), wasmtest.StatusOk
	})
	as(s, plugin, 0, func(p *puppet) {
		require.Equal(t, "hi!", p.must(opForeign, "f", "hi").B)
		require.Equal(t, wasmtest.StatusNotFound, p.call(opForeign, "g", "").Status)
	})
}
