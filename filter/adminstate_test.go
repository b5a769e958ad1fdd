package filter_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAdminTellsTheStateOfAllWorkers(t *testing.T) {
	c := config(fair("model", 2, "hold", object{"failure": "2s"}), object{"name": "gateway", "limit": 100, "per": "attempt"})
	a := startAdmin(t, 3, with(c, "domain", "d"))
	a.send(0, "x-model", "m", "x-tenant", "acme")
	a.send(1, "x-model", "m", "x-tenant", "acme")
	a.requireWaiting(a.send(2, "x-model", "m", "x-tenant", "zeta"), "a third request")
	a.host.Run(740 * ms)
	s := a.state("")
	requireMembers(t, s, object{"domain": "d", "mode": "enforce", "workers": 3.0, "next": nil})
	require.InDelta(t, a.host.WallTime().UnixMilli(), s["now_ms"], 200)
	model := named(t, s["pools"], "name", "model")
	requireMembers(t, model, object{"limit": 2.0, "source": "config", "configured": 2.0, "key": []any{"model"}, "per": "request",
		"queue": 20.0, "max_wait_ms": 60000.0, "fair": true, "holds": true, "breaker": false,
		"inflight": 2.0, "queued": 1.0, "on_hold": 0.0, "keys_total": 1.0})
	requireMembers(t, model["outcomes"].(object), object{"evaluated": 3.0, "admitted": 2.0, "rejected_queue_full": 0.0})
	require.Len(t, model["outcomes"], 18)
	key := named(t, model["keys"], "key", "m")
	requireMembers(t, key, object{"limit": 2.0, "source": "config", "configured": 2.0, "inflight": 2.0, "queued": 1.0, "on_hold": 0.0,
		"breaker": "closed", "breaker_change_ms": 0.0, "usable": 2.0, "headroom_change_ms": 0.0, "penalty_ms": 0.0, "hold_change_ms": 0.0,
		"tenants_total": 2.0, "tenants": []any{
			object{"tenant": "acme", "inflight": 2.0, "queued": 0.0, "weight": 3.0},
			object{"tenant": "zeta", "inflight": 0.0, "queued": 1.0, "weight": 1.0}}})
	require.InDelta(t, 745, key["oldest_wait_ms"], 20)
	gateway := named(t, s["pools"], "name", "gateway")
	requireMembers(t, gateway, object{"per": "attempt", "key": []any{}, "fair": false, "holds": false, "inflight": 2.0})
	requireMembers(t, named(t, gateway["keys"], "key", "gateway"), object{"inflight": 2.0, "tenants": []any{}})
}

// The key of a pool without dimensions is there before its first request.
func TestAdminTellsOfIdlePools(t *testing.T) {
	a := startAdmin(t, 2, config(object{"name": "gateway", "limit": 7}, pool("model", 2, "keys", object{"m": object{"limit": 5}})))
	s := a.state("")
	require.Equal(t, 1.0, s["workers"], "the one that answers")
	requireMembers(t, named(t, named(t, s["pools"], "name", "gateway")["keys"], "key", "gateway"), object{"limit": 7.0, "inflight": 0.0})
	require.Empty(t, named(t, s["pools"], "name", "model")["keys"])
}

func TestAdminNarrowsTheState(t *testing.T) {
	a := startAdmin(t, 2, config(pool("model", 2), pool("more", 3)))
	a.sendModel(0, "m 1")
	a.sendModel(1, "m2")
	pools := list(a.state("?pool=model&key=m%201")["pools"])
	require.Len(t, pools, 1)
	require.Len(t, pools[0]["keys"], 1)
	require.Equal(t, "m 1", list(pools[0]["keys"])[0]["key"])
	require.Len(t, list(a.state("?pool=model")["pools"])[0]["keys"], 2)
	require.Empty(t, list(a.state("?pool=model&key=no")["pools"])[0]["keys"])
	require.Empty(t, a.state("?pool=no")["pools"])
}

func TestAdminTellsManyKeysPageByPage(t *testing.T) {
	const keys = 2000
	c := with(config(pool("model", 1), pool("small", 1, "key", []string{"class"})), "max_keys", 4096)
	a := startAdmin(t, 2, c)
	for i := range keys {
		a.sendModel(i%2, fmt.Sprintf("model-%d", i)).Respond(200, "ok")
	}
	seen := map[string]int{}
	pages, after := 0, ""
	for {
		s := a.state("?limit=300&after=" + after)
		n := 0
		for _, p := range list(s["pools"]) {
			requireMembers(t, p, object{"limit": 1.0})
			for _, k := range list(p["keys"]) {
				seen[p["name"].(string)+" "+k["key"].(string)]++
				n++
			}
		}
		require.LessOrEqual(t, n, 300)
		pages++
		next, more := s["next"]
		if !more {
			break
		}
		require.Equal(t, 300, n, "a page that isn't the last is full")
		after = next.(string)
	}
	require.Equal(t, keys/300+1, pages)
	require.Len(t, seen, keys+1, "each key, and the one of the other pool")
	for k, n := range seen {
		require.Equal(t, 1, n, k)
	}
	require.Len(t, list(a.state("")["pools"])[0]["keys"], 200, "without a limit")
	require.Equal(t, float64(keys), list(a.state("?limit=1")["pools"])[0]["keys_total"])
	a.refusedWith(a.ask(0, "GET", "/headgate/v1/state?limit=0", ""), 400, "limit")
	a.refusedWith(a.ask(0, "GET", "/headgate/v1/state?limit=x", ""), 400, "limit")
}

// Of many tenants the busiest are told, most inflight first.
func TestAdminTellsTheBusiestTenants(t *testing.T) {
	a := startAdmin(t, 3, config(fair("model", 500, "queue", 0)))
	for i := range 80 {
		for n := range 1 + i%3 {
			a.send(n, "x-model", "m", "x-tenant", fmt.Sprintf("tenant-%d", i))
		}
	}
	a.heard()
	k := a.key("model", "m")
	require.Equal(t, 80.0, k["tenants_total"])
	tenants := list(k["tenants"])
	require.Len(t, tenants, 50)
	last := 3.0
	for _, x := range tenants {
		require.LessOrEqual(t, x["inflight"].(float64), last)
		last = x["inflight"].(float64)
		require.True(t, strings.HasPrefix(x["tenant"].(string), "tenant-"))
	}
	require.Equal(t, 3.0, tenants[25]["inflight"])
}

// What clients call themselves is theirs. All of it has to come out as text.
func TestAdminTellsHostileNamesAsText(t *testing.T) {
	a := startAdmin(t, 2, config(fair("model", 1, "queue", 50)))
	names := map[string]string{
		`quo"te\`:                            `quo"te\`,
		"<script>alert(1)</script>":          "<script>alert(1)</script>",
		"bad \xff\xfe utf-8":                 "bad \ufffd\ufffd utf-8",
		"half \xe2\x82":                      "half \ufffd\ufffd",
		"\u202eright to left":                "\u202eright to left",
		"tab\there":                          "tab?here",
		"nul\x00here":                        "nul?here",
		"\u2028line":                         "\u2028line",
		repeated("é", 30) + "\U0001f469":     repeated("é", 30) + "\U0001f469",
		"#0123456789abcdef":                  "#0123456789abcdef",
		`{"a":1}`:                            `{"a":1}`,
		"headgate/3/default/workers\x1fmore": "headgate/3/default/workers?more",
	}
	i := 0
	for name := range names {
		a.send(i%2, "x-model", name, "x-tenant", name)
		a.send(i%2, "x-model", name, "x-tenant", name)
		i++
	}
	long := repeated("x", 200)
	a.send(0, "x-model", long, "x-tenant", long)
	a.heard()
	s := a.state("")
	for _, shown := range names {
		k := named(t, list(s["pools"])[0]["keys"], "key", shown)
		require.Equal(t, shown, list(k["tenants"])[0]["tenant"])
		requireMembers(t, k, object{"inflight": 1.0, "queued": 1.0})
	}
	cut := 0
	for _, k := range list(list(s["pools"])[0]["keys"]) {
		if strings.HasPrefix(k["key"].(string), repeated("x", 100)) {
			cut++
			require.Len(t, k["key"], 128)
		}
	}
	require.Equal(t, 1, cut)
}

// A worker that is dead has reported nothing, and what it knew of names is gone.
func TestAdminTellsTheStateWithoutADeadWorker(t *testing.T) {
	a := startAdmin(t, 3, config(fair("model", 4)))
	a.send(1, "x-model", "m", "x-tenant", "acme")
	a.send(2, "x-model", "m", "x-tenant", "zeta")
	a.heard()
	require.Equal(t, 3.0, a.state("")["workers"])
	a.host.Run(ms)
	a.host.Worker(2).Kill()
	since := a.host.Elapsed()
	k := a.key("model", "m")
	require.InDelta(t, 100*ms, a.host.Elapsed()-since, float64(5*ms), "it waits for the dead worker, and no longer")
	requireMembers(t, k, object{"inflight": 2.0})
	names := []string{}
	for _, x := range list(k["tenants"]) {
		names = append(names, x["tenant"].(string))
	}
	require.Contains(t, names, "acme")
	for range 8 { // it is asked in vain for a while
		a.host.Run(1100 * ms)
		a.state("")
	}
	a.host.Run(60 * second)
	since = a.host.Elapsed()
	s := a.state("")
	require.Less(t, a.host.Elapsed()-since, 5*ms, "nobody waits for the dead worker any more")
	require.Equal(t, 2.0, s["workers"])
	require.NoError(t, a.host.Worker(2).Reload())
	a.send(2, "x-model", "m", "x-tenant", "new")
	a.host.Run(200 * ms)
	s = a.state("")
	require.Equal(t, 3.0, s["workers"])
}

// A tenant whose name no worker has is told by its hash.
func TestAdminTellsUnknownTenantsByTheirHash(t *testing.T) {
	a := startAdmin(t, 2, config(fair("model", 4)))
	a.send(1, "x-model", "m", "x-tenant", "acme")
	a.host.Run(150 * ms)
	a.host.Worker(1).Kill()
	k := a.key("model", "m")
	require.Regexp(t, `^#[0-9a-f]{16}$`, list(k["tenants"])[0]["tenant"])
}

func TestAdminTellsHowLongRequestsWaited(t *testing.T) {
	a := startAdmin(t, 3, config(pool("model", 1, "queue", 50, "max_wait", "60s"), object{"name": "gateway", "limit": 100}))
	for i := range 40 { // two slots of waits, of 100 ms to 900 ms
		running := a.sendModel(0, "m")
		waiting := a.sendModel(1+i%2, "m")
		a.host.Run(100 * ms)
		if i%10 == 9 {
			a.host.Run(800 * ms)
		}
		running.Respond(200, "ok")
		a.after("the waiter runs", func() bool { return runs(waiting) })
		waiting.Respond(200, "ok")
		a.host.Run(ms)
		if i == 19 {
			a.host.Run(10 * second)
		}
	}
	s := a.state("")
	w := named(t, s["pools"], "name", "model")["waits"].(object)
	require.Equal(t, 10000.0, w["slot_ms"])
	n := 0.0
	for _, slot := range list(w["slots"]) {
		n += slot["n"].(float64)
		require.InEpsilon(t, 100, slot["p50_ms"], 0.15)
		require.LessOrEqual(t, slot["p50_ms"], slot["p90_ms"])
		require.LessOrEqual(t, slot["p90_ms"], slot["p99_ms"])
		require.Zero(t, int(slot["age_ms"].(float64))%10000)
	}
	require.Equal(t, 40.0, n)
	require.InEpsilon(t, 900, list(w["slots"])[0]["p99_ms"], 0.15)
	require.Empty(t, named(t, s["pools"], "name", "gateway")["waits"].(object)["slots"])
	a.host.Run(11 * minute)
	require.Empty(t, list(a.state("")["pools"])[0]["waits"].(object)["slots"], "ten minutes are told, and no more")
}
