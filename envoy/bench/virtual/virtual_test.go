package virtual

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// load is a small load of the built module.
func load(t *testing.T, workers, clients int, window time.Duration) *Result {
	t.Helper()
	costs := DefaultCosts()
	costs.Window = window
	m, err := module()
	require.NoError(t, err)
	r, err := Run(Setup{Module: m, Record: "/hot/", Headers: wasmtest.RequestHeaders("POST", "/v1/chat/completions"),
		Configuration: `{"pools":[{"name":"hot","limit":8,"queue":1000,"max_wait":"60s"}]}`,
		Workers:       workers, Clients: clients, Service: 5 * time.Millisecond,
		WarmUp: 30 * time.Millisecond, Slices: 2, Slice: 50 * time.Millisecond, Seed: 3, Costs: costs})
	require.NoError(t, err)
	require.Len(t, r.Slices, 2)
	for _, s := range r.Slices {
		require.LessOrEqual(t, s.PeakInFlight, 8, "the limit")
		require.Zero(t, s.Refused)
		require.Greater(t, s.Busy, 0.0)
		require.Less(t, s.Busy, 1.1)
	}
	return r
}

// module is the built module, compiled once.
var module = sync.OnceValues(BuiltModule)

func TestRunsAreTheSame(t *testing.T) {
	require.Equal(t, load(t, 3, 4, 5*time.Microsecond), load(t, 3, 4, 5*time.Microsecond))
}

// The upstream takes 5 ms, and 8 may run: 1600 a second. More clients than permits reach that.
func TestRateIsTheUpstreams(t *testing.T) {
	r := load(t, 2, 8, 5*time.Microsecond)
	ended := r.Slices[0].Ended + r.Slices[1].Ended
	require.InDelta(t, 160, ended, 40)
	require.Zero(t, load(t, 1, 8, 5*time.Microsecond).Slices[0].Lost, "one worker loses no swap")
}

// The longer a worker takes from a get to the set, the more often another's set comes between.
func TestSwapsAreLostInTheWindow(t *testing.T) {
	lost := func(window time.Duration) (n int) {
		for _, s := range load(t, 4, 4, window).Slices {
			n += s.Lost
		}
		return n
	}
	require.Greater(t, lost(200*time.Microsecond), lost(2*time.Microsecond))
}

func TestWindowIsMeasured(t *testing.T) {
	// More clients than permits: with fewer, a worker keeps their permits and leaves the record alone.
	require.Greater(t, load(t, 1, 12, 0).Window, time.Duration(0))
	require.Equal(t, 7*time.Microsecond, load(t, 1, 12, 7*time.Microsecond).Window)
}

func TestAgendaIsInOrder(t *testing.T) {
	var a agenda
	var done []int
	for i, at := range []time.Duration{3, 1, 1, 2} {
		a.add(at, func() { done = append(done, i) })
	}
	for a.Len() > 0 {
		a.next().do()
	}
	require.Equal(t, []int{1, 2, 3, 0}, done, "equal times in the order in which they were entered")
}
