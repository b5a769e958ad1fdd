//go:build javascript

package clients

import "testing"

// With the build tag javascript, as in `make clients`: it needs Node.js.
func TestJavaScriptClient(t *testing.T) {
	packages := get(t, "javascript")
	env := gateway(t)
	checkClient(t, env, start(t, "node", "client.mjs", env.URL(), packages), openai)
}
