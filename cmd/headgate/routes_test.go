package main

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/admission/request"
)

func TestPatternsGetTheConcurrencyAndGroupsShareIt(t *testing.T) {
	printed := printConfig(t, "--limit", "POST /a", "--limit", "/b:7", "--limit", "/c@g", "--limit", "/*:d@g",
		"--concurrency", "3",
		"--global-concurrency", "5", "--queue", "9")
	for stage := range printed.Plugin {
		cfg := printed.at(t, stage)
		require.Len(t, cfg.Pools, 3)
		for _, i := range []int{0, 2} {
			require.Equal(t, map[string]int{"POST /a": 3, "/b": 7, "@g": 3}, cfg.Pools[i].Keys)
		}
		require.Equal(t, "gateway", cfg.Pools[1].Name)
		require.Equal(t, 5, cfg.Pools[1].Limit)
		require.Equal(t, 9, cfg.Pools[1].Queue)
		require.Equal(t, 7, cfg.Pools[2].Queue, "the queue has a place for each request that the route admits")
	}
}

func TestFinding_C10_TheWellKnownAPIsAreGovernedWithoutLimit(t *testing.T) {
	printed := printConfig(t)
	cfg := printed.at(t, "invocation")
	methods := pathsByMethod(cfg.Routes)
	require.Len(t, methods, 1)
	retried := regexp.MustCompile("^(?:" + methods[0].expression() + ")$")
	for path, governed := range map[string]bool{
		"/v1/chat/completions":     true,
		"/v1/completions":          true,
		"/v1/responses":            true,
		"/v1/embeddings":           true,
		"/v1/images/generations":   true,
		"/v1/audio/transcriptions": true,
		"/v1/messages":             true,
		"/v1beta/models/gemini-2.0-flash:generateContent":                                  true,
		"/v1beta/models/m:streamGenerateContent?alt=sse":                                   true,
		"/openai/deployments/x/chat/completions?api-version":                               true,
		"/v1beta/tunedModels/mine-1:generateContent":                                       true,
		"/v1beta/models/text-1:predict":                                                    true,
		"/v1beta/models/m%3AgenerateContent":                                               true,
		"/v1/projects/p/locations/l/publishers/anthropic/models/claude-x:rawPredict":       true,
		"/v1/projects/p/locations/l/publishers/anthropic/models/claude-x:streamRawPredict": true,
		"/v1/projects/p/locations/l/endpoints/123456:predict":                              true,
		"/model/arn%3Aaws%3Abedrock%3A1%3Ainference-profile%2Fus.claude/converse-stream":   true,
		"/model/anthropic.claude-v2/invoke":                                                true,
		"/v1/rerank":                                                                       true, "/score": true, "/v1/moderations": true, "/v2/chat": true,
		"/completion": true, "/infill": true, "/generate": true,
		"/v1//chat%2Fcompletions/":  true,
		"/api/chat":                 true,
		"/api/generate":             true,
		"/api/embed":                true,
		"/CHAT/completions":         true,
		"/v1/chat/completions/123":  false,
		"/v1/models":                false,
		"/v1/models/m":              false,
		"/v1/messages/count_tokens": false,
		"/api/tags":                 false,
		"/v1?x=/chat/completions":   false,
		"/v1/files":                 false,
		"/v1/batches":               false,
	} {
		route, ok := request.MatchRoute(cfg.Routes, "POST", path)
		require.Equal(t, governed, ok, path)
		require.Equal(t, governed, retried.MatchString(path), "whether %s is retried", path)
		if governed {
			require.Equal(t, "@models", route.Name)
		}
	}
}
