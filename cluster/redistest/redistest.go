// Package redistest runs real Redis servers for tests.
package redistest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// startTime is how long a server may take to start, on a busy machine.
const startTime = 30 * time.Second

// A Server is a redis-server or a sentinel on this machine.
type Server struct {
	Address string // 127.0.0.1:PORT
	t       testing.TB
	args    []string
	folder  string
	process *exec.Cmd
	ended   chan struct{}
	log     *output
}

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

// Start starts a server that keeps nothing on disk. It is killed at the end of the test.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return startAny(t, append([]string{"--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"}, args...))
}

// StartSentinel starts a sentinel that watches a master.
func StartSentinel(t testing.TB, master *Server, name string, quorum int) *Server {
	t.Helper()
	_, port, _ := strings.Cut(master.Address, ":")
	config := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor %s 127.0.0.1 %s %d\nsentinel down-after-milliseconds %s 1000\n"+
		"sentinel failover-timeout %s 3000\n", name, port, quorum, name, name)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return startAny(t, []string{config, "--sentinel"})
}

func startAny(t testing.TB, args []string) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Fatal("redis-server is not installed: apt-get install redis-server")
	}
	s := &Server{t: t, args: args, folder: t.TempDir()}
	t.Cleanup(func() { s.Kill() })
	for range 5 {
		s.Address = freeAddress(t)
		s.launch()
		if s.waitUntilItAnswers() {
			return s
		}
		s.Kill() // somebody else may have taken the port
	}
	t.Fatalf("redis-server does not start: %s", s.log)
	return nil
}

func freeAddress(t testing.TB) string {
	t.Helper()
	for {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address := listener.Addr().String()
		listener.Close()
		if port := listener.Addr().(*net.TCPAddr).Port; port < 55000 { // a cluster's second port is 10,000 above
			return address
		}
	}
}

// FreePort is a port that nobody listens on.
func FreePort(t testing.TB) string {
	_, port, _ := strings.Cut(freeAddress(t), ":")
	return port
}

func (s *Server) launch() {
	_, port, _ := strings.Cut(s.Address, ":")
	s.log, s.ended = &output{}, make(chan struct{})
	args := append([]string{}, s.args...)
	s.process = exec.Command("redis-server", append(args, "--port", port, "--bind", "127.0.0.1", "--dir", s.folder)...)
	s.process.Stdout, s.process.Stderr = s.log, s.log
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func(p *exec.Cmd, ended chan struct{}) {
		_ = p.Wait()
		close(ended)
	}(s.process, s.ended)
}

// waitUntilItAnswers reports whether the server answers, be it that it wants a password or TLS.
func (s *Server) waitUntilItAnswers() bool {
	return Poll(startTime, func() bool {
		select {
		case <-s.ended:
			return true
		default:
		}
		connection, err := net.DialTimeout("tcp", s.Address, time.Second)
		if err != nil {
			return false
		}
		connection.Close()
		return true
	}) && s.isRunning()
}

func (s *Server) isRunning() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// URL is the server's URL.
func (s *Server) URL() string { return "redis://" + s.Address + "/0" }

// Client is a client of the server. It is closed at the end of the test.
func (s *Server) Client() *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: s.Address, DisableIdentity: true, Protocol: 2})
	s.t.Cleanup(func() { _ = client.Close() })
	return client
}

// Do has the server carry out a command.
func (s *Server) Do(args ...any) any {
	s.t.Helper()
	client := redis.NewClient(&redis.Options{Addr: s.Address, DisableIdentity: true, Protocol: 2})
	defer func() { _ = client.Close() }()
	answer, err := client.Do(context.Background(), args...).Result()
	if err != nil {
		s.t.Fatalf("%v: %v", args, err)
	}
	return answer
}

// Kill ends the server at once. What it knew is lost.
func (s *Server) Kill() {
	if s.process == nil {
		return
	}
	_ = s.process.Process.Kill()
	<-s.ended
}

// Restart starts a killed server anew, at the same address.
func (s *Server) Restart() {
	s.t.Helper()
	s.launch()
	if !s.waitUntilItAnswers() {
		s.t.Fatalf("redis-server does not start again: %s", s.log)
	}
}

// Pause stops the server's process: connections stay open and nothing answers.
func (s *Server) Pause() { _ = s.process.Process.Signal(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (s *Server) Resume() { _ = s.process.Process.Signal(syscall.SIGCONT) }

// StartCluster starts a cluster of three masters.
func StartCluster(t testing.TB) []*Server {
	t.Helper()
	nodes := make([]*Server, 3)
	for i := range nodes {
		nodes[i] = Start(t, "--cluster-enabled", "yes", "--cluster-require-full-coverage", "no",
			"--cluster-config-file", "nodes-"+strconv.Itoa(i)+".conf", "--cluster-node-timeout", "5000")
	}
	const slots = 16384
	for i, node := range nodes {
		node.Do("cluster", "set-config-epoch", i+1)
		node.Do("cluster", "addslotsrange", i*slots/3, (i+1)*slots/3-1)
		if i > 0 {
			host, port, _ := strings.Cut(node.Address, ":")
			nodes[0].Do("cluster", "meet", host, port)
		}
	}
	for _, node := range nodes {
		if !Poll(startTime, func() bool {
			info := fmt.Sprint(node.Do("cluster", "info"))
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_slots_assigned:16384") &&
				strings.Contains(info, "cluster_known_nodes:3")
		}) {
			t.Fatalf("the cluster does not form: %v", node.Do("cluster", "info"))
		}
	}
	return nodes
}

// Poll waits until something is so, for a bounded time, and reports whether it is.
func Poll(within time.Duration, is func() bool) bool {
	for end := time.Now().Add(within); ; time.Sleep(10 * time.Millisecond) {
		if is() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}
