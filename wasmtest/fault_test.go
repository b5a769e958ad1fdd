package wasmtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// increment adds one to a shared number with the usual loop, and says how often it had to try.
func increment(p *puppet) (tries int) {
	for {
		tries++
		a := p.get("n")
		if p.set("n", a.B+"|", max(a.N, 1)) == wasmtest.StatusOk {
			return tries
		}
	}
}

func TestHook_AnotherWorkerCanComeBetweenTwoCalls(t *testing.T) {
	s, plugin := newStage(t, wasmtest.WithWorkers(2))
	s.SharedData().Set("n", nil)
	tries := map[string]int{}
	s.do("request_headers", func(p *puppet) { tries[p.VM.Worker().Name()] = increment(p) })
	once := true
	s.OnHostCall(func(c *wasmtest.HostCall) {
		if c.Name() == "proxy_set_shared_data" && c.Text(0) == "n" && c.Worker().Index() == 0 && once {
			once = false
			require.Equal(t, "|", c.Text(2))
			require.Equal(t, "proxy_on_request_headers", c.Callback())
			require.Equal(t, c.ContextID(), uint32(2))
			plugin.Stream(1).RequestHeaders(get, true)
		}
	})
	plugin.Stream(0).RequestHeaders(get, true)
	require.Equal(t, map[string]int{"w0": 2, "w1": 1}, tries, "w0 lost its first compare-and-swap")
	value, _, _ := s.SharedData().Get("n")
	require.Equal(t, "||", string(value))
	require.Equal(t, 3, s.HostCalls("proxy_set_shared_data"))
	require.Panics(t, func() { s.HostCalls("proxy_nonsense") })
}

func TestHook_TheSameWorkerIsBusy(t *testing.T) {
	s, plugin := newStage(t)
	stream := plugin.Stream(0)
	s.OnHostCall(func(*wasmtest.HostCall) {
		s.OnHostCall(nil)
		require.PanicsWithValue(t, "wasmtest: w0 is in the middle of a callback: one thread runs one callback at a time",
			func() { stream.ClientGone() })
	})
	stream.RequestHeaders(get, true)
}

func TestHook_CanFailACall(t *testing.T) {
	s, plugin := newStage(t)
	s.OnHostCall(func(c *wasmtest.HostCall) {
		if c.Name() == "proxy_set_shared_data" {
			c.Fail(wasmtest.StatusInternalFailure)
		}
	})
	as(s, plugin, 0, func(p *puppet) { require.Equal(t, wasmtest.StatusInternalFailure, p.set("k", "v", 0)) })
	require.Empty(t, s.SharedData().Keys())
}

func TestHook_CanDropAMessage(t *testing.T) {
	s, plugin := newStage(t)
	id := listen(s, plugin, 0, "q")
	s.OnHostCall(func(c *wasmtest.HostCall) {
		if c.Name() == "proxy_enqueue_shared_queue" {
			require.EqualValues(t, id, c.Arg(0))
			require.Zero(t, c.Arg(99))
			require.Equal(t, "m", c.Text(1))
			c.Drop()
		}
	})
	as(s, plugin, 0, func(p *puppet) { p.must(opEnqueue, id, "m") })
	require.Empty(t, s.Pending())
	q, _ := s.Queue("q")
	require.Empty(t, q.Messages)
}

func TestHook_CanCrashTheVMInTheMiddle(t *testing.T) {
	s, plugin := newStage(t, wasmtest.WithWorkers(2))
	paused := plugin.Stream(0)
	s.on("request_headers", func(*puppet) uint32 { return 1 })
	paused.RequestHeaders(post, false)
	reached := false
	s.do("request_headers", func(p *puppet) {
		p.set("before", "", 0)
		p.set("after", "", 0)
		reached = true
	})
	s.OnHostCall(func(c *wasmtest.HostCall) {
		if c.Text(0) == "after" {
			c.Crash()
		}
	})
	victim := plugin.Stream(0)
	victim.RequestHeaders(get, true)
	s.OnHostCall(nil)

	require.False(t, reached)
	require.Equal(t, []string{"before"}, s.SharedData().Keys(), "what was done stays, the call itself doesn't happen")
	require.ErrorIs(t, s.Worker(0).Err(), wasmtest.ErrKilled)
	require.NoError(t, s.Err(), "the test's own doing is no failure")
	require.Equal(t, 503, victim.LocalReply().Code)
	require.NoError(t, s.Worker(1).Err())

	s.calls = nil
	require.True(t, paused.Paused(), "for ever")
	require.Equal(t, wasmtest.Held, paused.RequestBody([]byte("x"), true))
	paused.ClientGone()
	require.Empty(t, s.calls, "no callback ever again")
}

func TestHook_PanicsPassThroughTheGuest(t *testing.T) {
	s, plugin := newStage(t)
	s.OnHostCall(func(*wasmtest.HostCall) { panic("from the hook") })
	require.PanicsWithValue(t, "from the hook", func() { plugin.Stream(0).RequestHeaders(get, true) })
	require.NoError(t, s.Err())
}

func TestHook_NumbersTheCallsOfAllVMs(t *testing.T) {
	s, plugin := newStage(t, wasmtest.WithWorkers(2))
	var numbers []int
	s.OnHostCall(func(c *wasmtest.HostCall) { numbers = append(numbers, c.Number()) })
	as(s, plugin, 0, func(*puppet) {})
	as(s, plugin, 1, func(*puppet) {})
	for i, n := range numbers {
		require.Equal(t, numbers[0]+i, n)
	}
}

// TestExplore_FindsEveryLostUpdate enumerates where in one worker's increment the other's comes, with a right and a
// wrong increment: only the wrong one loses a count, and only in some interleavings.
func TestExplore_FindsEveryLostUpdate(t *testing.T) {
	lost := func(cas func(uint64) uint64) (runs, losses int) {
		runs, complete := wasmtest.Explore(1000, func(choose func(int) int) {
			s, plugin := newStage(t, wasmtest.WithWorkers(2))
			defer s.Close()
			s.SharedData().Set("n", nil)
			s.do("request_headers", func(p *puppet) {
				for a := p.get("n"); p.set("n", a.B+"|", cas(a.N)) != wasmtest.StatusOk; a = p.get("n") {
				}
			})
			done := false
			other := func() {
				if !done {
					done = true
					plugin.Stream(1).RequestHeaders(get, true)
				}
			}
			s.OnHostCall(func(c *wasmtest.HostCall) {
				if c.Worker().Index() == 0 && c.Name() != "proxy_call_foreign_function" && !done && choose(2) == 1 {
					other()
				}
			})
			plugin.Stream(0).RequestHeaders(get, true)
			other()
			if value, _, _ := s.SharedData().Get("n"); string(value) != "||" {
				losses++
			}
		})
		require.True(t, complete)
		return runs, losses
	}
	runs, losses := lost(func(cas uint64) uint64 { return cas })
	require.Equal(t, 3, runs, "before the get, before the set, after both")
	require.Zero(t, losses)
	_, losses = lost(func(uint64) uint64 { return 0 })
	require.Equal(t, 1, losses)
}

func TestExplore_CountsAndStops(t *testing.T) {
	var seen [][2]int
	runs, complete := wasmtest.Explore(100, func(choose func(int) int) {
		a := choose(2)
		b := 0
		if a == 1 {
			b = choose(3)
		}
		seen = append(seen, [2]int{a, b})
	})
	require.True(t, complete)
	require.Equal(t, 4, runs)
	require.Equal(t, [][2]int{{0, 0}, {1, 0}, {1, 1}, {1, 2}}, seen)
	runs, complete = wasmtest.Explore(2, func(choose func(int) int) { choose(5) })
	require.Equal(t, 2, runs)
	require.False(t, complete)
	n := 1
	require.Panics(t, func() { wasmtest.Explore(9, func(choose func(int) int) { n++; choose(n) }) })
}
