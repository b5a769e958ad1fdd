package filter_test

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// stages are the module twice in one VM, as invocation and as attempt stage. The test is the router too.
type stages struct {
	*gateway // the invocation stage
	attempts *wasmtest.Plugin
}

// twoPools are a pool of each stage: the tenant's permit is the invocation's, the model's the attempt's.
func twoPools(tenantLimit, modelLimit int, more ...any) object {
	return config(
		pool("tenant", tenantLimit, append([]any{"key", []string{"tenant"}, "queue", 8, "max_wait", "5s"}, more...)...),
		pool("model", modelLimit, append([]any{"per", "attempt", "queue", 8, "max_wait", "5s"}, more...)...))
}

func startStages(t testing.TB, workers int, c object) *stages {
	t.Helper()
	g := &stages{gateway: start(t, workers, with(c, "stage", "invocation"))}
	g.loadAttempts(with(c, "stage", "attempt"))
	g.host.Run(20 * ms)
	return g
}

func (g *stages) loadAttempts(c object) {
	g.t.Helper()
	p := pluginConfig(c)
	p.Name = "headgate-attempt"
	var err error
	g.attempts, err = g.host.Load(p)
	require.NoError(g.t, err)
}

// reloadBoth replaces both stages' configurations, as a listener's and a cluster's update do.
func (g *stages) reloadBoth(c object) {
	g.t.Helper()
	down, up := g.plugin, g.attempts
	g.load(with(c, "stage", "invocation"))
	g.loadAttempts(with(c, "stage", "attempt"))
	down.Retire()
	up.Retire()
	g.host.Run(20 * ms)
}

// A call is a client's call, with the downstream stream it is.
type call struct {
	*wasmtest.Stream
	g      *stages
	worker int
}

func (g *stages) call(worker int, tenant string, headers ...string) *call {
	return &call{g.send(worker, append([]string{"x-tenant", tenant, "x-model", "m"}, headers...)...), g, worker}
}

// try is an attempt of the router's with the headers that the invocation stage let through, some of them replaced.
func (c *call) try(headers ...string) *wasmtest.Stream {
	c.g.t.Helper()
	require.False(c.g.t, c.Paused(), "the router never sees a request that waits")
	h := c.Forwarded().Headers
	for i := 0; i < len(headers); i += 2 {
		for k := range h {
			if h[k].Name == headers[i] {
				h[k].Value = headers[i+1]
			}
		}
	}
	s := c.g.attempts.Stream(c.worker, wasmtest.Upstream(), wasmtest.OfRequest(c.Request()))
	s.RequestHeaders(h, true)
	return s
}

// fails is a try's answer that the router retries.
func fails(s *wasmtest.Stream) { s.ResponseHeaders(wasmtest.ResponseHeaders(503), true) }

// owned checks who holds and who waits, per pool.
func (g *stages) owned(tenant, tenantQueued, model, modelQueued int, when string) {
	g.t.Helper()
	require.Equal(g.t, [4]int{tenant, tenantQueued, model, modelQueued},
		[4]int{g.gauge("tenant.inflight"), g.gauge("tenant.queued"), g.gauge("model.inflight"), g.gauge("model.queued")},
		"permits and tickets of the tenant's and the model's pool %s", when)
}

func (g *stages) drained() {
	g.t.Helper()
	g.host.Drain()
	g.owned(0, 0, 0, 0, "at the end")
	g.requireDrained("tenant", "model")
}

func TestOwnership_Success(t *testing.T) {
	g := startStages(t, 2, twoPools(1, 1))
	c := g.call(0, "a")
	g.owned(1, 0, 0, 0, "before the router's first try")
	s := c.try()
	g.owned(1, 0, 1, 0, "while the try runs")
	g.host.Run(10 * time.Second)
	g.owned(1, 0, 1, 0, "while the try runs for longer than a lease")
	s.Respond(200, "ok")
	g.owned(1, 0, 0, 0, "when the upstream's response has ended")
	c.Respond(200, "ok")
	g.owned(0, 0, 0, 0, "when the client has its response")
	require.Equal(t, 1, g.counter("tenant.admitted"))
	require.Equal(t, 1, g.counter("model.admitted"))
	g.drained()
}

func TestOwnership_Stream(t *testing.T) {
	g := startStages(t, 2, with(twoPools(1, 1), "lease", "1s"))
	c := g.call(0, "a")
	s := c.try()
	begin(s)
	begin(c.Stream)
	for range 20 {
		g.host.Run(time.Second)
		s.ResponseBody([]byte("data: 2\n\n"), false)
		c.ResponseBody([]byte("data: 2\n\n"), false)
		g.owned(1, 0, 1, 0, "between two chunks")
	}
	s.ResponseBody([]byte("data: [DONE]\n\n"), true)
	g.owned(1, 0, 0, 0, "after the upstream's last byte")
	c.ResponseBody([]byte("data: [DONE]\n\n"), true)
	g.drained()
}

func TestOwnership_Error(t *testing.T) {
	for name, fail := range map[string]func(c *call, s *wasmtest.Stream){
		"an error's status": func(c *call, s *wasmtest.Stream) { fails(s); c.Respond(503, "") },
		"a reset": func(c *call, s *wasmtest.Stream) {
			s.UpstreamReset()
			c.HostReply(503, "upstream_reset_before_response_started{remote_reset}", wasmtest.FlagUpstreamRemoteReset)
		},
		"a reset in a stream": func(c *call, s *wasmtest.Stream) {
			begin(s)
			begin(c.Stream)
			s.UpstreamReset()
			c.UpstreamReset()
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := startStages(t, 2, twoPools(1, 1))
			c := g.call(0, "a")
			s := c.try()
			g.owned(1, 0, 1, 0, "before the error")
			fail(c, s)
			g.drained()
		})
	}
}

func TestOwnership_Retry(t *testing.T) {
	g := startStages(t, 2, twoPools(2, 1))
	a, b := g.call(0, "a"), g.call(1, "b")
	a1 := a.try()
	b1 := b.try()
	g.requireWaiting(b1, "b's try behind a's")
	fails(a1)
	g.host.Drain()
	g.requireRunning(b1, "b's try, in the turn a's failed")
	a2 := a.try()
	g.requireWaiting(a2, "a's second try: it queues again, behind b's")
	g.owned(2, 0, 1, 1, "while a's second try waits")
	b1.Respond(200, "ok")
	g.host.Drain()
	g.requireRunning(a2, "a's second try")
	require.Equal(t, 2, g.counter("tenant.admitted"), "a tenant's permit is taken once for all tries")
	a2.Respond(200, "ok")
	a.Respond(200, "ok")
	b.Respond(200, "ok")
	g.drained()
	require.Equal(t, 3, g.counter("model.evaluated"))
}

func TestOwnership_BackOff(t *testing.T) {
	g := startStages(t, 2, with(twoPools(1, 1, "queue", 0), "lease", "1s"))
	a := g.call(0, "a")
	fails(a.try())
	g.owned(1, 0, 0, 0, "in back-off")
	g.host.Run(10 * time.Second)
	g.owned(1, 0, 0, 0, "in a back-off longer than a lease")
	g.requireRefused(g.call(1, "a").Stream, noPermit, "tenant", "the same tenant's second call")
	b := g.call(1, "b")
	s := b.try()
	g.requireRunning(s, "another tenant's try for the model in back-off")
	s.Respond(200, "ok")
	b.Respond(200, "ok")
	a2 := a.try()
	g.owned(1, 0, 1, 0, "after the back-off")
	a2.Respond(200, "ok")
	a.Respond(200, "ok")
	g.drained()
}

func TestOwnership_Fallback(t *testing.T) {
	g := startStages(t, 2, twoPools(3, 1, "queue", 0))
	a := g.call(0, "a")
	fails(a.try())
	s := a.try("x-model", "fallback")
	g.requireRunning(s, "the fallback's try")
	g.owned(1, 0, 1, 0, "while the fallback runs")
	b := g.call(1, "b")
	b1 := b.try()
	g.requireRunning(b1, "a try for the first model, which the fallback doesn't hold")
	c := g.call(1, "c")
	g.requireRefused(c.try("x-model", "fallback"), noPermit, "model", "a try for the fallback's model, which it holds")
	s.Respond(200, "ok")
	a.Respond(200, "ok")
	b1.Respond(200, "ok")
	b.Respond(200, "ok")
	g.drained()
}

func TestOwnership_Hedge(t *testing.T) {
	g := startStages(t, 2, twoPools(1, 2))
	a := g.call(0, "a")
	a1, a2 := a.try(), a.try()
	g.owned(1, 0, 2, 0, "while two tries run at once")
	a2.Respond(200, "ok")
	g.owned(1, 0, 1, 0, "when one has answered")
	a1.ClientGone() // the router drops the other one
	g.host.Drain()
	g.owned(1, 0, 0, 0, "when the other one is dropped")
	a.Respond(200, "ok")
	g.drained()

	// One permit only: the hedge waits, and is dropped in the queue, or takes over.
	g = startStages(t, 2, twoPools(1, 1))
	b := g.call(0, "b")
	b1, b2 := b.try(), b.try()
	g.owned(1, 0, 1, 1, "while the hedge waits")
	b1.Respond(200, "ok")
	b2.ClientGone()
	g.host.Drain()
	b.Respond(200, "ok")
	g.drained()
	c := g.call(0, "c")
	c1, c2 := c.try(), c.try()
	c1.UpstreamReset()
	g.host.Drain()
	g.requireRunning(c2, "the hedge, after the first try failed")
	c2.Respond(200, "ok")
	c.Respond(200, "ok")
	g.drained()
}

func TestOwnership_GoneWhileQueuedAtTheInvocation(t *testing.T) {
	g := startStages(t, 2, twoPools(1, 1))
	a := g.call(0, "a")
	b := g.call(1, "a")
	g.owned(1, 1, 0, 0, "while the second call waits")
	b.ClientGone()
	g.owned(1, 0, 0, 0, "when its client has left")
	require.Equal(t, 1, g.counter("tenant.cancelled_waiting"))
	a.ClientGone()
	g.drained()
	require.Zero(t, g.counter("model.evaluated"), "neither of them came to the router")
}

func TestOwnership_GoneWhileQueuedAtTheAttempt(t *testing.T) {
	for _, first := range []string{"downstream", "upstream"} {
		t.Run(first+" ends first", func(t *testing.T) {
			g := startStages(t, 2, twoPools(2, 1))
			a, b := g.call(0, "a"), g.call(1, "b")
			a1, b1 := a.try(), b.try()
			g.owned(2, 0, 1, 1, "while b's try waits")
			if first == "downstream" {
				b.ClientGone()
				g.host.Drain()
				g.owned(1, 0, 1, 1, "between the two ends")
				b1.ClientGone()
			} else {
				b1.ClientGone()
				g.owned(2, 0, 1, 0, "between the two ends")
				b.ClientGone()
			}
			g.host.Drain()
			g.owned(1, 0, 1, 0, "when b's client has left")
			require.Equal(t, 1, g.counter("model.cancelled_waiting"))
			a1.Respond(200, "ok")
			a.Respond(200, "ok")
			g.drained()
			require.Empty(t, b1.Forwarded().Headers)
		})
	}
}

func TestOwnership_GoneWhileRunning(t *testing.T) {
	for _, stream := range []bool{false, true} {
		g := startStages(t, 2, twoPools(2, 1))
		a, b := g.call(0, "a"), g.call(1, "b")
		a1, b1 := a.try(), b.try()
		if stream {
			begin(a1)
			begin(a.Stream)
		}
		a.ClientGone()
		a1.ClientGone()
		g.host.Drain()
		g.owned(1, 0, 1, 0, "when a's client has left")
		g.requireRunning(b1, "the waiter behind it")
		b1.Respond(200, "ok")
		b.Respond(200, "ok")
		g.drained()
	}
}

func TestOwnership_GoneInBackOff(t *testing.T) {
	g := startStages(t, 2, twoPools(1, 1))
	a := g.call(0, "a")
	fails(a.try())
	b := g.call(1, "a")
	g.owned(1, 1, 0, 0, "in back-off, the tenant's next call waiting")
	a.ClientGone()
	g.host.Drain()
	g.owned(1, 0, 0, 0, "when the client has left in back-off")
	g.requireRunning(b.Stream, "the tenant's next call")
	b.ClientGone()
	g.drained()
}

func TestOwnership_Timeout(t *testing.T) {
	t.Run("the route's, while the try runs", func(t *testing.T) {
		g := startStages(t, 2, twoPools(1, 1))
		a := g.call(0, "a")
		a1 := a.try()
		a.HostReply(504, "upstream_response_timeout", wasmtest.FlagUpstreamTimeout)
		a1.ClientGone()
		g.drained()
	})
	t.Run("the route's, while the try waits", func(t *testing.T) {
		g := startStages(t, 2, twoPools(2, 1))
		b := g.call(1, "b")
		b1 := b.try()
		a := g.call(0, "a")
		a1 := a.try()
		g.requireWaiting(a1, "the try")
		a.HostReply(504, "upstream_response_timeout", wasmtest.FlagUpstreamTimeout)
		a1.ClientGone()
		g.owned(1, 0, 1, 0, "after the timeout")
		b1.Respond(200, "ok")
		b.Respond(200, "ok")
		g.drained()
	})
	t.Run("one try's", func(t *testing.T) {
		g := startStages(t, 2, twoPools(1, 1))
		a := g.call(0, "a")
		a.try().ClientGone() // the router gives the try up
		g.host.Drain()
		g.owned(1, 0, 0, 0, "between the tries")
		a2 := a.try()
		g.owned(1, 0, 1, 0, "in the second try")
		a2.Respond(200, "ok")
		a.Respond(200, "ok")
		g.drained()
	})
	t.Run("the invocation's wait", func(t *testing.T) {
		g := startStages(t, 2, twoPools(1, 1))
		a, b := g.call(0, "a"), g.call(1, "a")
		g.host.Run(5*time.Second + tick)
		g.requireRefused(b.Stream, tooLate, "tenant", "the waiter")
		a.ClientGone()
		g.drained()
	})
	t.Run("the attempt's wait", func(t *testing.T) {
		g := startStages(t, 2, twoPools(2, 1))
		a, b := g.call(0, "a"), g.call(1, "b")
		a1, b1 := a.try(), b.try()
		g.host.Run(5*time.Second + tick)
		g.requireRefused(b1, tooLate, "model", "the waiting try")
		g.requireRefused(b.Stream, tooLate, "model", "its call: the router doesn't retry it")
		g.owned(1, 0, 1, 0, "after the refusal")
		a1.Respond(200, "ok")
		a.Respond(200, "ok")
		g.drained()
	})
}

func TestOwnership_Refusal(t *testing.T) {
	g := startStages(t, 2, twoPools(2, 1, "queue", 0))
	a, b := g.call(0, "a"), g.call(1, "b")
	a1, b1 := a.try(), b.try()
	g.requireRefused(b1, noPermit, "model", "b's try")
	g.requireRefused(b.Stream, noPermit, "model", "b's call")
	g.owned(1, 0, 1, 0, "after the refusal at the attempt")
	b, c := g.call(1, "b"), g.call(1, "b")
	d := g.call(1, "b")
	g.requireRefused(d.Stream, noPermit, "tenant", "a call beyond the tenant's limit")
	require.Equal(t, 2, g.counter("model.evaluated"), "a full tenant's call comes to no attempt")
	for _, s := range []*wasmtest.Stream{a1, a.Stream, b.Stream, c.Stream} {
		s.ClientGone()
	}
	g.drained()
}

func TestOwnership_LocalReply(t *testing.T) {
	g := startStages(t, 2, twoPools(1, 1))
	a := g.call(0, "a")
	a.HostReply(403, "rbac_access_denied", 0) // a filter behind the invocation stage
	g.drained()
	require.Zero(t, g.counter("model.evaluated"))

	b := g.call(0, "b")
	b.try().HostReply(503, "upstream filter", 0) // a filter behind the attempt stage
	g.drained()
	require.Equal(t, 503, b.LocalReply().Code)

	c := g.call(0, "c") // and in front of the invocation stage
	d := g.plugin.Stream(1)
	d.HostReply(401, "jwt_authn_access_denied", 0)
	g.owned(1, 0, 0, 0, "when another request was answered before it came to us")
	c.ClientGone()
	g.drained()
	require.Equal(t, 3, g.counter("tenant.evaluated"))
}

func TestOwnership_Reload(t *testing.T) {
	g := startStages(t, 2, twoPools(1, 1))
	a := g.call(0, "a")
	a1 := a.try()
	w := g.call(1, "a")
	b := g.call(1, "b")
	b1 := b.try()
	g.owned(2, 1, 1, 1, "before the change")
	for i := range 5 {
		g.reloadBoth(with(twoPools(1, 1), "max_keys", 100+i))
		g.owned(2, 1, 1, 1, "after the change")
	}
	x := g.call(0, "x")
	x1 := x.try()
	g.requireWaiting(x1, "a new call's try under the new configuration")
	fails(a1)
	g.host.Drain()
	g.requireRunning(b1, "the try that waited under the old configuration")
	a2 := a.try() // the router retries an old call through the new attempt stage
	g.requireWaiting(a2, "the retry, behind x's")
	g.owned(3, 1, 1, 2, "in the retry")
	g.reloadBoth(with(twoPools(2, 2), "max_keys", 200))
	g.requireRunning(x1, "the next try, with the raised limit")
	g.requireRunning(w.Stream, "the tenant's waiter, with the raised limit")
	b1.Respond(200, "ok")
	g.host.Drain()
	g.requireRunning(a2, "the retry")
	for _, s := range []*wasmtest.Stream{a2, a.Stream, x1, x.Stream, b.Stream, w.Stream} {
		s.Respond(200, "ok")
	}
	g.drained()
}

func TestOwnership_Trap(t *testing.T) {
	const lease = time.Second
	g := startStages(t, 2, with(twoPools(1, 1, "max_wait", "60s"), "lease", "1s"))
	a := g.call(0, "a")
	a1 := a.try()
	begin(a1)
	begin(a.Stream)
	b := g.call(1, "b")
	b1 := b.try()
	c := g.call(1, "a")
	g.owned(2, 1, 1, 1, "before the trap")
	g.host.Worker(0).Kill()
	g.host.Run(lease / 2)
	g.owned(2, 1, 1, 1, "before the dead worker's lease is over")
	g.host.Run(lease/2 + 2*tick)
	g.requireRunning(b1, "the other worker's try, once the lease is over")
	g.requireRunning(c.Stream, "the other worker's call, once the lease is over")
	g.owned(2, 0, 1, 0, "when the dead worker's permits are taken back")
	require.NoError(t, g.host.Worker(0).Reload())
	g.host.Run(tick)
	a1.ClientGone() // the dead VM's streams end without a callback: nothing is given back twice
	a.ClientGone()
	g.owned(2, 0, 1, 0, "when the dead streams have ended")
	d := g.call(0, "d")
	d1 := d.try()
	g.requireWaiting(d1, "a try in the new VM")
	b1.Respond(200, "ok")
	g.host.Drain()
	g.requireRunning(d1, "the try in the new VM")
	for _, s := range []*wasmtest.Stream{b.Stream, c.Stream, d1, d.Stream} {
		s.Respond(200, "ok")
	}
	g.host.Run(lease)
	require.Zero(t, g.gauge("tenant.inflight"))
	require.Zero(t, g.gauge("model.inflight"))
	g.requireDrained("tenant", "model")
}

func TestNoHeaderIsTakenForTheHandOver(t *testing.T) {
	g := startStages(t, 1, twoPools(1, 1))
	// Bytes as the invocation stage hands them over: governed, no deadline, tenant `x`.
	forged := string(handedOver(1, 1, 0, "x", "m", "any", "unknown"))
	c := g.call(0, "a", "headgate.invocation", forged, "x-headgate-invocation", forged, "x-headgate", forged, "wasm.headgate.invocation", forged)
	h := c.Forwarded().Headers
	require.False(t, h.Has("x-headgate-invocation"))
	state, _ := c.Request().FilterState("headgate.invocation")
	require.Contains(t, string(state), "\x01\x00a", "the tenant is the one found, whatever the client says")
	s := g.attempts.Stream(0, wasmtest.Upstream()) // no invocation stage before it
	s.RequestHeaders(wasmtest.RequestHeaders("GET", "/elsewhere", "headgate.invocation", forged, "x-headgate-invocation", forged), true)
	g.requireRunning(s, "an attempt for an ungoverned path")
	require.Zero(t, g.counter("model.evaluated"))
	require.Equal(t, 1, g.counter("ungoverned"))
}

func handedOver(version, governed byte, deadline uint64, values ...string) []byte {
	b := binary.LittleEndian.AppendUint64([]byte{version, governed}, deadline)
	for _, v := range values {
		b = append(binary.LittleEndian.AppendUint16(b, uint16(len(v))), v...)
	}
	return b
}

// attempt is an attempt with this hand-over, nil for none.
func (g *stages) attempt(state []byte, headers ...string) *wasmtest.Stream {
	r := g.host.NewRequest()
	if state != nil {
		r.SetFilterState("headgate.invocation", state)
	}
	s := g.attempts.Stream(0, wasmtest.Upstream(), wasmtest.OfRequest(r))
	s.RequestHeaders(wasmtest.RequestHeaders("POST", "/v1/chat/completions", headers...), true)
	return s
}

func TestHandOver(t *testing.T) {
	byTenant := func() *stages {
		return startStages(t, 1, config(pool("model", 1, "per", "attempt", "key", []string{"tenant", "model"})))
	}
	own := []string{"x-tenant", "own", "x-model", "m"}
	good := handedOver(1, 1, 0, "handed", "gone", "r", "c")

	g := byTenant()
	g.requireRunning(g.attempt(good, own...), "an attempt with a hand-over")
	g.requireRefused(g.attempt(good, "x-tenant", "another", "x-model", "m"), noPermit, "model", "an attempt of the same handed-over tenant and the same model")
	g.requireRunning(g.attempt(nil, own...), "an attempt without one: it identifies itself")
	g.requireRefused(g.attempt(nil, own...), noPermit, "model", "another one of the same tenant")
	g.requireRunning(g.attempt(good, "x-tenant", "a", "x-tenant", "b", "x-model", "other"), "an attempt whose tenant was decided before")
	require.Equal(t, 400, g.attempt(nil, "x-tenant", "a", "x-tenant", "b").LocalReply().Code)

	// Unknown versions, and what is cut short, count as none.
	for n := range good {
		g = byTenant()
		g.requireRunning(g.attempt(nil, own...), "the holder")
		g.requireRefused(g.attempt(good[:n], own...), noPermit, "model", fmt.Sprintf("an attempt whose hand-over is cut after %d bytes", n))
		g.host.Close()
	}
	for _, version := range []byte{0, 2, 255} {
		g = byTenant()
		g.requireRunning(g.attempt(nil, own...), "the holder")
		g.requireRefused(g.attempt(handedOver(version, 1, 0, "handed", "gone", "r", "c"), own...), noPermit, "model", "an attempt with a hand-over of another version")
		g.requireRefused(g.attempt(handedOver(version, 0, 0, "", "", "", ""), own...), noPermit, "model", "an attempt with an ungoverned hand-over of another version")
		g.host.Close()
	}
}

func TestAttemptTouchesNothingOfAnUngovernedInvocation(t *testing.T) {
	c := twoPools(0, 0)
	g := startStages(t, 1, c)
	s := g.plugin.Stream(0)
	in := wasmtest.RequestHeaders("GET", "/v1/models", "x-tenant", "a", "x-tenant", "b", "x-headgate-own", "1", "x-request-timeout-ms", "0")
	s.RequestHeaders(in, true)
	a := g.attempts.Stream(0, wasmtest.Upstream(), wasmtest.OfRequest(s.Request()))
	in = wasmtest.RequestHeaders("POST", "/v1/chat/completions", "x-model", "a", "x-model", "b", "x-headgate-own", "1", "x-request-timeout-ms", "0")
	require.Equal(t, wasmtest.Continue, a.RequestHeaders(in, true), "even if its own routes would govern it, as after a rewrite of the path")
	require.Equal(t, in, a.Forwarded().Headers)
	require.Equal(t, 1, g.counter("ungoverned"), "the request counts once")
	require.Zero(t, g.counter("tenant.evaluated")+g.counter("model.evaluated"))

	// And the other way round: what the invocation stage governs stays governed.
	g = startStages(t, 1, twoPools(1, 1, "queue", 0))
	b := g.call(0, "a")
	g.requireRunning(b.try(":path", "/rewritten"), "the try")
	g.requireRefused(b.try(":path", "/rewritten"), noPermit, "model", "a try with a rewritten path")
}

// A bad header is one bad header, in however many tries it is sent.
func TestBadDeadlineCountsOnce(t *testing.T) {
	g := startStages(t, 1, twoPools(1, 2))
	c := g.call(0, "a", "x-request-timeout-ms", "soon")
	h := c.try().Forwarded().Headers
	c.try()
	require.Equal(t, 1, g.counter("bad_deadline"))
	require.Equal(t, "soon", h.Get("x-request-timeout-ms"), "what can't be read is passed on")
}

// 3,000 ms: 300 in the tenant's queue, 200 in the model's, a first try to 2,800, back-off to 2,850.
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
			g.host.Drain()
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

// The deadline counts from the request's arrival: time between the stages is no gift either.
func TestFirstTryIsToldWhatTheRouterUsedUp(t *testing.T) {
	g := startStages(t, 1, twoPools(1, 1))
	c := g.call(0, "a", "x-request-timeout-ms", "1000")
	require.Equal(t, "1000", c.Forwarded().Headers.Get("x-request-timeout-ms"))
	g.host.Run(40 * ms) // another filter, or the connection pool
	require.Equal(t, "960", c.try().Forwarded().Headers.Get("x-request-timeout-ms"))
}

// A deadline header that only the attempt stage is told of is nobody's promise to the invocation: it stays as it is.
func TestAttemptsOwnDeadlineHeaderIsLeftAloneWithoutADeadline(t *testing.T) {
	c := twoPools(1, 1)
	g := &stages{gateway: start(t, 1, with(with(c, "stage", "invocation"), "deadline", object{}))}
	g.loadAttempts(with(c, "stage", "attempt"))
	a := g.call(0, "a", "x-request-timeout-ms", "7000")
	require.Equal(t, "7000", a.try().Forwarded().Headers.Get("x-request-timeout-ms"))
}

func TestAccessLogIsToldWhichTryItWas(t *testing.T) {
	g := startStages(t, 1, twoPools(1, 1))
	c := g.call(0, "a")
	c.Request().SetProperty(2, "upstream", "request_attempt_count")
	c.try()
	told, _ := c.Request().FilterState("headgate")
	require.JSONEq(t, `{"outcome":"admitted","pool":"model","wait_ms":0,"attempts":2}`, string(told))
}

// In shadow the request is at the upstream before its body has named the model: the attempt counts when its answer begins.
func TestShadowInTwoStagesCountsTheModelInTheBody(t *testing.T) {
	c := with(twoPools(9, 1), "mode", "shadow")
	c["identity"] = object{"model": []object{{"json_body": "model"}}}
	g := startStages(t, 1, c)
	try := func(model string) *wasmtest.Stream {
		s := g.plugin.Stream(0)
		s.RequestHeaders(wasmtest.RequestHeaders("POST", "/v1/chat/completions", "content-type", "application/json"), false)
		a := g.attempts.Stream(0, wasmtest.Upstream(), wasmtest.OfRequest(s.Request()))
		a.RequestHeaders(s.Forwarded().Headers, false)
		s.RequestBody([]byte(chat(model)), true)
		a.ResponseHeaders(wasmtest.ResponseHeaders(200), false)
		return a
	}
	try("a")
	try("b")
	require.Zero(t, g.counter("model.shadow_would_wait"), "two models, one permit each")
	try("a")
	require.Equal(t, 1, g.counter("model.shadow_would_wait"), "a second request of the first model")
	require.Equal(t, 3, g.counter("model.evaluated"))
}
