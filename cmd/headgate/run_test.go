package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/envoy/rig"
)

// noWasm is any file: these runs end before Envoy would load it.
func noWasm(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "headgate.wasm")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	return path
}

func TestRunSaysThatThePortIsTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	bind := taken.Addr().String()
	startTool(t, nil, "run", "--sample", "--bind", bind, "--wasm", noWasm(t)).requireOneLine(bind + " is taken: choose another with --bind")
}

func TestRunSaysThatEnvoyIsMissing(t *testing.T) {
	h := startTool(t, []string{"ENVOY=/no/such/envoy"}, "run", "--sample", "--bind", "127.0.0.1:0", "--wasm", noWasm(t))
	h.requireOneLine(`no Envoy: \$ENVOY is /no/such/envoy, which is no executable file: point it at an Envoy binary, or unset it`)
}

func TestRunSaysWhyEnvoyDidNotStart(t *testing.T) {
	binary := fakeEnvoy(t, "echo '[2026-01-02 03:04:05.678][7][critical][main] [source/server/server.cc:1] cannot bind: no such luck'; exit 3")
	h := startTool(t, []string{"ENVOY=" + binary}, "run", "--sample", "--bind", "127.0.0.1:0", "--wasm", noWasm(t))
	h.requireOneLine(`Envoy did not start \(exit status 3\): cannot bind: no such luck \(Envoy's log: \S+/envoy\.log\)`)
}

func TestRunKillsAnEnvoyThatDoesNotStop(t *testing.T) {
	started := filepath.Join(t.TempDir(), "started")
	binary := fakeEnvoy(t, "trap '' TERM; : >"+started+"; while :; do sleep 1; done")
	h := startTool(t, []string{"ENVOY=" + binary}, "run", "--sample", "--bind", "127.0.0.1:0", "--wasm", noWasm(t))
	rig.Eventually(t, startWithin, "Envoy has started", func() bool { _, err := os.Stat(started); return err == nil })
	require.NoError(t, h.cmd.Process.Signal(os.Interrupt))
	rig.Eventually(t, endWithin, "headgate has ended", func() bool { return len(h.status) > 0 })
	require.Equal(t, 0, <-h.status)
	require.Empty(t, h.errs.String())
}

func TestRunLeadsToTheUpstreamsHostAndBasePath(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s %s", r.Method, r.Host, r.URL.RequestURI())
	}))
	defer api.Close()
	port := loopbackPort(t, api.Listener)

	h := runGateway(t, nil, "--upstream", fmt.Sprintf("http://localhost:%d/base", port))
	reply := h.send("/v1/chat/completions?a=b", false)
	require.Equal(t, fmt.Sprintf("POST localhost:%d /base/v1/chat/completions?a=b", port), whole(t, reply.Body))
	require.Contains(t, h.numbers(), "wasmcustom.headgate.route.admitted: 1\n")
}

// The sample's limits are 2 at once and 3 waiting; an interrupt cuts what runs, and all of it ends.
func TestRunSampleShowsTheLimitsAndEndsOnInterrupt(t *testing.T) {
	h := runGateway(t, nil, "--sample")
	for range 2 {
		reply := h.send("/v1/chat/completions", true)
		require.Equal(t, http.StatusOK, reply.StatusCode)
		require.Contains(t, firstEvent(t, reply.Body), "data: {")
	}
	for waiting := 1; waiting <= 3; waiting++ {
		go func() {
			if reply, err := h.post("/v1/chat/completions", true); err == nil {
				reply.Body.Close() // cut before it was let in: nobody needs it
			}
		}()
		rig.Eventually(t, endWithin, fmt.Sprintf("%d wait", waiting), func() bool { return h.shows("queued", waiting) })
	}
	refused := h.send("/v1/chat/completions", true)
	require.Equal(t, http.StatusTooManyRequests, refused.StatusCode)
	require.Equal(t, "ADMISSION_REJECTED", refused.Header.Get("x-headgate-reason"))
	require.True(t, h.shows("inflight", 2))

	require.NoError(t, h.cmd.Process.Signal(os.Interrupt))
	h.requireEnded(0)
}

func (h *tool) shows(gauge string, n int) bool {
	return strings.Contains(h.numbers(), fmt.Sprintf("wasmcustom.headgate.route.%s: %d\n", gauge, n))
}

// A Ctrl-C in a terminal reaches the whole group, once.
func TestRunEndsOnAnInterruptOfItsGroup(t *testing.T) {
	h := runGateway(t, nil, "--sample")
	require.NoError(t, syscall.Kill(-h.cmd.Process.Pid, syscall.SIGINT))
	h.requireEnded(0)
}
