package filter_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

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
