package filter_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// Only tenants that wait now are remembered, however many have waited.
func TestTenantsThatOnlyWaitedAreForgotten(t *testing.T) {
	g := start(t, 1, config(pool("model", 1, "queue", 1000, "max_wait", "60s", "fair_by", "tenant")))
	holder := g.sendModel(0, "m")
	for round := range 67 { // more tenants than 16 bits can number
		var waiters []*wasmtest.Stream
		for i := range 1000 {
			waiters = append(waiters, g.send(0, "x-model", "m", "x-tenant", fmt.Sprintf("t%d-%d", round, i)))
		}
		g.host.Run(51 * ms)
		for _, s := range waiters {
			s.ClientGone()
		}
	}
	last := g.send(0, "x-model", "m", "x-tenant", "last")
	g.host.Run(60 * ms)
	g.host.OnHostCall(func(c *wasmtest.HostCall) { // the grant's message is lost, so that a reconcile finds it
		if c.Name() == "proxy_enqueue_shared_queue" {
			c.Drop()
		}
	})
	holder.Respond(200, "ok")
	g.host.OnHostCall(nil)
	g.host.Run(200 * ms)
	g.requireRunning(last, "the last tenant's request")
	last.Respond(200, "ok")
	g.host.Run(time.Minute)
	g.requireDrained("model")
	g.requireCapacity("m", 1)
}

// maxActions is how many continues and replies one callback may make. A real host's stack has room for some hundreds.
const maxActions = 32

func TestTwoThousandWaitersThatExpireTogether(t *testing.T) {
	g := start(t, 2, config(pool("model", 1, "queue", 5000, "max_wait", "1s")))
	g.sendModel(0, "m")
	var ws []*wasmtest.Stream
	for i := range 2000 {
		ws = append(ws, g.sendModel(i%2, "m"))
	}
	g.host.Run(1500 * ms)
	for _, w := range ws {
		g.requireRefused(w, tooLate, "model", "one of two thousand waiters")
	}
	require.LessOrEqual(t, g.host.MaxActions(), maxActions)
	require.Equal(t, 2000, g.counter("model.expired_max_wait"))
	require.Zero(t, g.gauge("model.queued"))
}

func TestTwoThousandWaitersWokenByOneRaisedLimit(t *testing.T) {
	waiting := func(limit int) object { return config(pool("model", limit, "queue", 5000, "max_wait", "60s")) }
	g := start(t, 2, waiting(1))
	g.sendModel(0, "m")
	var ws []*wasmtest.Stream
	for i := range 2000 {
		ws = append(ws, g.sendModel(i%2, "m"))
	}
	g.reload(waiting(3000))
	g.host.Run(time.Second)
	for _, w := range ws {
		g.requireRunning(w, "one of two thousand waiters")
	}
	require.LessOrEqual(t, g.host.MaxActions(), maxActions)
	for _, w := range ws {
		w.Respond(200, "ok")
	}
	require.Equal(t, 1, g.gauge("model.inflight"))
}

// What no pool asks for decides nothing, so two values of it are no reason to refuse a request.
func TestFinding_C15_WhatNoPoolAsksForIsNotJudged(t *testing.T) {
	g := start(t, 1, config(all(9)))
	g.requireRunning(g.send(0, "x-tenant", "a", "x-tenant", "b", "x-model", "a", "x-model", "b"), "two tenants and two models")
	for name, asking := range map[string]object{"key": pool("model", 9), "match": all(9, "match", object{"model": []string{"c"}})} {
		g := start(t, 1, config(asking))
		g.requireRunning(g.send(0, "x-tenant", "a", "x-tenant", "b"), name)
		require.NotNil(t, g.send(0, "x-model", "a", "x-model", "b").LocalReply(), name)
	}
	g = start(t, 1, config(all(9, "fair_by", "tenant")))
	require.NotNil(t, g.send(0, "x-tenant", "a", "x-tenant", "b").LocalReply())
}

// Nobody waits for a body for the sake of a model that no pool asks for.
func TestFinding_C15_ABodyNoPoolAsksForIsNotWaitedFor(t *testing.T) {
	g := start(t, 1, fromBody(all(9)))
	s := g.plugin.Stream(0)
	s.RequestHeaders(wasmtest.RequestHeaders("POST", "/v1/chat/completions"), false)
	g.requireRunning(s, "a request whose body has not come")
}

func TestCase_O19_AmbiguousIdentity(t *testing.T) {
	g := start(t, 1, config(pool("model", 5, "fair_by", "tenant")))
	for _, headers := range [][]string{
		{"x-tenant", "a", "x-tenant", "b"},
		{"x-tenant", "a", "x-tenant", "a"},
		{"x-tenant", "", "x-tenant", "a"},
		{"x-model", "a", "x-model", "b"},
		{"x-request-timeout-ms", "5", "x-request-timeout-ms", "500"},
	} {
		s := g.send(0, headers...)
		r := s.LocalReply()
		require.NotNil(t, r, "%v: %s", headers, stateOf(s))
		require.Equal(t, 400, r.Code)
		require.Equal(t, "AMBIGUOUS_IDENTITY", r.Headers.Get("x-headgate-reason"))
		require.True(t, json.Valid(r.Body))
	}
	require.Equal(t, 5, g.counter("ambiguous_identity"))
	require.Zero(t, g.counter("model.evaluated"))
	g.requireRunning(g.send(0, "x-tenant", "a,b", "x-other", "1", "x-other", "2"), "one value with a comma")
}

func TestCase_O30_StrangeNames(t *testing.T) {
	g := start(t, 1, config(pool("model", 1, "key", []string{"tenant", "model"})))
	for _, name := range []string{`a"b`, `a\`, "a\nb", "a\r\nx: y", "a\x00b", `a{b="c"}`, "a\u202eb", strings.Repeat("x", 10000), "", " ", "\x1f"} {
		a := g.send(0, "x-model", name, "x-tenant", name)
		g.requireRunning(a, fmt.Sprintf("the first request of %.20q", name))
		b := g.send(0, "x-model", name, "x-tenant", name)
		g.requireRefused(b, noPermit, "model", fmt.Sprintf("the second request of %.20q", name))
		if len(name) > 2 {
			require.NotContains(t, string(b.LocalReply().Body), name)
		}
		a.Respond(200, "ok")
	}
	for _, m := range g.metrics() {
		require.Regexp(t, `^[a-z0-9_.]+$`, m.Name)
	}
	long := strings.Repeat("y", 300)
	a := g.send(0, "x-model", long+"1")
	g.requireRunning(a, "a long name")
	g.requireRunning(g.send(0, "x-model", long+"2"), "another long name with the same beginning")
	require.Empty(t, g.host.Logs())
}

func TestCase_O10_OnlyTheMonotonicClockCounts(t *testing.T) {
	for _, step := range []time.Duration{-8 * time.Hour, 8 * time.Hour, -time.Second} {
		g := start(t, 2, with(config(pool("model", 1, "queue", 5, "max_wait", "2s")), "lease", "1s"))
		g.sendModel(0, "m")
		w := g.sendModel(1, "m")
		g.host.Run(time.Second)
		g.host.StepWallClock(step)
		g.host.Run(900 * ms)
		g.requireWaiting(w, fmt.Sprintf("a waiter before its budget, the wall clock stepped by %v", step))
		require.Zero(t, g.counter("model.reaped"))
		g.host.Run(100*ms + tick)
		g.requireRefused(w, tooLate, "model", "a waiter after its budget")
		g.host.Close()
	}
}

// A request that is not governed costs nothing at its end.
func TestTheEndOfAnUngovernedRequestCallsNobody(t *testing.T) {
	c := config(pool("model", 1))
	c["routes"] = []string{"POST /chat/completions"}
	g := start(t, 1, c)
	s := g.plugin.Stream(0)
	s.RequestHeaders(wasmtest.RequestHeaders("GET", "/v1/models"), true)
	calls := 0
	g.host.OnHostCall(func(*wasmtest.HostCall) { calls++ })
	s.Respond(200, "ok")
	require.Zero(t, calls)
}
