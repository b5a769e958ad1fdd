package filter_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// A configuration that ends stores first what contention kept from being stored: the permit is back at once, and not
// after the lease.
func TestAConfigurationThatEndsStoresWhatIsLeft(t *testing.T) {
	c := config(pool("model", 1))
	g := start(t, 1, c)
	s := g.sendModel(0, "m")
	old := g.plugin
	g.load(with(c, "max_keys", 7))
	g.host.Run(20 * ms)
	old.Retire()
	lost := 0
	g.host.OnHostCall(func(c *wasmtest.HostCall) {
		if c.Name() == "proxy_set_shared_data" && strings.Contains(c.Text(0), "/model/") && lost < enough {
			lost++
			c.Fail(wasmtest.StatusCasMismatch)
		}
	})
	s.Respond(200, "ok")
	g.host.OnHostCall(nil)
	require.Equal(t, enough, lost)
	g.host.Run(20 * ms)
	require.Zero(t, g.gauge("model.inflight"))
	g.requireCapacity("m", 1)
	b, _, _ := g.host.SharedData().Get(workerTable)
	require.Len(t, b, 5+24, "one seat: the new configuration's")
}

// A stage of which no pool is has no seat, and leaves without one.
func TestAStageWithoutPoolsEndsInPeace(t *testing.T) {
	g := startStages(t, 1, config(all(1)))
	g.reloadBoth(config(all(2)))
	g.attempts.Retire()
	g.host.Run(20 * ms)
	for _, line := range g.host.Logs() {
		require.NotContains(t, line.Message, "panic")
	}
}
