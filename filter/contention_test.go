package filter_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// Contention is no failure: nothing here fails, no call and no message. Other workers only do what they may between one
// worker's get and its set, often enough that the worker runs out of tries in its turn.

// enough is more swaps than a worker tries to win in one turn.
const enough = 3

// outrun lets a rival act before each of a worker's sets of a shared data key that contains part, until the rival has nothing
// more to do, or until the hook is taken away.
func (g *gateway) outrun(worker int, part string, rival func(i int)) {
	acting, i := false, 0
	g.host.OnHostCall(func(c *wasmtest.HostCall) {
		if acting || c.Name() != "proxy_set_shared_data" || c.Worker().Index() != worker || !strings.Contains(c.Text(0), part) {
			return
		}
		acting = true
		rival(i)
		acting = false
		i++
	})
}

// comingAndGoing is a rival: clients of a worker join the queue and leave it by turns.
func (g *gateway) comingAndGoing(worker int, send func(worker int) *wasmtest.Stream) func(int) {
	var last *wasmtest.Stream
	return func(int) {
		if last != nil {
			last.ClientGone()
			last = nil
			return
		}
		last = send(worker)
	}
}

func countRunning(streams []*wasmtest.Stream) (n int) {
	for _, s := range streams {
		if s != nil && runs(s) {
			n++
		}
	}
	return n
}

// all is a pool of one key.
func all(limit int, more ...any) object {
	o := pool("all", limit, more...)
	delete(o, "key")
	return o
}

// requireNoFailure checks that nothing was taken for a failure of the store, and that the store was busy.
func (g *gateway) requireNoFailure(pool string) {
	g.t.Helper()
	require.Zero(g.t, g.counter(pool+".store_error"), "nothing has failed")
	require.NotZero(g.t, g.counter(pool+".contended"), "a turn was not enough")
	require.GreaterOrEqual(g.t, g.counter(pool+".cas_retry"), enough)
}

func TestWorkersMeetAtALimitOfOne(t *testing.T) {
	for _, onError := range []string{"open", "closed"} {
		t.Run("on_error "+onError, func(t *testing.T) {
			g := start(t, enough+1, with(config(all(1, "queue", 20, "max_wait", "5s")), "on_error", onError))
			for i := range enough + 1 { // seats
				g.sendModel(i, "m").Respond(200, "ok")
			}
			streams := make([]*wasmtest.Stream, enough+1)
			g.outrun(0, "/all/", func(i int) {
				if i < enough {
					streams[1+i] = g.sendModel(1+i, "m")
				}
			})
			streams[0] = g.sendModel(0, "m")
			g.requireWaiting(streams[0], "a request that is not decided")
			require.Equal(t, 1, countRunning(streams), "at a limit of one")
			g.host.Run(100 * ms)
			g.requireWaiting(streams[0], "the request, decided later")
			for range streams {
				require.Equal(t, 1, countRunning(streams), "at a limit of one")
				streams[slices.IndexFunc(streams, runs)].Respond(200, "ok")
				g.host.Drain()
			}
			g.requireNoFailure("all")
			g.requireDrained("all")
		})
	}
}

// Where nobody may wait, too, a request is decided and not refused for being late at the record.
func TestBeingDecidedIsNoWaiting(t *testing.T) {
	g := start(t, 2, config(all(1)))
	for i := range 2 { // seats
		g.sendModel(i, "m").Respond(200, "ok")
	}
	g.outrun(0, "/all/", func(i int) {
		if i < enough {
			g.sendModel(1, "m").Respond(200, "ok")
		}
	})
	s := g.sendModel(0, "m")
	g.requireWaiting(s, "a request that is not decided")
	g.host.Run(10 * ms)
	g.requireRunning(s, "the request, decided later")
	require.Zero(t, g.counter("all.admitted_after_wait"))
	g.requireNoFailure("all")
	s.Respond(200, "ok")
	g.requireDrained("all")
}

func TestClientsThatComeAndGoLetNobodyPass(t *testing.T) {
	g := start(t, 2, config(all(1, "queue", 20, "max_wait", "60s")))
	first := g.sendModel(0, "m")
	rival := g.comingAndGoing(1, func(w int) *wasmtest.Stream { return g.sendModel(w, "m") })
	g.outrun(0, "/all/", rival)
	second := g.sendModel(0, "m")
	g.host.OnHostCall(nil)
	for i := enough; i%2 > 0; i++ {
		rival(i) // the last one leaves
	}
	g.requireWaiting(second, "the second request")
	g.host.Run(100 * ms)
	g.requireWaiting(second, "the second request")
	first.Respond(200, "ok")
	g.host.Drain()
	g.requireRunning(second, "the second request, once the first has ended")
	second.Respond(200, "ok")
	g.host.Run(time.Second)
	g.requireNoFailure("all")
	g.requireDrained("all")
}

func TestWorkersThatClaimSeatsAtOnceKeepTheLimit(t *testing.T) {
	g := start(t, enough+1, config(all(1, "queue", 20, "max_wait", "60s")))
	streams := make([]*wasmtest.Stream, enough+1)
	g.outrun(0, "/workers", func(i int) {
		if i < enough {
			streams[1+i] = g.sendModel(1+i, "m")
		}
	})
	streams[0] = g.sendModel(0, "m")
	g.host.OnHostCall(nil)
	require.Equal(t, 1, countRunning(streams), "at a limit of one")
	g.host.Run(100 * ms)
	require.Equal(t, 1, countRunning(streams), "at a limit of one")
	g.requireNoFailure("all")
}

func TestANewKeyNeverHasTwoRecords(t *testing.T) {
	g := start(t, enough+1, config(pool("model", 1, "queue", 20, "max_wait", "60s")))
	for i := range enough + 1 {
		g.sendModel(i, "seat").Respond(200, "ok")
	}
	g.outrun(0, "/model/directory", func(i int) {
		if i < enough {
			g.sendModel(1+i, fmt.Sprint("other", i))
		}
	})
	first := g.sendModel(0, "new")
	g.host.OnHostCall(nil)
	second := g.sendModel(1, "new")
	g.host.Run(100 * ms)
	require.Equal(t, 1, countRunning([]*wasmtest.Stream{first, second}), "of one key at a limit of one")
	require.Equal(t, enough+2, g.gauge("model.keys"))
	g.requireNoFailure("model")
}

// What a release says arrives whatever swaps are lost: the hold, the breaker's failure and the push-back; in order, and
// before the reconcile that would otherwise take the permit out of the record without a word.
func TestNothingThatAReleaseSaysIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		pool   object
		end    ending
		arrive func(g *gateway) bool
	}{
		"a failure's hold": {pool("model", 2, "queue", 20, "hold", object{"failure": "30s"}), answer(503), func(g *gateway) bool { return g.gauge("model.on_hold") == 1 }},
		"a success's hold": {pool("model", 2, "queue", 20, "hold", object{"success": "30s"}), answer(200), func(g *gateway) bool { return g.gauge("model.on_hold") == 1 }},
		"a cancel's hold":  {pool("model", 2, "queue", 20, "hold", object{"cancel": "30s"}), clientGone, func(g *gateway) bool { return g.gauge("model.on_hold") == 1 }},
		"a breaker's failure": {pool("model", 2, "queue", 20, "breaker", object{"failures": 1, "penalty": "0s"}), answer(503), func(g *gateway) bool {
			r := g.sendModel(1, "m").LocalReply()
			return r != nil && r.Code == 503
		}},
		"a push-back": {pool("model", 2, "queue", 20, "headroom", object{}), answer(429), func(g *gateway) bool { return waits(g.sendModel(1, "m")) }},
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, 2, config(c.pool))
			s := g.sendModel(0, "m")
			g.sendModel(1, "m") // keeps its permit, so that the rivals queue
			rival := g.comingAndGoing(1, func(w int) *wasmtest.Stream { return g.sendModel(w, "m") })
			g.outrun(0, "/model/", rival)
			c.end(s)
			g.afterReset()
			g.host.OnHostCall(nil)
			g.host.Run(100 * ms)
			require.NotZero(t, g.counter("model.contended"))
			require.Zero(t, g.counter("model.store_error"))
			require.True(t, c.arrive(g), "it arrives")
		})
	}
}

// Deciding takes what it takes, but not longer than the request may wait.
func TestAnAcquireThatIsNeverDecidedExpires(t *testing.T) {
	for name, c := range map[string]struct {
		pool    object
		headers []string
		after   time.Duration
		counter string
	}{
		"max_wait":     {all(1, "queue", 5, "max_wait", "2s"), nil, 2 * time.Second, "expired_max_wait"},
		"no queue":     {all(1, "max_wait", "2s"), nil, 2 * time.Second, "expired_max_wait"},
		"a short one":  {all(1, "queue", 5, "max_wait", "200ms"), nil, 200 * ms, "expired_max_wait"},
		"no wait":      {all(1, "max_wait", "0s"), nil, time.Second, "expired_max_wait"},
		"its deadline": {all(1, "queue", 5, "max_wait", "2s"), []string{"x-request-timeout-ms", "300"}, 300 * ms, "expired_deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, 2, config(c.pool))
			g.sendModel(0, "m").Respond(200, "ok")
			g.host.OnHostCall(func(c *wasmtest.HostCall) {
				if c.Name() == "proxy_set_shared_data" && strings.Contains(c.Text(0), "/all/") && c.Worker().Index() == 0 {
					c.Fail(wasmtest.StatusCasMismatch)
				}
			})
			s := g.send(0, c.headers...)
			took := g.after("it is refused", func() bool { return s.LocalReply() != nil })
			require.InDelta(t, c.after, took, float64(tick))
			g.requireRefused(s, tooLate, "all", "a request that is never decided")
			require.Equal(t, 1, g.counter("all."+c.counter))
			g.host.OnHostCall(nil)
			g.requireDrained("all")
			g.requireQuiet()
		})
	}
}

// A client that leaves before its request is decided leaves nothing behind.
func TestAClientMayLeaveBeforeItsAcquireIsDecided(t *testing.T) {
	g := start(t, 2, config(all(1, "queue", 5)))
	g.outrun(0, "/all/", g.comingAndGoing(1, func(w int) *wasmtest.Stream { return g.sendModel(w, "m") }))
	s := g.sendModel(0, "m")
	g.host.OnHostCall(nil)
	g.requireWaiting(s, "a request that is not decided")
	s.ClientGone()
	g.host.Run(time.Second)
	require.Equal(t, g.counter("all.evaluated"), g.counter("all.admitted")+g.counter("all.cancelled_waiting")+g.gauge("all.queued"))
	g.requireQuiet()
}

// failing makes each of a worker's sets of a shared data key that contains part end with a status, as long as still says so.
func (g *gateway) failing(worker int, part string, status wasmtest.Status, still func() bool) {
	g.host.OnHostCall(func(c *wasmtest.HostCall) {
		if c.Name() == "proxy_set_shared_data" && c.Worker().Index() == worker && strings.Contains(c.Text(0), part) && still() {
			c.Fail(status)
		}
	})
}

// What comes to a worker after a lost turn is gathered for the next tick, and goes in one swap: releases and acquires.
func TestAfterALostTurnATickStoresAllInOneSwap(t *testing.T) {
	g := start(t, 2, config(pool("model", 2, "queue", 9, "max_wait", "5s")))
	a, b := g.sendModel(0, "m"), g.sendModel(0, "m")
	lost, sets := 0, 0
	g.host.OnHostCall(func(c *wasmtest.HostCall) {
		if c.Name() != "proxy_set_shared_data" || !strings.Contains(c.Text(0), "/model/") {
			return
		}
		if sets++; lost < enough {
			lost++
			c.Fail(wasmtest.StatusCasMismatch)
		}
	})
	a.Respond(200, "ok")
	require.Equal(t, enough, sets, "a turn that loses its swaps")
	b.Respond(200, "ok")
	var next []*wasmtest.Stream
	for range 3 {
		next = append(next, g.sendModel(0, "m"))
	}
	require.Equal(t, enough, sets, "nothing is stored before the tick")
	g.host.Run(ms)
	require.Equal(t, enough+1, sets, "two releases and three acquires")
	g.requireRunning(next[0], "the first")
	g.requireRunning(next[1], "the second")
	g.requireWaiting(next[2], "the third")
	g.host.Run(10 * ms)
	next[0].Respond(200, "ok")
	require.Equal(t, enough+2, sets, "a release, at once")
	g.host.Drain()
	g.requireRunning(next[2], "the third")
}

// A release that is left to the tick together with an acquire is stored also if that acquire's wait ends with this tick.
func TestALateReleaseIsStoredThoughTheAcquireBesideItExpires(t *testing.T) {
	g := start(t, 1, config(pool("model", 1, "queue", 9, "max_wait", "5s")))
	a := g.sendModel(0, "m")
	lost := 0
	g.host.OnHostCall(func(c *wasmtest.HostCall) {
		if c.Name() == "proxy_set_shared_data" && strings.Contains(c.Text(0), "/model/") && lost < enough {
			lost++
			c.Fail(wasmtest.StatusCasMismatch)
		}
	})
	a.Respond(200, "ok")
	late := g.send(0, "x-model", "m", "x-request-timeout-ms", "1")
	g.requireWaiting(late, "a request beside a release that is not stored")
	g.host.Run(ms)
	require.NotNil(t, late.LocalReply(), "its deadline is over")
	require.Zero(t, g.gauge("model.inflight"), "the release is stored all the same")
}
