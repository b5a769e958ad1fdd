package filter_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// What a hold of 200 ms after success, 700 ms after cancel and 2 s after failure makes of each outcome. A failure's and
// a cancel's are followed by the success's.
const (
	afterSuccess = 200 * ms
	afterCancel  = 900 * ms
	afterFailure = 2200 * ms
)

// heldEndings are the endings of a request, and for how long its permit is on hold after each.
var heldEndings = map[string]struct {
	end      ending
	hold     time.Duration
	counters object // those of completed, aborted, provider_429 and provider_failure that are 1
}{
	"200":                          {answer(200), afterSuccess, object{"completed": 1}},
	"204":                          {func(s *wasmtest.Stream) { s.ResponseHeaders(wasmtest.ResponseHeaders(204), true) }, afterSuccess, object{"completed": 1}},
	"trailers":                     {inMidStream(func(s *wasmtest.Stream) { s.ResponseTrailers(wasmtest.HeadersOf("grpc-status", "0")) }), afterSuccess, object{"completed": 1}},
	"302":                          {answer(302), afterSuccess, object{"completed": 1}},
	"400":                          {answer(400), afterSuccess, object{"completed": 1}},
	"401":                          {answer(401), afterSuccess, object{"completed": 1}},
	"404":                          {answer(404), afterSuccess, object{"completed": 1}},
	"404 with retry-after":         {answer(404, "retry-after", "9"), afterSuccess, object{"completed": 1}},
	"a bare 403":                   {answer(403), afterSuccess, object{"completed": 1}},
	"403 with retry-after":         {answer(403, "retry-after", "3"), 3200 * ms, object{"completed": 1, "provider_failure": 1}},
	"403 with x-ratelimit":         {answer(403, "x-ratelimit-remaining", "0"), afterFailure, object{"completed": 1, "provider_failure": 1}},
	"500":                          {answer(500), afterFailure, object{"completed": 1, "provider_failure": 1}},
	"502":                          {answer(502), afterFailure, object{"completed": 1, "provider_failure": 1}},
	"503":                          {answer(503), afterFailure, object{"completed": 1, "provider_failure": 1}},
	"529":                          {answer(529), afterFailure, object{"completed": 1, "provider_failure": 1}},
	"503 with a short retry-after": {answer(503, "retry-after", "1"), afterFailure, object{"completed": 1, "provider_failure": 1}},
	"503 with a long retry-after":  {answer(503, "retry-after", "7"), 7200 * ms, object{"completed": 1, "provider_failure": 1}},
	"429":                          {answer(429), afterFailure, object{"completed": 1, "provider_429": 1}},
	"429 with retry-after":         {answer(429, "retry-after", "4"), 4200 * ms, object{"completed": 1, "provider_429": 1}},
	"503 without a body":           {func(s *wasmtest.Stream) { s.ResponseHeaders(wasmtest.ResponseHeaders(503), true) }, afterFailure, object{"completed": 1, "provider_failure": 1}},
	"503 cut in the middle": {func(s *wasmtest.Stream) {
		s.ResponseHeaders(wasmtest.ResponseHeaders(503), false)
		s.UpstreamReset()
	}, afterFailure, object{"aborted": 1, "provider_failure": 1}},
	"503 whose client leaves": {func(s *wasmtest.Stream) {
		s.ResponseHeaders(wasmtest.ResponseHeaders(503), false)
		s.ClientGone()
	}, afterFailure, object{"aborted": 1, "provider_failure": 1}},
	"reset before headers":           {upstreamReset, afterFailure, object{"aborted": 1, "provider_failure": 1}},
	"cut in mid-stream":              {inMidStream(upstreamReset), afterFailure, object{"aborted": 1, "provider_failure": 1}},
	"connection refused":             {hostReply(503, "upstream_reset_before_response_started{remote_connection_failure,delayed_connect_error:_111}"), 0, object{"aborted": 1}},
	"upstream timeout":               {hostReply(504, "upstream_response_timeout"), afterFailure, object{"aborted": 1, "provider_failure": 1}},
	"per-try timeout":                {hostReply(504, "upstream_per_try_timeout"), afterFailure, object{"aborted": 1, "provider_failure": 1}},
	"response timeout":               {hostReply(504, "response_timeout"), afterFailure, object{"aborted": 1, "provider_failure": 1}},
	"client leaves before headers":   {clientGone, afterCancel, object{"aborted": 1}},
	"client leaves the stream":       {inMidStream(clientGone), afterCancel, object{"aborted": 1}},
	"upgrade that ends":              {upgraded((*wasmtest.Stream).Complete), afterSuccess, object{"completed": 1}},
	"upgrade whose client leaves":    {upgraded(clientGone), afterSuccess, object{"completed": 1}},
	"upgrade the upstream resets":    {upgraded(upstreamReset), afterSuccess, object{"completed": 1}},
	"local upgrade that fails":       {hostReply(403, "upgrade_failed"), 0, object{"aborted": 1}},
	"another filter's 403":           {hostReply(403, "rbac_access_denied_matched_policy[none]"), 0, object{"aborted": 1}},
	"another filter's 429":           {hostReply(429, "request_rate_limited"), 0, object{"aborted": 1}},
	"another filter's 503":           {hostReply(503, "fault_filter_abort"), 0, object{"aborted": 1}},
	"another filter's 200":           {hostReply(200, "health_check_ok"), 0, object{"aborted": 1}},
	"Envoy's redirect":               {hostReply(301, "direct_response"), 0, object{"aborted": 1}},
	"Envoy's direct 204":             {hostReply(204, "direct_response"), 0, object{"aborted": 1}},
	"no route":                       {hostReply(404, "route_not_found"), 0, object{"aborted": 1}},
	"no healthy host":                {hostReply(503, "no_healthy_upstream"), 0, object{"aborted": 1}},
	"Envoy's own circuit breaker":    {hostReply(503, "upstream_reset_before_response_started{overflow}"), 0, object{"aborted": 1}},
	"too large for a filter's limit": {hostReply(413, "request_payload_too_large"), 0, object{"aborted": 1}},
}

func TestHoldAfterEveryEnding(t *testing.T) {
	for name, c := range heldEndings {
		t.Run(name, func(t *testing.T) {
			g := start(t, 2, config(pool("model", 1, "queue", 1, "max_wait", "60s", "hold", object{"success": "200ms", "cancel": "700ms", "failure": "2s"})))
			a, w := g.sendModel(0, "m"), g.sendModel(1, "m")
			begun := g.host.Elapsed()
			c.end(a)
			g.afterReset()
			if c.hold > 0 {
				require.Equal(t, 1, g.gauge("model.on_hold"))
				require.Zero(t, g.gauge("model.inflight"))
			}
			g.after("the waiter runs", func() bool { return runs(w) })
			requireHeld(t, c.hold, g.host.Elapsed()-begun)
			require.Zero(t, g.gauge("model.on_hold"))
			for _, counter := range []string{"completed", "aborted", "provider_429", "provider_failure"} {
				want, _ := c.counters[counter].(int)
				require.Equal(t, want, g.counter("model."+counter), counter)
			}
			g.host.Run(12 * minute)
			g.requireRunning(w, "the waiter: a permit is freed once")
			g.requireWaiting(g.sendModel(0, "m"), "the next request: a permit is freed once")
		})
	}
}

// requireHeld checks how long after its request's end a permit was used again. A hold begins when Envoy has reset the
// upstream, and ends on a grain of 10 ms.
func requireHeld(t *testing.T, want, got time.Duration) {
	t.Helper()
	require.GreaterOrEqual(t, got, want)
	require.LessOrEqual(t, got, want+10*ms)
}

// Each part of a hold works without the others.
func TestHoldsAddUp(t *testing.T) {
	for _, c := range []struct {
		hold object
		end  ending
		want time.Duration
	}{
		{object{"success": "300ms"}, answer(200), 300 * ms},
		{object{"success": "300ms"}, answer(503), 300 * ms},
		{object{"success": "300ms"}, clientGone, 310 * ms}, // it begins 1 ms later, and so ends on the next grain
		{object{"success": "300ms"}, hostReply(403, "rbac"), 0},
		{object{"failure": "1s"}, answer(503), second},
		{object{"failure": "1s"}, answer(200), 0},
		{object{"failure": "1s"}, clientGone, ms},
		{object{"cancel": "1s"}, clientGone, 1010 * ms},
		{object{"cancel": "1s"}, answer(503), 0},
		{object{"cancel": "1s", "success": "300ms"}, clientGone, 1310 * ms},
		{object{"failure": "1s", "success": "300ms"}, answer(429), 1300 * ms},
		{object{"failure": "1s", "success": "300ms"}, answer(429, "retry-after", "5"), 5300 * ms},
		{object{"success": "5ms"}, answer(200), 10 * ms}, // ends fall on a grain of 10 ms, never early
		{object{"success": "10m"}, answer(200), 10 * minute},
		{object{"failure": "10m", "success": "10m"}, answer(503), 10 * minute},
		{object{}, answer(429, "retry-after", "30"), 0},
	} {
		t.Run(fmt.Sprint(c.hold, c.want), func(t *testing.T) {
			g := start(t, 2, config(pool("model", 1, "queue", 1, "max_wait", "1h", "hold", c.hold)))
			a, w := g.sendModel(0, "m"), g.sendModel(1, "m")
			c.end(a)
			require.Equal(t, c.want, g.after("the waiter runs", func() bool { return runs(w) }))
		})
	}
}

// The gauge falls by itself at the hold's end, to the millisecond, without any request.
func TestHoldEndsWithoutTraffic(t *testing.T) {
	g := start(t, 3, config(pool("model", 4, "hold", object{"failure": "7s"})))
	for i := range 3 {
		answer(500)(g.sendModel(i, "m"))
		g.host.Run(second)
	}
	require.Equal(t, 3, g.gauge("model.on_hold"))
	for want := 2; want >= 0; want-- {
		took := g.after("a hold ends", func() bool { return g.gauge("model.on_hold") == want })
		if want == 2 {
			require.Equal(t, 4*second, took)
		} else {
			require.Equal(t, second, took)
		}
	}
	g.requireQuiet()
	g.requireDrained("model")
}

// A client is told when the hold ends.
func TestRetryAfterTellsTheHoldsEnd(t *testing.T) {
	g := start(t, 2, config(pool("model", 1, "hold", object{"failure": "20s"})))
	answer(503)(g.sendModel(0, "m"))
	for _, c := range []struct {
		pass time.Duration
		want int
	}{{0, 20}, {500 * ms, 20}, {500 * ms, 19}, {18 * second, 1}, {999 * ms, 1}} {
		g.host.Run(c.pass)
		s := g.sendModel(1, "m")
		g.requireRefused(s, noPermit, "model", "a request during the hold")
		g.requireRetryAfter(c.want, s.LocalReply(), "a request during the hold")
	}
	g.host.Run(ms)
	g.requireRunning(g.sendModel(1, "m"), "a request at the hold's end")
}

// What the gateway itself refuses, or never sends on, holds nothing, whatever is configured.
func TestOwnRefusalsHoldNothing(t *testing.T) {
	hold := object{"success": "1m", "cancel": "1m", "failure": "1m"}
	g := start(t, 2, config(
		pool("model", 2, "queue", 2, "max_wait", "1s", "hold", hold, "breaker", object{"failures": 1, "penalty": "0s"}, "headroom", object{"window": "1m"}),
		object{"name": "tenant", "key": []string{"tenant"}, "limit": 5, "queue": 5, "max_wait": "1s", "keys": object{"closed": object{"limit": 0}, "one": object{"limit": 1}}}))
	g.requireRefused(g.send(0, "x-model", "m", "x-tenant", "closed"), noPermit, "tenant", "a request that a later pool refuses")
	one := g.send(0, "x-model", "m", "x-tenant", "one")
	g.requireWaiting(g.send(1, "x-model", "m", "x-tenant", "one"), "a request that a later pool queues")
	full := g.sendModel(0, "m")
	g.requireWaiting(full, "a request behind the full model")
	gone := g.sendModel(1, "m")
	gone.ClientGone()
	g.host.Run(1100 * ms)
	g.requireRefused(full, tooLate, "model", "the request behind the full model")
	g.requireRefused(g.send(0, "x-model", "m", "x-request-timeout-ms", "0"), tooLate, "model", "an expired request")
	require.Zero(t, g.gauge("model.on_hold"))
	require.Equal(t, 1, g.gauge("model.inflight"), "the one that runs")
	for _, counter := range []string{"aborted", "completed", "provider_429", "provider_failure", "rejected_breaker"} {
		require.Zero(t, g.counter("model."+counter), counter)
	}
	g.requireRunning(g.sendModel(1, "m"), "a request for the other permit")
	g.requireRunning(one, "the one that runs")
}

// A waiter whose client leaves after the grant and before it goes on was never sent.
func TestGrantedWaiterThatIsGoneHoldsNothing(t *testing.T) {
	g := start(t, 2, config(pool("model", 1, "queue", 2, "max_wait", "60s", "hold", object{"cancel": "1m"})))
	a, b, c := g.sendModel(0, "m"), g.sendModel(1, "m"), g.sendModel(0, "m")
	answer(200)(a)
	b.ClientGone() // the grant is on its way to it
	g.host.Drain()
	g.requireRunning(c, "the waiter behind it")
	require.Zero(t, g.gauge("model.on_hold"))
}

// A later failure has a hold of its own and never shortens or drops the one before.
func TestCase_O25_SecondFailureDuringAHold(t *testing.T) {
	type failure struct {
		at         time.Duration
		retryAfter string
	}
	for name, c := range map[string]struct {
		hold     string
		failures []failure
		frees    []time.Duration
	}{
		"shorter, then the default":    {"60s", []failure{{0, "1"}, {500 * ms, ""}}, []time.Duration{60 * second, 60500 * ms}},
		"longer, then shorter":         {"1s", []failure{{0, "30"}, {500 * ms, "2"}}, []time.Duration{2500 * ms, 30 * second}},
		"shorter, then longer":         {"1s", []failure{{0, "2"}, {500 * ms, "30"}}, []time.Duration{2 * second, 30500 * ms}},
		"equal ones ten seconds apart": {"60s", []failure{{0, ""}, {10 * second, ""}}, []time.Duration{60 * second, 70 * second}},
		"two with one end":             {"1s", []failure{{0, "10"}, {5 * second, "5"}}, []time.Duration{10 * second, 10 * second}},
		"two beyond the cap":           {"1s", []failure{{0, "999999999"}, {second, "999999999"}}, []time.Duration{10 * minute, 10*minute + second}},
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, 2, config(pool("model", 2, "queue", 5, "max_wait", "1h", "hold", object{"failure": c.hold})))
			begun := g.host.Elapsed()
			running := []*wasmtest.Stream{g.sendModel(0, "m"), g.sendModel(1, "m")}
			waiters := []*wasmtest.Stream{g.sendModel(1, "m"), g.sendModel(0, "m"), g.sendModel(1, "m")}
			for i, f := range c.failures {
				g.host.Run(f.at - (g.host.Elapsed() - begun))
				answer(503, "retry-after", f.retryAfter)(running[i])
			}
			g.host.Drain()
			require.Equal(t, 2, g.gauge("model.on_hold"))
			g.reload(config(pool("model", 2, "queue", 5, "max_wait", "2h", "hold", object{"failure": c.hold})))
			for i, free := range c.frees {
				g.after("a waiter runs", func() bool { return runs(waiters[i]) })
				require.Equal(t, free, g.host.Elapsed()-begun)
				require.Equal(t, 2, g.gauge("model.on_hold")+g.gauge("model.inflight"))
			}
			g.host.Run(20 * minute)
			g.requireWaiting(waiters[2], "the third waiter: each permit on hold is freed once")
		})
	}
}

func TestCase_O25_TenFailuresWithALimitOfThree(t *testing.T) {
	g := start(t, 2, config(pool("model", 3, "queue", 20, "max_wait", "1h", "hold", object{"failure": "10s"})))
	var all []*wasmtest.Stream
	for i := range 10 {
		all = append(all, g.sendModel(i%2, "m"))
	}
	begun, failed := g.host.Elapsed(), 0
	for failed < 10 {
		g.after("some run", func() bool { return runs(all[failed]) })
		require.Equal(t, time.Duration(failed/3)*10*second, g.host.Elapsed()-begun)
		answer(500)(all[failed])
		g.host.Drain()
		failed++
		require.LessOrEqual(t, g.gauge("model.on_hold")+g.gauge("model.inflight"), 3)
		require.GreaterOrEqual(t, g.gauge("model.on_hold"), 1)
	}
	require.Equal(t, 10*second, g.after("the last hold ends", func() bool { return g.gauge("model.on_hold") == 0 }))
	g.requireDrained("model")
	g.requireCapacity("m", 3)
	require.Equal(t, 10, g.counter("model.provider_failure"))
}

// In a fair pool a tenant's own holds count for its share. Those of the provider's failures count for no tenant's.
func TestHoldsAndFairness(t *testing.T) {
	for name, c := range map[string]struct {
		end   ending
		first string
	}{"cancel": {clientGone, "b"}, "failure": {answer(503), "a"}} {
		t.Run(name, func(t *testing.T) {
			g := start(t, 2, config(pool("model", 3, "queue", 6, "max_wait", "60s", "fair_by", "tenant", "hold", object{"cancel": "30s", "failure": "30s"})))
			a1, a2 := g.send(0, "x-model", "m", "x-tenant", "a"), g.send(1, "x-model", "m", "x-tenant", "a")
			b := g.send(0, "x-model", "m", "x-tenant", "b")
			waiters := map[string]*wasmtest.Stream{"a": g.send(0, "x-model", "m", "x-tenant", "a"), "b": g.send(1, "x-model", "m", "x-tenant", "b")}
			c.end(a1)
			c.end(a2)
			b.Respond(200, "ok") // the only permit that comes free; b was granted last
			g.host.Drain()
			for tenant, w := range waiters {
				require.Equal(t, tenant == c.first, runs(w), "%s runs", tenant)
			}
		})
	}
}
