package filter_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// stages are the module twice in one VM, as invocation and as attempt stage. The test is the router too.
type stages struct {
	*gateway // the invocation stage
	attempts *wasmtest.Plugin
}

// twoPools are a pool of each stage. The tenant's permit is the invocation's, and the model's is the attempt's.
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

// try is an attempt of the router. Its headers are those that the invocation stage let through, some of them replaced.
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

// owned checks how many hold a permit and how many wait, per pool.
func (g *stages) owned(tenant, tenantQueued, model, modelQueued int, when string) {
	g.t.Helper()
	require.Equal(g.t, [4]int{tenant, tenantQueued, model, modelQueued},
		[4]int{g.gauge("tenant.inflight"), g.gauge("tenant.queued"), g.gauge("model.inflight"), g.gauge("model.queued")},
		"permits and tickets of the tenant's and the model's pool %s", when)
}

func (g *stages) drained() {
	g.t.Helper()
	g.afterReset()
	g.owned(0, 0, 0, 0, "at the end")
	g.requireDrained("tenant", "model")
}
