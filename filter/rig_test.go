package filter_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

const (
	ms     = time.Millisecond
	second = time.Second
	minute = time.Minute
	tick   = 10 * ms // what a wait may be late by

	recallTime = 25 * ms  // what a refusal may be late by while spares are called back
	spareTime  = 110 * ms // after which a worker that is idle keeps no spares

	noPermit    = "ADMISSION_REJECTED"
	tooLate     = "ADMISSION_WAIT_DEADLINE_EXCEEDED"
	breakerOpen = "BREAKER_OPEN"
)

type object = map[string]any

// pool is a model pool; more fields by name and value.
func pool(name string, limit int, more ...any) object {
	o := object{"name": name, "limit": limit, "key": []string{"model"}}
	for i := 0; i < len(more); i += 2 {
		o[more[i].(string)] = more[i+1]
	}
	return o
}

// config is a whole configuration around pools; more fields can be set on the result.
func config(pools ...object) object {
	return object{
		"routes": []string{"POST /chat/completions"},
		"identity": object{
			"tenant": []object{{"header": "x-tenant", "trusted": true}},
			"model":  []object{{"header": "x-model"}},
		},
		"deadline": object{"headers": []string{"x-request-timeout-ms", "grpc-timeout"}},
		"pools":    pools,
	}
}

func with(c object, field string, value any) object {
	out := object{}
	for k, v := range c {
		out[k] = v
	}
	out[field] = value
	return out
}

// A gateway is the filter under one configuration on a host with several workers. The test plays clients and upstream.
type gateway struct {
	t      testing.TB
	host   *wasmtest.Host
	plugin *wasmtest.Plugin
}

func start(t testing.TB, workers int, c object, options ...wasmtest.Option) *gateway {
	t.Helper()
	all := []wasmtest.Option{wasmtest.WithWorkers(workers), wasmtest.WithMainThread(), wasmtest.WithCanary()}
	g := &gateway{t: t, host: wasmtest.Start(t, module, append(all, options...)...)}
	g.load(c)
	g.host.Run(20 * ms) // the first ticks assert the limits
	return g
}

func pluginConfig(c object) wasmtest.PluginConfig {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	return wasmtest.PluginConfig{Name: "headgate", RootID: "headgate", Configuration: text,
		AllowOnHeadersStopIteration: true}
}

// load brings a configuration; new requests go by it.
func (g *gateway) load(c object) {
	g.t.Helper()
	p, err := g.host.Load(pluginConfig(c))
	require.NoError(g.t, err)
	g.plugin = p
}

// reload replaces the configuration as a listener update does: the old one drains.
func (g *gateway) reload(c object) {
	g.t.Helper()
	old := g.plugin
	g.load(c)
	if old != g.plugin {
		old.Retire()
	}
	g.host.Run(20 * ms)
}

// send brings a request to a worker. headers are names and values.
func (g *gateway) send(worker int, headers ...string) *wasmtest.Stream {
	s := g.plugin.Stream(worker)
	s.RequestHeaders(wasmtest.RequestHeaders("POST", "/v1/chat/completions", headers...), true)
	return s
}

func (g *gateway) sendModel(worker int, model string) *wasmtest.Stream {
	return g.send(worker, "x-model", model)
}

func (g *gateway) sendTo(worker int, method, path string, headers ...string) *wasmtest.Stream {
	s := g.plugin.Stream(worker)
	s.RequestHeaders(wasmtest.RequestHeaders(method, path, append([]string{"x-model", "m"}, headers...)...), true)
	return s
}

// runs reports whether the request has gone on to the upstream and not ended.
func runs(s *wasmtest.Stream) bool {
	_, ended := s.Ended()
	return !ended && !s.Paused()
}

func waits(s *wasmtest.Stream) bool { return s.Paused() }

func (g *gateway) requireRunning(s *wasmtest.Stream, what string) {
	g.t.Helper()
	require.Truef(g.t, runs(s), "%s should run, but %s", what, stateOf(s))
}

func (g *gateway) requireWaiting(s *wasmtest.Stream, what string) {
	g.t.Helper()
	require.Truef(g.t, waits(s), "%s should wait, but %s", what, stateOf(s))
}

// requireRefused checks a refusal against what clients are promised.
func (g *gateway) requireRefused(s *wasmtest.Stream, reason, pool, what string) {
	g.t.Helper()
	if reason == noPermit && waits(s) {
		g.host.RunUntil(recallTime, func() bool { return !waits(s) })
	}
	r := s.LocalReply()
	require.NotNilf(g.t, r, "%s should be refused, but %s", what, stateOf(s))
	require.Equalf(g.t, 429, r.Code, what)
	require.Equalf(g.t, reason, r.Headers.Get("x-headgate-reason"), what)
	require.Equalf(g.t, pool, r.Headers.Get("x-headgate-pool"), what)
	require.Equalf(g.t, "true", r.Headers.Get("x-envoy-ratelimited"), what)
	require.Regexpf(g.t, `^([1-9]|[1-5][0-9]|60)$`, r.Headers.Get("retry-after"), what)
	var body struct {
		Type  string
		Error struct {
			Message, Type, Code string
			Param               *string
		}
	}
	require.NoErrorf(g.t, json.Unmarshal(r.Body, &body), "%s: %s", what, r.Body)
	require.Containsf(g.t, body.Error.Message, `Headgate: `, what)
	require.Containsf(g.t, body.Error.Message, `pool "`+pool+`"`, what)
	if body.Type == "error" { // Anthropic's form
		require.Equalf(g.t, "rate_limit_error", body.Error.Type, what)
		return
	}
	require.Equalf(g.t, reason, body.Error.Code, what)
	require.Equalf(g.t, "rate_limited", body.Error.Type, what)
}

// requireOpen checks the refusal of an open breaker.
func (g *gateway) requireOpen(s *wasmtest.Stream, retryAfter int, what string) {
	g.t.Helper()
	g.requireNotClosed(s, what)
	g.requireRetryAfter(retryAfter, s.LocalReply(), what)
}

// requireNotClosed checks the refusal of an open or half-open breaker.
func (g *gateway) requireNotClosed(s *wasmtest.Stream, what string) {
	g.t.Helper()
	r := s.LocalReply()
	require.NotNilf(g.t, r, "%s should be refused by the breaker, but %s", what, stateOf(s))
	require.Equalf(g.t, 503, r.Code, what)
	require.Equalf(g.t, breakerOpen, r.Headers.Get("x-headgate-reason"), what)
	require.Equalf(g.t, "model", r.Headers.Get("x-headgate-pool"), what)
	require.Falsef(g.t, r.Headers.Has("x-envoy-ratelimited"), what)
	require.Containsf(g.t, string(r.Body), `"code":"BREAKER_OPEN"`, what)
}

// requireRetryAfter checks a refusal's retry-after: the estimate in seconds, and up to a half more, at most a minute.
func (g *gateway) requireRetryAfter(estimate int, r *wasmtest.LocalReply, what string) {
	g.t.Helper()
	estimate = min(estimate, 40)
	told, err := strconv.Atoi(r.Headers.Get("retry-after"))
	require.NoErrorf(g.t, err, what)
	require.GreaterOrEqualf(g.t, told, estimate, what)
	require.LessOrEqualf(g.t, told, estimate+max(estimate/2, 1), what)
}

// stateOf says what a request does, or how it ended.
func stateOf(s *wasmtest.Stream) string {
	end, ended := s.Ended()
	switch {
	case s.LocalReply() != nil:
		return fmt.Sprintf("it was answered %d %s", s.LocalReply().Code, s.LocalReply().Headers.Get("x-headgate-reason"))
	case ended:
		return "it ended: " + string(end.Cause)
	case s.Paused():
		return "it waits"
	}
	return "it runs"
}

func (g *gateway) counter(name string) int {
	g.handOver()
	return int(g.host.Counter("headgate." + name))
}

// metrics is what the host knows of all metrics.
func (g *gateway) metrics() []wasmtest.Metric {
	g.handOver()
	return g.host.Metrics()
}

// handOver makes the workers hand over what they have counted, without a tick: they do so after 64 requests. These end
// before their headers come, as those do that an earlier filter refuses, and count nowhere.
func (g *gateway) handOver() {
	for i, w := range g.host.Workers() {
		for n := 0; n < 64 && w.Err() == nil && g.plugin.Root(i) != nil; n++ {
			g.plugin.Stream(i).ClientGone()
		}
	}
}

// gauge is signed: a gauge below zero would be huge.
func (g *gateway) gauge(name string) int { return int(int64(g.host.Gauge("headgate." + name))) }

var outcomes = []string{"admitted", "rejected_queue_full", "rejected_closed", "rejected_breaker", "expired_max_wait",
	"expired_deadline", "cancelled_waiting"}

// requireDrained is the drain check: nothing runs, waits or is on hold, and each evaluated request had one outcome.
func (g *gateway) requireDrained(pools ...string) {
	g.t.Helper()
	for _, p := range pools {
		g.host.RunUntil(spareTime, func() bool { return g.gauge(p+".inflight") == 0 })
		for _, name := range []string{"inflight", "queued", "on_hold"} {
			require.Zerof(g.t, g.gauge(p+"."+name), "gauge %s.%s of a drained pool", p, name)
		}
		sum := 0
		var parts []string
		for _, o := range outcomes {
			n := g.counter(p + "." + o)
			sum += n
			parts = append(parts, fmt.Sprintf("%s=%d", o, n))
		}
		require.Equalf(g.t, g.counter(p+".evaluated"), sum, "%s: evaluated is the sum of %s", p, strings.Join(parts, " "))
	}
}

// requireCapacity fills a model's pool again: exactly limit requests run, and one more doesn't.
func (g *gateway) requireCapacity(model string, limit int) {
	g.t.Helper()
	g.host.Run(10 * ms) // until then a worker that has lost swaps leaves acquires to ticks
	var running []*wasmtest.Stream
	for i := range limit {
		s := g.sendModel(i%len(g.host.Workers()), model)
		g.requireRunning(s, fmt.Sprintf("request %d of %d that fit", i+1, limit))
		running = append(running, s)
	}
	extra := g.sendModel(0, model)
	require.Falsef(g.t, runs(extra), "request %d of %d that fit runs", limit+1, limit)
	extra.ClientGone()
	for _, s := range running {
		s.Respond(200, "done")
	}
	g.host.Drain()
}

// requireFits checks how many requests of one kind run at once, and that the pool refuses the next.
func (g *gateway) requireFits(n int, pool string, send func(worker int) *wasmtest.Stream) (running []*wasmtest.Stream) {
	g.t.Helper()
	for i := range n {
		s := send(i % len(g.host.Workers()))
		g.requireRunning(s, fmt.Sprintf("request %d of %d that fit", i+1, n))
		running = append(running, s)
	}
	g.requireRefused(send(0), noPermit, pool, "one more than fits")
	return running
}

// requireQuiet checks that nothing is left that needs time. An idle gateway doesn't tick.
func (g *gateway) requireQuiet() {
	g.t.Helper()
	g.host.Run(30 * second) // seats are given up
	require.Zero(g.t, g.host.Run(time.Hour), "an idle gateway ticks")
}

// afterReset lets the time pass after which a permit is free whose request ended before its upstream's answer did: a tick,
// or two if it was not the only one.
func (g *gateway) afterReset() { g.host.Run(2 * ms) }

// after runs until the condition holds and says how long that took.
func (g *gateway) after(what string, holds func() bool) time.Duration {
	g.t.Helper()
	since := g.host.Elapsed()
	require.Truef(g.t, g.host.RunUntil(time.Hour, holds), "it never happened that %s", what)
	return g.host.Elapsed() - since
}
