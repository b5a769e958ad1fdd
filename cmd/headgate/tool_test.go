package main

import (
	"bufio"
	"bytes"
	"errors"
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
	startWithin = 90 * time.Second // with Envoy's own start in it, on a machine that does other things too
	endWithin   = 10 * time.Second
)

// A tool is a headgate process of its own, in a session of its own as a shell starts it.
type tool struct {
	t      *testing.T
	cmd    *exec.Cmd
	tmp    string // its temporary folder
	out    *record
	errs   *record
	status chan int
}

// A record is what a process has written so far.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// startTool starts headgate with more environment; it is killed at the end of the test.
func startTool(t *testing.T, env []string, args ...string) *tool {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	h := &tool{t: t, cmd: exec.Command(self, args...), tmp: t.TempDir(), out: &record{}, errs: &record{}, status: make(chan int, 1)}
	h.cmd.Env = append(append(os.Environ(), asTool+"=1", "TMPDIR="+h.tmp), env...)
	h.cmd.Stdout, h.cmd.Stderr = h.out, h.errs
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
	wasm, err := rig.WasmPath()
	require.NoError(t, err)
	binary, err := rig.EnvoyPath()
	require.NoError(t, err)
	args = append([]string{"run", "--bind", "127.0.0.1:0", "--workers", "1", "--wasm", wasm}, args...)
	h := startTool(t, append(env, "ENVOY="+binary), args...)
	up := rig.Poll(startWithin, func() bool { return len(h.status) > 0 || strings.Contains(h.out.String(), "Ctrl-C") })
	require.True(t, up && len(h.status) == 0, "headgate run is not up: %s%s", h.out, h.errs)
	return h
}

var (
	gatewayURL = regexp.MustCompile(`Headgate is up: http://(\S+)`)
	numbersURL = regexp.MustCompile(`Numbers: (http://(\S+?)/\S+)`)
	sampleURL  = regexp.MustCompile(`a sample, http://(\S+?)\)`)
)

// printed returns what the output says by the pattern's last group.
func (h *tool) printed(pattern *regexp.Regexp) string {
	h.t.Helper()
	found := pattern.FindStringSubmatch(h.out.String())
	require.NotNil(h.t, found, "no %s in: %s", pattern, h.out)
	return found[len(found)-1]
}

// post sends a chat completion to the gateway; a reply is read as far as its headers.
func (h *tool) post(path string, stream bool) (*http.Response, error) {
	return http.Post("http://"+h.printed(gatewayURL)+path, "application/json", strings.NewReader(question("Hello", stream)))
}

// send is post for a request that gets a reply.
func (h *tool) send(path string, stream bool) *http.Response {
	h.t.Helper()
	reply, err := h.post(path, stream)
	require.NoError(h.t, err)
	h.t.Cleanup(func() { reply.Body.Close() })
	return reply
}

// numbers are Headgate's stats as the printed URL shows them.
func (h *tool) numbers() string {
	h.t.Helper()
	reply, err := http.Get(numbersURL.FindStringSubmatch(h.out.String())[1])
	require.NoError(h.t, err)
	defer reply.Body.Close()
	return whole(h.t, reply.Body)
}

func whole(t *testing.T, body io.Reader) string {
	t.Helper()
	text, err := io.ReadAll(body)
	require.NoError(t, err)
	return string(text)
}

// requireEnded waits for the process and everything it started, and checks that nothing is left and nothing was said.
func (h *tool) requireEnded(want int) {
	h.t.Helper()
	select {
	case status := <-h.status:
		require.Equal(h.t, want, status, h.errs)
	case <-time.After(endWithin):
		h.t.Fatalf("headgate still runs after %v", endWithin)
	}
	require.Empty(h.t, h.errs.String())
	h.requireUnreachable()
	left, err := os.ReadDir(h.tmp)
	require.NoError(h.t, err)
	require.Empty(h.t, left, "its temporary folder")
}

// requireUnreachable waits until nothing that was printed as listening still listens.
func (h *tool) requireUnreachable() {
	h.t.Helper()
	for _, pattern := range []*regexp.Regexp{gatewayURL, numbersURL, sampleURL} {
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

// requireOneLine waits for the process to fail with one line on stderr.
func (h *tool) requireOneLine(pattern string) {
	h.t.Helper()
	select {
	case status := <-h.status:
		require.Equal(h.t, 1, status)
	case <-time.After(startWithin):
		h.t.Fatalf("headgate still runs after %v: %s", startWithin, h.out)
	}
	require.Regexp(h.t, `^headgate: `+pattern+`\n$`, h.errs.String())
	require.NotContains(h.t, strings.TrimSuffix(h.errs.String(), "\n"), "\n")
}

// fakeEnvoy writes a program to be run as Envoy.
func fakeEnvoy(t *testing.T, script string) string {
	t.Helper()
	path := t.TempDir() + "/envoy"
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	return path
}

// firstEvent reads to the end of the first event of a stream.
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
