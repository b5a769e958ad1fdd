package filter_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// A bad deadline header counts once, in however many tries it is sent.
func TestBadDeadlineCountsOnce(t *testing.T) {
	g := startStages(t, 1, twoPools(1, 2))
	c := g.call(0, "a", "x-request-timeout-ms", "soon")
	h := c.try().Forwarded().Headers
	c.try()
	require.Equal(t, 1, g.counter("bad_deadline"))
	require.Equal(t, "soon", h.Get("x-request-timeout-ms"), "what can't be read is passed on")
}

// Of 3,000 ms the tenant's queue takes 300 and the model's 200. The first try lasts until 2,800, the back-off until
// 2,850.
func TestOneDeadlineForQueuesTriesAndBackOff(t *testing.T) {
	for _, c := range []struct {
		name    string
		headers []string
		first   []string // what the upstream is told in the first try
		second  []string
	}{
		{"milliseconds", []string{"x-request-timeout-ms", "3000"}, []string{"2500"}, []string{"150"}},
		{"gRPC", []string{"grpc-timeout", "3S"}, []string{"2500m"}, []string{"150m"}},
		{"gRPC in milliseconds", []string{"grpc-timeout", "3000m"}, []string{"2500m"}, []string{"150m"}},
		{"a Go duration", []string{"x-request-timeout-ms", "3s"}, []string{"2500ms"}, []string{"150ms"}},
		{"a Go duration with a fraction", []string{"x-request-timeout-ms", "3.0s"}, []string{"2500ms"}, []string{"150ms"}},
		{"gRPC's form in another header", []string{"x-request-timeout-ms", "3S"}, []string{"2500000u"}, []string{"150000u"}},
		{"two, the tighter one holds for both", []string{"x-request-timeout-ms", "9000", "grpc-timeout", "3S"}, []string{"2500", "2500m"}, []string{"150", "150m"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := startStages(t, 2, twoPools(1, 1))
			told := func(s *wasmtest.Stream) (values []string) {
				for i := 0; i < len(c.headers); i += 2 {
					values = append(values, s.Forwarded().Headers.Values(c.headers[i])...)
				}
				return values
			}
			before, busy := g.call(1, "a"), g.call(1, "b")
			busy1 := busy.try()
			started := g.host.Elapsed()
			at := func(d time.Duration) { g.host.Run(started + d - g.host.Elapsed()) }
			a := g.call(0, "a", c.headers...)
			at(300 * ms)
			before.ClientGone()
			g.afterReset()
			g.requireRunning(a.Stream, "the call, after the tenant's queue")
			a1 := a.try()
			at(500 * ms)
			busy1.Respond(200, "ok")
			g.host.Drain()
			g.requireRunning(a1, "the first try, after the model's queue")
			require.Equal(t, c.first, told(a1))
			at(2800 * ms)
			fails(a1)
			at(2850 * ms)
			a2 := a.try()
			require.Equal(t, c.second, told(a2))
			fails(a2)
			at(3000 * ms)
			evaluated := g.counter("model.evaluated")
			a3 := a.try()
			g.requireRefused(a3, tooLate, "model", "a try at the deadline, though the model is free")
			require.Empty(t, a3.Forwarded().Headers)
			require.Equal(t, evaluated+1, g.counter("model.evaluated"))
			require.Equal(t, 1, g.counter("model.expired_deadline"))
			g.requireRefused(a.Stream, tooLate, "model", "the call")
			busy.Respond(200, "ok")
			g.drained()
		})
	}
}

// A first try of 2,800 ms leaves the second one 200 ms to wait in, and not a fresh max_wait.
func TestRetryWaitsNoLongerThanWhatIsLeft(t *testing.T) {
	for _, deadline := range []string{"header", "default"} {
		t.Run(deadline, func(t *testing.T) {
			conf := twoPools(9, 1)
			var headers []string
			if deadline == "default" {
				conf["deadline"].(object)["default"] = "3s"
			} else {
				headers = []string{"x-request-timeout-ms", "3000"}
			}
			g := startStages(t, 2, conf)
			a := g.call(0, "a", headers...)
			a1 := a.try()
			g.host.Run(2800 * ms)
			fails(a1)
			b := g.call(1, "b", "x-request-timeout-ms", "60000")
			b1 := b.try()
			a2 := a.try()
			g.host.Run(199 * ms)
			g.requireWaiting(a2, "the second try, 1 ms before the deadline")
			g.host.Run(ms + tick)
			g.requireRefused(a2, tooLate, "model", "the second try at the deadline")
			require.Equal(t, 1, g.counter("model.expired_deadline"))
			require.False(t, a1.Forwarded().Headers.Has("x-request-timeout-ms") && deadline == "default", "no header is invented")
			b1.Respond(200, "ok")
			b.Respond(200, "ok")
			g.drained()
		})
	}
}

// The deadline counts from the request's arrival, so time between the stages counts, too.
func TestFirstTryIsToldWhatTheRouterUsedUp(t *testing.T) {
	g := startStages(t, 1, twoPools(1, 1))
	c := g.call(0, "a", "x-request-timeout-ms", "1000")
	require.Equal(t, "1000", c.Forwarded().Headers.Get("x-request-timeout-ms"))
	g.host.Run(40 * ms) // another filter, or the connection pool
	require.Equal(t, "960", c.try().Forwarded().Headers.Get("x-request-timeout-ms"))
}

// A deadline header that only the attempt stage knows is left as it is: the invocation has no deadline.
func TestAttemptsOwnDeadlineHeaderIsLeftAloneWithoutADeadline(t *testing.T) {
	c := twoPools(1, 1)
	g := &stages{gateway: start(t, 1, with(with(c, "stage", "invocation"), "deadline", object{}))}
	g.loadAttempts(with(c, "stage", "attempt"))
	a := g.call(0, "a", "x-request-timeout-ms", "7000")
	require.Equal(t, "7000", a.try().Forwarded().Headers.Get("x-request-timeout-ms"))
}

// The official clients send their read timeout in seconds.
func TestFinding_C12_ADeadlineInSeconds(t *testing.T) {
	c := config(pool("model", 1, "queue", 1, "max_wait", "1h"))
	c["deadline"] = object{"headers": []any{"x-ms", object{"header": "X-Stainless-Read-Timeout", "unit": "s"}}}
	g := start(t, 1, c)
	a := g.sendModel(0, "m")
	w := g.send(0, "x-model", "m", "x-stainless-read-timeout", "2.5")
	g.host.Run(second)
	a.Respond(200, "ok")
	g.host.Drain()
	require.Equal(t, "1.500", w.Forwarded().Headers.Get("x-stainless-read-timeout"))
	late := g.send(0, "x-model", "m", "x-stainless-read-timeout", "2.5")
	require.Equal(t, 2500*ms, g.after("it is refused", func() bool { return late.LocalReply() != nil }))
	g.requireRefused(late, tooLate, "model", "the request at its deadline")
}
