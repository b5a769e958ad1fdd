package filter_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// counted is a counter as the host knows it now: what a worker has yet to hand over is missing.
func (g *gateway) counted(name string) int { return int(g.host.Counter("headgate." + name)) }

// A count is no older than 100 ms, and then the worker ticks no more for it.
func TestCountsAreHandedOverInTime(t *testing.T) {
	g := start(t, 2, config(pool("model", 1)))
	running := g.sendModel(0, "m")
	refused := g.sendModel(1, "m")
	g.requireRefused(refused, noPermit, "model", "a second request")
	g.sendTo(1, "GET", "/ungoverned").Respond(200, "ok")
	g.host.Run(100 * ms)
	require.Equal(t, [4]int{2, 1, 1, 1}, [4]int{g.counted("model.evaluated"), g.counted("model.admitted"),
		g.counted("model.rejected_queue_full"), g.counted("ungoverned")}, "while the request runs")
	running.Respond(200, "ok")
	g.host.Run(100 * ms)
	require.Equal(t, 1, g.counted("model.completed"))
	g.requireQuiet()
}

// The same goes for a worker that has only ungoverned requests, however long ago its last callback was.
func TestUngovernedRequestsAreCountedInTime(t *testing.T) {
	g := start(t, 1, config(pool("model", 1)))
	for n := 1; n < 4; n++ {
		g.host.Run(minute)
		g.sendTo(0, "GET", "/ungoverned")
		g.host.Run(100 * ms)
		require.Equal(t, n, g.counted("ungoverned"))
	}
	g.requireQuiet()
}

// Many requests hand their counts over without waiting for the time.
func TestCountsAreHandedOverAfterManyRequests(t *testing.T) {
	g := start(t, 1, config(pool("model", 1)))
	calls := 0
	g.host.OnHostCall(func(c *wasmtest.HostCall) {
		if c.Name() == "proxy_increment_metric" {
			calls++
		}
	})
	for n := 1; n <= 640; n++ {
		g.sendModel(0, "m").Respond(200, "ok")
		require.Less(t, n-g.counted("model.completed"), 64)
	}
	require.Equal(t, 640, g.counted("model.evaluated"))
	require.Equal(t, 1+2*640+3*10, calls, "a gauge moves for the key and twice for each request, and each hand-over moves three counters")
}

// A context that ends hands over what it has counted.
func TestCountsAreHandedOverAtTheEnd(t *testing.T) {
	g := start(t, 1, config(pool("model", 1)))
	s := g.sendModel(0, "m")
	old := g.plugin
	g.load(config(pool("model", 2)))
	old.Retire()
	s.Respond(200, "ok")
	require.Equal(t, [3]int{1, 1, 1},
		[3]int{g.counted("model.evaluated"), g.counted("model.admitted"), g.counted("model.completed")})
}

// A new configuration goes on with the counts of the old one in the same VM.
func TestCountsOutliveTheirConfiguration(t *testing.T) {
	g := start(t, 1, config(pool("model", 1)))
	for n := 1; n < 5; n++ {
		g.sendModel(0, "m").Respond(200, "ok")
		g.reload(config(pool("model", 1+n), pool("other", n)))
		g.host.Run(100 * ms)
		require.Equal(t, n, g.counted("model.completed"))
	}
}

// A worker that dies takes along what it has counted in its last 100 ms, and nothing else.
func TestADeadWorkerLosesItsLastCounts(t *testing.T) {
	g := start(t, 2, config(pool("model", 4)))
	g.sendModel(0, "m").Respond(200, "ok")
	g.host.Run(100 * ms)
	g.sendModel(0, "m").Respond(200, "ok")
	g.sendModel(1, "m").Respond(200, "ok")
	g.host.Workers()[0].Kill()
	g.host.Run(100 * ms)
	require.Equal(t, 2, g.counted("model.completed"))
	require.Equal(t, g.counted("model.evaluated"), g.counted("model.admitted"))
}

// Whenever counts are handed over, each request that a pool has evaluated has its outcome, or waits.
func TestCountsFitEachOther(t *testing.T) {
	g := start(t, 2, config(pool("model", 2, "queue", 3, "max_wait", "150ms")))
	var all []*wasmtest.Stream
	for n := range 1000 {
		all = append(all, g.sendModel(n%2, "m"))
		switch n % 7 {
		case 1, 4:
			all[n/2].Respond(200, "ok")
		case 3:
			all[n*2/3].ClientGone()
		case 6:
			g.host.Run(40 * ms)
		}
		open := g.counted("model.evaluated")
		for _, o := range outcomes {
			open -= g.counted("model." + o)
		}
		require.GreaterOrEqual(t, open, 0)
		require.LessOrEqual(t, open, 3, "as many as may wait")
	}
	for _, s := range all {
		s.ClientGone()
	}
	g.host.Run(second)
	g.requireDrained("model")
}
