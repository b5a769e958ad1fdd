package filter_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// A key that is only waited for is in use: if it were forgotten, two keys would stand for one record, and each would
// take the other's tickets out of it.
func TestAKeyThatIsOnlyWaitedForIsKept(t *testing.T) {
	g := start(t, 2, with(config(pool("model", 1, "queue", 4, "max_wait", "60s")), "max_keys", 4))
	holder := g.sendModel(1, "m")
	first := g.sendModel(0, "m")
	g.requireWaiting(first, "the first waiter")
	for i := range 200 {
		g.sendModel(0, fmt.Sprint("flood", i)).Respond(200, "ok")
	}
	second := g.sendModel(0, "m")
	g.host.Run(200 * ms)
	g.requireWaiting(first, "the first waiter")
	g.requireWaiting(second, "the second waiter")
	require.Equal(t, 2, g.gauge("model.queued"))
	holder.Respond(200, "ok")
	g.host.Run(200 * ms)
	g.requireRunning(first, "the first waiter, with the permit")
	g.requireWaiting(second, "the second waiter")
	first.Respond(200, "ok")
	g.host.Drain()
	g.requireRunning(second, "the second waiter, with the permit")
	second.Respond(200, "ok")
	g.host.Run(100 * ms)
	g.requireDrained("model")
	g.requireCapacity("m", 1)
}

// A request that passed without a permit has none to give back.
func TestAPassedRequestGivesNothingBack(t *testing.T) {
	g := start(t, 1, with(config(pool("model", 1)), "on_error", "open"))
	holder := g.sendModel(0, "m")
	g.host.OnHostCall(func(c *wasmtest.HostCall) {
		if c.Name() == "proxy_get_shared_data" {
			c.Fail(wasmtest.StatusInternalFailure)
		}
	})
	passed := g.sendModel(0, "m")
	g.host.OnHostCall(nil)
	g.requireRunning(passed, "a request that the store failed to decide")
	passed.Respond(200, "ok")
	g.host.Run(100 * ms)
	require.Equal(t, 1, g.gauge("model.inflight"), "the other request runs")
	g.requireRefused(g.sendModel(0, "m"), noPermit, "model", "a request beside the one that holds the permit")
	holder.Respond(200, "ok")
	g.host.Run(100 * ms)
	g.requireDrained("model")
	g.requireCapacity("m", 1)
}
