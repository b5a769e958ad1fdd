package filter_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// With a penalty, a failure's permit is on hold for the penalty in place of the failure's hold. It doubles with each
// failure in a row.
func TestPenaltyDoubles(t *testing.T) {
	onHoldFor := func(g *gateway) time.Duration {
		return g.after("nothing is on hold", func() bool { return g.gauge("model.on_hold") == 0 })
	}
	b := breaking(1000, "penalty", "1s", "max_penalty", "5s")
	for _, c := range []struct {
		hold object
		plus time.Duration
	}{{object{"failure": "30s"}, 0}, {object{}, 0}, {object{"failure": "30s", "success": "200ms"}, 200 * ms}} {
		t.Run(fmt.Sprint(c.hold), func(t *testing.T) {
			g := start(t, 2, guarded(b, "hold", c.hold))
			for range 2 {
				for _, want := range []time.Duration{second, 2 * second, 4 * second, 5 * second, 5 * second} {
					g.fail(1)
					require.Equal(t, want+c.plus, onHoldFor(g))
				}
				g.pass(1, "a request that succeeds")
				onHoldFor(g)
			}
			answer(503, "retry-after", "30")(g.sendModel(0, "m"))
			require.Equal(t, 30*second+c.plus, onHoldFor(g), "the provider's retry-after lengthens it")
			g.sendModel(0, "m").ClientGone()
			onHoldFor(g)
			hostReply(403, "rbac")(g.sendModel(1, "m"))
			g.fail(1)
			require.Equal(t, 2*second+c.plus, onHoldFor(g), "what is no verdict neither doubles nor begins anew")
			g.requireDrained("model")
		})
	}
}

// The penalty goes on doubling over trips, and ends with a success.
func TestPenaltyOverTrips(t *testing.T) {
	g := start(t, 2, guarded(breaking(2, "penalty", "1s", "max_penalty", "1m")))
	g.fail(2) // 1 s, 2 s
	require.Equal(t, 2, g.gauge("model.on_hold"))
	g.host.Run(2 * second)
	require.Zero(t, g.gauge("model.on_hold"))
	g.fail(1) // the probe: 4 s
	g.host.Run(4*second - ms)
	require.Equal(t, 1, g.gauge("model.on_hold"))
	g.host.Run(ms)
	require.Zero(t, g.gauge("model.on_hold"))
	g.pass(1, "the probe")
	g.fail(1)
	g.host.Run(second)
	require.Zero(t, g.gauge("model.on_hold"), "one second again")
}
