package filter_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/build/wasmbuild"
	"github.com/headgate/headgate/wasmtest"
)

// panicHeader makes the module that is built with -tags trap panic in the callback that its value names.
const panicHeader = "x-headgate-test-panic"

// fragileModule is the module that panics when it is told to. It is built once.
var fragileModule = sync.OnceValues(func() (*wasmtest.Module, error) {
	dir, err := os.MkdirTemp("", "fragile")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "fragile.wasm")
	if err := wasmbuild.Module("../cmd/filter", path, "-tags", "trap"); err != nil {
		return nil, err
	}
	code, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return wasmtest.Compile(code)
})

// startFragile is start with the module that panics when it is told to.
func startFragile(t *testing.T, c object) *gateway {
	t.Helper()
	m, err := fragileModule()
	require.NoError(t, err)
	g := &gateway{t: t, host: wasmtest.Start(t, m, wasmtest.WithWorkers(2), wasmtest.WithMainThread())}
	g.load(c)
	g.host.Run(20 * ms)
	return g
}

// sendPanicking brings a request whose callback panics. Its body is not complete.
func (g *gateway) sendPanicking(worker int, callback string) *wasmtest.Stream {
	s := g.plugin.Stream(worker)
	s.RequestHeaders(wasmtest.RequestHeaders("POST", "/v1/chat/completions", "x-model", "m", panicHeader, callback), false)
	return s
}

func (g *gateway) requirePanics(n int) {
	g.t.Helper()
	found := 0
	for _, l := range g.host.Logs() {
		if strings.Contains(l.Message, "asked for by a test") {
			found++
		}
	}
	require.Equal(g.t, n, found, "panics in the log")
}

// What a request holds when its own callback panics is given back once, and the request follows on_error.
func TestAPanicKeepsNoPermit(t *testing.T) {
	for _, onError := range []string{"open", "closed"} {
		t.Run(onError, func(t *testing.T) {
			g := startFragile(t, with(config(pool("model", 1, "queue", 2, "max_wait", "60s")), "on_error", onError))
			s := g.sendPanicking(0, "headers")
			if onError == "closed" {
				g.requireRefused(s, noPermit, "model", "a request whose callback panics")
			} else {
				g.requireRunning(s, "a request whose callback panics")
			}
			g.requirePanics(1)
			g.host.Run(100 * ms)
			require.Zero(t, g.gauge("model.inflight"))
			other := g.sendModel(0, "m")
			g.requireRunning(other, "the next request")
			if onError == "open" {
				s.Respond(200, "ok")
			}
			g.host.Run(100 * ms)
			require.Equal(t, 1, g.gauge("model.inflight"), "the other request runs")
			other.Respond(200, "ok")
			g.requireCapacity("m", 1)
			g.requireQuiet()
		})
	}
}

// Later callbacks are no different: the permit goes to the next one, and the request's end gives back nothing more.
func TestALatePanicKeepsNoPermit(t *testing.T) {
	for _, callback := range []string{"body", "done"} {
		t.Run(callback, func(t *testing.T) {
			g := startFragile(t, config(pool("model", 1, "queue", 2, "max_wait", "60s")))
			s := g.sendPanicking(0, callback)
			g.requireRunning(s, "a request that has its permit")
			waiter := g.sendModel(0, "m")
			g.requireWaiting(waiter, "a request beside it")
			if callback == "body" {
				s.RequestBody([]byte("x"), true)
				g.host.Run(100 * ms)
			}
			s.ClientGone()
			g.requirePanics(1)
			g.host.Run(100 * ms)
			g.requireRunning(waiter, "the request beside it, with the permit")
			require.Equal(t, 1, g.gauge("model.inflight"))
			g.requireWaiting(g.sendModel(1, "m"), "one more than the limit")
		})
	}
}

// A waiter whose callback panics waits no more: its ticket is taken out of the queue.
func TestAPanicKeepsNoTicket(t *testing.T) {
	g := startFragile(t, config(pool("model", 1, "queue", 1, "max_wait", "60s")))
	holder := g.sendModel(1, "m")
	s := g.sendPanicking(0, "body")
	g.requireWaiting(s, "the second request")
	s.RequestBody([]byte("x"), true)
	g.requirePanics(1)
	g.host.Run(100 * ms)
	require.Zero(t, g.gauge("model.queued"))
	next := g.sendModel(1, "m")
	g.requireWaiting(next, "the next request: there is room in the queue")
	holder.Respond(200, "ok")
	g.host.Drain()
	g.requireRunning(next, "the next request")
	next.Respond(200, "ok")
	s.ClientGone()
	g.host.Run(100 * ms)
	require.Zero(t, g.gauge("model.inflight"))
	g.requireCapacity("m", 1)
}

// A probe whose callback panics is no probe any more.
func TestAPanicKeepsNoProbe(t *testing.T) {
	g := startFragile(t, guarded(breaking(1)))
	g.fail(1)
	g.host.Run(2 * second)
	probe := g.sendPanicking(1, "done")
	g.requireRunning(probe, "the probe")
	g.requireOpen(g.sendModel(0, "m"), 1, "a request beside the probe")
	probe.ClientGone()
	g.requirePanics(1)
	g.host.Run(100 * ms)
	next := g.sendModel(0, "m")
	g.requireRunning(next, "the next probe")
	next.Respond(200, "ok")
	g.pass(10, "a request after the good probe")
}

// The shipped module has no header that makes it panic.
func TestTheModuleCannotBeToldToPanic(t *testing.T) {
	require.False(t, bytes.Contains(wasmBytes, []byte("x-headgate-test-")))
}
