package clustersim

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/admission"
)

// trafficOf is what a fleet of this size sends in a second, after a minute in which the load changes all the time.
func trafficOf(replicas, keys int) (calls, bytes float64) {
	w := New(Plan{Seed: 1, Replicas: replicas, Keys: keys, Limit: int64(3 * replicas), Lease: 5 * admission.Second, Unwatched: true})
	for w.now < 60*admission.Second && w.failure == nil {
		w.step()
	}
	if w.failure != nil {
		panic(w.failure)
	}
	return w.Traffic()
}

// docs/fleet.md has these figures. -explore adds the large fleets.
func TestSizing(t *testing.T) {
	sizes := [][2]int{{3, 1}, {3, 20}, {30, 1}, {30, 20}}
	if *explore {
		sizes = append(sizes, [][2]int{{100, 1}, {100, 20}, {300, 5}, {1000, 1}, {1000, 5}}...)
	}
	for _, size := range sizes {
		calls, bytes := trafficOf(size[0], size[1])
		t.Logf("%4d replicas, %2d keys: %6.0f calls a second, %8.0f bytes a second, %4.2f calls for each replica",
			size[0], size[1], calls, bytes, calls/float64(size[0]))
		require.Less(t, calls/float64(size[0]), 2.2)
	}
}

// How often a replica calls does not depend on how many requests it has: from none to many.
func TestCallsDoNotFollowTheLoad(t *testing.T) {
	calls := map[int64]float64{}
	for _, limit := range []int64{1, 10, 1000} { // the load is up to twice the limit
		w := New(Plan{Seed: 3, Replicas: 3, Keys: 1, Limit: limit, Lease: 5 * admission.Second, Unwatched: true})
		for w.now < 60*admission.Second {
			w.step()
		}
		calls[limit], _ = w.Traffic()
	}
	for _, n := range calls {
		require.InDelta(t, calls[10], n, 3, "%v", calls)
	}
}
