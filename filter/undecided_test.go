package filter_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// Requests whose acquire is left to a later turn.

// requireServedInOrder ends the first request and then whoever has its permit: the others in the given order.
func (g *gateway) requireServedInOrder(streams ...*wasmtest.Stream) {
	g.t.Helper()
	for i, s := range streams {
		g.requireRunning(s, fmt.Sprint("request ", i))
		s.Respond(200, "ok")
		g.host.Drain()
	}
}

// A request that loses its swaps is not overtaken by those that come to its worker after it, however many turns it loses.
func TestUndecidedAcquiresKeepTheirOrder(t *testing.T) {
	for _, turns := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(turns, " turns lost"), func(t *testing.T) {
			g := start(t, 2, config(all(1, "queue", 20, "max_wait", "60s")))
			g.sendModel(0, "m").Respond(200, "ok") // a seat
			holder := g.sendModel(1, "m")
			lost := 0
			g.failing(0, "/all/", wasmtest.StatusCasMismatch, func() bool { lost++; return lost <= turns*enough })
			first, second, third := g.sendModel(0, "m"), g.sendModel(0, "m"), g.sendModel(0, "m")
			require.Zero(t, g.gauge("all.queued"))
			g.host.Run(100 * ms)
			require.Equal(t, turns, g.counter("all.contended"))
			g.requireServedInOrder(holder, first, second, third)
			g.requireNoFailure("all")
			g.requireDrained("all")
		})
	}
}

// The same where a full directory makes the pool's other key stand in.
func TestUndecidedAcquiresKeepTheirOrderUnderTheSharedKey(t *testing.T) {
	g := start(t, 2, with(config(pool("model", 1, "queue", 20, "max_wait", "60s")), "max_keys", 1))
	keeper, holder := g.sendModel(1, "own"), g.sendModel(1, "x")
	g.sendModel(0, "y").ClientGone()
	lost := 0
	g.failing(0, "/model/other", wasmtest.StatusCasMismatch, func() bool { lost++; return lost <= enough })
	first, second, third := g.sendModel(0, "a"), g.sendModel(0, "b"), g.sendModel(0, "a")
	g.host.Run(100 * ms)
	require.Equal(t, 1, g.gauge("model.keys"), "a request that is asked for again gets no place beyond max_keys")
	g.requireServedInOrder(holder, first, second, third)
	keeper.Respond(200, "ok")
	g.requireNoFailure("model")
	g.requireDrained("model")
}

// The last place may be gone before a new key's acquires are decided. Then, too, the other key stands in.
func TestUndecidedAcquiresForAKeyThatGetsNoPlace(t *testing.T) {
	g := start(t, 2, with(config(pool("model", 1, "queue", 20, "max_wait", "60s")), "max_keys", 1))
	g.sendModel(0, "y").Respond(200, "ok")
	g.host.Run(10 * second) // the record is idle: its slot may change hands
	lost := 0
	g.failing(0, "/model/directory", wasmtest.StatusCasMismatch, func() bool { lost++; return lost <= enough })
	first, second := g.sendModel(0, "a"), g.sendModel(0, "a")
	g.requireWaiting(first, "a request that is not decided")
	keeper := g.sendModel(1, "own")
	third := g.sendModel(1, "b")
	g.requireRunning(third, "the first request under the shared key")
	g.host.Run(100 * ms)
	require.Equal(t, 1, g.gauge("model.keys"))
	g.requireServedInOrder(third, first, second)
	keeper.Respond(200, "ok")
	g.requireNoFailure("model")
	g.requireDrained("model")
}

// A worker that has left its seat since it saw a crowd takes a seat again before it asks.
func TestUndecidedAcquiresNeedASeat(t *testing.T) {
	g := start(t, 2, config(pool("model", 1, "queue", 2*aCrowd, "max_wait", "10m")))
	holder := g.sendModel(1, "m")
	for range aCrowd {
		g.sendModel(1, "m")
	}
	g.host.Drain()
	g.sendModel(0, "m").ClientGone() // sees the crowd
	g.host.Run(10 * second)          // and leaves its seat
	require.Equal(t, aCrowd, g.gauge("model.queued"))
	lost := 0
	g.failing(0, "/workers", wasmtest.StatusCasMismatch, func() bool { lost++; return lost <= 2*enough })
	first, last := g.sendModel(0, "m"), g.sendModel(0, "m")
	g.host.Run(second)
	require.NotZero(t, g.counter("model.contended"))
	g.requireWaiting(first, "a request behind the crowd")
	g.requireWaiting(last, "a request behind the crowd")
	holder.Respond(200, "ok")
	g.host.Run(10 * second)
	require.Equal(t, aCrowd+1, g.gauge("model.queued"), "nobody's tickets are lost")
	require.Equal(t, 1, g.gauge("model.inflight"))
	require.Zero(t, g.counter("model.reaped"))
}

// A key that only undecided acquires ask for is not forgotten: two readings of one key would fight over one column.
func TestAKeyOfUndecidedAcquiresIsNotForgotten(t *testing.T) {
	g := start(t, 2, with(config(pool("model", 1, "queue", 20, "max_wait", "10m")), "max_keys", 4))
	g.sendModel(0, "m").Respond(200, "ok") // a seat
	holder := g.sendModel(1, "m")
	lost := 0
	g.failing(0, "/model/0", wasmtest.StatusCasMismatch, func() bool { lost++; return lost <= enough })
	one, two := g.sendModel(0, "m"), g.sendModel(0, "m")
	require.Equal(t, enough, lost)
	for i := range 100 {
		g.sendModel(0, fmt.Sprint("flood", i)).ClientGone()
	}
	three := g.sendModel(0, "m")
	g.host.Run(10 * second)
	require.Equal(t, 3, g.gauge("model.queued"))
	g.requireServedInOrder(holder, one, two, three)
	g.requireDrained("model")
}
