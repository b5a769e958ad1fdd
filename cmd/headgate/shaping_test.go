package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/admission"
)

func parsedRun(t *testing.T, args ...string) *runPlan {
	t.Helper()
	plan, err := parseRun(terminal{}, append([]string{"--sample"}, args...))
	require.NoError(t, err)
	return plan
}

func TestSwitchesTakeAWordOrNone(t *testing.T) {
	for args, want := range map[string][2]bool{ // headroom, breaker
		"":                    {false, true},
		"--adaptive-headroom": {true, true},
		"--adaptive-headroom on --circuit-breaker off":           {true, false},
		"--adaptive-headroom=on --circuit-breaker=false":         {true, false},
		"-adaptive-headroom true -circuit-breaker off --verbose": {true, false},
		"--circuit-breaker --adaptive-headroom --verbose":        {true, true},
		"--wasm --circuit-breaker --adaptive-headroom off":       {false, true},
	} {
		plan := parsedRun(t, strings.Fields(args)...)
		require.Equal(t, want, [2]bool{plan.shaping.headroom, plan.shaping.breaker}, args)
	}
}

func TestADefaultGivesWayToWhatWasGiven(t *testing.T) {
	plan := parsedRun(t, "--cb-open-timeout", "200s", "--cb-max-penalty", "1s", "--retry-wait-max", "300ms")
	require.Equal(t, 200*time.Second, plan.shaping.maxOpen)
	require.Equal(t, time.Second, plan.shaping.penalty)
	require.Equal(t, 300*time.Millisecond, plan.retries.waitMin)
	require.Equal(t, 300*time.Millisecond, plan.retries.minDelay)
}

// printed is what `headgate run --print-config` prints.
type printedConfig struct {
	Plugin map[string]json.RawMessage
	Envoy  map[string]any
}

func printConfig(t *testing.T, args ...string) printedConfig {
	t.Helper()
	status, out, errs := call("", append([]string{"run", "--upstream", "http://a", "--print-config"}, args...)...)
	require.Empty(t, errs)
	require.Equal(t, 0, status)
	var printed printedConfig
	require.NoError(t, json.Unmarshal([]byte(out), &printed))
	return printed
}

func (p *printedConfig) at(t *testing.T, stage string) *admission.Config {
	t.Helper()
	config, err := admission.ParseConfig(p.Plugin[stage])
	require.NoError(t, err)
	return config
}

func TestPrintConfigShowsWhatTheDefaultsBecome(t *testing.T) {
	printed := printConfig(t)
	require.Len(t, printed.Plugin, 2)
	invocation, attempt := printed.at(t, "invocation"), printed.at(t, "attempt")
	require.Equal(t, admission.StageInvocation, invocation.Stage)
	require.Equal(t, admission.StageAttempt, attempt.Stage)
	attempt.Stage = invocation.Stage
	require.Equal(t, invocation, attempt, "the stages are of one mind")

	require.Len(t, invocation.Pools, 2)
	route, upstream := invocation.Pools[0], invocation.Pools[1]
	require.Equal(t, admission.Pool{Name: "route", Key: []admission.Dimension{admission.DimensionRoute}, Limit: 4, Queue: 100, MaxWait: 30 * admission.Second}, route)
	require.Equal(t, admission.Pool{
		Name: "upstream", Key: route.Key, Per: admission.PerAttempt, Limit: 4, Queue: 4, MaxWait: 30 * admission.Second,
		Hold: admission.Hold{Success: 200 * admission.Millisecond, Cancel: 200 * admission.Millisecond, Failure: 2 * admission.Second},
		Breaker: &admission.Breaker{
			Failures: 5, Window: 30 * admission.Second, Open: 10 * admission.Second, MaxOpen: 120 * admission.Second,
			Penalty: 2 * admission.Second, MaxPenalty: 60 * admission.Second,
		},
	}, upstream)

	require.Equal(t, 4294967295.0, printed.Envoy["retry_policy"].(map[string]any)["num_retries"])
	require.Equal(t, 5242880.0, printed.Envoy["retry_body_bytes"])
	require.Equal(t, "660s", printed.Envoy["stream_idle_timeout"])
}

func TestPrintConfigWithoutRetriesIsOneStageAndOnePool(t *testing.T) {
	printed := printConfig(t, "--retry", "0", "--adaptive-headroom", "--adaptive-headroom-window", "7s", "--circuit-breaker", "off", "--failure-hold", "0")
	require.Len(t, printed.Plugin, 1)
	pools := printed.at(t, "request").Pools
	require.Len(t, pools, 1)
	require.Equal(t, admission.PerInvocation, pools[0].Per)
	require.Nil(t, pools[0].Breaker)
	require.Equal(t, admission.Hold{Success: 200 * admission.Millisecond, Cancel: 200 * admission.Millisecond}, pools[0].Hold)
	require.Equal(t, 7*admission.Second, pools[0].Headroom.Window)
	require.NotContains(t, printed.Envoy, "retry_policy")
	require.Equal(t, "630s", printed.Envoy["stream_idle_timeout"])
}

// With everything off it is what the gateway was before it could protect.
func TestPrintConfigWithEveryProtectionOff(t *testing.T) {
	printed := printConfig(t, "--retry", "0", "--circuit-breaker", "off", "--failure-hold", "0", "--release-cooldown", "0", "--cancel-cooldown", "0")
	require.Equal(t, []admission.Pool{{Name: "route", Key: []admission.Dimension{admission.DimensionRoute}, Limit: 4, Queue: 100, MaxWait: 30 * admission.Second}},
		printed.at(t, "request").Pools)
}

func TestPatternsGetTheConcurrencyAndGroupsShareIt(t *testing.T) {
	printed := printConfig(t, "--limit", "POST /a", "--limit", "/b:7", "--limit", "/c@g", "--limit", "/*:d@g", "--concurrency", "3",
		"--global-concurrency", "5", "--queue", "9")
	for stage := range printed.Plugin {
		config := printed.at(t, stage)
		require.Len(t, config.Pools, 3)
		for _, i := range []int{0, 2} {
			require.Equal(t, map[string]int{"POST /a": 3, "/b": 7, "@g": 3}, config.Pools[i].Keys)
		}
		require.Equal(t, "gateway", config.Pools[1].Name)
		require.Equal(t, 5, config.Pools[1].Limit)
		require.Equal(t, 9, config.Pools[1].Queue)
		require.Equal(t, 7, config.Pools[2].Queue, "a place for each that the route lets through")
	}
}

func TestTheWellKnownAPIsAreGovernedWithoutLimit(t *testing.T) {
	printed := printConfig(t)
	config := printed.at(t, "invocation")
	methods, err := byMethod(routesOf(t, printed.Plugin["invocation"]))
	require.NoError(t, err)
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
		"/v1beta/models/gemini-2.0-flash:generateContent":    true,
		"/v1beta/models/m:streamGenerateContent?alt=sse":     true,
		"/openai/deployments/x/chat/completions?api-version": true,
		"/api/chat":                      true,
		"/api/generate":                  true,
		"/api/embed":                     true,
		"/CHAT/completions":              true,
		"/v1/chat/completions/123":       false,
		"/v1/models":                     false,
		"/v1/models/m":                   false,
		"/v1/messages/count_tokens":      false,
		"/api/tags":                      false,
		"/v1?x=/chat/completions":        false,
		"/v1/models/a/b:generateContent": false,
	} {
		route, ok := config.MatchRoute("POST", path)
		require.Equal(t, governed, ok, path)
		require.Equal(t, governed, retried.MatchString(path), "%s is retried", path)
		if governed {
			require.Equal(t, "@models", route.Name)
		}
	}
}

func routesOf(t *testing.T, plugin []byte) []string {
	t.Helper()
	var config pluginConfig
	require.NoError(t, json.Unmarshal(plugin, &config))
	return config.Routes
}

// Envoy waits for one and a half times a delay at most.
func TestDelaysKeepWithinTheirBounds(t *testing.T) {
	for _, c := range []struct {
		min, waitMin, waitMax time.Duration
		first                 []int
		last                  int
	}{
		{time.Second, 500 * time.Millisecond, 30 * time.Second, []int{1, 1, 2, 4, 8, 16}, 20},
		{5 * time.Second, time.Second, time.Minute, []int{5, 5, 5, 8, 16, 32}, 40},
		{250 * time.Millisecond, time.Millisecond, time.Millisecond, []int{1}, 1},
		{10 * time.Second, 3 * time.Second, 10 * time.Second, []int{10, 10}, 10},
	} {
		r := retries{minDelay: c.min, waitMin: c.waitMin, waitMax: c.waitMax}
		first, last := r.delays()
		require.Equal(t, c.first, first)
		require.Equal(t, c.last, last)
	}
}

func TestRenderRetriesWhatIsGovernedForEachMethod(t *testing.T) {
	rendered := render(t, "envoy", "--upstream", "http://a", "--limit", "POST /a/*.b", "--limit", "/c", "--limit", "POST /d", "--retry", "3", "--retry-skip-429=off")
	path := func(route string) string {
		return at(t, rendered, routesPath+route+"/match/headers/0/string_match/safe_regex/regex")
	}
	require.Equal(t, `(?i)[^?]*/(?:a/[^/?]*\.b|d)(?:\?.*)?`, path("0"))
	require.Equal(t, "POST", at(t, rendered, routesPath+"0/match/headers/2/string_match/exact"))
	require.Equal(t, `(?i)[^?]*/(?:c)(?:\?.*)?`, path("1"))
	for _, route := range []string{"0", "1"} {
		require.Equal(t, "3", at(t, rendered, routesPath+route+"/route/retry_policy/num_retries"))
		require.Equal(t, "429", at(t, rendered, routesPath+route+"/route/retry_policy/retriable_status_codes/0"))
	}
	e := editYAML([]byte(rendered))
	_, anyMethod := e.value(routesPath + "1/match/headers/2")
	_, retried := e.value(routesPath + "2/route/retry_policy")
	require.NoError(t, e.err)
	require.False(t, anyMethod || retried)
}

func TestRenderWithoutRetriesSpeaksOfNone(t *testing.T) {
	rendered := render(t, "envoy", "--upstream", "http://a", "--retry", "0")
	require.NotRegexp(t, `(?i)retr[iy][^e]|second of|two filters|upstream_codec`, strings.ReplaceAll(rendered, "retried without end", ""))
}

func TestRenderDisablesKeepAlives(t *testing.T) {
	rendered := render(t, "envoy", "--upstream", "http://a", "--upstream-disable-keep-alives")
	require.Equal(t, "1", at(t, rendered, protocolPath+"common_http_protocol_options/max_requests_per_connection"))
}

// A failure hold that was given takes the place of a penalty that was not.
func TestFailureHoldTakesTheDefaultPenaltysPlace(t *testing.T) {
	penalty := func(flags ...string) admission.Duration {
		printed := printConfig(t, append(flags, "--retry", "0")...)
		return printed.at(t, "request").Pools[0].Breaker.Penalty
	}
	require.Equal(t, 2*admission.Second, penalty())
	require.Zero(t, penalty("--failure-hold", "5s"))
	require.Equal(t, 3*admission.Second, penalty("--failure-hold", "5s", "--cb-penalty", "3s"))
}
