package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/envoy/rig"
)

// A provider is a model API that fails as its callers ask it to. x-fail says how many tries of a request fail, and
// x-status with which status.
type provider struct {
	*httptest.Server
	mu    sync.Mutex
	tries map[string][]time.Time // by x-id
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{tries: map[string][]time.Time{}}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, _ := io.Copy(io.Discard, r.Body)
	id := r.Header.Get("x-id")
	p.mu.Lock()
	p.tries[id] = append(p.tries[id], time.Now())
	try := len(p.tries[id])
	p.mu.Unlock()
	if fails, _ := strconv.Atoi(r.Header.Get("x-fail")); try <= fails {
		status, _ := strconv.Atoi(r.Header.Get("x-status"))
		w.WriteHeader(status)
		return
	}
	fmt.Fprint(w, n)
}

// triesOf returns when the tries of one request came.
func (p *provider) triesOf(id string) []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tries[id]
}

// request sends a request whose first tries fail, as many as fails says, with that status. The reply's body is the
// number of bytes that the provider got.
func (h *tool) request(method, path, id string, fails, status int, body io.Reader) (*http.Response, error) {
	request, err := http.NewRequest(method, "http://"+h.printed(gatewayURL)+path, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("x-id", id)
	request.Header.Set("x-fail", strconv.Itoa(fails))
	request.Header.Set("x-status", strconv.Itoa(status))
	return http.DefaultClient.Do(request)
}

// mustRequest is request for a request that gets a reply.
func (h *tool) mustRequest(method, path, id string, fails, status int, body io.Reader) *http.Response {
	h.t.Helper()
	reply, err := h.request(method, path, id, fails, status, body)
	require.NoError(h.t, err)
	h.t.Cleanup(func() { reply.Body.Close() })
	return reply
}

// requestInBackground sends a request and only checks that its reply is a 200.
func (h *tool) requestInBackground(all *sync.WaitGroup, path, id string) {
	all.Go(func() {
		reply, err := h.request("POST", path, id, 0, 0, nil)
		if err != nil || reply.StatusCode != http.StatusOK {
			h.t.Errorf("%s %s: %v %v", path, id, reply, err)
			return
		}
		reply.Body.Close()
	})
}

// bodyOf is a body of n bytes.
func bodyOf(n int) io.Reader { return strings.NewReader(strings.Repeat("x", n)) }

// ofUnknownLength hides a reader's length. The body is then sent in chunks.
type ofUnknownLength struct{ io.Reader }

func TestRunRetriesWithAPermitForEachTry(t *testing.T) {
	p := newProvider(t)
	h := runGateway(t, nil, "--upstream", p.URL, "--retry-max-body-mb", "1",
		"--circuit-breaker", "off", "--failure-hold", "0")
	const chat = "/v1/chat/completions"

	reply := h.mustRequest("POST", chat, "retried", 1, 503, strings.NewReader("{}"))
	require.Equal(t, http.StatusOK, reply.StatusCode)
	require.Equal(t, "2", whole(t, reply.Body), "the body is sent again")
	require.Empty(t, reply.Header.Get("x-envoy-retry-in"))
	tries := p.triesOf("retried")
	require.Len(t, tries, 2)
	require.GreaterOrEqual(t, tries[1].Sub(tries[0]), time.Second, "the least delay")
	require.Contains(t, h.numbers(), "wasmcustom.headgate.route.admitted: 1\n")
	require.Contains(t, h.numbers(), "wasmcustom.headgate.upstream.admitted: 2\n")
	require.Contains(t, h.numbers(), "wasmcustom.headgate.upstream.provider_failure: 1\n")

	for _, c := range []struct {
		what, method, path string
		status             int
		body               io.Reader
		tries              int
	}{
		{"a 429", "POST", chat, 429, nil, 1},
		{"a client's error", "POST", chat, 400, nil, 1},
		{"ungoverned: the path", "POST", "/v1/files", 503, nil, 1},
		{"ungoverned: the method", "GET", chat, 503, nil, 1},
		{"a body of the limit", "POST", chat, 503, bodyOf(1 << 20), 2},
		{"a body above the limit", "POST", chat, 503, bodyOf(1<<20 + 1), 1},
		{"a short body of unknown length", "POST", chat, 503, ofUnknownLength{bodyOf(1 << 19)}, 2},
		{"a long body of unknown length", "POST", chat, 503, ofUnknownLength{bodyOf(3 << 20)}, 1},
	} {
		want := c.status
		if c.tries > 1 {
			want = http.StatusOK
		}
		reply := h.mustRequest(c.method, c.path, c.what, 1, c.status, c.body)
		require.Equal(t, want, reply.StatusCode, c.what)
		require.Empty(t, reply.Header.Get("x-headgate-reason"), c.what)
		require.Len(t, p.triesOf(c.what), c.tries, c.what)
	}

	// A body that is too long for a retry is still sent once.
	reply = h.mustRequest("POST", chat, "long", 0, 0, bodyOf(8<<20))
	require.Equal(t, http.StatusOK, reply.StatusCode)
	require.Equal(t, strconv.Itoa(8<<20), whole(t, reply.Body))
}

// Failures open the breaker, and a request that it refuses is not retried. A second interrupt ends a request between
// two tries.
func TestRunOpensTheBreaker(t *testing.T) {
	p := newProvider(t)
	h := runGateway(t, nil, "--upstream", p.URL, "--retry-skip-429", "false",
		"--cb-threshold", "2", "--cb-penalty", "0", "--failure-hold", "0",
		"--limit", "/chat/completions@a", "--limit", "/messages", "--limit", "/embeddings")
	reply := h.mustRequest("POST", "/v1/chat/completions", "failing", 100, 429, nil)
	require.Equal(t, http.StatusTooManyRequests, reply.StatusCode, "the upstream's own answer")
	require.Empty(t, reply.Header.Get("x-headgate-reason"))
	require.Empty(t, reply.Header.Get("x-headgate-retry"), "it is for Envoy's router")
	require.Len(t, p.triesOf("failing"), 2)

	reply = h.mustRequest("POST", "/v1/chat/completions", "next", 0, 0, nil)
	require.Equal(t, http.StatusServiceUnavailable, reply.StatusCode)
	require.Equal(t, "BREAKER_OPEN", reply.Header.Get("x-headgate-reason"))
	require.Equal(t, "upstream", reply.Header.Get("x-headgate-pool"))
	require.Empty(t, p.triesOf("next"))
	reply = h.mustRequest("POST", "/v1/messages", "another route", 0, 0, nil)
	require.Equal(t, http.StatusOK, reply.StatusCode)

	go func() {
		if reply, err := h.request("POST", "/v1/embeddings", "between two tries", 100, 503, nil); err == nil {
			reply.Body.Close()
		}
	}()
	rig.Eventually(t, endWithin, "its first try has failed", func() bool {
		return h.shows("upstream.provider_failure", 1)
	})
	require.NoError(t, h.cmd.Process.Signal(os.Interrupt))
	h.eventuallySays(t, "requests that run or wait: 1.")
	require.NoError(t, h.cmd.Process.Signal(os.Interrupt))
	rig.Eventually(t, endWithin, "headgate has ended", func() bool { return len(h.status) > 0 })
	require.Equal(t, 0, <-h.status)
}

// A provider may close connections on which nothing comes. A request that waits loses neither its place nor itself by
// that.
func TestRunOpensNoConnectionForARequestThatWaits(t *testing.T) {
	var running, most, served atomic.Int32
	api := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		most.Store(max(most.Load(), running.Add(1)))
		<-time.After(600 * time.Millisecond) // the model works
		running.Add(-1)
		fmt.Fprint(w, served.Add(1))
	}))
	api.Config.ReadHeaderTimeout, api.Config.IdleTimeout = 300*time.Millisecond, 300*time.Millisecond
	api.Start()
	defer api.Close()
	h := runGateway(t, nil, "--upstream", api.URL, "--retry", "1", "--concurrency", "1", "--release-cooldown", "50ms")
	var all sync.WaitGroup
	for i := range 5 {
		all.Go(func() {
			reply, err := h.request("POST", "/v1/chat/completions", "", 0, 0, strings.NewReader("{}"))
			if err != nil {
				t.Error(err)
				return
			}
			defer reply.Body.Close()
			got, err := io.ReadAll(reply.Body)
			if err != nil || reply.StatusCode != http.StatusOK || string(got) != strconv.Itoa(i+1) {
				t.Errorf("number %d: %d, %q, %v", i+1, reply.StatusCode, got, err)
			}
		})
		rig.Eventually(t, endWithin, "the request has come", func() bool {
			return h.shows("route.evaluated", i+1)
		})
	}
	all.Wait()
	require.EqualValues(t, 1, most.Load())
	require.Contains(t, h.numbers(), "wasmcustom.headgate.upstream.evaluated: 5\n")
}

// A request that waits for a busy route takes no permit of the common pool.
func TestRunSharesTheGlobalConcurrency(t *testing.T) {
	for _, retry := range []string{"0", "unlimited"} {
		finish := make(chan struct{})
		api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.Header.Get("x-id") == "held" {
				<-finish
			}
		}))
		h := runGateway(t, nil, "--upstream", api.URL, "--limit", "/a:1", "--limit", "/b:2", "--global-concurrency", "2",
			"--retry", retry, "--release-cooldown", "0")
		var all sync.WaitGroup
		for range 3 {
			h.requestInBackground(&all, "/a", "held")
		}
		rig.Eventually(t, endWithin, "one runs and two wait", func() bool {
			return h.shows("route.queued", 2) && h.shows("gateway.inflight", 1)
		})
		require.Equal(t, http.StatusOK, h.mustRequest("POST", "/b", "free", 0, 0, nil).StatusCode)
		h.requestInBackground(&all, "/b", "held")
		rig.Eventually(t, endWithin, "two run", func() bool { return h.shows("gateway.inflight", 2) })
		h.requestInBackground(&all, "/b", "third")
		rig.Eventually(t, endWithin, "one waits", func() bool { return h.shows("gateway.queued", 1) })
		close(finish)
		all.Wait()
		api.Close()
		require.NoError(t, h.cmd.Process.Signal(os.Interrupt))
	}
}

// Envoy adds up to half of a delay. The sum keeps within --retry-wait-max, where the least delay allows it.
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
