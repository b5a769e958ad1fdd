package wasmtest_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

func TestTrap_FailsTheVMAndIsReported(t *testing.T) {
	s, plugin := newStage(t, wasmtest.WithWorkers(2))
	s.do("request_headers", func(p *puppet) { p.call(opPanic, "oops") })
	stream := plugin.Stream(0)
	stream.RequestHeaders(get, true)
	require.ErrorContains(t, s.Err(), "VM of w0 failed in proxy_on_request_headers")
	require.ErrorContains(t, s.Verify(), "VM of w0 failed")
	require.Equal(t, s.Worker(0).Err(), s.Worker(0).VMs()[0].Err())
	require.Contains(t, logged(s, wasmtest.LogError), "oops", "what it printed is an error log")

	require.Equal(t, 503, stream.LocalReply().Code, "fail closed")
	require.Equal(t, "wasm_fail_stream", stream.LocalReply().Details)
	require.Equal(t, []string{"on_context_create", "on_request_headers"}, stream.Callbacks())
	next := plugin.Stream(0)
	next.RequestHeaders(get, true)
	require.Equal(t, 503, next.LocalReply().Code)
	require.Empty(t, next.Callbacks())
	s.ForgetFailures()
}

func logged(s *stage, level wasmtest.LogLevel) (text string) {
	for _, line := range s.Logs() {
		if line.Level == level {
			text += line.Message + "\n"
		}
	}
	return text
}

func TestTrap_CutsAStreamingResponseAtItsNextPiece(t *testing.T) {
	s, plugin := newStage(t)
	stream := plugin.Stream(0)
	stream.RequestHeaders(get, true)
	stream.ResponseHeaders(ok, false)
	s.Worker(0).Kill()
	_, ended := stream.Ended()
	require.False(t, ended)
	stream.ResponseBody([]byte("x"), false)
	e, _ := stream.Ended()
	require.Equal(t, wasmtest.VMFailed, e.Cause)
	require.Empty(t, stream.Received().Body)
}

func TestTrap_FailOpenLetsStreamsPass(t *testing.T) {
	s := emptyStage(t)
	plugin := s.MustLoad(wasmtest.PluginConfig{FailOpen: true})
	s.Worker(0).Kill()
	stream := plugin.Stream(0)
	require.Equal(t, wasmtest.Continue, stream.RequestHeaders(get, true))
	stream.Respond(200, "hi")
	require.Equal(t, "hi", string(stream.Received().Body))
}

func TestReload_BringsANewVMForTheLoadedPlugins(t *testing.T) {
	s, plugin := newStage(t, wasmtest.WithWorkers(2))
	second := s.MustLoad(wasmtest.PluginConfig{Name: "second"})
	require.Error(t, s.Worker(0).Reload(), "nothing has failed")
	old := plugin.Stream(0)
	s.on("request_headers", func(*puppet) uint32 { return 1 })
	old.RequestHeaders(get, true)
	delete(s.scripts, "request_headers")
	s.Worker(0).Kill()
	s.calls = nil
	require.NoError(t, s.Worker(0).Reload())
	require.Equal(t, []string{"w0 context_create[1,0]", "w0 vm_start[1,0]", "w0 configure[1,7]",
		"w0 context_create[2,0]", "w0 vm_start[2,0]", "w0 configure[2,0]"}, s.calls)
	require.Len(t, s.Worker(0).VMs(), 1)

	stream := second.Stream(0)
	require.Equal(t, wasmtest.Continue, stream.RequestHeaders(get, true))
	require.Equal(t, uint32(3), stream.ContextID(), "ids start anew")
	require.True(t, old.Paused(), "the dead VM's streams aren't the new one's")
	s.calls = nil
	old.ClientGone()
	require.Empty(t, s.calls)
}

func TestKill_LeavesDataQueuesAndMetrics(t *testing.T) {
	s, plugin := newStage(t)
	listen(s, plugin, 0, "q")
	s.Enqueue("q", []byte("m"))
	as(s, plugin, 0, func(p *puppet) {
		p.set("k", "v", 0)
		p.must(opRecord, p.must(opDefine, gauge, "g").N, 3)
	})
	s.Worker(0).VMs()[0].Kill()
	require.NoError(t, s.Verify())
	require.Equal(t, []string{"k"}, s.SharedData().Keys())
	q, _ := s.Queue("q")
	require.Len(t, q.Messages, 1)
	require.EqualValues(t, 3, s.Gauge("g"))
}

func TestTrap_WhileWaitingIsToldAsSleeping(t *testing.T) {
	s, plugin := newStage(t)
	s.do("request_headers", func(p *puppet) { p.call(opWait) })
	plugin.Stream(0).RequestHeaders(get, true)
	require.Error(t, s.Err(), "a blocked goroutine never comes back")
	s.ForgetFailures()
}

func TestMisuse_ClosedHost(t *testing.T) {
	h, err := wasmtest.New(turnstileModule)
	require.NoError(t, err)
	p := h.MustLoad(wasmtest.PluginConfig{Configuration: []byte("1")})
	stream := p.Stream(0)
	require.Positive(t, h.Worker(0).VMs()[0].MemorySize())
	h.Close()
	h.Close()
	require.Panics(t, func() { stream.RequestHeaders(get, true) })
	require.Panics(t, func() { _ = h.MustLoad(wasmtest.PluginConfig{}) })

	_, err = wasmtest.New(nil)
	require.Error(t, err)
	_, err = wasmtest.New(turnstileModule, wasmtest.WithWorkers(0))
	require.Error(t, err)
}

// fakeTB notes what a test would have failed with.
type fakeTB struct {
	errors   []string
	cleanups []func()
}

func (*fakeTB) Helper()                     {}
func (f *fakeTB) Cleanup(c func())          { f.cleanups = append(f.cleanups, c) }
func (f *fakeTB) Errorf(s string, a ...any) { f.errors = append(f.errors, sprintf(s, a...)) }
func (f *fakeTB) Fatalf(s string, a ...any) { f.errors = append(f.errors, sprintf(s, a...)) }

func TestStart_FailsTheTestForTrapsAndViolations(t *testing.T) {
	tb := &fakeTB{}
	h := wasmtest.Start(tb, turnstileModule)
	p := h.MustLoad(wasmtest.PluginConfig{Configuration: []byte("1")})
	// The turnstile trusts its record; whoever spoils it makes it trap.
	h.SharedData().Set("turnstile/count", []byte("x"))
	p.Stream(0).RequestHeaders(get, true)
	for _, c := range tb.cleanups {
		c()
	}
	require.Len(t, tb.errors, 1)
	require.Contains(t, tb.errors[0], "VM of w0 failed in proxy_on_request_headers")

	tb = &fakeTB{}
	require.Nil(t, wasmtest.Start(tb, nil))
	require.Len(t, tb.errors, 1)
}

func TestErrors_CanBeTold(t *testing.T) {
	require.False(t, errors.Is(wasmtest.ErrKilled, wasmtest.ErrRefused))
	require.Equal(t, "CasMismatch", wasmtest.StatusCasMismatch.String())
	require.Equal(t, "Status(99)", wasmtest.Status(99).String())
}
