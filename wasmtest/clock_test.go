package wasmtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

func TestClock_StandsStillUntilTheTestMovesIt(t *testing.T) {
	s, plugin := newStage(t, wasmtest.WithWorkers(2))
	var first uint64
	as(s, plugin, 0, func(p *puppet) { first = p.must(opClock, 1).N })
	as(s, plugin, 1, func(p *puppet) { require.Equal(t, first, p.must(opClock, 1).N, "one clock for all VMs") })
	require.EqualValues(t, s.Monotonic(), first)
	s.Advance(3 * time.Second)
	as(s, plugin, 1, func(p *puppet) {
		require.Equal(t, first+3e9, p.must(opClock, 1).N)
		require.EqualValues(t, s.WallTime().UnixNano(), p.must(opClock, 0).N)
		require.EqualValues(t, s.WallTime().UnixNano(), p.must(opTime).N)
	})
	require.Equal(t, 3*time.Second, s.Elapsed())
	require.Panics(t, func() { s.Advance(-1) })
}

func TestClock_WallTimeStepsAlone(t *testing.T) {
	s, plugin := newStage(t)
	wall, monotonic := s.WallTime(), s.Monotonic()
	s.StepWallClock(-time.Hour)
	as(s, plugin, 0, func(p *puppet) {
		require.EqualValues(t, wall.Add(-time.Hour).UnixNano(), p.must(opClock, 0).N)
		require.EqualValues(t, monotonic, p.must(opClock, 1).N)
	})
	s.StepWallClock(2 * time.Hour)
	require.Equal(t, wall.Add(time.Hour), s.WallTime())
}

func TestClock_CanFail(t *testing.T) {
	s, plugin := newStage(t)
	s.FailClock(wasmtest.ClockMonotonic, wasmtest.ErrnoIO)
	as(s, plugin, 0, func(p *puppet) {
		require.EqualValues(t, wasmtest.ErrnoIO, p.call(opClock, 1).Status)
		require.Zero(t, p.call(opClock, 0).Status, "only the one")
		require.EqualValues(t, wasmtest.ErrnoNotsup, p.call(opClock, 2).Status, "the real host has but two")
	})
	s.FailClock(wasmtest.ClockMonotonic, wasmtest.ErrnoSuccess)
	as(s, plugin, 0, func(p *puppet) { require.Zero(t, p.call(opClock, 1).Status) })
}

func TestRandom_DiffersPerVMAndRepeatsPerSeed(t *testing.T) {
	draw := func(seed uint64) (bytes []string) {
		s, plugin := newStage(t, wasmtest.WithWorkers(2), wasmtest.WithSeed(seed))
		for i := range 2 {
			as(s, plugin, i, func(p *puppet) { bytes = append(bytes, p.must(opRandom, 16).B) })
		}
		return bytes
	}
	a := draw(1)
	require.NotEqual(t, a[0], a[1])
	require.Equal(t, a, draw(1))
	require.NotEqual(t, a, draw(2))
}
