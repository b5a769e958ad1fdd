package request

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/admission/config"
)

// TestRouterSaysWhatMatchRouteSays: what a router remembers is what it would find out again, whatever comes in between.
func TestRouterSaysWhatMatchRouteSays(t *testing.T) {
	routes := []config.Route{
		{Name: "chat", Method: "POST", Segments: []string{"chat", "completions"}},
		{Name: "any", Segments: []string{"v1", "*"}},
	}
	paths := []string{"/v1/chat/completions", "/v1/chat/completions?x=1", "/v1/chat/completion", "/v1/models", "/", "",
		"/v1//models", "/v1/%6dodels", "/v1/modelt", "/" + strings.Repeat("a", 200), "/chat/completions", "/models", "OST/models"}
	methods := []string{"POST", "GET", "post", "", "POST/v1", "P"}
	rapid.Check(t, func(t *rapid.T) {
		r := Router{Routes: routes}
		for range 60 {
			method, path := rapid.SampledFrom(methods).Draw(t, "method"), rapid.SampledFrom(paths).Draw(t, "path")
			if rapid.IntRange(0, 3).Draw(t, "own") == 0 {
				path = "/v1/" + rapid.StringMatching(`[a-c/?%]{0,4}`).Draw(t, "tail")
			}
			route, ok := r.Match(method, path)
			wantRoute, wantOK := MatchRoute(routes, method, path)
			if route != wantRoute || ok != wantOK {
				t.Fatalf("%q %q: %v %v, want %v %v", method, path, route, ok, wantRoute, wantOK)
			}
		}
	})
}

// TestRouterIsBounded: long paths are not remembered, and a path that is known allocates nothing.
func TestRouterIsBounded(t *testing.T) {
	r := Router{Routes: []config.Route{{Name: "chat", Segments: []string{"chat"}}}}
	for n := range 1000 {
		r.Match("POST", "/"+strings.Repeat("a", n))
	}
	for i := range r.recent {
		require.LessOrEqual(t, len(r.recent[i].key), longestRecent)
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { r.Match("POST", "/v1/chat") }))
}

// TestRouterKnowsMethodFromPath: where a method ends and the path begins is remembered, too.
func TestRouterKnowsMethodFromPath(t *testing.T) {
	r := Router{Routes: []config.Route{{Name: "a", Method: "A", Segments: []string{"aaaa"}}}}
	_, ok := r.Match("A", "/aaaa")
	require.True(t, ok)
	_, ok = r.Match("A/", "aaaa")
	require.False(t, ok)
}
