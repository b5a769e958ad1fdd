package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/envoy/rig"
)

// runWithOneWaiting starts a gateway whose pool route has a limit of 1, one request that runs and one that waits.
func runWithOneWaiting(t *testing.T, api *heldAPI, flags ...string) (h *tool, running, waiting <-chan int) {
	t.Helper()
	h = runGateway(t, nil, append([]string{"--upstream", api.URL}, flags...)...)
	running = h.holdUntilRunning(t, api, 1)
	waiting = h.hold(t)
	rig.Eventually(t, endWithin, "one waits", func() bool { return h.shows("route.queued", 1) })
	return h, running, waiting
}

func TestFinding_C6_WhatRunsAndWaitsFinishesAndNothingNewIsAccepted(t *testing.T) {
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		api := newHeldAPI(t)
		h, running, waiting := runWithOneWaiting(t, api, "--concurrency", "1")
		require.NoError(t, h.cmd.Process.Signal(signal))
		h.eventuallySays(t, "requests that run or wait: 2. They have 30s to finish")
		rig.Eventually(t, endWithin, "a new connection is refused", func() bool {
			connection, err := net.Dial("tcp", h.printed(gatewayURL))
			if err == nil {
				connection.Close()
			}
			return err != nil
		})
		require.Equal(t, int32(1), api.running.Load())
		close(api.release)
		require.Equal(t, http.StatusOK, <-running)
		require.Equal(t, http.StatusOK, <-waiting)
		h.requireEnded(0, `^headgate: requests that run or wait: .*\n$`)
	}
}

func TestFinding_C6_ASecondSignalEndsAtOnce(t *testing.T) {
	h, running, waiting := runWithOneWaiting(t, newHeldAPI(t), "--concurrency", "1", "--drain", "1h")
	require.NoError(t, h.cmd.Process.Signal(syscall.SIGTERM))
	h.eventuallySays(t, "They have 1h to finish")
	require.NoError(t, h.cmd.Process.Signal(syscall.SIGTERM))
	h.requireEnded(0, `^headgate: requests that run or wait: .*\n$`)
	require.NotEqual(t, http.StatusOK, <-running)
	require.NotEqual(t, http.StatusOK, <-waiting)
}

func TestFinding_C6_WhatDoesNotFinishInTimeIsEnded(t *testing.T) {
	for name, more := range map[string][]string{
		"flags": {"--concurrency", "1"}, "no retries": {"--concurrency", "1", "--retry", "0"},
		"a file": {"--config", writePlugin(t, "plugin.json", `{"pools": [{"name": "route", "limit": 1, "queue": 5}]}`)},
	} {
		h, running, waiting := runWithOneWaiting(t, newHeldAPI(t), append(more, "--drain", "400ms")...)
		require.NoError(t, h.cmd.Process.Signal(syscall.SIGTERM))
		h.requireEnded(0, `\nheadgate: requests that had not ended after 400ms: 2\. Those without an answer get a 503 now, and the others are cut\n$`)
		require.Equal(t, http.StatusServiceUnavailable, <-running, name)
		require.Equal(t, http.StatusServiceUnavailable, <-waiting, name)
	}
}

// A request without an answer gets one that says why, and when to come back. One whose answer has begun is cut.
func TestWhatIsLeftAfterADrainIsAnsweredOrCut(t *testing.T) {
	api, _ := startAPI(t, func(_ int32, w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/begun") {
			fmt.Fprint(w, "begun")
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	})
	h := runGateway(t, nil, "--upstream", api.URL, "--drain", "400ms", "--cors", "*")
	begun := h.send("/begun", false)
	answered := make(chan *http.Response)
	go func() {
		reply, err := h.post("/v1/embeddings", false)
		if err != nil {
			t.Error(err)
		}
		answered <- reply
	}()
	rig.Eventually(t, endWithin, "it runs", func() bool { return h.shows("upstream.inflight", 1) })
	require.NoError(t, h.cmd.Process.Signal(syscall.SIGTERM))
	reply := <-answered
	require.NotNil(t, reply)
	defer reply.Body.Close()
	require.Equal(t, "1", reply.Header.Get("retry-after"))
	require.Equal(t, "GATEWAY_ENDING", requireGatewayReply(t, reply, http.StatusServiceUnavailable, "the gateway ends"))
	text, err := io.ReadAll(begun.Body)
	require.Error(t, err)
	require.Equal(t, "begun", string(text))
	require.Zero(t, <-h.status)
}

func TestFinding_C6_WithoutADrainASignalEndsAtOnce(t *testing.T) {
	h, running, _ := runWithOneWaiting(t, newHeldAPI(t), "--concurrency", "1", "--drain", "0")
	require.NoError(t, h.cmd.Process.Signal(syscall.SIGTERM))
	h.requireEnded(0, nothing)
	require.NotEqual(t, http.StatusOK, <-running)
}

// A client that keeps its connection is told to come back on another one.
func TestFinding_C6_AnOpenConnectionIsClosedAfterItsNextAnswer(t *testing.T) {
	api := newHeldAPI(t)
	h := runGateway(t, nil, "--upstream", api.URL)
	running := h.holdUntilRunning(t, api, 1)
	client := http.Client{Transport: &http.Transport{}, Timeout: time.Minute}
	get := func() *http.Response {
		reply, err := client.Get("http://" + h.printed(gatewayURL) + "/v1/models")
		require.NoError(t, err)
		whole(t, reply.Body)
		reply.Body.Close()
		return reply
	}
	require.False(t, get().Close)
	require.NoError(t, h.cmd.Process.Signal(syscall.SIGTERM))
	h.eventuallySays(t, "nothing new is accepted")
	require.True(t, get().Close)
	close(api.release)
	require.Equal(t, http.StatusOK, <-running)
}

// A signal that comes while Envoy starts has nothing to wait for.
func TestFinding_C6_ASignalDuringTheStartEndsAtOnce(t *testing.T) {
	h := startWithEnvoy(t, fakeEnvoy(t, "echo started >&2; exec sleep 1000"))
	rig.Eventually(t, startWithin, "Envoy has started", func() bool {
		logs, err := os.ReadDir(h.tmp)
		return err == nil && len(logs) > 0
	})
	require.NoError(t, h.cmd.Process.Signal(syscall.SIGTERM))
	rig.Eventually(t, endWithin, "headgate has ended", func() bool { return len(h.status) > 0 })
	require.Equal(t, 0, <-h.status)
}
