package filter_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// A flood of names makes the filter forget keys that no stream uses; one that a request will ask for next is found again.
func TestFloodOfModelsWhileARequestWaitsInAnEarlierPool(t *testing.T) {
	g := start(t, 1, with(config(
		object{"name": "tenant", "key": []string{"tenant"}, "limit": 1, "queue": 4, "max_wait": "60s"},
		pool("model", 1, "queue", 4, "max_wait", "60s")), "max_keys", 4))
	holder := g.send(0, "x-tenant", "a", "x-model", "y")
	first := g.send(0, "x-tenant", "a", "x-model", "x")
	g.requireWaiting(first, "the request behind its tenant's other one")
	for i := range 200 {
		g.send(0, "x-tenant", "a", "x-model", fmt.Sprint("flood", i), "x-request-timeout-ms", "0")
	}
	holder.Respond(200, "ok")
	g.host.Drain()
	g.requireRunning(first, "the request, with the model's only permit")
	second := g.send(0, "x-tenant", "c", "x-model", "x")
	g.host.Run(200 * ms)
	g.requireWaiting(second, "another tenant's request for the same model")
}

// What is remembered of tenants that only waited is bounded by those that wait.
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
	g.host.OnHostCall(func(c *wasmtest.HostCall) { // the grant's message is lost, so that a sync finds it
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

func TestShadowWithTheModelInTheBodyHasOutcomes(t *testing.T) {
	c := with(config(pool("model", 4, "breaker", object{"failures": 1, "window": "30s", "open": "10s"})), "mode", "shadow")
	c["identity"] = object{"model": []object{{"json_body": "model"}}}
	g := start(t, 1, c)
	for _, status := range []int{503, 200} {
		s := g.plugin.Stream(0)
		s.RequestHeaders(wasmtest.RequestHeaders("POST", "/v1/chat/completions", "content-type", "application/json"), false)
		s.RequestBody([]byte(`{"model":"m"}`), true)
		s.Respond(status, "x")
		g.host.Drain()
	}
	require.Equal(t, 2, g.counter("model.evaluated"))
	require.Equal(t, 1, g.counter("model.completed"), "the first one; the second would have been refused by the breaker")
	require.Equal(t, 1, g.counter("model.shadow_would_reject"))
}

func TestUpstreamCannotSpeakForHeadgateWhereNoPoolApplies(t *testing.T) {
	g := start(t, 1, config(pool("model", 4, "match", object{"model": []string{"another"}})))
	s := g.sendModel(0, "m")
	s.ResponseHeaders(wasmtest.ResponseHeaders(200, "x-headgate-reason", "FORGED"), true)
	require.False(t, s.Received().Headers.Has("x-headgate-reason"))
}

// Endings that a client brings about are no failures of the provider.
func TestClientsCannotTripTheBreaker(t *testing.T) {
	for name, end := range map[string]wasmtest.End{
		"a reset stream":                   {Cause: wasmtest.ClientGone, Code: 200, Details: "http2.remote_reset", Flags: wasmtest.FlagDownstreamRemoteReset},
		"a closed connection":              {Cause: wasmtest.ClientGone, Code: 200, Details: "downstream_remote_disconnect", Flags: wasmtest.FlagDownstreamTermination},
		"a client that no longer reads":    {Cause: "timeout", Code: 200, Details: "stream_idle_timeout", Flags: wasmtest.FlagStreamIdleTimeout},
		"a stream that lasts for too long": {Cause: "timeout", Code: 200, Details: "max_stream_duration", Flags: 1 << 22},
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, 1, config(pool("model", 4, "hold", object{"cancel": "1s"},
				"breaker", object{"failures": 1, "window": "30s", "open": "10s"})))
			s := g.sendModel(0, "m")
			begin(s)
			s.End(end)
			g.host.Drain()
			require.Equal(t, 1, g.gauge("model.on_hold"), "it is a cancel, and held as one")
			g.requireRunning(g.sendModel(0, "m"), "another client's request")
			require.Zero(t, g.counter("model.provider_failure"))
			require.Equal(t, 1, g.counter("model.aborted"))
		})
	}
}

// Naming other models makes no tripped breaker forgotten.
func TestEvictionKeepsATrippedBreaker(t *testing.T) {
	g := start(t, 1, with(config(pool("model", 4, "breaker", object{"failures": 1, "window": "30s", "open": "10s"})), "max_keys", 1))
	g.sendModel(0, "m").Respond(503, "x")
	g.host.Run(11 * time.Second)
	g.sendModel(0, "n").Respond(200, "x")
	a, b := g.sendModel(0, "m"), g.sendModel(0, "m")
	g.requireRunning(a, "the probe")
	require.False(t, runs(b), "a second request runs beside the probe")
}

// A configuration that ends with a release still to be made up for makes up for it.
func TestConfigurationThatEndsWithAFailedRelease(t *testing.T) {
	c := with(config(pool("model", 1)), "lease", "1s")
	g := start(t, 1, c)
	s := g.sendModel(0, "m")
	old := g.plugin
	g.load(with(c, "max_keys", 7))
	g.host.Run(20 * ms)
	old.Retire()
	g.host.OnHostCall(func(c *wasmtest.HostCall) {
		if c.Name() == "proxy_set_shared_data" {
			c.Fail(wasmtest.StatusCasMismatch)
		}
	})
	s.Respond(200, "ok")
	g.host.OnHostCall(nil)
	g.host.Run(time.Minute)
	g.requireRunning(g.sendModel(0, "m"), "a request a minute later")
}
