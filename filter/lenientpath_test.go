package filter_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// Some upstream serves each of these paths as a governed one. docs/security.md says which.
func TestNoSpellingOfAPathIsUngoverned(t *testing.T) {
	c := config(pool("model", 1))
	c["routes"] = []string{"POST /chat/completions", "POST /models/*:generate"}
	c["identity"] = object{"model": []object{{"path": "/models/{model}:generate"}, {"value": "m"}}}
	g := start(t, 1, c)
	send := func(path string) *wasmtest.Stream {
		s := g.plugin.Stream(0)
		s.RequestHeaders(wasmtest.RequestHeaders("POST", path), true)
		return s
	}
	g.requireRunning(send("/v1/chat/completions"), "the holder of the model's permit")
	g.requireRunning(send("/v1/models/gemini:generate"), "the holder of the permit of the model in the path")
	for _, path := range []string{
		"/v1/chat/completions%0a", "/v1/chat/completions%0d%0a", "/v1/chat/completions%20", "/v1/%09chat/completions", "/v1/chat/completions/%20", "/v1/chat/completions%00", "/v1/chat/completions\xa0",
		"/v1/ch%80at/completions", "/v1/chat/completions.json", "/v1/chat/completions.", "/v1/chat/completions%0a?x=1", "/v1/chat%3b;/completions",
		"/v1/models/gemini:generate%0a", "/v1/models/%20gemini:generate", "/v1/models%20/gemini%20:generate", "/v1/models/gem%69ni:generate%20",
	} {
		g.requireRefused(send(path), noPermit, "model", path)
	}
	require.Zero(t, g.counter("ungoverned"))
	g.requireRunning(send("/v1/chat/completions%2b"), "a request with another path")
	require.Equal(t, 1, g.counter("ungoverned"))
}
