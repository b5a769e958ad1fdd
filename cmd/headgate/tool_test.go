package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/envoy/rig"
)

const (
	startWithin = 90 * time.Second // for Envoy's own start too, on a busy machine
	endWithin   = 10 * time.Second
)

// A tool is a headgate process in a session of its own, as a shell starts it.
type tool struct {
	t      *testing.T
	cmd    *exec.Cmd
	tmp    string // its temporary folder
	out    *output
	errs   *output
	status chan int
}

// An output is what a process has written so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// startTool starts headgate. env is added to its environment. The process is killed at the end of the test.
func startTool(t *testing.T, env []string, args ...string) *tool {
	t.Helper()
	return startToolTo(t, nil, env, args...)
}

// startToolTo is startTool with a standard output of its own. nil: the output is kept.
func startToolTo(t *testing.T, out *os.File, env []string, args ...string) *tool {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	h := &tool{t: t, cmd: exec.Command(self, args...), tmp: t.TempDir(), status: make(chan int, 1)}
	h.out, h.errs = &output{}, &output{}
	h.cmd.Env = append(append(os.Environ(), asTool+"=1", "TMPDIR="+h.tmp), env...)
	h.cmd.Stdout, h.cmd.Stderr = h.out, h.errs
	if out != nil {
		h.cmd.Stdout = out
	}
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	require.NoError(t, h.cmd.Start())
	go func() {
		_ = h.cmd.Wait()
		h.status <- h.cmd.ProcessState.ExitCode()
	}()
	t.Cleanup(func() { _ = syscall.Kill(-h.cmd.Process.Pid, syscall.SIGKILL) })
	return h
}

// runGateway starts `headgate run` on a free port with the module and Envoy of the build, and waits until it is up.
func runGateway(t *testing.T, env []string, args ...string) *tool {
	t.Helper()
	return runGatewayTo(t, nil, env, args...)
}

// runGatewayTo is runGateway with a standard output of its own. nil: the output is kept.
func runGatewayTo(t *testing.T, out *os.File, env []string, args ...string) *tool {
	t.Helper()
	wasm, err := rig.WasmPath()
	require.NoError(t, err)
	binary, err := rig.EnvoyPath()
	require.NoError(t, err)
	args = append([]string{"run", "--bind", "127.0.0.1:0", "--workers", "1", "--wasm", wasm}, args...)
	h := startToolTo(t, out, append(env, "ENVOY="+binary), args...)
	up := rig.Poll(startWithin, func() bool { return len(h.status) > 0 || strings.Contains(h.announced(), "Ctrl-C") })
	require.True(t, up && len(h.status) == 0, "headgate run is not up: %s%s", h.out, h.errs)
	return h
}

var (
	gatewayURL = regexp.MustCompile(`Headgate is up: http://(\S+)`)
	numbersURL = regexp.MustCompile(`Numbers: (http://(\S+?)/\S+)`)
	pageURL    = regexp.MustCompile(`Page:    (http://(\S+?)/headgate/)`)
	sampleURL  = regexp.MustCompile(`a sample, http://(\S+?)\)`)
)

// announced is what the process has written, wherever: with --access-log it announces itself on standard error.
func (h *tool) announced() string { return h.out.String() + h.errs.String() }

// printed returns the part of the output that matches the pattern's last group.
func (h *tool) printed(pattern *regexp.Regexp) string {
	h.t.Helper()
	found := pattern.FindStringSubmatch(h.announced())
	require.NotNil(h.t, found, "no %s in: %s", pattern, h.announced())
	return found[len(found)-1]
}

// post sends a chat completion to the gateway and reads the reply's headers.
func (h *tool) post(path string, stream bool) (*http.Response, error) {
	body := strings.NewReader(chatRequest("Hello", stream))
	return http.Post("http://"+h.printed(gatewayURL)+path, "application/json", body)
}

// send is post for a request that gets a reply.
func (h *tool) send(path string, stream bool) *http.Response {
	h.t.Helper()
	reply, err := h.post(path, stream)
	require.NoError(h.t, err)
	h.t.Cleanup(func() { reply.Body.Close() })
	return reply
}

// numbers returns Headgate's stats from the printed URL. Whatever has been counted before is in them.
func (h *tool) numbers() string {
	h.t.Helper()
	read := func() map[string]string {
		reply, err := http.Get(numbersURL.FindStringSubmatch(h.out.String())[1])
		require.NoError(h.t, err)
		defer reply.Body.Close()
		return map[string]string{"numbers": whole(h.t, reply.Body)}
	}
	return rig.AwaitCounts(read)["numbers"]
}

// shows reports whether a pool's stat, e.g. route.inflight, has the value n.
func (h *tool) shows(stat string, n int) bool {
	h.t.Helper()
	return strings.Contains(h.numbers(), fmt.Sprintf("wasmcustom.headgate.%s: %d\n", stat, n))
}

func whole(t *testing.T, body io.Reader) string {
	t.Helper()
	text, err := io.ReadAll(body)
	require.NoError(t, err)
	return string(text)
}

// starting is the line that says that Envoy starts.
const starting = "headgate: starting Envoy\n"

// said is what the process has written to standard error, but for that line.
func (h *tool) said() string { return strings.Replace(h.errs.String(), starting, "", 1) }

// requireEnded waits until the process and everything it started have ended. It checks that the process left no file,
// and that what it wrote to standard error matches the pattern.
func (h *tool) requireEnded(want int, says string) {
	h.t.Helper()
	select {
	case status := <-h.status:
		require.Equal(h.t, want, status, h.errs)
	case <-time.After(endWithin):
		h.t.Fatalf("headgate still runs after %v", endWithin)
	}
	require.Regexp(h.t, says, h.said())
	h.requireUnreachable()
	left, err := os.ReadDir(h.tmp)
	require.NoError(h.t, err)
	require.Empty(h.t, left, "its temporary folder")
}

// requireUnreachable waits until nothing listens on the printed addresses any more.
func (h *tool) requireUnreachable() {
	h.t.Helper()
	for _, pattern := range []*regexp.Regexp{gatewayURL, numbersURL, sampleURL} {
		if pattern == sampleURL && !pattern.MatchString(h.out.String()) {
			continue // it has another upstream
		}
		address := h.printed(pattern)
		rig.Eventually(h.t, endWithin, address+" is closed", func() bool {
			connection, err := net.Dial("tcp", address)
			if err == nil {
				connection.Close()
			}
			return errors.Is(err, syscall.ECONNREFUSED)
		})
	}
}

// requireOneLine waits until the process fails, and checks that it wrote one line to stderr.
func (h *tool) requireOneLine(pattern string) {
	h.t.Helper()
	select {
	case status := <-h.status:
		require.Equal(h.t, 1, status)
	case <-time.After(startWithin):
		h.t.Fatalf("headgate still runs after %v: %s", startWithin, h.out)
	}
	require.Regexp(h.t, `^headgate: `+pattern+`\n$`, h.said())
	require.NotContains(h.t, strings.TrimSuffix(h.said(), "\n"), "\n")
}

// fakeEnvoy writes a shell script that can be run in place of Envoy.
func fakeEnvoy(t *testing.T, script string) string {
	t.Helper()
	path := t.TempDir() + "/envoy"
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	return path
}

// firstEvent reads the first line of a stream, which is its first event.
func firstEvent(t *testing.T, body io.Reader) string {
	t.Helper()
	line, err := bufio.NewReader(body).ReadString('\n')
	require.NoError(t, err)
	return line
}

func loopbackPort(t *testing.T, listener net.Listener) uint16 {
	t.Helper()
	return netip.MustParseAddrPort(listener.Addr().String()).Port()
}
