package filter_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// A pool limits background work alone. Interactive calls pass it. A pool for all limits both.
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

func TestMatchLimitsAPoolToSomeRequests(t *testing.T) {
	match := func(name string, m object) object { return object{"name": name, "limit": 0, "match": m} }
	c := config(
		match("background", object{"class": []string{"background", "batch"}}),
		match("acme", object{"tenant": []string{"acme"}, "model": []string{"big"}}),
		match("nobody", object{"tenant": []string{"anonymous"}, "class": []string{"unknown"}, "model": []string{"unknown"}}),
		match("long", object{"tenant": []string{strings.Repeat("x", 128)}}))
	c["identity"].(object)["class"] = []object{{"header": "x-class", "trusted": true}}
	g := start(t, 1, c)
	for _, r := range []struct {
		headers []string
		refused string
	}{
		{[]string{"x-tenant", "other", "x-model", "big"}, ""},
		{[]string{"x-tenant", "other", "x-class", "background"}, "background"},
		{[]string{"x-tenant", "other", "x-class", "batch"}, "background"},
		{[]string{"x-tenant", "other", "x-class", "Batch"}, ""},
		{[]string{"x-tenant", "acme", "x-model", "big"}, "acme"},
		{[]string{"x-tenant", "acme", "x-model", "small"}, ""},
		{[]string{"x-tenant", "acme", "x-model", "big", "x-class", "batch"}, "background"},
		{nil, "nobody"},
		{[]string{"x-class", "interactive"}, ""},
		{[]string{"x-tenant", strings.Repeat("x", 128), "x-model", "m"}, "long"},
	} {
		s := g.send(0, r.headers...)
		if r.refused == "" {
			g.requireRunning(s, fmt.Sprint(r.headers))
		} else {
			g.requireRefused(s, noPermit, r.refused, fmt.Sprint(r.headers))
		}
	}
	require.Equal(t, 3, g.counter("background.evaluated"), "a pool that doesn't match isn't asked")
}

func TestMatchGoesByTheModelInTheBody(t *testing.T) {
	g := start(t, 1, fromBody(object{"name": "big", "limit": 0, "match": object{"model": []string{"big"}}}))
	g.requireRefused(g.post(0, chat("big")), noPermit, "big", "a request for the closed model")
	requireForwarded(t, g.post(0, chat("small")), chat("small"))
}
