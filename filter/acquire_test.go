package filter_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// Limit 2, queue 3, ten at once: two run, three wait and run in order, and five are refused at once. So it is on any
// number of workers.
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

func TestExpiredRequestIsRefusedThoughPermitsAreFree(t *testing.T) {
	g := start(t, 1, config(pool("model", 5)))
	g.requireRefused(g.send(0, "x-model", "m", "x-request-timeout-ms", "0"), tooLate, "model", "an expired request")
	g.requireRefused(g.send(0, "x-model", "m", "grpc-timeout", "0m"), tooLate, "model", "an expired gRPC request")
	require.Equal(t, 2, g.counter("model.expired_deadline"))
	g.requireDrained("model")
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

// A refusal of a later pool gives the earlier permit back at once. A wait in a later pool keeps it.
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
