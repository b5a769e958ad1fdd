package filter_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

func routed(routes []string, pools ...object) object { return with(config(pools...), "routes", routes) }

// Without a pool whose key is the route, limits in patterns make one. Its name is route.
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

// A pool whose key is the route takes the patterns' limits. Other routes have the pool's limit. All have its queue and
// holds.
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
