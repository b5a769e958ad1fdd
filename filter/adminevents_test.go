package filter_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

func TestAdminTellsWhatWasNoPlainAdmission(t *testing.T) {
	a := startAdmin(t, 3, config(pool("model", 1, "queue", 2, "max_wait", "1s")))
	g := a.gateway
	began := a.host.WallTime().UnixMilli()
	running := g.send(0, "x-model", "m", "x-tenant", "acme")
	waiting, leaver := g.sendTo(1, "POST", "/v1/chat/completions?secret=1", "x-tenant", "zeta"), g.sendModel(2, "m")
	a.requireRefused(g.sendModel(2, "m"), noPermit, "model", "a request with the queue full")
	a.host.Run(50 * ms)
	leaver.ClientGone()
	a.host.Run(50 * ms)
	running.Respond(200, "ok")
	a.after("the waiter runs", func() bool { return runs(waiting) })
	late := g.sendModel(0, "m")
	a.host.Run(1100 * ms)
	a.requireRefused(late, tooLate, "model", "a request that waited for too long")
	waiting.Respond(500, "no")
	a.heard()

	events := a.events(0)
	require.Equal(t, []string{"refused", "cancelled", "waited", "expired", "ended"}, kinds(events))
	requireMembers(t, events[0], object{"pool": "model", "key": "m", "model": "m", "tenant": nil, "method": "POST", "path": "/v1/chat/completions",
		"reason": noPermit, "status": 429.0, "wait_ms": 0.0, "duration_ms": nil, "whole": nil, "limit": nil})
	requireMembers(t, events[1], object{"pool": "model", "key": "m", "reason": nil, "status": nil})
	require.InDelta(t, 75, events[1]["wait_ms"], 30)
	require.InDelta(t, 125, events[2]["wait_ms"], 30)
	requireMembers(t, events[2], object{"key": "m", "path": "/v1/chat/completions"})
	requireMembers(t, events[3], object{"key": "m", "reason": tooLate, "status": 429.0, "wait_ms": 1000.0})
	requireMembers(t, events[4], object{"key": "m", "status": 500.0, "whole": true})
	require.InDelta(t, 1100, events[4]["duration_ms"], 50)
	last := 0.0
	for _, e := range events {
		require.Greater(t, e["id"], last)
		last = e["id"].(float64)
		require.InDelta(t, began, e["at_ms"], 2000)
	}
	require.Empty(t, a.events(last), "nothing is told again")
	require.Equal(t, last, a.get(1, fmt.Sprintf("/headgate/v1/events?after=%.0f", last))["last"])
	require.Equal(t, events, list(a.get(2, "/headgate/v1/events?after=0")["events"]), "each worker tells the same")
	a.refusedWith(a.ask(0, "GET", "/headgate/v1/events?after=-1", ""), 400, "after")

	page := a.get(0, "/headgate/v1/events?after=0&limit=2")
	require.Equal(t, events[:2], list(page["events"]))
	require.Equal(t, events[1]["id"], page["last"])
	page = a.get(0, fmt.Sprintf("/headgate/v1/events?limit=3&after=%.0f", page["last"]))
	require.Equal(t, events[2:], list(page["events"]))
	require.Equal(t, last, page["last"])
}

func TestAdminTellsOfChangedLimitsAndBreakers(t *testing.T) {
	breaker := object{"failures": 2, "window": "30s", "open": "10s", "max_open": "60s", "penalty": "0s", "max_penalty": "0s"}
	a := startAdmin(t, 2, config(pool("model", 4, "breaker", breaker)))
	a.sendModel(0, "m").Respond(503, "no")
	a.sendModel(1, "m").Respond(503, "no")
	a.heard()
	requireMembers(t, a.key("model", "m"), object{"breaker": "open"})
	a.sendModel(1, "m")
	a.put(1, `{"pool": "model", "key": "m", "limit": 2}`)
	a.put(0, `{"pool": "model", "key": "m", "limit": null}`)
	a.host.Run(11 * second)
	a.sendModel(0, "m").Respond(200, "ok")
	a.heard()
	told := map[string]object{}
	for _, e := range a.events(0) {
		kind := e["kind"].(string)
		if kind == "limit_changed" {
			kind += fmt.Sprint(e["limit"])
		}
		told[kind] = e
	}
	for _, kind := range []string{"breaker_opened", "breaker_half_open", "breaker_closed"} {
		requireMembers(t, told[kind], object{"pool": "model", "key": "m"})
	}
	requireMembers(t, told["refused"], object{"reason": breakerOpen, "status": 503.0})
	requireMembers(t, told["limit_changed2"], object{"pool": "model", "key": "m", "limit": 2.0, "before": 4.0, "source": "override"})
	requireMembers(t, told["limit_changed4"], object{"before": 2.0, "source": "config"})
}

// What ends well without a wait is told only while somebody looks.
func TestAdminTellsPlainRequestsToThoseWhoLook(t *testing.T) {
	a := startAdmin(t, 2, config(pool("model", 4)))
	serve := func() {
		a.sendModel(1, "m").Respond(200, "ok")
		a.heard()
	}
	serve()
	require.Empty(t, a.events(0))
	serve()
	events := a.events(0)
	require.Equal(t, []string{"ended"}, kinds(events))
	requireMembers(t, events[0], object{"status": 200.0, "whole": true, "wait_ms": 0.0, "model": "m"})
	a.host.Run(11 * second)
	serve()
	require.Empty(t, a.events(events[0]["id"].(float64)))
}

// A worker that is idle has no seat. It is asked all the same, and what its requests left is told.
func TestAdminHearsOfIdleWorkers(t *testing.T) {
	a := startAdmin(t, 3, config(pool("model", 0)))
	for w := range 3 {
		a.requireRefused(a.sendModel(w, fmt.Sprint(w)), noPermit, "model", "a request to a closed pool")
	}
	a.requireQuiet()
	require.Len(t, a.events(0), 3)
	require.Equal(t, 3.0, a.state("")["workers"])
	a.requireQuiet()
}

// Messages can be lost: with a VM, or to another plugin. Then an answer takes its 100 ms, and nothing is lost.
func TestAdminBearsLostMessages(t *testing.T) {
	a := startAdmin(t, 3, config(pool("model", 0)))
	for w := range 3 {
		a.sendModel(w, fmt.Sprint(w))
	}
	a.heard()
	lose := func(mark byte) {
		a.host.OnHostCall(func(c *wasmtest.HostCall) {
			if m := c.Text(1); c.Name() == "proxy_enqueue_shared_queue" && m != "" && m[0] == mark {
				c.Fail(wasmtest.StatusOk)
			}
		})
	}
	lose('q')
	since := a.host.Elapsed()
	require.Empty(t, a.events(0), "nobody has heard the question")
	require.InDelta(t, 100*ms, a.host.Elapsed()-since, float64(5*ms))
	lose('r')
	events := a.events(0)
	require.Len(t, events, 3, "the reports are there, though nobody has heard that they are")
	a.host.OnHostCall(nil)
	require.Equal(t, events, a.events(0))
}

// A report that comes late is told later, and with greater numbers.
func TestAdminTellsLateReports(t *testing.T) {
	a := startAdmin(t, 2, config(pool("model", 0)))
	a.sendModel(0, "early")
	a.sendModel(1, "late")
	a.heard()
	a.host.OnHostCall(func(c *wasmtest.HostCall) {
		if c.Worker().Index() == 1 && c.Name() == "proxy_set_shared_data" {
			c.Fail(wasmtest.StatusInternalFailure)
		}
	})
	first := a.events(0)
	require.Len(t, first, 1)
	a.host.OnHostCall(nil)
	rest := a.events(first[0]["id"].(float64))
	require.Len(t, rest, 1)
	require.Equal(t, "late", rest[0]["key"])
}

// Anybody can write into a shared queue, and other plugins into shared data.
func TestAdminBearsForgedMessagesAndDamagedData(t *testing.T) {
	a := startAdmin(t, 2, config(pool("model", 0)))
	a.sendModel(0, "m")
	a.sendModel(1, "m")
	a.heard()
	require.Len(t, a.events(0), 2)
	forged := []string{"", "q", "r", "q\x00\x00\x00\x00\x00\x00", "q\xff\xff\xff\xff\xff\xff", "r\x00\x00", "r\xff\xff", "r\x05\x00", repeated("q", 70000)}
	for _, q := range a.host.QueueNames() {
		for _, m := range forged {
			a.host.Enqueue(q, []byte(m))
		}
	}
	a.host.Drain()
	require.Len(t, a.events(0), 2)
	damage := []string{"", "\x00", "\x01", "\x01" + repeated("\xff", 40), "\x01" + repeated("\x00", 40), repeated("\x01", 100), repeated("\xff", 70000)}
	for _, key := range []string{"places", "events", "report/0", "report/1"} {
		for _, b := range damage {
			a.host.SharedData().Set("headgate/3/default/"+key, []byte(b))
			a.state("")
			a.events(0)
		}
	}
	a.host.Run(31 * second)
	a.sendModel(0, "m")
	a.sendModel(1, "m")
	a.host.Run(31 * second)
	a.sendModel(0, "again")
	a.sendModel(1, "again")
	a.heard()
	again := 0
	for _, e := range a.events(0) {
		if e["key"] == "again" {
			again++
		}
	}
	require.Equal(t, 2, again, "both workers have taken their places again")
}

// However much is refused, a journal, a report and the log are bounded: the last ones are told.
func TestAdminTellsTheLastOfManyEvents(t *testing.T) {
	a := startAdmin(t, 2, config(pool("model", 0)))
	seen := map[float64]bool{}
	for round := range 4 {
		for i := range 400 {
			a.sendModel(i%2, fmt.Sprintf("%s-%d-%d", repeated("m", 90), round, i))
		}
		a.heard()
		events := a.events(0)
		require.LessOrEqual(t, len(events), 500)
		require.Greater(t, len(events), 200)
		for _, e := range events {
			seen[e["id"].(float64)] = true
		}
	}
	for _, key := range []string{"events", "report/0", "report/1"} {
		v, _, ok := a.host.SharedData().Get("headgate/3/default/" + key)
		require.True(t, ok)
		require.LessOrEqual(t, len(v), 160<<10, key)
	}
	var last object
	for after := 0.0; ; {
		events := a.events(after)
		if len(events) == 0 {
			break
		}
		last = events[len(events)-1]
		after = last["id"].(float64)
	}
	require.Equal(t, repeated("m", 90)+"-3-399", last["key"])
}

// Nobody tells anything unless somebody asks: no report, no message, no tick more.
func TestNobodyReportsUnasked(t *testing.T) {
	a := startAdmin(t, 2, config(fair("model", 2)))
	a.sendModel(0, "m")
	a.heard()
	a.host.OnHostCall(func(c *wasmtest.HostCall) {
		if c.Name() == "proxy_set_shared_data" {
			require.NotContains(t, c.Text(0), "/report/")
		}
	})
	a.sendModel(0, "m")
	a.sendModel(1, "m")
	a.host.Run(time.Minute)
}

func TestAdminTellsOfDeadWorkers(t *testing.T) {
	a := startAdmin(t, 3, with(config(pool("model", 2, "queue", 4, "max_wait", "60s")), "lease", "2s"))
	a.sendModel(0, "m")
	a.sendModel(1, "m")
	a.host.Run(500 * ms)
	a.host.Worker(0).Kill()
	a.host.Run(5 * second)
	events := list(a.get(1, "/headgate/v1/events?after=0")["events"])
	require.Contains(t, kinds(events), "reaped")
	requireMembers(t, named(t, []any{events[0]}, "kind", "reaped"), object{"pool": "model", "key": "m"})
}

// In shadow nobody is refused. What would have become of a request is told, without a status.
func TestAdminTellsWhatShadowWouldDo(t *testing.T) {
	a := startAdmin(t, 1, with(config(pool("model", 1)), "mode", "shadow"))
	a.sendModel(0, "m")
	a.requireRunning(a.sendModel(0, "m"), "a request in shadow")
	a.heard()
	events := a.events(0)
	require.Equal(t, []string{"refused"}, kinds(events))
	requireMembers(t, events[0], object{"reason": noPermit, "status": nil})
	require.Equal(t, "shadow", a.state("")["mode"])
}
