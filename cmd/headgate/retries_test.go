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

// A provider is a model API that fails as its callers ask it to: x-fail is how often, x-status with what.
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

// triesOf is when the tries of one request came.
func (p *provider) triesOf(id string) []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tries[id]
}

// try sends a request that fails so often, with that status; the reply's body is how many bytes the provider got.
func (h *tool) try(method, path, id string, fails, status int, body io.Reader) (*http.Response, error) {
	request, err := http.NewRequest(method, "http://"+h.printed(gatewayURL)+path, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("x-id", id)
	request.Header.Set("x-fail", strconv.Itoa(fails))
	request.Header.Set("x-status", strconv.Itoa(status))
	return http.DefaultClient.Do(request)
}

// ask is try for a request that gets a reply.
func (h *tool) ask(method, path, id string, fails, status int, body io.Reader) *http.Response {
	h.t.Helper()
	reply, err := h.try(method, path, id, fails, status, body)
	require.NoError(h.t, err)
	h.t.Cleanup(func() { reply.Body.Close() })
	return reply
}

// later is try in the background, for a request whose reply says no more than that it came.
func (h *tool) later(all *sync.WaitGroup, path, id string) {
	all.Go(func() {
		reply, err := h.try("POST", path, id, 0, 0, nil)
		if err != nil || reply.StatusCode != http.StatusOK {
			h.t.Errorf("%s %s: %v %v", path, id, reply, err)
			return
		}
		reply.Body.Close()
	})
}

// ofUnknownLength hides a reader's length, so that its body is sent in chunks.
type ofUnknownLength struct{ io.Reader }

func TestRunRetriesWithAPermitForEachTry(t *testing.T) {
	p := newProvider(t)
	h := runGateway(t, nil, "--upstream", p.URL, "--retry-max-body-mb", "1", "--circuit-breaker", "off", "--failure-hold", "0")
	const chat = "/v1/chat/completions"

	reply := h.ask("POST", chat, "retried", 1, 503, strings.NewReader("{}"))
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
		{"a body of the limit", "POST", chat, 503, strings.NewReader(strings.Repeat("x", 1<<20)), 2},
		{"a body above the limit", "POST", chat, 503, strings.NewReader(strings.Repeat("x", 1<<20+1)), 1},
		{"a short body of unknown length", "POST", chat, 503, ofUnknownLength{strings.NewReader(strings.Repeat("x", 1<<19))}, 2},
		{"a long body of unknown length", "POST", chat, 503, ofUnknownLength{strings.NewReader(strings.Repeat("x", 3<<20))}, 1},
	} {
		want := c.status
		if c.tries > 1 {
			want = http.StatusOK
		}
		reply := h.ask(c.method, c.path, c.what, 1, c.status, c.body)
		require.Equal(t, want, reply.StatusCode, c.what)
		require.Empty(t, reply.Header.Get("x-headgate-reason"), c.what)
		require.Len(t, p.triesOf(c.what), c.tries, c.what)
	}

	// What is too long to be sent twice is still sent once.
	reply = h.ask("POST", chat, "long", 0, 0, strings.NewReader(strings.Repeat("x", 8<<20)))
	require.Equal(t, http.StatusOK, reply.StatusCode)
	require.Equal(t, strconv.Itoa(8<<20), whole(t, reply.Body))
}

// Failures open the breaker; what it refuses is not retried. An interrupt ends what is between two tries.
func TestRunOpensTheBreaker(t *testing.T) {
	p := newProvider(t)
	h := runGateway(t, nil, "--upstream", p.URL, "--cb-threshold", "2", "--cb-penalty", "0", "--failure-hold", "0", "--retry-skip-429", "false",
		"--limit", "/chat/completions@a", "--limit", "/messages", "--limit", "/embeddings")
	reply := h.ask("POST", "/v1/chat/completions", "failing", 100, 429, nil)
	require.Equal(t, http.StatusServiceUnavailable, reply.StatusCode)
	require.Equal(t, "BREAKER_OPEN", reply.Header.Get("x-headgate-reason"))
	require.Equal(t, "upstream", reply.Header.Get("x-headgate-pool"))
	require.Len(t, p.triesOf("failing"), 2)

	reply = h.ask("POST", "/v1/chat/completions", "next", 0, 0, nil)
	require.Equal(t, "BREAKER_OPEN", reply.Header.Get("x-headgate-reason"))
	require.Empty(t, p.triesOf("next"))
	reply = h.ask("POST", "/v1/messages", "another route", 0, 0, nil)
	require.Equal(t, http.StatusOK, reply.StatusCode)

	go func() {
		if reply, err := h.try("POST", "/v1/embeddings", "between two tries", 100, 503, nil); err == nil {
			reply.Body.Close()
		}
	}()
	rig.Eventually(t, endWithin, "its first try has failed", func() bool {
		return strings.Contains(h.numbers(), "wasmcustom.headgate.upstream.provider_failure: 1\n")
	})
	require.NoError(t, h.cmd.Process.Signal(os.Interrupt))
	rig.Eventually(t, endWithin, "headgate has ended", func() bool { return len(h.status) > 0 })
	require.Equal(t, 0, <-h.status)
	require.Empty(t, h.errs.String())
}

// A provider that closes connections on which nothing comes does not cost those who wait their place, or their request.
func TestRunKeepsNoConnectionForThoseWhoWait(t *testing.T) {
	var running, most, served atomic.Int32
	api := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		most.Store(max(most.Load(), running.Add(1)))
		<-time.After(600 * time.Millisecond) // the time a model takes
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
			reply, err := h.try("POST", "/v1/chat/completions", "", 0, 0, strings.NewReader("{}"))
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
		rig.Eventually(t, endWithin, "it has come", func() bool {
			return strings.Contains(h.numbers(), fmt.Sprintf("wasmcustom.headgate.route.evaluated: %d\n", i+1))
		})
	}
	all.Wait()
	require.EqualValues(t, 1, most.Load())
	require.Contains(t, h.numbers(), "wasmcustom.headgate.upstream.evaluated: 5\n")
}

// Who waits for a busy route takes nobody else's part of the common pool.
func TestRunSharesTheGlobalConcurrency(t *testing.T) {
	for _, retry := range []string{"0", "unlimited"} {
		let := make(chan struct{})
		api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.Header.Get("x-id") == "held" {
				<-let
			}
		}))
		h := runGateway(t, nil, "--upstream", api.URL, "--limit", "/a:1", "--limit", "/b:2", "--global-concurrency", "2", "--retry", retry, "--release-cooldown", "0")
		var all sync.WaitGroup
		for range 3 {
			h.later(&all, "/a", "held")
		}
		rig.Eventually(t, endWithin, "one runs and two wait", func() bool {
			return strings.Contains(h.numbers(), "wasmcustom.headgate.route.queued: 2\n") && strings.Contains(h.numbers(), "wasmcustom.headgate.gateway.inflight: 1\n")
		})
		require.Equal(t, http.StatusOK, h.ask("POST", "/b", "free", 0, 0, nil).StatusCode)
		h.later(&all, "/b", "held")
		rig.Eventually(t, endWithin, "two run", func() bool { return strings.Contains(h.numbers(), "wasmcustom.headgate.gateway.inflight: 2\n") })
		h.later(&all, "/b", "third")
		rig.Eventually(t, endWithin, "one waits", func() bool { return strings.Contains(h.numbers(), "wasmcustom.headgate.gateway.queued: 1\n") })
		close(let)
		all.Wait()
		api.Close()
		require.NoError(t, h.cmd.Process.Signal(os.Interrupt))
	}
}
