package filter_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// A release that was not stored is made up for even if its configuration ends meanwhile.
func TestConfigurationThatEndsWithAFailedRelease(t *testing.T) {
	c := with(config(pool("model", 1)), "lease", "1s")
	g := start(t, 1, c)
	s := g.sendModel(0, "m")
	old := g.plugin
	g.load(with(c, "max_keys", 7))
	g.host.Run(20 * ms)
	old.Retire()
	g.host.OnHostCall(func(c *wasmtest.HostCall) {
		if c.Name() == "proxy_set_shared_data" {
			c.Fail(wasmtest.StatusCasMismatch)
		}
	})
	s.Respond(200, "ok")
	g.host.OnHostCall(nil)
	g.host.Run(time.Minute)
	g.requireRunning(g.sendModel(0, "m"), "a request a minute later")
}

func limited(limit int, more ...any) object {
	return config(pool("model", limit, append([]any{"queue", 10, "max_wait", "60s"}, more...)...))
}

func TestCase_O11_RaisedLimitWakesTheOldestWaiters(t *testing.T) {
	for _, from := range []int{1, 0} {
		t.Run(fmt.Sprintf("from %d", from), func(t *testing.T) {
			g := start(t, 2, limited(1))
			g.sendModel(0, "m")
			var ws []*wasmtest.Stream
			for i := range 5 {
				ws = append(ws, g.sendModel(i%2, "m"))
			}
			if from == 0 {
				g.reload(limited(0)) // closed with one running and five waiting
			}
			before := g.host.Elapsed()
			old := g.plugin
			g.load(limited(4))
			old.Retire()
			newcomer := g.sendModel(1, "m")
			g.host.Run(tick)
			require.LessOrEqual(t, g.host.Elapsed()-before, tick)
			for i, w := range ws {
				if i < 3 {
					g.requireRunning(w, "one of the three oldest")
				} else {
					g.requireWaiting(w, "one of the younger ones")
				}
			}
			g.requireWaiting(newcomer, "the newcomer")
		})
	}
}

func TestCase_O12_ReloadKeepsWhatRuns(t *testing.T) {
	g := start(t, 2, limited(3))
	var running []*wasmtest.Stream
	for i := range 3 {
		running = append(running, g.sendModel(i%2, "m"))
	}
	full := func(what string) {
		t.Helper()
		s := g.send(0, "x-model", "m", "x-request-timeout-ms", "50")
		g.host.Run(100 * ms)
		g.requireRefused(s, tooLate, "model", what)
		require.Equal(t, 3, g.gauge("model.inflight"), what)
	}
	for i := range 20 {
		g.reload(with(limited(3), "max_keys", 1000+i))
		full("a request after an equal configuration")
	}
	g.reload(config(pool("model", 3, "queue", 10), object{"name": "tenant", "limit": 9}))
	full("a request after another pool was added")
	g.reload(limited(2))
	full("a request after the limit was lowered: nothing is pre-empted")
	_, err := g.host.Load(pluginConfig(limited(-1)))
	require.ErrorIs(t, err, wasmtest.ErrRefused)
	require.Equal(t, 1, g.counter("config_rejected"))
	full("a request after a refused configuration")
	for _, s := range running {
		s.Respond(200, "ok")
	}
	g.host.Drain()
	g.requireDrained("model")
	g.requireCapacity("m", 2)
}

// When the first configuration comes back, the host takes its old contexts again and tells them nothing.
func TestBackToAnEarlierConfiguration(t *testing.T) {
	g := start(t, 2, limited(3))
	first := g.plugin
	var running []*wasmtest.Stream
	for i := range 3 {
		running = append(running, g.sendModel(i%2, "m"))
	}
	g.reload(limited(2))
	w := g.sendModel(0, "m")
	running[0].Respond(200, "ok")
	g.host.Run(100 * ms)
	g.requireWaiting(w, "a waiter under the lower limit, two running")
	g.reload(limited(3))
	require.Same(t, first, g.plugin, "the host did not take the first configuration's contexts again")
	x := g.sendModel(1, "m")
	g.host.Run(tick)
	g.requireRunning(w, "the waiter: the next request brought the old limit back")
	g.requireWaiting(x, "the newcomer")
}

func TestPoolThatWasRemovedComesBackWithItsCounts(t *testing.T) {
	g := start(t, 2, limited(2))
	a, b := g.sendModel(0, "m"), g.sendModel(1, "m")
	g.reload(config(pool("other", 5)))
	g.requireRunning(g.sendModel(0, "m"), "a request under a configuration without the pool")
	g.reload(with(limited(2), "max_keys", 77))
	w := g.sendModel(0, "m")
	g.requireWaiting(w, "a request for the pool that is back, two running")
	a.Respond(200, "ok")
	g.host.Drain()
	g.requireRunning(w, "the waiter")
	b.Respond(200, "ok")
	w.Respond(200, "ok")
	g.requireDrained("model")
}

// A new module with the same vm_id has new VMs and the same shared data. Ends in the old VM wake waiters of the new
// one.
func TestModuleUpgradeWhileStreamsRun(t *testing.T) {
	g := start(t, 2, with(limited(2), "lease", "1s"))
	a, b := g.sendModel(0, "m"), g.sendModel(1, "m")
	old := g.plugin
	next, err := wasmtest.Compile(append(append([]byte{}, wasmBytes...), 0, 6, 4, 'n', 'e', 'x', 't', '2'))
	require.NoError(t, err)
	c := pluginConfig(with(limited(2), "lease", "1s"))
	c.Module = next
	g.plugin, err = g.host.Load(c)
	require.NoError(t, err)
	old.Retire()
	g.host.Run(5 * time.Second)
	w := g.sendModel(0, "m")
	g.requireWaiting(w, "a request in the new VM, both permits held in the old one for longer than the lease")
	a.Respond(200, "ok")
	g.host.Drain()
	g.requireRunning(w, "the waiter of the new VM")
	b.Respond(200, "ok")
	w.Respond(200, "ok")
	g.host.Run(5 * time.Second)
	g.requireDrained("model")
	g.requireCapacity("m", 2)
}

func TestManyReloadsUnderLoadLeaveNothingBehind(t *testing.T) {
	g := start(t, 2, limited(2))
	var open []*wasmtest.Stream
	for i := range 100 {
		open = append(open, g.sendModel(i%2, "m"))
		g.reload(with(limited(2), "max_keys", 10+i))
		if i%3 == 2 {
			open[0].ClientGone()
			open = open[1:]
		}
	}
	keys := len(g.host.SharedData().Keys())
	require.Less(t, keys, 10)
	for len(open) > 0 {
		open[0].Respond(200, "ok")
		open = open[1:]
		g.host.Run(tick)
	}
	g.host.Run(time.Minute)
	g.requireDrained("model")
	g.requireCapacity("m", 2)
	require.Equal(t, keys, len(g.host.SharedData().Keys()))
}
