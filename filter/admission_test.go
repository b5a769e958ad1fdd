package filter_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// Limit 2, queue 3, ten at once: two run, three wait and run in order, five are refused at once; on any number of workers.
func TestTenAtOnce(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		t.Run(fmt.Sprintf("%d workers", workers), func(t *testing.T) {
			g := start(t, workers, config(pool("model", 2, "queue", 3, "max_wait", "5s")))
			var s []*wasmtest.Stream
			for i := range 10 {
				s = append(s, g.sendModel(i%workers, "m"))
			}
			for i := range 10 {
				switch {
				case i < 2:
					g.requireRunning(s[i], "one of the first two")
				case i < 5:
					g.requireWaiting(s[i], "one of the next three")
				default:
					g.requireRefused(s[i], noPermit, "model", "one of the last five")
				}
			}
			require.Equal(t, 2, g.gauge("model.inflight"))
			require.Equal(t, 3, g.gauge("model.queued"))
			for i := range 3 {
				s[i].Respond(200, "ok")
				g.host.Drain()
				g.requireRunning(s[i+2], "the oldest waiter")
			}
			s[3].Respond(200, "ok")
			s[4].Respond(200, "ok")
			g.requireDrained("model")
			require.Equal(t, 5, g.counter("model.admitted"))
			require.Equal(t, 3, g.counter("model.admitted_after_wait"))
			require.Equal(t, 5, g.counter("model.rejected_queue_full"))
			g.requireCapacity("m", 2)
		})
	}
}

// A permit is back with the stream's end, whatever ends it, and not before.
func TestEveryEndGivesThePermitBack(t *testing.T) {
	ends := map[string]func(s *wasmtest.Stream){
		"a whole response":                   func(s *wasmtest.Stream) { s.Respond(200, "ok") },
		"a response without a body":          func(s *wasmtest.Stream) { s.ResponseHeaders(wasmtest.ResponseHeaders(204), true) },
		"a client that leaves early":         (*wasmtest.Stream).ClientGone,
		"an upstream that resets early":      (*wasmtest.Stream).UpstreamReset,
		"another filter's reply":             func(s *wasmtest.Stream) { s.HostReply(403, "rbac", 0) },
		"a timeout":                          func(s *wasmtest.Stream) { s.HostReply(504, "timeout", wasmtest.FlagUpstreamTimeout) },
		"a client that leaves a stream":      func(s *wasmtest.Stream) { begin(s); s.ClientGone() },
		"an upstream that resets mid-stream": func(s *wasmtest.Stream) { begin(s); s.UpstreamReset() },
		"trailers":                           func(s *wasmtest.Stream) { begin(s); s.ResponseTrailers(wasmtest.HeadersOf("grpc-status", "0")) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			g := start(t, 2, config(pool("model", 1, "queue", 1)))
			first := g.sendModel(0, "m")
			next := g.sendModel(1, "m")
			g.requireRunning(first, "the first request")
			g.requireWaiting(next, "the second request")
			end(first)
			g.host.Drain()
			g.requireRunning(next, "the second request, once the first ended")
			next.Respond(200, "ok")
			g.requireDrained("model")
		})
	}
}

func begin(s *wasmtest.Stream) {
	s.ResponseHeaders(wasmtest.ResponseHeaders(200), false)
	s.ResponseBody([]byte("data: 1\n\n"), false)
}

func TestCase_O02_StreamKeepsItsPermitToTheLastByte(t *testing.T) {
	g := start(t, 2, config(pool("model", 1, "queue", 1, "max_wait", "20s")))
	a := g.sendModel(0, "m")
	begin(a)
	c := g.sendModel(1, "m")
	for range 10 {
		g.host.Run(time.Second)
		a.ResponseBody([]byte("data: 2\n\n"), false)
		g.requireWaiting(c, "a request behind a running stream")
	}
	a.ResponseBody([]byte("data: [DONE]\n\n"), true)
	g.host.Drain()
	g.requireRunning(c, "the request behind the stream that ended")
}

// Between a release and the waiter's start no time passes: an event, and not a poll.
func TestReleaseWakesTheWaiterOnAnotherWorkerAtOnce(t *testing.T) {
	g := start(t, 4, config(pool("model", 1, "queue", 8, "max_wait", "15s")))
	holder := g.sendModel(0, "m")
	for i := 1; i < 20; i++ {
		waiter := g.sendModel(i%4, "m")
		g.requireWaiting(waiter, "a request behind a full pool")
		before := g.host.Elapsed()
		holder.Respond(200, "ok")
		g.host.Drain()
		g.requireRunning(waiter, "the waiter")
		require.Equal(t, before, g.host.Elapsed())
		holder = waiter
	}
}

func TestTheHostWaitsWithoutUsWhileNothingNeedsTime(t *testing.T) {
	g := start(t, 2, config(pool("model", 1)))
	require.Zero(t, g.host.Run(time.Hour), "an idle gateway ticks")
	s := g.sendModel(0, "m")
	g.host.Run(10 * time.Second)
	s.Respond(200, "ok")
	g.host.Run(10 * time.Second)
	require.Zero(t, g.host.Run(time.Hour), "a drained gateway ticks")
}

func TestWaitEndsAtItsBudget(t *testing.T) {
	for _, c := range []struct {
		name, deadline string
		headers        []string
		want           time.Duration
		counter        string
	}{
		{"max_wait", "", nil, 2 * time.Second, "expired_max_wait"},
		{"a shorter deadline in milliseconds", "", []string{"x-request-timeout-ms", "1000"}, time.Second, "expired_deadline"},
		{"a shorter gRPC deadline", "", []string{"grpc-timeout", "400m"}, 400 * ms, "expired_deadline"},
		{"the tighter of two", "", []string{"grpc-timeout", "1S", "x-request-timeout-ms", "300"}, 300 * ms, "expired_deadline"},
		{"a longer deadline", "", []string{"x-request-timeout-ms", "5000"}, 2 * time.Second, "expired_max_wait"},
		{"a malformed deadline", "", []string{"x-request-timeout-ms", "soon"}, 2 * time.Second, "expired_max_wait"},
		{"a huge deadline", "", []string{"grpc-timeout", "99999999H"}, 2 * time.Second, "expired_max_wait"},
		{"the default deadline", "700ms", nil, 700 * ms, "expired_deadline"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf := config(pool("model", 1, "queue", 4, "max_wait", "2s"))
			if c.deadline != "" {
				conf["deadline"].(object)["default"] = c.deadline
			}
			g := start(t, 2, conf)
			g.sendModel(0, "m")
			w := g.send(1, append([]string{"x-model", "m"}, c.headers...)...)
			g.host.Run(c.want - ms)
			g.requireWaiting(w, "the request before its budget is used up")
			g.host.Run(ms + tick)
			g.requireRefused(w, tooLate, "model", "the request after its budget")
			require.Empty(t, w.Forwarded().Headers, "an expired waiter reached the upstream")
			require.Equal(t, 1, g.counter("model."+c.counter))
			require.Zero(t, g.gauge("model.queued"))
		})
	}
}

func TestExpiredRequestIsRefusedThoughPermitsAreFree(t *testing.T) {
	g := start(t, 1, config(pool("model", 5)))
	g.requireRefused(g.send(0, "x-model", "m", "x-request-timeout-ms", "0"), tooLate, "model", "an expired request")
	g.requireRefused(g.send(0, "x-model", "m", "grpc-timeout", "0m"), tooLate, "model", "an expired gRPC request")
	require.Equal(t, 2, g.counter("model.expired_deadline"))
	g.requireDrained("model")
}

func TestUpstreamSeesWhatIsLeftOfTheDeadline(t *testing.T) {
	g := start(t, 1, config(pool("model", 1, "queue", 1, "max_wait", "5s")))
	holder := g.sendModel(0, "m")
	w := g.send(0, "x-model", "m", "x-request-timeout-ms", "4000", "grpc-timeout", "8S")
	g.host.Run(1500 * ms)
	holder.Respond(200, "ok")
	g.host.Drain()
	h := w.Forwarded().Headers
	require.Equal(t, []string{"2500"}, h.Values("x-request-timeout-ms"))
	require.Equal(t, []string{"2500m"}, h.Values("grpc-timeout"), "the tighter deadline holds for both")
}

func TestCase_O04_ATimedOutWaiterIsNotHandedThePermit(t *testing.T) {
	g := start(t, 2, config(pool("model", 1, "queue", 8, "max_wait", "300ms")))
	a := g.sendModel(0, "m")
	var ws []*wasmtest.Stream
	for i := range 8 {
		ws = append(ws, g.sendModel(i%2, "m"))
	}
	g.host.Run(300*ms + tick)
	for _, w := range ws {
		g.requireRefused(w, tooLate, "model", "a waiter after its budget")
	}
	g.host.Run(700 * ms)
	a.Respond(200, "ok")
	b := g.sendModel(1, "m")
	g.requireRunning(b, "the next request")
	b.Respond(200, "ok")
	g.requireDrained("model")
	g.requireCapacity("m", 1)
}

// A release around the moment of expiry: admitted or refused, never both and never neither.
func TestCase_O04_ReleaseMeetsExpiry(t *testing.T) {
	admitted := 0
	for offset := -12; offset <= 12; offset++ {
		g := start(t, 2, config(pool("model", 1, "queue", 8, "max_wait", "300ms")))
		a := g.sendModel(0, "m")
		w := g.sendModel(1, "m")
		g.host.Run(300*ms + time.Duration(offset)*ms)
		a.Respond(200, "ok")
		g.host.Run(2 * tick)
		if runs(w) {
			admitted++
			require.Nil(t, w.LocalReply())
			w.Respond(200, "ok")
		} else {
			g.requireRefused(w, tooLate, "model", "the waiter")
		}
		g.host.Drain()
		g.requireDrained("model")
		g.requireCapacity("m", 1)
		g.host.Close()
	}
	require.Greater(t, admitted, 5)
	require.Less(t, admitted, 20)
}

func TestCase_O05_WaitersThatLeaveMakeRoom(t *testing.T) {
	g := start(t, 2, config(pool("model", 1, "queue", 100, "max_wait", "60s")))
	a := g.sendModel(0, "m")
	var gone []*wasmtest.Stream
	for i := range 100 {
		gone = append(gone, g.sendModel(i%2, "m"))
	}
	for _, s := range gone {
		s.ClientGone()
	}
	require.Zero(t, g.gauge("model.queued"))
	var live []*wasmtest.Stream
	for i := range 100 {
		s := g.sendModel(i%2, "m")
		g.requireWaiting(s, "a live request after a hundred left")
		live = append(live, s)
	}
	last := a
	for _, s := range live {
		last.Respond(200, "ok")
		g.host.Drain()
		g.requireRunning(s, "the next live request")
		last = s
	}
	last.Respond(200, "ok")
	for _, s := range gone {
		require.Empty(t, s.Forwarded().Headers, "a request whose client had left reached the upstream")
	}
	require.Equal(t, 100, g.counter("model.cancelled_waiting"))
	g.requireDrained("model")
}

// A waiter whose client leaves between the grant and its resumption passes the permit on.
func TestGrantedWaiterThatLeavesPassesThePermitOn(t *testing.T) {
	g := start(t, 2, config(pool("model", 1, "queue", 4)))
	a := g.sendModel(0, "m")
	b, c := g.sendModel(1, "m"), g.sendModel(1, "m")
	a.Respond(200, "ok") // grants b; the message is still on its way
	b.ClientGone()
	g.host.Drain()
	g.requireRunning(c, "the waiter behind the one that left")
	c.Respond(200, "ok")
	require.Equal(t, 1, g.counter("model.cancelled_waiting"))
	g.requireDrained("model")
	g.requireCapacity("m", 1)
}

func TestCase_O13_ZeroMeans(t *testing.T) {
	g := start(t, 1, config(pool("model", 0, "queue", 5, "max_wait", "5s")))
	g.requireRefused(g.sendModel(0, "m"), noPermit, "model", "a request for a closed pool")
	require.Equal(t, 1, g.counter("model.rejected_closed"))
	g.requireDrained("model")
	for name, c := range map[string]object{"queue 0": pool("model", 1, "queue", 0), "no queue": pool("model", 1), "max_wait 0": pool("model", 1, "queue", 5, "max_wait", "0s")} {
		g := start(t, 1, config(c))
		g.sendModel(0, "m")
		g.requireRefused(g.sendModel(0, "m"), noPermit, "model", name)
	}
}

// A refusal of a later pool gives the earlier permit back at once; a wait in a later pool keeps it.
func TestPoolsInOrder(t *testing.T) {
	tenant := object{"name": "tenant", "key": []string{"tenant"}, "limit": 2}
	g := start(t, 2, config(tenant, pool("model", 1, "queue", 1)))
	send := func(w int) *wasmtest.Stream { return g.send(w, "x-tenant", "acme", "x-model", "m") }
	a, b := send(0), send(1)
	g.requireRunning(a, "the first request")
	g.requireWaiting(b, "the second request, in the model's queue")
	g.requireRefused(send(0), noPermit, "tenant", "a third request of the tenant: the waiting one holds a permit")
	other := g.send(0, "x-tenant", "other", "x-model", "m")
	g.requireRefused(other, noPermit, "model", "another tenant's request: the model's queue is full")
	require.Equal(t, 2, g.gauge("tenant.inflight"), "the refused tenant's permit is back")
	a.Respond(200, "ok")
	g.host.Drain()
	g.requireRunning(b, "the second request")
	b.Respond(200, "ok")
	g.requireDrained("tenant", "model")
}

func TestBodyAndTrailersWaitWithTheirHeaders(t *testing.T) {
	g := start(t, 1, config(pool("model", 1, "queue", 1)))
	a := g.sendModel(0, "m")
	w := g.plugin.Stream(0)
	w.RequestHeaders(wasmtest.RequestHeaders("POST", "/v1/chat/completions", "x-model", "m"), false)
	w.RequestBody([]byte(`{"model":`), false)
	w.RequestBody([]byte(`"m"}`), false)
	w.RequestTrailers(wasmtest.HeadersOf("x-end", "1"))
	g.host.Run(time.Second)
	g.requireWaiting(w, "a request with body and trailers")
	require.Empty(t, w.Forwarded().Headers, "headers reached the upstream before the grant")
	a.Respond(200, "ok")
	g.host.Drain()
	g.requireRunning(w, "the granted request")
	require.Equal(t, `{"model":"m"}`, string(w.Forwarded().Body))
}

func TestRefusalForGRPC(t *testing.T) {
	g := start(t, 1, config(pool("model", 1)))
	g.sendModel(0, "m")
	s := g.send(0, "x-model", "m", "content-type", "application/grpc+proto")
	require.NotNil(t, s.LocalReply())
	require.Equal(t, 8, s.LocalReply().GRPCStatus)
	require.NotContains(t, string(s.LocalReply().Body), "{")
}

func TestUngovernedAndDisabledRequestsAreNotTouched(t *testing.T) {
	c := config(pool("model", 0))
	g := start(t, 1, c)
	s := g.plugin.Stream(0)
	in := wasmtest.RequestHeaders("GET", "/v1/models", "x-model", "a", "x-model", "b", "x-headgate-own", "1", "x-request-timeout-ms", "0")
	require.Equal(t, wasmtest.Continue, s.RequestHeaders(in, true))
	require.Equal(t, in, s.Forwarded().Headers)
	require.Equal(t, 1, g.counter("ungoverned"))
	g.reload(with(c, "mode", "disabled"))
	s = g.send(0, "x-model", "a", "x-model", "b", "x-headgate-own", "1", "x-request-timeout-ms", "0")
	g.requireRunning(s, "a request while the filter is disabled")
	require.Zero(t, g.counter("model.evaluated"))
	require.Equal(t, 1, g.counter("ungoverned"))
}

func TestHeadgatesOwnHeadersFromAClientGoNowhere(t *testing.T) {
	g := start(t, 1, config(pool("model", 1)))
	s := g.send(0, "x-model", "m", "x-headgate-permit", "1", "x-other", "2")
	h := s.Forwarded().Headers
	require.False(t, h.Has("x-headgate-permit"))
	require.True(t, h.Has("x-other"))
}

func TestAccessLogIsTold(t *testing.T) {
	g := start(t, 1, config(pool("model", 1, "queue", 1, "max_wait", "1s")))
	told := func(s *wasmtest.Stream) string { v, _ := s.Request().FilterState("headgate"); return string(v) }
	a := g.sendModel(0, "m")
	require.JSONEq(t, `{"outcome":"admitted","pool":"model","wait_ms":0,"attempts":1}`, told(a))
	w := g.sendModel(0, "m")
	r := g.sendModel(0, "m")
	require.JSONEq(t, `{"outcome":"rejected","pool":"model","wait_ms":0,"attempts":1}`, told(r))
	g.host.Run(250 * ms)
	a.Respond(200, "ok")
	g.host.Drain()
	require.JSONEq(t, `{"outcome":"admitted","pool":"model","wait_ms":250,"attempts":1}`, told(w))
}

func TestUpstreamCannotSpeakForHeadgate(t *testing.T) {
	g := start(t, 1, config(pool("model", 1)))
	s := g.sendModel(0, "m")
	s.ResponseHeaders(wasmtest.ResponseHeaders(200, "x-headgate-reason", "SPOOF", "x-headgate-pool", "p", "x-other", "1"), false)
	h := s.Received().Headers
	require.False(t, h.Has("x-headgate-reason") || h.Has("x-headgate-pool"))
	require.True(t, h.Has("x-other"))
}
