package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/envoy/rig"
)

// emptyModule is an empty file in place of the module, for runs that end before Envoy loads it.
func emptyModule(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "headgate.wasm")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	return path
}

// startWithEnvoy starts `headgate run` with that program as Envoy, and without a module.
func startWithEnvoy(t *testing.T, binary string) *tool {
	t.Helper()
	return startTool(t, []string{"ENVOY=" + binary}, "run", "--sample", "--bind", "127.0.0.1:0", "--wasm", emptyModule(t))
}

func TestRunSaysThatThePortIsTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	bind := taken.Addr().String()
	h := startTool(t, nil, "run", "--sample", "--bind", bind, "--wasm", emptyModule(t))
	h.requireOneLine(bind + " is taken: choose another with --bind")
}

func TestRunSaysThatEnvoyIsMissing(t *testing.T) {
	h := startWithEnvoy(t, "/no/such/envoy")
	h.requireOneLine(`no Envoy: \$ENVOY is /no/such/envoy, which is no executable file: ` +
		`point it at an Envoy binary, or unset it`)
}

func TestRunSaysWhyEnvoyDidNotStart(t *testing.T) {
	const line = "[2026-01-02 03:04:05.678][7][critical][main] [source/server/server.cc:1] cannot bind: port taken"
	h := startWithEnvoy(t, fakeEnvoy(t, "echo '"+line+"'; exit 3"))
	h.requireOneLine(`Envoy did not start \(exit status 3\): cannot bind: port taken \(Envoy's log: \S+/envoy\.log\)`)
}

func TestFinding_D11_AKilledEnvoyIsToldWithWhatThatOftenMeans(t *testing.T) {
	const deprecated = "[2026-01-02 03:04:05.678][7][warning][misc] [a.cc:1] Deprecated field: type Route Using deprecated option"
	for signal, meaning := range map[string]string{
		"KILL": `signal: killed\): often the system had no memory left for it; ` + "`dmesg`" + `, or the events of its container, say so`,
		"TERM": `signal: terminated\): somebody has ended it, but not headgate`,
		"SEGV": `signal: segmentation fault( \(core dumped\))?\): it crashed, and its log has the place`,
	} {
		h := startWithEnvoy(t, fakeEnvoy(t, "echo '"+deprecated+"'; kill -"+signal+" $$"))
		h.requireOneLine(`Envoy did not start \(` + meaning + ` \(Envoy's log: \S+/envoy\.log\)`)
	}
	h := startWithEnvoy(t, fakeEnvoy(t, "exit 137"))
	h.requireOneLine(`Envoy did not start \(exit status 137\): often the system had no memory left .*`)
	h = startWithEnvoy(t, fakeEnvoy(t, "echo '"+deprecated+"'; exit 1"))
	h.requireOneLine(`Envoy did not start \(exit status 1\): its log has no reason .*`)
}

func TestRunKillsAnEnvoyThatDoesNotStop(t *testing.T) {
	started := filepath.Join(t.TempDir(), "started")
	binary := fakeEnvoy(t, "trap '' TERM; : >"+started+"; while :; do sleep 1; done")
	h := startWithEnvoy(t, binary)
	rig.Eventually(t, startWithin, "Envoy has started", func() bool { _, err := os.Stat(started); return err == nil })
	require.NoError(t, h.cmd.Process.Signal(os.Interrupt))
	rig.Eventually(t, endWithin, "headgate has ended", func() bool { return len(h.status) > 0 })
	require.Equal(t, 0, <-h.status)
	require.Empty(t, h.said())
}

func TestRunUsesTheUpstreamsHostAndBasePath(t *testing.T) {
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

// nothing is what a command that has nothing to say writes.
const nothing = `^$`

// With the sample two requests run and three wait. A second interrupt ends them, and then every process.
func TestRunSampleShowsTheLimitsAndEndsOnInterrupts(t *testing.T) {
	h := runGateway(t, nil, "--sample")
	for range 2 {
		reply := h.send("/v1/chat/completions", true)
		require.Equal(t, http.StatusOK, reply.StatusCode)
		require.Contains(t, firstEvent(t, reply.Body), "data: {")
	}
	for waiting := 1; waiting <= 3; waiting++ {
		go func() {
			if reply, err := h.post("/v1/chat/completions", true); err == nil {
				reply.Body.Close() // the interrupt ends the request while it waits
			}
		}()
		rig.Eventually(t, endWithin, fmt.Sprintf("%d wait", waiting), func() bool { return h.shows("route.queued", waiting) })
	}
	refused := h.send("/v1/chat/completions", true)
	require.Equal(t, http.StatusTooManyRequests, refused.StatusCode)
	require.Equal(t, "ADMISSION_REJECTED", refused.Header.Get("x-headgate-reason"))
	require.True(t, h.shows("route.inflight", 2))

	require.NoError(t, h.cmd.Process.Signal(os.Interrupt))
	h.eventuallySays(t, "requests that run or wait: 5.")
	require.NoError(t, h.cmd.Process.Signal(os.Interrupt))
	h.requireEnded(0, `^(headgate: requests refused by pool .*\n)?headgate: requests that run or wait: .*\n$`)
}

// A Ctrl-C in a terminal sends one interrupt to the whole process group.
func TestRunEndsOnAnInterruptOfItsGroup(t *testing.T) {
	h := runGateway(t, nil, "--sample")
	require.NoError(t, syscall.Kill(-h.cmd.Process.Pid, syscall.SIGINT))
	h.requireEnded(0, nothing)
}
