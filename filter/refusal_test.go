package filter_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// A refusal says who speaks, which pool it is about, and when to come back, in the form that the API's clients parse.
func TestFinding_D2_RefusalsInTheFormOfTheAPI(t *testing.T) {
	limited := refusalTypes{"rate_limited", "ADMISSION_REJECTED", "rate_limit_error", 429, "RESOURCE_EXHAUSTED"}
	open := refusalTypes{"unavailable", "BREAKER_OPEN", "overloaded_error", 503, "UNAVAILABLE"}
	for path, form := range map[string]func(message string, r refusalTypes) string{
		"/v1/chat/completions": func(message string, r refusalTypes) string {
			return fmt.Sprintf(`{"error":{"message":%q,"type":%q,"code":%q,"param":null}}`, message, r.kind, r.reason)
		},
		"/v1/messages": func(message string, r refusalTypes) string {
			return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q}}`, r.anthropic, message)
		},
		"/v1beta/models/gemini-2.0:generateContent": func(message string, r refusalTypes) string {
			return fmt.Sprintf(`{"error":{"code":%d,"message":%q,"status":%q}}`, r.status, message, r.google)
		},
	} {
		t.Run(path, func(t *testing.T) {
			c := config(pool("model", 1, "keys", object{"shut": object{"limit": 0}}, "breaker", breaking(1)))
			c["routes"] = []string{"POST " + path}
			g := start(t, 1, c)
			send := func(model string) *wasmtest.Stream {
				s := g.plugin.Stream(0)
				s.RequestHeaders(wasmtest.RequestHeaders("POST", path, "x-model", model), true)
				return s
			}
			check := func(s *wasmtest.Stream, message string, types refusalTypes) {
				t.Helper()
				r := s.LocalReply()
				require.NotNil(t, r, stateOf(s))
				if r.Headers.Get("x-should-retry") == "" {
					message += "; retry in " + r.Headers.Get("retry-after") + " s"
				}
				require.JSONEq(t, form(message, types), string(r.Body))
			}
			g.requireRunning(send("m"), "the first")
			check(send("m"), `Headgate: pool "model" is full`, limited)
			check(send("shut"), `Headgate: pool "model" is closed`, limited)
			answer(502)(send("broken"))
			check(send("broken"), `Headgate: the upstream has failed too often (last with 502), so the breaker of pool "model" is open`, open)
		})
	}
}

// A client never sees how the tries before the last one ended. The refusal of a further try says that there was one.
func TestTheRefusalOfARetrySaysThatAnEarlierTryFailed(t *testing.T) {
	g := startStages(t, 1, twoPools(9, 0))
	for try, says := range map[int]string{1: `Headgate: pool "model" is closed`, 2: `Headgate: an earlier try of this request failed; pool "model" is closed`} {
		c := g.call(0, "a")
		c.Request().SetProperty(try, "upstream", "request_attempt_count")
		refused := c.try().LocalReply()
		require.NotNil(t, refused)
		require.Contains(t, string(refused.Body), `"message":`+fmt.Sprintf("%q", says)+`,`)
	}
}

type refusalTypes struct {
	kind, reason, anthropic string
	status                  int
	google                  string
}

// The refusal that docs/configuration.md shows is a real one, but for the seconds.
func TestFinding_D1_TheShownRefusalIsReal(t *testing.T) {
	page, err := os.ReadFile("../docs/configuration.md")
	require.NoError(t, err)
	_, shown, found := strings.Cut(string(page), "```http\n")
	require.True(t, found)
	shown, _, _ = strings.Cut(shown, "```")
	head, body, _ := strings.Cut(shown, "\n\n")
	g := start(t, 1, config(pool("model", 1)))
	g.sendModel(0, "m")
	r := g.sendModel(0, "m").LocalReply()
	seconds := r.Headers.Get("retry-after")
	want := "HTTP/1.1 429 Too Many Requests"
	for _, h := range r.Headers {
		want += "\n" + h.Name + ": " + h.Value
	}
	require.Equal(t, strings.Replace(want, "retry-after: "+seconds, "retry-after: 2", 1), head)
	require.Equal(t, strings.Replace(string(r.Body), "in "+seconds+" s", "in 2 s", 1), strings.TrimSpace(body))
}

// To come back to a closed pool is no use.
func TestFinding_D3_AClosedPoolSaysSo(t *testing.T) {
	g := start(t, 1, config(pool("model", 0, "queue", 5, "max_wait", "5s")))
	s := g.sendModel(0, "m")
	g.requireRefused(s, noPermit, "model", "a request to a closed pool")
	require.Equal(t, "false", s.LocalReply().Headers.Get("x-should-retry"))
	require.Equal(t, "60", s.LocalReply().Headers.Get("retry-after"))
	require.NotRegexp(t, "full|queue|retry", string(s.LocalReply().Body))
}

// Clients that are refused together don't come back together.
func TestFinding_A3_RetryAfterIsSpread(t *testing.T) {
	g := start(t, 1, config(pool("model", 1, "hold", object{"success": "20s"})))
	g.sendModel(0, "m").Respond(200, "ok")
	told := map[int]int{}
	for range 300 {
		r := g.sendModel(0, "m").LocalReply()
		g.requireRetryAfter(20, r, "one of three hundred")
		seconds, _ := strconv.Atoi(r.Headers.Get("retry-after"))
		told[seconds]++
	}
	require.Len(t, told, 11, "20 to 30 s")
}
