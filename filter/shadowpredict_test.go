package filter_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// An arrival is one request of a load: when it comes, what it says, and how long the upstream takes for it.
type arrival struct {
	at      time.Duration
	took    time.Duration
	headers []string
}

// A load is requests that come to a gateway. Open: at times of their own. Closed: each client sends the next one when it
// has the answer to the last.
type load struct {
	config   object
	open     func(rnd *rand.Rand) []arrival
	clients  int
	next     func(rnd *rand.Rand) arrival // closed: at is the time that the client thinks before it
	duration time.Duration
}

// A loadCall is an arrival at one gateway.
type loadCall struct {
	arrival
	*wasmtest.Stream
	began time.Duration // when it went on to the upstream; < 0: it has not
}

// play sends arrivals to a gateway, lets the upstream answer each in its time, and calls done for each that has ended.
func (g *gateway) play(arrivals []arrival, until time.Duration, done func(c *loadCall) []arrival) (all []arrival) {
	var live []*loadCall
	for len(arrivals) > 0 || len(live) > 0 {
		now := g.host.Elapsed()
		require.Less(g.t, now, until+time.Hour, "the load does not end")
		for len(arrivals) > 0 && arrivals[0].at <= now {
			a := arrivals[0]
			arrivals = arrivals[1:]
			a.at = now
			all = append(all, a)
			live = append(live, &loadCall{arrival: a, Stream: g.send(len(all)%len(g.host.Workers()), a.headers...), began: -1})
		}
		live = slices.DeleteFunc(live, func(c *loadCall) bool {
			if c.began < 0 && runs(c.Stream) {
				c.began = now
			}
			if c.began >= 0 && now >= c.began+c.took {
				c.Respond(200, "ok")
			}
			if _, ended := c.Ended(); !ended {
				return false
			}
			if done != nil {
				arrivals = append(arrivals, done(c)...)
				slices.SortStableFunc(arrivals, func(a, b arrival) int { return int(a.at - b.at) })
			}
			return true
		})
		g.host.Run(2 * ms)
	}
	g.host.Run(time.Minute)
	return all
}

// playClosed lets clients send one request after the other, and returns what they sent.
func (g *gateway) playClosed(l load, rnd *rand.Rand) []arrival {
	var first []arrival
	for range l.clients {
		first = append(first, l.next(rnd))
	}
	slices.SortStableFunc(first, func(a, b arrival) int { return int(a.at - b.at) })
	return g.play(first, l.duration, func(*loadCall) []arrival {
		a := l.next(rnd)
		if a.at += g.host.Elapsed(); a.at > l.duration {
			return nil
		}
		return []arrival{a}
	})
}

// steady is a load of so many requests a second, each of which takes about so long.
func steady(perSecond float64, took time.Duration, headers func(rnd *rand.Rand) []string) func(rnd *rand.Rand) []arrival {
	return func(rnd *rand.Rand) (all []arrival) {
		for at := 0.0; at < 60; at += rnd.ExpFloat64() / perSecond {
			a := arrival{at: time.Duration(at * float64(second)), took: took/2 + time.Duration(rnd.Int64N(int64(took))), headers: headers(rnd)}
			all = append(all, a)
		}
		return all
	}
}

func ofModel(*rand.Rand) []string { return []string{"x-model", "m"} }

func ofModelsAndTenants(rnd *rand.Rand) []string {
	return []string{"x-model", fmt.Sprint("m", rnd.IntN(3)), "x-tenant", fmt.Sprint("t", min(rnd.IntN(6), 3))}
}

func withDeadlines(rnd *rand.Rand) []string {
	return []string{"x-model", "m", "x-request-timeout-ms", fmt.Sprint(100 + rnd.IntN(3000))}
}

func thinking(least, more, took time.Duration) func(rnd *rand.Rand) arrival {
	return func(rnd *rand.Rand) arrival {
		return arrival{at: least + time.Duration(rnd.Int64N(int64(more))), took: took/2 + time.Duration(rnd.Int64N(int64(took))), headers: ofModel(rnd)}
	}
}

// loads are ten kinds of load.
var loads = map[string]load{
	"twice what fits": {config: config(pool("model", 4, "queue", 10, "max_wait", "5s")), open: steady(8, second, ofModel)},
	"just what fits":  {config: config(pool("model", 4, "queue", 10, "max_wait", "5s")), open: steady(4, second, ofModel)},
	"bursts": {config: config(pool("model", 2, "queue", 3, "max_wait", "10s")), open: func(rnd *rand.Rand) (all []arrival) {
		for i := range 60 {
			all = append(all, arrival{at: time.Duration(i/10) * 10 * second, took: second, headers: ofModel(rnd)})
		}
		return all
	}},
	"no queue":   {config: config(pool("model", 3)), open: steady(6, second, ofModel)},
	"short wait": {config: config(pool("model", 4, "queue", 50, "max_wait", "600ms")), open: steady(16, 500*ms, ofModel)},
	"many keys, fair": {config: config(pool("model", 2, "queue", 8, "max_wait", "3s", "fair_by", "tenant")),
		open: steady(9, second, ofModelsAndTenants)},
	"deadlines": {config: config(pool("model", 3, "queue", 20, "max_wait", "10s")), open: steady(6, second, withDeadlines)},
	"two pools": {config: config(pool("model", 2, "queue", 5, "max_wait", "2s"), object{"name": "all", "limit": 4, "queue": 6, "max_wait": "2s"}),
		open: steady(8, second, ofModelsAndTenants)},
	"holds": {config: config(pool("model", 4, "queue", 10, "max_wait", "5s", "hold", object{"success": "500ms"})), open: steady(5, second, ofModel)},
	"closed loop": {config: config(pool("model", 3, "queue", 4, "max_wait", "2s")),
		clients: 12, next: thinking(200*ms, second, second), duration: minute},
}

// What shadow mode says of a load is what enforcing does with the same arrivals.
func TestFinding_A1_ShadowPredictsWhatEnforcingDoes(t *testing.T) {
	for name, l := range loads {
		t.Run(name, func(t *testing.T) {
			enforced, shadowed := start(t, 2, l.config), start(t, 2, shadow(l.config))
			var arrivals []arrival
			if l.clients > 0 {
				arrivals = enforced.playClosed(l, newRand(1))
			} else {
				arrivals = enforced.play(l.open(newRand(1)), minute, nil)
			}
			shadowed.play(arrivals, minute, nil)
			for _, p := range l.config["pools"].([]object) {
				requirePredicted(t, enforced, shadowed, p["name"].(string))
			}
		})
	}
}

func requirePredicted(t *testing.T, enforced, shadowed *gateway, pool string) {
	near := func(what string, did, would int) {
		t.Helper()
		require.InDelta(t, did, would, max(float64(did)/10, 2), "%s of pool %s: shadow says %d", what, pool, would)
	}
	did := func(name string) int { return enforced.counter(pool + "." + name) }
	would := func(name string) int { return shadowed.counter(pool + "." + name) }
	near("evaluated", did("evaluated"), would("evaluated"))
	near("refused", did("rejected_queue_full"), would("shadow_would_reject"))
	near("expired", did("expired_max_wait")+did("expired_deadline"), would("shadow_would_expire"))
	require.Greater(t, did("admitted_after_wait")+did("rejected_queue_full"), 10, "the load is none")
	waits := func(g *gateway) []uint64 {
		w := g.host.Histogram("headgate." + pool + ".wait_ms")
		slices.Sort(w)
		return w
	}
	e, s := waits(enforced), waits(shadowed)
	near("waits", len(e), len(s))
	for _, percent := range []int{50, 90} {
		if len(e) > 0 && len(s) > 0 {
			a, b := e[len(e)*percent/100], s[len(s)*percent/100]
			require.InDelta(t, a, b, max(float64(a)/10, 10), "P%d of the waits of pool %s", percent, pool)
		}
	}
	shadowed.requireDrained(pool)
}
