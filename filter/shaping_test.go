package filter_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

const (
	breakerOpen = "BREAKER_OPEN"

	second = time.Second
	minute = time.Minute
)

// after runs until the condition holds and says how long that took.
func (g *gateway) after(what string, holds func() bool) time.Duration {
	g.t.Helper()
	since := g.host.Elapsed()
	require.Truef(g.t, g.host.RunUntil(time.Hour, holds), "it never came to pass that %s", what)
	return g.host.Elapsed() - since
}

// requireQuiet checks that nothing is left that needs time: an idle gateway doesn't tick.
func (g *gateway) requireQuiet() {
	g.t.Helper()
	g.host.Run(30 * second) // seats are given up
	require.Zero(g.t, g.host.Run(time.Hour), "an idle gateway ticks")
}

// requireOpen checks the refusal of an open breaker.
func (g *gateway) requireOpen(s *wasmtest.Stream, retryAfter int, what string) {
	g.t.Helper()
	r := s.LocalReply()
	require.NotNilf(g.t, r, "%s should be refused by the breaker, but %s", what, fate(s))
	require.Equalf(g.t, 503, r.Code, what)
	require.Equalf(g.t, breakerOpen, r.Headers.Get("x-headgate-reason"), what)
	require.Equalf(g.t, "model", r.Headers.Get("x-headgate-pool"), what)
	require.Equalf(g.t, strconv.Itoa(retryAfter), r.Headers.Get("retry-after"), what)
	require.Falsef(g.t, r.Headers.Has("x-envoy-ratelimited"), what)
	require.Containsf(g.t, string(r.Body), `"code":"BREAKER_OPEN"`, what)
}

// An ending ends a request that runs.
type ending func(s *wasmtest.Stream)

func answer(status int, headers ...string) ending {
	return func(s *wasmtest.Stream) {
		s.ResponseHeaders(wasmtest.ResponseHeaders(status, headers...), false)
		s.ResponseBody([]byte("{}"), true)
	}
}

func hostReply(status int, details string) ending {
	return func(s *wasmtest.Stream) { s.HostReply(status, details, 0) }
}

func inMidStream(end ending) ending { return func(s *wasmtest.Stream) { begin(s); end(s) } }

// upgraded switches protocols, and ends as said after a while.
func upgraded(end ending) ending {
	return func(s *wasmtest.Stream) {
		s.ResponseHeaders(wasmtest.ResponseHeaders(101, "upgrade", "websocket"), false)
		s.ResponseBody([]byte("\x81\x02hi"), false)
		end(s)
	}
}

var (
	clientGone    ending = (*wasmtest.Stream).ClientGone
	upstreamReset ending = (*wasmtest.Stream).UpstreamReset
)

// What a hold of 200 ms after success, 700 ms after cancel and 2 s after failure makes of each ending. A failure's and a
// cancel's are followed by the success's.
func TestHoldAfterEveryEnding(t *testing.T) {
	const success, cancel, failure = 200 * ms, 900 * ms, 2200 * ms
	for name, c := range map[string]struct {
		end      ending
		hold     time.Duration
		counters object // of completed, aborted, provider_429, provider_failure those that are 1
	}{
		"200":                          {answer(200), success, object{"completed": 1}},
		"204":                          {func(s *wasmtest.Stream) { s.ResponseHeaders(wasmtest.ResponseHeaders(204), true) }, success, object{"completed": 1}},
		"trailers":                     {inMidStream(func(s *wasmtest.Stream) { s.ResponseTrailers(wasmtest.HeadersOf("grpc-status", "0")) }), success, object{"completed": 1}},
		"302":                          {answer(302), success, object{"completed": 1}},
		"400":                          {answer(400), success, object{"completed": 1}},
		"401":                          {answer(401), success, object{"completed": 1}},
		"404":                          {answer(404), success, object{"completed": 1}},
		"404 with retry-after":         {answer(404, "retry-after", "9"), success, object{"completed": 1}},
		"a bare 403":                   {answer(403), success, object{"completed": 1}},
		"403 with retry-after":         {answer(403, "retry-after", "3"), 3200 * ms, object{"completed": 1, "provider_failure": 1}},
		"403 with x-ratelimit":         {answer(403, "x-ratelimit-remaining", "0"), failure, object{"completed": 1, "provider_failure": 1}},
		"500":                          {answer(500), failure, object{"completed": 1, "provider_failure": 1}},
		"502":                          {answer(502), failure, object{"completed": 1, "provider_failure": 1}},
		"503":                          {answer(503), failure, object{"completed": 1, "provider_failure": 1}},
		"529":                          {answer(529), failure, object{"completed": 1, "provider_failure": 1}},
		"503 with a short retry-after": {answer(503, "retry-after", "1"), failure, object{"completed": 1, "provider_failure": 1}},
		"503 with a long retry-after":  {answer(503, "retry-after", "7"), 7200 * ms, object{"completed": 1, "provider_failure": 1}},
		"429":                          {answer(429), failure, object{"completed": 1, "provider_429": 1}},
		"429 with retry-after":         {answer(429, "retry-after", "4"), 4200 * ms, object{"completed": 1, "provider_429": 1}},
		"503 without a body":           {func(s *wasmtest.Stream) { s.ResponseHeaders(wasmtest.ResponseHeaders(503), true) }, failure, object{"completed": 1, "provider_failure": 1}},
		"503 cut in the middle": {func(s *wasmtest.Stream) {
			s.ResponseHeaders(wasmtest.ResponseHeaders(503), false)
			s.UpstreamReset()
		}, failure, object{"aborted": 1, "provider_failure": 1}},
		"503 whose client leaves": {func(s *wasmtest.Stream) {
			s.ResponseHeaders(wasmtest.ResponseHeaders(503), false)
			s.ClientGone()
		}, failure, object{"aborted": 1, "provider_failure": 1}},
		"reset before headers":           {upstreamReset, failure, object{"aborted": 1, "provider_failure": 1}},
		"cut in mid-stream":              {inMidStream(upstreamReset), failure, object{"aborted": 1, "provider_failure": 1}},
		"connection refused":             {hostReply(503, "upstream_reset_before_response_started{remote_connection_failure,delayed_connect_error:_111}"), failure, object{"aborted": 1, "provider_failure": 1}},
		"upstream timeout":               {hostReply(504, "upstream_response_timeout"), failure, object{"aborted": 1, "provider_failure": 1}},
		"per-try timeout":                {hostReply(504, "upstream_per_try_timeout"), failure, object{"aborted": 1, "provider_failure": 1}},
		"response timeout":               {hostReply(504, "response_timeout"), failure, object{"aborted": 1, "provider_failure": 1}},
		"client leaves before headers":   {clientGone, cancel, object{"aborted": 1}},
		"client leaves the stream":       {inMidStream(clientGone), cancel, object{"aborted": 1}},
		"upgrade that ends":              {upgraded((*wasmtest.Stream).Complete), success, object{"completed": 1}},
		"upgrade whose client leaves":    {upgraded(clientGone), success, object{"completed": 1}},
		"upgrade the upstream resets":    {upgraded(upstreamReset), success, object{"completed": 1}},
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
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, 2, config(pool("model", 1, "queue", 1, "max_wait", "60s", "hold", object{"success": "200ms", "cancel": "700ms", "failure": "2s"})))
			a, w := g.sendModel(0, "m"), g.sendModel(1, "m")
			c.end(a)
			g.host.Drain()
			if c.hold > 0 {
				require.Equal(t, 1, g.gauge("model.on_hold"))
				require.Zero(t, g.gauge("model.inflight"))
			}
			require.Equal(t, c.hold, g.after("the waiter runs", func() bool { return runs(w) }))
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

// Each part of a hold stands for itself.
func TestHoldsAddUp(t *testing.T) {
	for _, c := range []struct {
		hold object
		end  ending
		want time.Duration
	}{
		{object{"success": "300ms"}, answer(200), 300 * ms},
		{object{"success": "300ms"}, answer(503), 300 * ms},
		{object{"success": "300ms"}, clientGone, 300 * ms},
		{object{"success": "300ms"}, hostReply(403, "rbac"), 0},
		{object{"failure": "1s"}, answer(503), second},
		{object{"failure": "1s"}, answer(200), 0},
		{object{"failure": "1s"}, clientGone, 0},
		{object{"cancel": "1s"}, clientGone, second},
		{object{"cancel": "1s"}, answer(503), 0},
		{object{"cancel": "1s", "success": "300ms"}, clientGone, 1300 * ms},
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
		want string
	}{{0, "20"}, {500 * ms, "20"}, {500 * ms, "19"}, {18 * second, "1"}, {999 * ms, "1"}} {
		g.host.Run(c.pass)
		s := g.sendModel(1, "m")
		g.requireRefused(s, noPermit, "model", "a request during the hold")
		require.Equal(t, c.want, s.LocalReply().Headers.Get("retry-after"))
	}
	g.host.Run(ms)
	g.requireRunning(g.sendModel(1, "m"), "a request at the hold's end")
}

// What the gateway itself refuses, or never sends on, holds nothing, whatever the holds.
func TestOwnRefusalsHoldNothing(t *testing.T) {
	hold := object{"success": "1m", "cancel": "1m", "failure": "1m"}
	g := start(t, 2, config(
		pool("model", 2, "queue", 2, "max_wait", "1s", "hold", hold, "breaker", object{"failures": 1, "penalty": "0s"}, "headroom", object{"window": "1m"}),
		object{"name": "tenant", "key": []string{"tenant"}, "limit": 5, "queue": 5, "max_wait": "1s", "keys": object{"closed": object{"limit": 0}, "one": object{"limit": 1}}}))
	g.requireRefused(g.send(0, "x-model", "m", "x-tenant", "closed"), noPermit, "tenant", "a request that a later pool refuses")
	one := g.send(0, "x-model", "m", "x-tenant", "one")
	g.requireWaiting(func() *wasmtest.Stream { s := g.send(1, "x-model", "m", "x-tenant", "one"); return s }(), "a request that a later pool queues")
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

// A waiter that is granted and whose client leaves before it goes on was never sent.
func TestGrantedWaiterThatIsGoneHoldsNothing(t *testing.T) {
	g := start(t, 2, config(pool("model", 1, "queue", 2, "max_wait", "60s", "hold", object{"cancel": "1m"})))
	a, b, c := g.sendModel(0, "m"), g.sendModel(1, "m"), g.sendModel(0, "m")
	answer(200)(a)
	b.ClientGone() // the grant is on its way to it
	g.host.Drain()
	g.requireRunning(c, "the waiter behind it")
	require.Zero(t, g.gauge("model.on_hold"))
}

func TestCase_O25_RetryAfterValues(t *testing.T) {
	date := func(d time.Duration) func(*gateway) string {
		return func(g *gateway) string { return g.host.WallTime().Add(d).Format(http.TimeFormat) }
	}
	value := func(s string) func(*gateway) string { return func(*gateway) string { return s } }
	for name, c := range map[string]struct {
		value func(*gateway) string
		want  time.Duration
	}{
		"none of ours":     {value(""), second},
		"longer":           {value("30"), 30 * second},
		"with spaces":      {value(" 30 "), 30 * second},
		"shorter":          {value("1"), second},
		"0":                {value("0"), second},
		"000":              {value("000"), second},
		"negative":         {value("-1"), second},
		"-0":               {value("-0"), second},
		"a fraction":       {value("5.5"), second},
		"a unit":           {value("5s"), second},
		"nonsense":         {value("soon"), second},
		"not ASCII":        {value("٣٠"), second},
		"10 minutes":       {value("600"), 10 * minute},
		"more":             {value("601"), 10 * minute},
		"huge":             {value("999999999"), 10 * minute},
		"2^63":             {value("9223372036854775808"), 10 * minute},
		"2^64 and more":    {value("99999999999999999999999999999999"), 10 * minute},
		"a date":           {date(90 * second), 90 * second},
		"a date in a year": {date(365 * 24 * time.Hour), 10 * minute},
		"a date just gone": {date(-second), second},
		"a date long gone": {value("Sun, 06 Nov 1994 08:49:37 GMT"), second},
		"a date of now":    {date(0), second},
		"no such date":     {value("Sun, 99 Nov 2094 08:49:37 GMT"), second},
		"a cut date":       {value("Sun, 06 Nov 2094 08:49:37"), second},
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, 2, config(pool("model", 1, "queue", 1, "max_wait", "1h", "hold", object{"failure": "1s"})))
			a, w := g.sendModel(0, "m"), g.sendModel(1, "m")
			g.host.Run(second - g.host.Elapsed()) // a whole second of the wall clock
			answer(429, "retry-after", c.value(g))(a)
			g.host.StepWallClock(8 * time.Hour) // the hold itself is on the other clock
			require.Equal(t, c.want, g.after("the waiter runs", func() bool { return runs(w) }))
		})
	}
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
			g.requireWaiting(waiters[2], "the third waiter: each held permit is freed once")
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

// A hold is in the record: it neither ends with the worker that made it nor lasts longer for its death.
func TestHoldSurvivesItsWorker(t *testing.T) {
	for _, back := range []bool{false, true} {
		t.Run(fmt.Sprintf("which comes back %t", back), func(t *testing.T) {
			g := start(t, 2, with(config(pool("model", 3, "queue", 4, "max_wait", "60s", "hold", object{"failure": "20s"})), "lease", "1s"))
			a, b, c := g.sendModel(0, "m"), g.sendModel(0, "m"), g.sendModel(0, "m")
			w := []*wasmtest.Stream{g.sendModel(1, "m"), g.sendModel(1, "m"), g.sendModel(1, "m"), g.sendModel(1, "m")}
			answer(503)(a)
			answer(503)(b)
			died := g.host.Elapsed()
			g.requireRunning(c, "the one that dies with its worker")
			g.host.Worker(0).Kill()
			if back {
				require.NoError(t, g.host.Worker(0).Reload())
			}
			g.host.Run(5 * second)
			g.requireRunning(w[0], "a waiter, with the dead one's permit")
			g.requireWaiting(w[1], "a waiter, two permits held")
			require.Equal(t, 2, g.gauge("model.on_hold"))
			g.after("the waiters run", func() bool { return runs(w[1]) && runs(w[2]) })
			require.Equal(t, 20*second, g.host.Elapsed()-died)
			g.requireWaiting(w[3], "the last waiter")
			require.Zero(t, g.gauge("model.on_hold"))
			require.Equal(t, 3, g.gauge("model.inflight"))
		})
	}
}

func TestHoldSurvivesAReload(t *testing.T) {
	c := func(limit int, failure string) object {
		return config(pool("model", limit, "queue", 4, "max_wait", "60s", "hold", object{"failure": failure}))
	}
	t.Run("with a waiter of the new configuration", func(t *testing.T) {
		g := start(t, 2, c(2, "20s"))
		answer(503)(g.sendModel(0, "m"))
		answer(503)(g.sendModel(1, "m"))
		begun := g.host.Elapsed()
		g.reload(c(2, "1s"))
		w := g.sendModel(0, "m")
		g.reload(c(2, "0s"))
		x := g.sendModel(1, "m")
		require.Equal(t, 2, g.gauge("model.on_hold"))
		g.after("both waiters run", func() bool { return runs(w) && runs(x) })
		require.Equal(t, 20*second, g.host.Elapsed()-begun)
	})
	t.Run("without traffic", func(t *testing.T) {
		g := start(t, 2, c(2, "20s"))
		answer(503)(g.sendModel(0, "m"))
		begun := g.host.Elapsed()
		g.reload(c(3, "20s"))
		g.after("the gauge falls", func() bool { return g.gauge("model.on_hold") == 0 })
		require.Equal(t, 20*second, g.host.Elapsed()-begun)
		g.requireQuiet()
	})
	t.Run("to a lower limit", func(t *testing.T) {
		g := start(t, 2, c(3, "20s"))
		for i := range 3 {
			answer(503)(g.sendModel(i%2, "m"))
		}
		g.reload(c(1, "20s"))
		require.Equal(t, 3, g.gauge("model.on_hold"), "nothing is freed by it")
		w, x := g.sendModel(0, "m"), g.sendModel(1, "m")
		g.after("a waiter runs", func() bool { return runs(w) })
		g.host.Run(second)
		g.requireWaiting(x, "the second, at a limit of one")
		w.Respond(200, "ok")
		g.host.Drain()
		g.requireRunning(x, "the second")
	})
	t.Run("to another module", func(t *testing.T) {
		g := start(t, 2, c(1, "20s"))
		answer(503)(g.sendModel(0, "m"))
		begun, old := g.host.Elapsed(), g.plugin
		next, err := wasmtest.Compile(append(append([]byte{}, wasmBytes...), 0, 6, 4, 'n', 'e', 'x', 't', '3'))
		require.NoError(t, err)
		pc := pluginConfig(c(1, "20s"))
		pc.Module = next
		g.plugin, err = g.host.Load(pc)
		require.NoError(t, err)
		old.Retire()
		w := g.sendModel(1, "m")
		g.after("the waiter of the new module runs", func() bool { return runs(w) })
		require.Equal(t, 20*second, g.host.Elapsed()-begun)
	})
}

// A context that knows a record only from its look round at the start must not speak for the streams it runs there later.
func TestHoldsEndThatFindsNoSwapDropsNobody(t *testing.T) {
	c := func(wait string) object {
		return with(config(pool("model", 2, "queue", 4, "max_wait", wait, "hold", object{"failure": "3s"})), "lease", "1h")
	}
	g := start(t, 2, c("60s"))
	answer(503)(g.sendModel(0, "m"))
	g.reload(c("61s"))
	a := g.sendModel(0, "m")
	g.requireRunning(a, "a request beside the hold")
	fails := 16 // as many as a step tries
	g.host.OnHostCall(func(c *wasmtest.HostCall) {
		switch {
		case c.Name() != "proxy_set_shared_data" || g.host.Elapsed() < 3*second:
		case c.Worker().Index() != 0:
			c.Fail(wasmtest.StatusCasMismatch) // they would be first
		case fails > 0:
			fails--
			c.Fail(wasmtest.StatusCasMismatch)
		}
	})
	g.host.Run(4 * second)
	g.host.OnHostCall(nil)
	require.Zero(t, fails)
	require.Equal(t, 1, g.gauge("model.inflight"))
	g.requireRunning(g.sendModel(1, "m"), "the second that fits")
	g.requireWaiting(g.sendModel(1, "m"), "the third: two run")
}

// A key whose hold is over can lose its place to another key; the gauge follows.
func TestHoldsGaugeWhenTheKeysPlaceIsGivenAway(t *testing.T) {
	g := start(t, 2, with(config(pool("model", 1, "hold", object{"failure": "2s"})), "max_keys", 1))
	g.sendModel(1, "m").Respond(200, "ok")
	answer(503)(g.sendModel(0, "m"))
	g.host.Advance(3 * second) // no tick is delivered yet
	g.requireRunning(g.sendModel(1, "n"), "a request for the key that takes the place")
	require.Zero(t, g.gauge("model.on_hold"))
	g.host.Run(minute)
	require.Zero(t, g.gauge("model.on_hold"))
}

// min_active permits are left alone by holds.
func TestMinActive(t *testing.T) {
	for minActive, most := range map[int]int{0: 4, 1: 3, 2: 2, 3: 1, 4: 0} {
		t.Run(fmt.Sprint(minActive), func(t *testing.T) {
			g := start(t, 2, config(pool("model", 4, "min_active", minActive, "hold", object{"failure": "30s", "cancel": "30s"})))
			for i := range 12 {
				s := g.sendModel(i%2, "m")
				if i%2 == 0 {
					answer(503)(s)
				} else {
					s.ClientGone()
				}
				g.host.Drain()
				require.Equal(t, min(i+1, most), g.gauge("model.on_hold"))
			}
			for i := range minActive {
				g.requireRunning(g.sendModel(i%2, "m"), "a request that holds must leave alone")
			}
			g.requireRefused(g.sendModel(0, "m"), noPermit, "model", "one more")
		})
	}
}

// In a fair pool a tenant's own holds count for its share; those of the provider's failures for nobody's.
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

// --- routes and classes ---

func (g *gateway) sendTo(worker int, method, path string, headers ...string) *wasmtest.Stream {
	s := g.plugin.Stream(worker)
	s.RequestHeaders(wasmtest.RequestHeaders(method, path, append([]string{"x-model", "m"}, headers...)...), true)
	return s
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

func routed(routes []string, pools ...object) object { return with(config(pools...), "routes", routes) }

// Without a pool keyed by route, limits in patterns make one, named route.
func TestRouteLimitsMakeAPool(t *testing.T) {
	g := start(t, 2, routed([]string{"POST /chat/completions:2", "POST /messages:1@msg", "POST /messages/batches:1@msg", "/embeddings:3", "POST /closed:0", "POST /responses"},
		object{"name": "gateway", "limit": 100}))
	to := func(method, path string) func(int) *wasmtest.Stream {
		return func(w int) *wasmtest.Stream { return g.sendTo(w, method, path) }
	}
	chat := g.requireFits(2, "route", to("POST", "/v1/chat/completions"))
	g.requireRefused(to("POST", "/openai/deployments/x/chat/completions")(1), noPermit, "route", "the same route by another prefix")
	msg := g.requireFits(1, "route", to("POST", "/v1/messages"))
	g.requireRefused(to("POST", "/v1/messages/batches")(1), noPermit, "route", "another route of the group")
	for _, method := range []string{"GET", "PUT", "POST"} {
		g.requireRunning(to(method, "/v1/embeddings")(0), "one of three of any method")
	}
	g.requireRefused(to("GET", "/embeddings")(0), noPermit, "route", "the fourth")
	g.requireRefused(to("POST", "/closed")(0), noPermit, "route", "a request for a closed route")
	require.Equal(t, 1, g.counter("route.rejected_closed"))
	for range 10 {
		g.requireRunning(to("POST", "/v1/responses")(0), "a request for a route without a limit")
	}
	require.Equal(t, 16, g.gauge("gateway.inflight"))
	require.Equal(t, 6, g.gauge("route.inflight"), "routes without a limit aren't in it")
	for _, s := range append(chat, msg...) {
		s.Respond(200, "ok")
	}
	g.host.Drain()
	g.requireFits(2, "route", to("POST", "/chat/completions"))
	g.requireFits(1, "route", to("POST", "/messages/batches"))
	before := g.counter("ungoverned")
	for _, r := range [][2]string{{"POST", "/v1/chat/completions/123"}, {"GET", "/v1/chat/completions"}, {"POST", "/v1/completions"}, {"POST", "/v1/xchat/completions"}, {"POST", "/"}} {
		g.requireRunning(to(r[0], r[1])(0), "a request that no pattern matches")
	}
	require.Equal(t, 5, g.counter("ungoverned")-before)
}

// Every spelling of a governed path meets the limit.
func TestCase_O20_SpellingsMeetTheRoutesLimit(t *testing.T) {
	g := start(t, 2, routed([]string{"POST /v1/chat/completions:2@g"}, object{"name": "gateway", "limit": 100}))
	for i := range 2 {
		g.requireRunning(g.sendTo(i, "POST", "/v1/chat/completions"), "one of two")
	}
	for _, path := range []string{"/v1//chat/completions", "//v1/chat/completions", "/v1/chat/completions/", "/v1/chat/completions?x=1", "/v1/./chat/completions", "/v1/x/../chat/completions",
		"/v1/chat%2Fcompletions", "/v1/chat%2fcompletions", "/v1/ch%61t/completions", "/V1/Chat/Completions", "/v1/chat/completions;a=b", "/v1/chat/completions/.", "/v1/chat/completions#x",
		"/v1/chat/%2e/completions", "/v1/chat/completions%2F", "/proxy/v1/chat/completions"} {
		g.requireRefused(g.sendTo(0, "POST", path), noPermit, "route", path)
		g.requireRefused(g.sendTo(1, "post", path), noPermit, "route", path)
	}
	require.Zero(t, g.counter("ungoverned"))
}

// A pool keyed by route takes the patterns' limits; routes without one have the pool's, and its queue and holds are theirs.
func TestRouteLimitsInAPoolKeyedByRoute(t *testing.T) {
	g := start(t, 2, routed([]string{"POST /chat/completions:2", "POST /messages:1@msg", "POST /responses"},
		object{"name": "byroute", "key": []string{"route"}, "limit": 4, "queue": 1, "max_wait": "60s", "hold": object{"failure": "3s"}}))
	for path, limit := range map[string]int{"/chat/completions": 2, "/messages": 1, "/responses": 4} {
		var running []*wasmtest.Stream
		for i := range limit {
			s := g.sendTo(i%2, "POST", path)
			g.requireRunning(s, path)
			running = append(running, s)
		}
		w := g.sendTo(1, "POST", path)
		g.requireWaiting(w, path)
		g.requireRefused(g.sendTo(0, "POST", path), noPermit, "byroute", path)
		answer(503)(running[0])
		require.Equal(t, 3*second, g.after("the waiter runs", func() bool { return runs(w) }))
	}
	require.Zero(t, g.counter("route.evaluated"), "no pool was made beside it")
}

// Only background work is gated; interactive calls pass, and a limit for all stands behind both.
func TestOnlyBackgroundIsGated(t *testing.T) {
	c := config(
		object{"name": "background", "key": []string{"class"}, "match": object{"class": []string{"background", "batch"}}, "limit": 1, "hold": object{"failure": "5s"}, "breaker": breaking(2)},
		object{"name": "model", "key": []string{"model"}, "limit": 2, "keys": object{"gpt": object{"limit": 5}}},
		object{"name": "process", "limit": 7})
	c["identity"].(object)["class"] = []object{{"header": "x-class", "trusted": true}}
	g := start(t, 2, c)
	send := func(model string, class ...string) *wasmtest.Stream {
		if len(class) > 0 {
			return g.send(len(model)%2, "x-model", model, "x-class", class[0])
		}
		return g.send(len(model)%2, "x-model", model)
	}
	bg := send("gpt", "background")
	g.requireRunning(bg, "the background request that fits")
	g.requireRefused(send("gpt", "background"), noPermit, "background", "a second background request")
	batch := send("gpt", "batch")
	g.requireRunning(batch, "a request of another gated class")
	for _, class := range []string{"interactive", "", "Background"} {
		g.requireRunning(send("gpt", class), "an interactive request")
	}
	g.requireRefused(send("gpt", "interactive"), noPermit, "model", "the sixth of a model with five")
	g.requireRunning(send("other"), "a request of a model without a limit of its own")
	g.requireRunning(send("other"), "the second: the default is two")
	g.requireRefused(send("other"), noPermit, "model", "the third")
	g.requireRefused(send("third"), noPermit, "process", "the eighth of all")
	answer(503)(bg)
	answer(503)(batch)
	g.host.Drain()
	g.requireRefused(send("gpt", "background"), noPermit, "background", "a background request during the hold of its class")
	g.requireRunning(send("gpt", "interactive"), "an interactive one meanwhile")
	require.Equal(t, 2, g.gauge("background.on_hold"))
}

// --- without protection ---

// With every protection zero, and with some that never come to anything, each request fares as in a configuration without
// a word of them.
func TestProtectionThatIsZeroChangesNothing(t *testing.T) {
	for name, more := range map[string][]any{
		"holds of zero":                {"hold", object{"success": "0s", "cancel": "0s", "failure": "0s"}, "min_active", 0},
		"a breaker that never trips":   {"breaker", object{"failures": 1000, "penalty": "0s", "max_penalty": "0s"}},
		"headroom without any to take": {"headroom", object{"window": "1m", "min": 2}},
		"all of them":                  {"hold", object{"success": "0s"}, "breaker", object{"failures": 1000, "penalty": "0s"}, "headroom", object{"mode": "aimd", "min": 2}},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(8) {
				plain := playOut(t, seed, pool("model", 2, "queue", 3, "max_wait", "700ms", "fair_by", "tenant"))
				zero := playOut(t, seed, pool("model", 2, append([]any{"queue", 3, "max_wait", "700ms", "fair_by", "tenant"}, more...)...))
				require.Equal(t, plain, zero, "seed %d", seed)
			}
		})
	}
}

// playOut plays a random schedule and returns what became of every request at every step, and the counts at the end.
func playOut(t *testing.T, seed uint64, p object) (story []string) {
	t.Helper()
	rnd := newRand(seed)
	g := start(t, 3, config(p))
	ends := []ending{answer(200), answer(503), answer(429, "retry-after", "9"), answer(403, "retry-after", "9"), clientGone, upstreamReset, inMidStream(upstreamReset),
		inMidStream(clientGone), hostReply(403, "rbac"), hostReply(200, "direct_response"), upgraded(clientGone)}
	var live []*wasmtest.Stream
	for range 150 {
		switch n := rnd.IntN(10); {
		case n < 4:
			live = append(live, g.send(rnd.IntN(3), "x-model", "m", "x-tenant", fmt.Sprint(rnd.IntN(3))))
		case n < 7 && len(live) > 0:
			i, end := rnd.IntN(len(live)), ends[rnd.IntN(len(ends))]
			if runs(live[i]) {
				end(live[i])
			} else {
				live[i].ClientGone()
			}
		default:
			g.host.Run(time.Duration(rnd.IntN(300)) * ms)
		}
		kept, line := live[:0], ""
		for _, s := range live {
			line += fate(s) + "; "
			if _, over := s.Ended(); !over {
				kept = append(kept, s)
			}
		}
		live = kept
		story = append(story, line)
	}
	for _, s := range live {
		s.ClientGone()
	}
	g.host.Run(minute)
	g.requireDrained("model")
	for _, m := range g.host.Metrics() {
		if m.Type != wasmtest.Histogram {
			story = append(story, fmt.Sprint(m.Name, " ", m.Value))
		}
	}
	require.Zero(t, g.host.Run(time.Hour), "a drained gateway ticks")
	g.host.Close()
	return story
}
