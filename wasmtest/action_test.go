package wasmtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// waiters makes n paused streams on worker 0.
func waiters(plugin *wasmtest.Plugin, n int) (streams []*wasmtest.Stream) {
	for range n {
		stream := plugin.Stream(0)
		stream.RequestHeaders(get, true)
		streams = append(streams, stream)
	}
	return streams
}

func TestActions_OfOneCallbackRunNestedAfterIt(t *testing.T) {
	s, plugin := pausing(t)
	w := waiters(plugin, 3)
	depth, deepest := 0, 0
	s.do("response_headers", func(*puppet) { depth++; deepest = max(deepest, depth) })
	s.calls = nil
	tick(s, plugin, func(p *puppet) {
		for _, stream := range w {
			p.reply(stream.ContextID(), 429, "")
		}
		s.calls = nil
	})
	require.Equal(t, []string{
		"w0 response_headers[2,1,1]", "w0 response_headers[3,1,1]", "w0 response_headers[4,1,1]",
		"w0 log[4]", "w0 done[4]", "w0 delete[4]", "w0 log[3]", "w0 done[3]", "w0 delete[3]",
		"w0 log[2]", "w0 done[2]", "w0 delete[2]",
	}, s.calls, "the second reply starts when the first one's headers callback returns, not when it is over")
}

func TestActions_AreCounted(t *testing.T) {
	s, plugin := pausing(t)
	w := waiters(plugin, 32)
	tick(s, plugin, func(p *puppet) {
		for _, stream := range w {
			p.resume(stream.ContextID())
		}
	})
	require.Equal(t, 32, s.MaxActions())
	for _, stream := range w {
		require.False(t, stream.Paused())
	}
}

func TestActions_TooManyInOneCallbackTrapTheVM(t *testing.T) {
	s, plugin := pausing(t, wasmtest.WithActionLimit(300))
	w := waiters(plugin, 301)
	tick(s, plugin, func(p *puppet) {
		for _, stream := range w {
			p.resume(stream.ContextID())
		}
	})
	require.Equal(t, 301, s.MaxActions())
	require.Equal(t, wasmtest.TooManyActions, s.Violations()[0].Kind)
	require.ErrorContains(t, s.Worker(0).Err(), "301 stream actions")
	require.True(t, w[0].Paused(), "nothing ever resumes them")
	s.ForgetViolations()
	s.ForgetFailures()
}

func TestActions_NestedTooDeepTrapTheVM(t *testing.T) {
	s, plugin := pausing(t, wasmtest.WithActionLimit(5))
	w := waiters(plugin, 8)
	// The end of each stream replies to the next one: each callback queues one action, and each action is a frame deeper.
	s.do("response_headers", func(p *puppet) {
		if p.ID() < w[7].ContextID() {
			p.must(opEffective, p.ID()+1)
			p.must(opContinue, 0)
			p.must(opEffective, p.ID()+1)
			p.must(opClose, 0)
		}
	})
	s.do("done", func(p *puppet) {
		if p.ID() < w[7].ContextID() {
			p.reply(p.ID()+1, 429, "")
		}
	})
	tick(s, plugin, func(p *puppet) { p.reply(w[0].ContextID(), 429, "") })
	require.Equal(t, wasmtest.TooManyActions, s.Violations()[0].Kind)
	s.ForgetViolations()
	s.ForgetFailures()
}

func TestContinue_OfAStreamThatIsNotPausedIsAViolation(t *testing.T) {
	s, plugin := pausing(t)
	w := waiters(plugin, 1)
	tick(s, plugin, func(p *puppet) { p.resume(w[0].ContextID()); p.resume(w[0].ContextID()) })
	require.Equal(t, wasmtest.ContinueNotPaused, s.Violations()[0].Kind)
	s.ForgetViolations()

	// In its own headers callback a stream isn't paused yet. If that callback then answers Pause, nothing resumes it.
	s.on("request_headers", func(p *puppet) uint32 { p.must(opContinue, 0); return 1 })
	stream := plugin.Stream(0)
	stream.RequestHeaders(get, true)
	require.Equal(t, wasmtest.ContinueNotPaused, s.Violations()[0].Kind)
	require.True(t, stream.Paused())
	s.ForgetViolations()
}

func TestContinue_WithoutAStreamIsOkAndLost(t *testing.T) {
	s, plugin := pausing(t)
	tick(s, plugin, func(p *puppet) {
		p.must(opContinue, 0)
		p.must(opReply, 429, "", "", "", -1)
		p.must(opClose, 0)
	})
	require.Len(t, s.Violations(), 3)
	require.Equal(t, wasmtest.ActionWithoutStream, s.Violations()[0].Kind)
	s.ForgetViolations()
}

func TestEffectiveContext_IsGoneAfterTheEventThatEndedTheStream(t *testing.T) {
	s, plugin := pausing(t)
	w := waiters(plugin, 1)
	id := w[0].ContextID()
	s.do("delete", func(p *puppet) {
		if p.ID() == id {
			p.must(opEffective, id) // the proxy deletes it later
		}
	})
	w[0].ClientGone()
	tick(s, plugin, func(p *puppet) {
		require.Equal(t, wasmtest.StatusBadArgument, p.call(opEffective, id).Status)
		require.Equal(t, wasmtest.StatusBadArgument, p.call(opEffective, 12345).Status)
		p.must(opTick, 0) // still in its own context
	})
}

func TestEffectiveContext_LastsForOneCallback(t *testing.T) {
	s, plugin := pausing(t)
	w := waiters(plugin, 1)
	w[0].SetProperty("here", "where")
	tick(s, plugin, func(p *puppet) {
		require.Equal(t, wasmtest.StatusNotFound, p.call(opGetProperty, "where").Status)
		p.must(opEffective, w[0].ContextID())
		require.Equal(t, "here", p.must(opGetProperty, "where").B)
	})
	tick(s, plugin, func(p *puppet) {
		require.Equal(t, wasmtest.StatusNotFound, p.call(opGetProperty, "where").Status)
	})
}

func TestActions_OnAStreamThatHasEndedDoNothing(t *testing.T) {
	s, plugin := pausing(t)
	w := waiters(plugin, 2)
	delete(s.scripts, "response_headers")
	// w[1]'s reply ends w[0], and the action for w[0] comes after that.
	s.do("response_headers", func(p *puppet) {
		if p.ID() == w[1].ContextID() {
			p.must(opEffective, w[0].ContextID())
			p.must(opClose, 0)
			p.must(opContinue, 0)
		}
	})
	tick(s, plugin, func(p *puppet) { p.reply(w[1].ContextID(), 429, "") })
	e, _ := w[0].Ended()
	require.Equal(t, wasmtest.Closed, e.Cause)
	require.Nil(t, w[0].Forwarded().Headers)
	require.Empty(t, s.Violations())
}

func TestActions_ASecondReplyReplacesTheFirstOnItsWay(t *testing.T) {
	s, plugin := pausing(t)
	w := waiters(plugin, 1)
	tick(s, plugin, func(p *puppet) {
		p.reply(w[0].ContextID(), 429, "")
		p.reply(w[0].ContextID(), 500, "")
		p.resume(w[0].ContextID())
	})
	require.Equal(t, "500", w[0].Received().Headers.Get(":status"))
	require.Nil(t, w[0].Forwarded().Headers, "a continue behind a reply sends nothing upstream")
}

func TestActions_AReplyToTheDecidingStreamItselfComesLast(t *testing.T) {
	s, plugin := pausing(t)
	other := waiters(plugin, 1)[0]
	s.do("request_headers", func(p *puppet) {
		p.must(opReply, 429, "", "", "", -1)
		p.must(opEffective, other.ContextID())
		p.must(opClose, 0)
		s.calls = nil
	})
	plugin.Stream(0).RequestHeaders(get, true)
	require.Equal(t, []string{"w0 log[2]", "w0 done[2]", "w0 delete[2]", "w0 response_headers[3,1,1]"}, s.calls[:4],
		"its request's callbacks have to be over first")
}
