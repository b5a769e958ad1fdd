package filter_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each waiter's budget ends on time, in whatever order they came.
func TestAShorterWaitBehindALongerOneEndsOnTime(t *testing.T) {
	g := start(t, 1, config(pool("model", 1, "queue", 5, "max_wait", "60s")))
	g.sendModel(0, "m")
	long := g.sendModel(0, "m")
	waits := map[string]time.Duration{"5000": 5 * second, "303": 303 * ms, "905": 905 * ms, "617": 617 * ms}
	streams := map[string]func() bool{}
	for _, budget := range []string{"5000", "303", "905", "617"} {
		s := g.send(0, "x-model", "m", "x-request-timeout-ms", budget)
		g.requireWaiting(s, "a waiter")
		streams[budget] = func() bool { return s.LocalReply() != nil }
	}
	since := g.host.Elapsed()
	for _, budget := range []string{"303", "617", "905", "5000"} {
		g.after("the waiter is refused", streams[budget])
		late := g.host.Elapsed() - since - waits[budget]
		require.GreaterOrEqual(t, late, time.Duration(0), budget)
		require.LessOrEqual(t, late, tick, budget)
	}
	g.requireWaiting(long, "the longest waiter")
}
