package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What headgate run does before a provider that fails, with a real Envoy.

const fire = `{"error":{"message":"the engine is on fire"}}`

// startAPI starts a model API that answers as the handler says.
func startAPI(t *testing.T, answer func(n int32, w http.ResponseWriter, r *http.Request)) (*httptest.Server, *atomic.Int32) {
	t.Helper()
	var n atomic.Int32
	api := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		answer(n.Add(1), w, r)
	}))
	api.Config.ReadHeaderTimeout, api.Config.IdleTimeout = time.Second, time.Second // of connections on which nothing comes
	api.Start()
	t.Cleanup(api.Close)
	return api, &n
}

func (h *tool) chat() (status int, reason, body string) {
	h.t.Helper()
	reply := h.mustRequest("POST", "/v1/chat/completions", "", 0, 0, strings.NewReader("{}"))
	return reply.StatusCode, reply.Header.Get("x-headgate-reason"), whole(h.t, reply.Body)
}

// With defaults a failing provider is tried three times, then its own answer goes to the client. The breaker's refusal
// says what the provider last answered.
func TestFinding_B2_AProviderThatAlwaysFails(t *testing.T) {
	api, n := startAPI(t, func(_ int32, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, fire)
	})
	h := runGateway(t, nil, "--upstream", api.URL)
	for _, tries := range []int32{3, 5} { // the fifth failure opens the breaker
		status, reason, body := h.chat()
		require.Equal(t, http.StatusInternalServerError, status)
		require.Empty(t, reason)
		require.Equal(t, fire, body)
		require.Equal(t, tries, n.Load())
	}
	status, reason, body := h.chat()
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, "BREAKER_OPEN", reason)
	require.Contains(t, body, "last with 500")
	require.EqualValues(t, 5, n.Load())
}

// Envoy sends a request again after a reset, and then the breaker refuses it that the reset has opened. The client is
// told that its own request had failed.
func TestTheResetThatOpensTheBreakerIsTold(t *testing.T) {
	h := runGateway(t, nil, "--upstream", resettingUpstream(t), "--cb-threshold", "1")
	for _, says := range []string{"Headgate: an earlier try of this request failed; the upstream has failed too often, so", "Headgate: the upstream has failed too often, so"} {
		status, reason, body := h.chat()
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Equal(t, "BREAKER_OPEN", reason)
		require.Contains(t, body, `"message":"`+says)
	}
}

// Where nothing listens, nothing was sent: the client gets its answer soon, no permit is on hold and no breaker opens.
func TestFinding_B2_AProviderThatNobodyReaches(t *testing.T) {
	api, _ := startAPI(t, nil)
	address := api.URL
	api.Close()
	h := runGateway(t, nil, "--upstream", address, "--concurrency", "1")
	for range 3 {
		began := time.Now()
		status, reason, _ := h.chat()
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Empty(t, reason)
		require.Less(t, time.Since(began), 10*time.Second)
	}
	require.True(t, h.shows("upstream.provider_failure", 0) && h.shows("upstream.on_hold", 0))
}

// A request that must wait for the end of a hold waits before it has a connection, which the provider would close.
func TestFinding_B3_AWaitForAHoldNeedsNoConnection(t *testing.T) {
	api, n := startAPI(t, func(n int32, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			w.Header().Set("retry-after", "3")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	h := runGateway(t, nil, "--upstream", api.URL, "--concurrency", "1", "--retry", "1", "--cb-penalty", "0", "--failure-hold", "500ms")
	status, reason, _ := h.chat()
	require.Equal(t, http.StatusTooManyRequests, status)
	require.Empty(t, reason)
	began := time.Now()
	status, _, _ = h.chat()
	require.Equal(t, http.StatusOK, status)
	require.GreaterOrEqual(t, time.Since(began), 2500*time.Millisecond)
	require.EqualValues(t, 2, n.Load())
	require.True(t, h.shows("upstream.provider_failure", 0), "a 429 has a counter of its own, and nothing else has failed")
	require.True(t, h.shows("upstream.evaluated", 2), "one try for each call")
}

// What the provider calls final is not tried again.
func TestFinding_B4_FinalAnswersReachTheClient(t *testing.T) {
	api, n := startAPI(t, func(_ int32, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("x-should-retry", r.Header.Get("x-id"))
		w.WriteHeader(map[string]int{"false": 500}[r.Header.Get("x-id")] + map[string]int{"": 501}[r.Header.Get("x-id")])
		fmt.Fprint(w, fire)
	})
	h := runGateway(t, nil, "--upstream", api.URL, "--retry", "3")
	for i, c := range []struct {
		id     string
		status int
	}{{"false", 500}, {"", 501}} {
		reply := h.mustRequest("POST", "/v1/chat/completions", c.id, 0, 0, nil)
		require.Equal(t, c.status, reply.StatusCode)
		require.Equal(t, fire, whole(t, reply.Body))
		require.EqualValues(t, i+1, n.Load())
	}
}
