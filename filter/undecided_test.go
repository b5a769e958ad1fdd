package filter_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// Requests whose acquire is left to a later turn.

// requireServedInOrder ends the first request and then whoever has its permit: the others in the given order. Nobody runs
// before.
func (g *gateway) requireServedInOrder(streams ...*wasmtest.Stream) {
	g.t.Helper()
	for i, s := range streams {
		g.requireRunning(s, fmt.Sprint("request ", i))
		for _, later := range streams[i+1:] {
			g.requireWaiting(later, "a later request")
		}
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
			g.failing(0, "/all/", wasmtest.StatusCasMismatch, func() bool {
				lost++
				return lost <= enough+turns-1 // a turn after a lost one tries once
			})
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

// A wait ends in time, though the record can't be told for a while: neither many lost swaps nor a store that fails keep a client
// waiting.
func TestAWaitEndsInTimeThoughItsEndIsNotStored(t *testing.T) {
	for name, status := range map[string]wasmtest.Status{"swaps are lost": wasmtest.StatusCasMismatch, "the store fails": wasmtest.StatusInternalFailure} {
		t.Run(name, func(t *testing.T) {
			g := start(t, 2, config(all(1, "queue", 20, "max_wait", "2s")))
			holder := g.sendModel(1, "m")
			first, second := g.sendModel(0, "m"), g.sendModel(0, "m")
			still := true
			g.failing(0, "/all/", status, func() bool { return still })
			took := g.after("they are refused", func() bool { return first.LocalReply() != nil && second.LocalReply() != nil })
			require.InDelta(t, 2*time.Second, took, float64(tick))
			g.requireRefused(first, tooLate, "all", "the first waiter")
			require.Equal(t, 2, g.gauge("all.queued"), "the record does not know it yet")
			holder.Respond(200, "ok")
			require.Zero(t, g.gauge("all.inflight"), "and goes on to nobody whose wait is over")
			still = false
			g.host.Run(100 * ms)
			g.requireDrained("all")
			require.Equal(t, 2, g.counter("all.expired_max_wait"))
			g.requireCapacity("m", 1)
			g.requireQuiet()
		})
	}
}

// The same in a crowd, which the record is told of all at once.
func TestACrowdsWaitsEndInTimeThoughTheirEndIsNotStored(t *testing.T) {
	g := start(t, 2, config(all(1, "queue", aCrowd, "max_wait", "10s")))
	holder := g.sendModel(1, "m")
	for range aCrowd {
		g.sendModel(0, "m")
	}
	g.host.Run(second)
	require.Equal(t, aCrowd, g.gauge("all.queued"))
	g.failing(0, "/all/", wasmtest.StatusCasMismatch, func() bool { return true })
	g.host.Run(9*second + 100*ms)
	require.Equal(t, aCrowd, g.counter("all.expired_max_wait"))
	g.host.OnHostCall(nil)
	g.host.Run(100 * ms)
	require.Zero(t, g.gauge("all.queued"))
	holder.Respond(200, "ok")
	g.requireDrained("all")
}

// A wait may have been granted its permit just before it ends, without its worker's knowing: the message is lost, and the
// worker can't store that another wait of its has ended. The permit goes on to the next one.
func TestAPermitGrantedToAWaitThatIsOverGoesOn(t *testing.T) {
	g := start(t, 2, config(all(1, "queue", 20, "max_wait", "2s")))
	holder := g.sendModel(1, "m")
	first, second := g.send(0, "x-request-timeout-ms", "1980"), g.send(0, "x-request-timeout-ms", "1980")
	next := g.sendModel(1, "m")
	g.host.Run(1965 * ms) // since 15 ms the worker has not looked for grants
	still := true
	g.host.OnHostCall(func(c *wasmtest.HostCall) {
		switch {
		case !still:
		case c.Name() == "proxy_enqueue_shared_queue":
			c.Drop()
		case c.Name() == "proxy_set_shared_data" && c.Worker().Index() == 0 && strings.Contains(c.Text(0), "/all/"):
			c.Fail(wasmtest.StatusCasMismatch)
		}
	})
	holder.Respond(200, "ok")
	require.Equal(t, 1, g.gauge("all.inflight"), "the first waiter is granted")
	g.host.Run(15*ms + tick)
	g.requireRefused(first, tooLate, "all", "the first waiter, whose worker does not know")
	g.requireRefused(second, tooLate, "all", "the second waiter")
	g.requireWaiting(next, "the next one")
	still = false
	g.host.Run(20 * ms)
	g.requireRunning(next, "the next one")
	next.Respond(200, "ok")
	g.requireDrained("all")
	require.Equal(t, 2, g.counter("all.expired_deadline"))
	g.requireCapacity("m", 1)
	g.requireQuiet()
}

// A request that is never decided in one pool gives back at its wait's end what it holds of another.
func TestAnUndecidedRequestGivesBackWhatItHoldsWhenItsWaitEnds(t *testing.T) {
	for _, part := range []string{"/model/directory", "/model/0"} {
		t.Run(part, func(t *testing.T) {
			g := start(t, 2, config(all(1), pool("model", 1, "queue", 20, "max_wait", "300ms")))
			g.failing(0, part, wasmtest.StatusCasMismatch, func() bool { return true })
			s := g.sendModel(0, "m")
			g.requireWaiting(s, "a request that is not decided")
			require.Equal(t, 1, g.gauge("all.inflight"))
			took := g.after("it is refused", func() bool { return s.LocalReply() != nil })
			require.InDelta(t, 300*ms, took, float64(tick))
			g.requireRefused(s, tooLate, "model", "a request that is never decided")
			g.requireDrained("all", "model")
			require.Equal(t, 1, g.counter("model.expired_max_wait"))
			g.host.OnHostCall(nil)
			g.requireCapacity("m", 1)
			g.requireQuiet()
		})
	}
}
