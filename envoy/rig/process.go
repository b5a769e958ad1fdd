package rig

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// stopTimeout is what Envoy gets to end by itself, before it is killed.
const stopTimeout = 3 * time.Second

// defaultDrain lets the streams of a replaced listener live as long as any test.
const defaultDrain = time.Hour

// Options say how to start an Envoy. The zero Options are one worker and a drain that no test sees the end of.
type Options struct {
	Workers  int
	LogLevel string        // "": warning
	Drain    time.Duration // how long a replaced listener serves its old connections; 0: longer than any test runs
	Args     []string
}

// An Envoy is one running Envoy process whose listeners and clusters can be changed at run time.
type Envoy struct {
	Workers int
	Admin   int // port of the admin listener

	cmd    *exec.Cmd
	exited chan struct{}
	dir    string
	log    *os.File

	mu        sync.Mutex // one change of listeners or clusters at a time
	listeners *discovery
	clusters  *discovery
}

// Start runs an Envoy of the test's own, which ends with it.
func Start(t testing.TB, o Options) *Envoy {
	t.Helper()
	e, err := Launch(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Stop)
	return e
}

// Launch starts an Envoy and returns when it is ready; the caller stops it.
func Launch(o Options) (*Envoy, error) {
	binary, err := EnvoyPath()
	if err != nil {
		return nil, err
	}
	e, err := prepare(o)
	if err != nil {
		return nil, err
	}
	e.cmd = exec.Command(binary, e.arguments(o)...)
	e.cmd.Stdout, e.cmd.Stderr = e.log, e.log
	endWithParent(e.cmd)
	if err := e.cmd.Start(); err != nil {
		e.clean()
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	go func() {
		e.cmd.Wait()
		close(e.exited)
	}()
	if !Poll(Patience, func() bool { return !e.Alive() || e.ready() }) || !e.Alive() {
		err := fmt.Errorf("Envoy does not become ready; its log ends with:\n%s", tail(e.Log(), 20))
		e.Stop()
		return nil, err
	}
	return e, nil
}

// prepare makes the folder with the bootstrap, the two discovery files and the log.
func prepare(o Options) (*Envoy, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "headgate-rig-")
	if err != nil {
		return nil, err
	}
	e := &Envoy{Workers: max(1, o.Workers), Admin: port, dir: dir, exited: make(chan struct{})}
	e.listeners = newDiscovery(filepath.Join(dir, "listeners.json"), "listener_manager.lds")
	e.clusters = newDiscovery(filepath.Join(dir, "clusters.json"), "cluster_manager.cds")
	e.log, err = os.Create(filepath.Join(dir, "envoy.log"))
	err = errors.Join(err, e.listeners.write(), e.clusters.write(), writeJSON(e.bootstrapPath(), bootstrap(e)))
	if err != nil {
		e.clean()
		return nil, err
	}
	return e, nil
}

func (e *Envoy) bootstrapPath() string { return filepath.Join(e.dir, "bootstrap.json") }

func (e *Envoy) arguments(o Options) []string {
	level, drain := o.LogLevel, o.Drain
	if level == "" {
		level = "warning"
	}
	if drain == 0 {
		drain = defaultDrain
	}
	args := []string{"-c", e.bootstrapPath(), "--concurrency", strconv.Itoa(e.Workers), "--disable-hot-restart", "-l",
		level,
		"--drain-time-s", strconv.Itoa(int(drain.Seconds())), "--drain-strategy", "immediate"}
	return append(args, o.Args...)
}

// PID is the process's id.
func (e *Envoy) PID() int { return e.cmd.Process.Pid }

// Alive says whether the process runs.
func (e *Envoy) Alive() bool {
	select {
	case <-e.exited:
		return false
	default:
		return true
	}
}

// Pause lets the process stand still, as a machine does that is paused, until Resume.
func (e *Envoy) Pause() { e.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (e *Envoy) Resume() { e.cmd.Process.Signal(syscall.SIGCONT) }

func (e *Envoy) ready() bool {
	text, err := e.admin("/ready")
	return err == nil && text == "LIVE\n"
}

// Stop ends the process and removes its files; $HEADGATE_RIG_KEEP keeps them.
func (e *Envoy) Stop() {
	e.Resume()
	e.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-e.exited:
	case <-time.After(stopTimeout):
		e.cmd.Process.Kill()
		<-e.exited
	}
	e.clean()
}

func (e *Envoy) clean() {
	if e.log != nil {
		e.log.Close()
	}
	if os.Getenv("HEADGATE_RIG_KEEP") == "" {
		os.RemoveAll(e.dir)
	}
}
