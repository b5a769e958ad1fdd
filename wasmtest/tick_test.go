package wasmtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// ticking makes a plugin whose root on worker 0 ticks each period.
func ticking(t *testing.T, millis int) (*stage, *wasmtest.Plugin, *[]time.Duration) {
	s, plugin := newStage(t)
	at := new([]time.Duration)
	s.do("tick", func(*puppet) { *at = append(*at, s.Elapsed()) })
	as(s, plugin, 0, func(p *puppet) { p.must(opTick, millis) })
	return s, plugin, at
}

func TestTick_ComesEachPeriod(t *testing.T) {
	s, plugin, at := ticking(t, 10)
	require.Equal(t, 10*time.Millisecond, plugin.Root(0).TickPeriod(), "a stream's call sets its root's")
	s.Run(35 * time.Millisecond)
	require.Equal(t, []time.Duration{10e6, 20e6, 30e6}, *at)
	require.Equal(t, 35*time.Millisecond, s.Elapsed())
}

func TestTick_IsArmedAgainOnlyWhenItHasReturned(t *testing.T) {
	s, _, at := ticking(t, 10)
	s.Advance(35 * time.Millisecond)
	require.Empty(t, *at, "Advance delivers nothing")
	require.Len(t, s.Pending(), 1, "a busy worker gets one tick, not three")
	s.Drain()
	require.Equal(t, []time.Duration{35e6}, *at)
	s.Run(10 * time.Millisecond)
	require.Equal(t, []time.Duration{35e6, 45e6}, *at, "a period after the late one")
}

func TestTick_SettingRestartsAndZeroStops(t *testing.T) {
	s, plugin, at := ticking(t, 10)
	s.Advance(9 * time.Millisecond)
	as(s, plugin, 0, func(p *puppet) { p.must(opTick, 10) })
	s.Run(9 * time.Millisecond)
	require.Empty(t, *at)
	s.Run(time.Millisecond)
	require.Len(t, *at, 1)
	as(s, plugin, 0, func(p *puppet) { p.must(opTick, 0) })
	s.Run(time.Second)
	require.Len(t, *at, 1)
	require.Empty(t, s.Pending())
}

func TestTick_CanBeChangedInTheTick(t *testing.T) {
	s, _, at := ticking(t, 10)
	s.do("tick", func(p *puppet) {
		*at = append(*at, s.Elapsed())
		p.must(opTick, []int{50, 0}[len(*at)-1])
	})
	s.Run(time.Second)
	require.Equal(t, []time.Duration{10e6, 60e6}, *at)
}

func TestTick_IsPerRoot(t *testing.T) {
	s, first := newStage(t)
	second := s.MustLoad(wasmtest.PluginConfig{Name: "second"})
	as(s, first, 0, func(p *puppet) { p.must(opTick, 10) })
	as(s, second, 0, func(p *puppet) { p.must(opTick, 20) })
	ticks := map[uint32]int{}
	s.do("tick", func(p *puppet) { ticks[p.ID()]++ })
	s.Run(40 * time.Millisecond)
	require.Equal(t, map[uint32]int{first.Root(0).ContextID(): 4, second.Root(0).ContextID(): 2}, ticks)
}

func TestTick_ADeadVMsStops(t *testing.T) {
	s, _, at := ticking(t, 10)
	s.Worker(0).Kill()
	s.Run(time.Second)
	require.Empty(t, *at)
	require.NoError(t, s.Worker(0).Reload())
	s.Run(time.Second)
	require.Empty(t, *at, "the new VM hasn't asked for any")
}

func TestTick_ARetiredRootsGoesOnUntilItsLastStreamHasEnded(t *testing.T) {
	s, plugin, at := ticking(t, 10)
	stream := plugin.Stream(0)
	plugin.Retire()
	s.Run(10 * time.Millisecond)
	require.Len(t, *at, 1)
	stream.Complete()
	s.Run(time.Second)
	require.Len(t, *at, 1)
}

func TestTick_ADiscardedOneComesAPeriodLater(t *testing.T) {
	s, _, at := ticking(t, 10)
	s.Advance(10 * time.Millisecond)
	require.True(t, s.Discard(s.Pending()[0]))
	s.Run(10 * time.Millisecond)
	require.Equal(t, []time.Duration{20e6}, *at)
}

func TestRunUntil_StopsAtTheCondition(t *testing.T) {
	s, _, at := ticking(t, 10)
	require.True(t, s.RunUntil(time.Second, func() bool { return len(*at) == 3 }))
	require.Equal(t, 30*time.Millisecond, s.Elapsed())
	require.False(t, s.RunUntil(5*time.Millisecond, func() bool { return false }))
	require.Equal(t, 35*time.Millisecond, s.Elapsed())
}
