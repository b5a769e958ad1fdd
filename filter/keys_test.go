package filter_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

func TestCase_O29_KeysAreBounded(t *testing.T) {
	const maxKeys = 8
	c := with(config(pool("model", 1, "keys", object{"gpt": object{"limit": 2}})), "max_keys", maxKeys)
	g := start(t, 2, c)
	var running []*wasmtest.Stream
	for i := range 40 {
		s := g.sendModel(i%2, fmt.Sprintf("random-%d", i))
		if runs(s) {
			running = append(running, s)
		}
	}
	require.Len(t, running, maxKeys+1, "as many keys as max_keys allows, and the one that the others share")
	require.Equal(t, maxKeys, g.gauge("model.keys"))
	a, b := g.sendModel(0, "gpt"), g.sendModel(1, "gpt")
	g.requireRunning(a, "a configured model's request")
	g.requireRunning(b, "a configured model's second request")
	for _, s := range append(running, a, b) {
		s.Respond(200, "ok")
	}
	keys := len(g.host.SharedData().Keys())
	for i := range 3000 {
		s := g.sendModel(i%2, fmt.Sprintf("again-%d", i))
		g.requireRunning(s, "a request for a new model while all others are idle")
		s.Respond(200, "ok")
	}
	require.Len(t, g.host.SharedData().Keys(), keys)
	require.Equal(t, maxKeys+1, g.gauge("model.keys"), "max_keys and the configured one")
	g.requireDrained("model")
	g.requireCapacity("gpt", 2)
	g.requireCapacity("again-2999", 1)
	for _, m := range g.metrics() {
		require.NotContains(t, m.Name, "random")
	}
}

// A key that loses its slot to others and comes back never has two records in use.
func TestKeysThatTakeTurnsInOneSlot(t *testing.T) {
	g := start(t, 3, with(config(pool("model", 1)), "max_keys", 1))
	for i := range 200 {
		model := fmt.Sprintf("m%d", i%3)
		a := g.sendModel(i%3, model)
		g.requireRunning(a, "the only request")
		for w := range 3 {
			require.False(t, runs(g.sendModel(w, model)), "a second request of the same model runs")
		}
		a.Respond(200, "ok")
	}
	g.requireDrained("model")
}

// A flood of names makes the filter forget keys that no stream uses. A key that a request asks for later is found
// again.
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
