package filter_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// proposal is what the router is told after an answer: whether to try again, and after how many seconds.
func proposal(s *wasmtest.Stream, status int, headers ...string) [2]string {
	s.ResponseHeaders(wasmtest.ResponseHeaders(status, headers...), false)
	h := s.Received().Headers
	return [2]string{h.Get("x-headgate-retry"), h.Get("x-envoy-retry-in")}
}

// retried is two stages, of which the attempts' pool has the given fields.
func retried(t *testing.T, limit int, more ...any) *stages {
	c := twoPools(9, limit)
	attempts := c["pools"].([]object)[1]
	for i := 0; i < len(more); i += 2 {
		attempts[more[i].(string)] = more[i+1]
	}
	return startStages(t, 1, c)
}

func TestFinding_B4_AFinalAnswerIsNotRetried(t *testing.T) {
	for name, c := range map[string]struct {
		status  int
		headers []string
		want    string
	}{
		"500":                    {500, nil, "5xx"},
		"503":                    {503, []string{"x-should-retry", "true"}, "5xx"},
		"500, and it is final":   {500, []string{"x-should-retry", "false"}, ""},
		"501":                    {501, nil, ""},
		"429":                    {429, nil, "429"},
		"429, and it is final":   {429, []string{"x-should-retry", "false"}, ""},
		"403 of a rate limit":    {403, []string{"retry-after", "1"}, ""},
		"404":                    {404, nil, ""},
		"200":                    {200, nil, ""},
		"a word of the provider": {200, []string{"x-headgate-retry", "5xx"}, ""},
		"both":                   {501, []string{"x-headgate-retry", "5xx"}, ""},
	} {
		for _, mode := range []string{"enforce", "shadow"} {
			g := startStages(t, 1, with(twoPools(9, 9), "mode", mode))
			s := g.call(0, "a").try()
			require.Equal(t, [2]string{c.want, ""}, proposal(s, c.status, c.headers...), "%s, %s", name, mode)
		}
	}
}

// The client gets the answer that is there, if another try could have no permit in time.
func TestFinding_B1_NoRetryThatCanHaveNoPermit(t *testing.T) {
	breaker := func(failures int, penalty string) object {
		return breaking(failures, "penalty", penalty, "max_penalty", "1m")
	}
	t.Run("this failure opens the breaker", func(t *testing.T) {
		g := retried(t, 9, "breaker", breaker(2, "0s"))
		s := g.call(0, "a").try()
		require.Equal(t, [2]string{"5xx", ""}, proposal(s, 500))
		s.ResponseBody(nil, true)
		require.Equal(t, [2]string{}, proposal(g.call(0, "a").try(), 500))
	})
	t.Run("the penalty is longer than the wait", func(t *testing.T) {
		g := retried(t, 1, "queue", 3, "max_wait", "3s", "breaker", breaker(9, "2s"))
		s := g.call(0, "a").try()
		require.Equal(t, [2]string{"5xx", "1"}, proposal(s, 500, "x-envoy-retry-in", "1"), "the permit is on hold for 2 s, and Envoy adds up to a half")
		s.ResponseBody(nil, true)
		g.host.Run(3 * second)
		require.Equal(t, [2]string{"", "1"}, proposal(g.call(0, "a").try(), 500, "x-envoy-retry-in", "1"), "for 4 s, and the wait is 3 s")
	})
	t.Run("the delay grows with the penalty", func(t *testing.T) {
		g := retried(t, 1, "queue", 3, "max_wait", "1m", "breaker", breaker(9, "9s"))
		require.Equal(t, [2]string{"5xx", "6"}, proposal(g.call(0, "a").try(), 500, "x-envoy-retry-in", "1"), "with a half more it is 9 s")
	})
	t.Run("a longer delay stays", func(t *testing.T) {
		g := retried(t, 1, "queue", 3, "max_wait", "1m", "breaker", breaker(9, "2s"))
		require.Equal(t, [2]string{"5xx", "7"}, proposal(g.call(0, "a").try(), 500, "x-envoy-retry-in", "7"))
	})
	t.Run("another permit is free", func(t *testing.T) {
		g := retried(t, 2, "queue", 3, "max_wait", "1s", "breaker", breaker(9, "20s"))
		require.Equal(t, [2]string{"5xx", "1"}, proposal(g.call(0, "a").try(), 500, "x-envoy-retry-in", "1"))
	})
	t.Run("the deadline is sooner", func(t *testing.T) {
		g := retried(t, 1, "queue", 3, "max_wait", "1m", "breaker", breaker(9, "8s"))
		require.Equal(t, [2]string{}, proposal(g.call(0, "a", "x-request-timeout-ms", "5000").try(), 500))
	})
}

// What the router is told goes no further.
func TestTheRouterAloneSeesTheProposal(t *testing.T) {
	for _, mode := range []string{"enforce", "shadow"} {
		g := startStages(t, 1, with(twoPools(9, 9), "mode", mode))
		c := g.call(0, "a")
		s := c.try()
		require.Equal(t, "5xx", proposal(s, 500)[0])
		c.ResponseHeaders(s.Received().Headers, true)
		require.False(t, c.Received().Headers.Has("x-headgate-retry"), mode)
	}
}
