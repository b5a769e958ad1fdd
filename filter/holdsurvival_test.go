package filter_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// A hold is in the record. It neither ends with the worker that made it, nor lasts longer because of its death.
func TestHoldSurvivesItsWorker(t *testing.T) {
	for _, back := range []bool{false, true} {
		t.Run(fmt.Sprintf("which comes back %t", back), func(t *testing.T) {
			g := start(t, 2, with(config(pool("model", 3, "queue", 4, "max_wait", "60s", "hold", object{"failure": "20s"})), "lease", "1s"))
			a, b, c := g.sendModel(0, "m"), g.sendModel(0, "m"), g.sendModel(0, "m")
			w := []*wasmtest.Stream{g.sendModel(1, "m"), g.sendModel(1, "m"), g.sendModel(1, "m"), g.sendModel(1, "m")}
			answer(503)(a)
			answer(503)(b)
			died := g.host.Elapsed()
			g.requireRunning(c, "the one that dies with its worker")
			g.host.Worker(0).Kill()
			if back {
				require.NoError(t, g.host.Worker(0).Reload())
			}
			g.host.Run(5 * second)
			g.requireRunning(w[0], "a waiter, with the dead one's permit")
			g.requireWaiting(w[1], "a waiter, two permits on hold")
			require.Equal(t, 2, g.gauge("model.on_hold"))
			g.after("the waiters run", func() bool { return runs(w[1]) && runs(w[2]) })
			require.Equal(t, 20*second, g.host.Elapsed()-died)
			g.requireWaiting(w[3], "the last waiter")
			require.Zero(t, g.gauge("model.on_hold"))
			require.Equal(t, 3, g.gauge("model.inflight"))
		})
	}
}

func TestHoldSurvivesAReload(t *testing.T) {
	c := func(limit int, failure string) object {
		return config(pool("model", limit, "queue", 4, "max_wait", "60s", "hold", object{"failure": failure}))
	}
	t.Run("with a waiter of the new configuration", func(t *testing.T) {
		g := start(t, 2, c(2, "20s"))
		answer(503)(g.sendModel(0, "m"))
		answer(503)(g.sendModel(1, "m"))
		begun := g.host.Elapsed()
		g.reload(c(2, "1s"))
		w := g.sendModel(0, "m")
		g.reload(c(2, "0s"))
		x := g.sendModel(1, "m")
		require.Equal(t, 2, g.gauge("model.on_hold"))
		g.after("both waiters run", func() bool { return runs(w) && runs(x) })
		require.Equal(t, 20*second, g.host.Elapsed()-begun)
	})
	t.Run("without traffic", func(t *testing.T) {
		g := start(t, 2, c(2, "20s"))
		answer(503)(g.sendModel(0, "m"))
		begun := g.host.Elapsed()
		g.reload(c(3, "20s"))
		g.after("the gauge falls", func() bool { return g.gauge("model.on_hold") == 0 })
		require.Equal(t, 20*second, g.host.Elapsed()-begun)
		g.requireQuiet()
	})
	t.Run("to a lower limit", func(t *testing.T) {
		g := start(t, 2, c(3, "20s"))
		for i := range 3 {
			answer(503)(g.sendModel(i%2, "m"))
		}
		g.reload(c(1, "20s"))
		require.Equal(t, 3, g.gauge("model.on_hold"), "nothing is freed by it")
		w, x := g.sendModel(0, "m"), g.sendModel(1, "m")
		g.after("a waiter runs", func() bool { return runs(w) })
		g.host.Run(second)
		g.requireWaiting(x, "the second, at a limit of one")
		w.Respond(200, "ok")
		g.host.Drain()
		g.requireRunning(x, "the second")
	})
	t.Run("to another module", func(t *testing.T) {
		g := start(t, 2, c(1, "20s"))
		answer(503)(g.sendModel(0, "m"))
		begun, old := g.host.Elapsed(), g.plugin
		next, err := wasmtest.Compile(append(append([]byte{}, wasmBytes...), 0, 6, 4, 'n', 'e', 'x', 't', '3'))
		require.NoError(t, err)
		pc := pluginConfig(c(1, "20s"))
		pc.Module = next
		g.plugin, err = g.host.Load(pc)
		require.NoError(t, err)
		old.Retire()
		w := g.sendModel(1, "m")
		g.after("the waiter of the new module runs", func() bool { return runs(w) })
		require.Equal(t, 20*second, g.host.Elapsed()-begun)
	})
}

// A context that maintained a record at its start knows nothing of it. It must not reconcile the streams away that it
// runs there later.
func TestHoldsEndThatFindsNoSwapDropsNobody(t *testing.T) {
	c := func(wait string) object {
		return with(config(pool("model", 2, "queue", 4, "max_wait", wait, "hold", object{"failure": "3s"})), "lease", "1h")
	}
	g := start(t, 2, c("60s"))
	answer(503)(g.sendModel(0, "m"))
	g.reload(c("61s"))
	a := g.sendModel(0, "m")
	g.requireRunning(a, "a request beside the hold")
	fails := enough
	g.host.OnHostCall(func(c *wasmtest.HostCall) {
		switch {
		case c.Name() != "proxy_set_shared_data" || g.host.Elapsed() < 3*second:
		case c.Worker().Index() != 0:
			c.Fail(wasmtest.StatusCasMismatch) // they would be first
		case fails > 0:
			fails--
			c.Fail(wasmtest.StatusCasMismatch)
		}
	})
	g.host.Run(4 * second)
	g.host.OnHostCall(nil)
	require.Zero(t, fails)
	require.Equal(t, 1, g.gauge("model.inflight"))
	g.requireRunning(g.sendModel(1, "m"), "the second that fits")
	g.requireWaiting(g.sendModel(1, "m"), "the third: two run")
}

// A key whose hold is over can lose its place to another key. The gauge falls then.
func TestHoldsGaugeWhenTheKeysPlaceIsGivenAway(t *testing.T) {
	g := start(t, 2, with(config(pool("model", 1, "hold", object{"failure": "2s"})), "max_keys", 1))
	g.sendModel(1, "m").Respond(200, "ok")
	answer(503)(g.sendModel(0, "m"))
	g.host.Advance(3 * second) // no tick is delivered yet
	g.requireRunning(g.sendModel(1, "n"), "a request for the key that takes the place")
	require.Zero(t, g.gauge("model.on_hold"))
	g.host.Run(minute)
	require.Zero(t, g.gauge("model.on_hold"))
}
