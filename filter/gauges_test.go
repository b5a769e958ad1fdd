package filter_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// loseOneSwap makes the next set of a record fail as if another worker had come first, and leaves the others alone.
func (g *gateway) loseOneSwap(part string) {
	lost := false
	g.host.OnHostCall(func(c *wasmtest.HostCall) {
		if !lost && c.Name() == "proxy_set_shared_data" && strings.Contains(c.Text(0), part) {
			lost = true
			c.Fail(wasmtest.StatusCasMismatch)
		}
	})
}

// A swap that is lost has changed nothing, so it moves no gauge.
func TestALostSwapMovesNoGauge(t *testing.T) {
	g := start(t, 1, config(pool("model", 1, "queue", 4, "max_wait", "5s", "hold", object{"success": "1s"})))
	require3 := func(inflight, queued, onHold int, what string) {
		t.Helper()
		require.Equal(t, [3]int{inflight, queued, onHold},
			[3]int{g.gauge("model.inflight"), g.gauge("model.queued"), g.gauge("model.on_hold")}, what)
	}
	g.loseOneSwap("/directory")
	g.sendModel(0, "new").Respond(200, "ok")
	require.Equal(t, 1, g.gauge("model.keys"), "one more key")
	g.host.Run(2 * second)
	g.loseOneSwap("/model/")
	first := g.sendModel(0, "new")
	require3(1, 0, 0, "one runs")
	g.loseOneSwap("/model/")
	g.sendModel(0, "new")
	require3(1, 1, 0, "one runs and one waits")
	g.loseOneSwap("/model/")
	first.Respond(200, "ok")
	require3(0, 1, 1, "the permit is on hold, and one waits")
	g.host.Run(2 * second)
	require3(1, 0, 0, "the waiter runs")
	require.Equal(t, 4, g.counter("model.cas_retry"))
}
