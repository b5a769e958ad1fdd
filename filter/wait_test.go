package filter_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// No time passes between a release and the waiter's start: an event wakes it, and no poll.
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

// If a release comes around the moment of expiry, the waiter is admitted or refused: never both, never neither.
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
	g.host.Drain()
	require.Zero(t, g.gauge("model.queued"))
	var live []*wasmtest.Stream
	for i := range 100 {
		s := g.sendModel(i%2, "m")
		g.host.Drain() // beside a long queue a turn's requests go together, so those of one turn have no order over workers
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

// A waiter whose client leaves after the grant and before it goes on passes the permit on.
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
