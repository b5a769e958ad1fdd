package filter_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

func TestRefusalForGRPC(t *testing.T) {
	g := start(t, 1, config(pool("model", 1)))
	g.sendModel(0, "m")
	s := g.send(0, "x-model", "m", "content-type", "application/grpc+proto")
	require.NotNil(t, s.LocalReply())
	require.Equal(t, 8, s.LocalReply().GRPCStatus)
	require.NotContains(t, string(s.LocalReply().Body), "{")
}

func TestHeadgatesOwnHeadersFromAClientGoNowhere(t *testing.T) {
	g := start(t, 1, config(pool("model", 1)))
	s := g.send(0, "x-model", "m", "x-headgate-permit", "1", "x-other", "2")
	h := s.Forwarded().Headers
	require.False(t, h.Has("x-headgate-permit"))
	require.True(t, h.Has("x-other"))
}

func TestAccessLogIsTold(t *testing.T) {
	g := start(t, 1, config(pool("model", 1, "queue", 1, "max_wait", "1s")))
	told := func(s *wasmtest.Stream) string { v, _ := s.Request().FilterState("headgate"); return string(v) }
	a := g.sendModel(0, "m")
	require.JSONEq(t, `{"outcome":"admitted","pool":"model","wait_ms":0,"attempts":1}`, told(a))
	w := g.sendModel(0, "m")
	r := g.sendModel(0, "m")
	require.JSONEq(t, `{"outcome":"rejected","pool":"model","wait_ms":0,"attempts":1}`, told(r))
	g.host.Run(250 * ms)
	a.Respond(200, "ok")
	g.host.Drain()
	require.JSONEq(t, `{"outcome":"admitted","pool":"model","wait_ms":250,"attempts":1}`, told(w))
}

func TestUpstreamCannotSpeakForHeadgate(t *testing.T) {
	g := start(t, 1, config(pool("model", 1)))
	s := g.sendModel(0, "m")
	s.ResponseHeaders(wasmtest.ResponseHeaders(200, "x-headgate-reason", "SPOOF", "x-headgate-pool", "p", "x-other", "1"), false)
	h := s.Received().Headers
	require.False(t, h.Has("x-headgate-reason") || h.Has("x-headgate-pool"))
	require.True(t, h.Has("x-other"))
}

func TestUpstreamCannotSpeakForHeadgateWhereNoPoolApplies(t *testing.T) {
	g := start(t, 1, config(pool("model", 4, "match", object{"model": []string{"another"}})))
	s := g.sendModel(0, "m")
	s.ResponseHeaders(wasmtest.ResponseHeaders(200, "x-headgate-reason", "FORGED"), true)
	require.False(t, s.Received().Headers.Has("x-headgate-reason"))
}

func TestOwnHeadersAreRemovedInBothStages(t *testing.T) {
	c := twoPools(9, 9)
	c["identity"].(object)["class"] = []object{{"header": "x-headgate-class", "trusted": true}}
	g := startStages(t, 1, c)
	own := []string{"x-headgate-permit", "1", "x-headgate-", "2", "x-headgate-invocation", "3", "x-headgate-invocation", "4", "x-headgate-class", "batch",
		"x-headgate-" + strings.Repeat("y", 300), "5"}
	kept := []string{"x-headgate", "1", "x-headgates-1", "2", "headgate-x", "3", "xx-headgate-a", "4", "x-head", "5", "y-headgate-1", "6"}
	check := func(h wasmtest.Headers) {
		t.Helper()
		for i := 0; i < len(own); i += 2 {
			require.False(t, h.Has(own[i]), own[i])
		}
		for i := 0; i < len(kept); i += 2 {
			require.True(t, h.Has(kept[i]), kept[i])
		}
	}
	s := g.call(0, "a", append(own, kept...)...)
	check(s.Forwarded().Headers)
	h := append(s.Forwarded().Headers, wasmtest.HeadersOf(own...)...) // put there by something in between
	a := g.attempts.Stream(0, wasmtest.Upstream(), wasmtest.OfRequest(s.Request()))
	a.RequestHeaders(h, true)
	check(a.Forwarded().Headers)
	require.Equal(t, "batch", g.handed(s.Stream).class, "one that the configuration names is read before it is removed")
}

func TestAccessLogIsToldWhichTryItWas(t *testing.T) {
	g := startStages(t, 1, twoPools(1, 1))
	c := g.call(0, "a")
	c.Request().SetProperty(2, "upstream", "request_attempt_count")
	c.try()
	told, _ := c.Request().FilterState("headgate")
	require.JSONEq(t, `{"outcome":"admitted","pool":"model","wait_ms":0,"attempts":2}`, string(told))
}

// A client that Envoy calls internal could make its router send one request many times, on one permit.
func TestFinding_C11_NoRequestIsSentMoreThanOnce(t *testing.T) {
	router := []string{"x-envoy-retry-on", "5xx", "x-envoy-retry-grpc-on", "internal", "x-envoy-max-retries", "9", "x-envoy-retriable-status-codes", "418",
		"x-envoy-retriable-header-names", "x-again", "x-envoy-hedge-on-per-try-timeout", "true", "x-envoy-upstream-rq-per-try-timeout-ms", "9"}
	other := []string{"x-envoy-upstream-rq-timeout-ms", "5000", "x-envoy-decorator-operation", "a", "x-envoy-retry", "b", "x-e", "c"}
	check := func(g *gateway, stage, path string, loses bool) {
		t.Helper()
		s := g.plugin.Stream(0)
		s.RequestHeaders(wasmtest.RequestHeaders("POST", path, append(append([]string{"x-model", "m"}, router...), other...)...), true)
		h := s.Forwarded().Headers
		for i := 0; i < len(router); i += 2 {
			require.Equal(t, !loses, h.Has(router[i]), "%s %s %s", stage, path, router[i])
		}
		for i := 0; i < len(other); i += 2 {
			require.True(t, h.Has(other[i]), other[i])
		}
	}
	for _, stage := range []string{"request", "invocation"} {
		c := with(config(pool("model", 99)), "stage", stage)
		c["routes"] = []string{"POST /chat/completions"}
		check(start(t, 1, c), stage, "/v1/chat/completions", true)
		check(start(t, 1, c), stage, "/v1/files", false)
		check(start(t, 1, shadow(c)), "shadow", "/v1/chat/completions", false)
	}
	check(start(t, 1, with(config(pool("model", 99, "per", "attempt")), "stage", "attempt")), "attempt", "/v1/chat/completions", false)
}
