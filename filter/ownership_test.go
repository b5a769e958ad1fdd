package filter_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// Each cell of the table in docs/ownership.md names the tests that show it. These tests exist, and every test of
// ownership is named in a cell.
func TestOwnershipTableNamesItsTests(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	tests := map[string]bool{} // whether a cell names it
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") {
				tests[f.Name.Name] = false
			}
		}
	}
	text, err := os.ReadFile("../docs/ownership.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "| case |")
	require.True(t, found)
	rows := strings.Split(table, "\n")[2:]
	named := regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")
	cases := map[string]bool{}
	for _, row := range rows {
		if !strings.HasPrefix(row, "|") {
			break
		}
		cells := strings.Split(strings.Trim(row, "|"), "|")
		require.Len(t, cells, 3, row)
		cases[strings.TrimSpace(cells[0])] = true
		for _, cell := range cells[1:] {
			names := named.FindAllStringSubmatch(cell, -1)
			require.NotEmpty(t, names, "no test in the cell %q", cell)
			for _, n := range names {
				require.Contains(t, tests, n[1])
				tests[n[1]] = true
			}
		}
	}
	for _, c := range []string{"success", "stream", "error", "retry", "back-off", "fallback", "hedge", "client gone, queued at the invocation",
		"client gone, queued at the attempt", "client gone, running", "client gone, in back-off", "timeout", "refusal", "local reply", "reload", "trap"} {
		require.Contains(t, cases, c)
	}
	for name, isNamed := range tests {
		if strings.HasPrefix(name, "TestOwnership_") {
			require.True(t, isNamed, "%s is in no cell", name)
		}
	}
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
	g.afterReset()
	g.owned(1, 0, 0, 0, "when the other one is dropped")
	a.Respond(200, "ok")
	g.drained()

	// With one permit the hedge waits. It is dropped in the queue, or takes the permit over.
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
	g.afterReset()
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
				g.afterReset()
				g.owned(1, 0, 1, 1, "between the two ends")
				b1.ClientGone()
			} else {
				b1.ClientGone()
				g.owned(2, 0, 1, 0, "between the two ends")
				b.ClientGone()
			}
			g.afterReset()
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
		g.afterReset()
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
	g.afterReset()
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
		g.afterReset()
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
