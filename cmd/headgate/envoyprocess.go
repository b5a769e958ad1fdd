package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	readyWithin = time.Minute     // Envoy compiles the module for seconds, on a busy machine for many
	stopWithin  = 3 * time.Second // an Envoy that has not ended by then is killed
	pollEvery   = 20 * time.Millisecond
)

// shownLog is where Envoy's log is shown besides its file. nil: it is not shown.
func (p *runPlan) shownLog() io.Writer {
	if p.verbose {
		return &lineWriter{take: p.notes.quote}
	}
	return nil
}

// An envoyProcess is an Envoy that runs with the envoy.yaml of its folder.
type envoyProcess struct {
	dir   *folder
	cmd   *exec.Cmd
	admin string // host:port of Envoy's own admin interface, known once Envoy is ready

	adminPage netip.AddrPort // of Headgate's admin listener, likewise; not valid: there is none
	ended     chan struct{}  // closed when the process has ended
	state     string         // how the process ended, set before ended is closed
}

// startEnvoy starts the binary. log gets Envoy's log besides its file, and out gets what Envoy writes to standard
// output, which is its access log; each can be nil. On Linux Envoy ends when this process ends, even when this process
// is killed.
func startEnvoy(binary string, dir *folder, workers int, log, out io.Writer) (*envoyProcess, error) {
	p := &envoyProcess{dir: dir, ended: make(chan struct{})}
	file, err := os.Create(p.logPath())
	if err != nil {
		return nil, err
	}
	p.cmd = exec.Command(binary, "-c", filepath.Join(dir.path, "envoy.yaml"), "--admin-address-path", p.adminPath(),
		"--concurrency", strconv.Itoa(workers), "--disable-hot-restart", "--log-level", "warning")
	p.cmd.SysProcAttr = childAttributes()
	p.cmd.ExtraFiles = []*os.File{dir.lock} // so that the folder is locked as long as Envoy lives
	p.cmd.Stdout, p.cmd.Stderr = file, file
	if log != nil {
		both := io.MultiWriter(file, log)
		p.cmd.Stdout, p.cmd.Stderr = both, both
	}
	if out != nil {
		p.cmd.Stdout = out
		p.cmd.Args = append(p.cmd.Args, "--file-flush-interval-msec", "500") // 10 s unless told otherwise
	}
	started := make(chan error)
	go p.supervise(started, file)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("can't start Envoy: %w", err)
	}
	return p, nil
}

// supervise starts the process and waits for its end. It keeps its thread for itself: Linux kills the child when the
// thread that started it ends.
func (p *envoyProcess) supervise(started chan<- error, log *os.File) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer log.Close()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	_ = p.cmd.Wait() // the state says the same as its error
	p.state = p.cmd.ProcessState.String()
	close(p.ended)
}

func (p *envoyProcess) logPath() string   { return filepath.Join(p.dir.path, "envoy.log") }
func (p *envoyProcess) adminPath() string { return filepath.Join(p.dir.path, "admin") }

// ready waits until Envoy serves and returns the address of its listener.
func (p *envoyProcess) ready(ctx context.Context) (netip.AddrPort, error) {
	deadline := time.After(readyWithin)
	for {
		if address, ok := p.listening(); ok {
			return address, nil
		}
		select {
		case <-ctx.Done():
			return netip.AddrPort{}, ctx.Err()
		case <-p.ended:
			return netip.AddrPort{}, p.endError("did not start")
		case <-deadline:
			return netip.AddrPort{}, fmt.Errorf("Envoy is not ready after %v: %s", readyWithin, p.reasonFromLog())
		case <-time.After(pollEvery):
		}
	}
}

// listening returns the address of Envoy's listener once Envoy is ready. Envoy knows it: a bootstrap with port 0 has
// Envoy choose the port.
func (p *envoyProcess) listening() (address netip.AddrPort, ok bool) {
	admin, err := os.ReadFile(p.adminPath())
	if err != nil {
		return netip.AddrPort{}, false
	}
	own, err := netip.ParseAddrPort(strings.TrimSpace(string(admin)))
	if err != nil {
		return netip.AddrPort{}, false
	}
	p.admin = clientAddress(own).String()
	if _, err := p.ask("/ready"); err != nil {
		return netip.AddrPort{}, false
	}
	var reply struct {
		Statuses []struct {
			Name  string `json:"name"`
			Local struct {
				Socket struct {
					Address string `json:"address"`
					Port    uint16 `json:"port_value"`
				} `json:"socket_address"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	body, err := p.ask("/listeners?format=json")
	if err != nil || json.Unmarshal(body, &reply) != nil {
		return netip.AddrPort{}, false
	}
	for _, status := range reply.Statuses {
		socket := status.Local.Socket
		host, err := netip.ParseAddr(socket.Address)
		if err != nil {
			return netip.AddrPort{}, false
		}
		if status.Name == "headgate-admin" {
			p.adminPage = netip.AddrPortFrom(host, socket.Port)
		} else {
			address = netip.AddrPortFrom(host, socket.Port)
		}
	}
	return address, address.IsValid()
}

// adminClient uses no proxy: it only ever connects to loopback.
var adminClient = http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{Proxy: nil}}

// ask returns what the admin interface has at path.
func (p *envoyProcess) ask(path string) ([]byte, error) {
	return read(adminClient.Get("http://" + p.admin + path))
}

// tell has the admin interface do what path says.
func (p *envoyProcess) tell(path string) error {
	_, err := read(adminClient.Post("http://"+p.admin+path, "", nil))
	return err
}

func read(reply *http.Response, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return nil, errors.New(reply.Status)
	}
	return io.ReadAll(reply.Body)
}

// endError says that Envoy ended, and why. what is the first part of the message.
func (p *envoyProcess) endError(what string) error {
	reason := signalMeaning(endSignal(p.cmd.ProcessState))
	if reason == "" {
		reason = p.reasonFromLog()
	}
	return fmt.Errorf("Envoy %s (%s): %s", what, p.state, reason)
}

// endSignal is the signal that ended a process, or 0. A shell that runs a program reports its signal as a status above
// 128.
func endSignal(state *os.ProcessState) syscall.Signal {
	if status, isWait := state.Sys().(syscall.WaitStatus); isWait && status.Signaled() {
		return status.Signal()
	}
	if code := state.ExitCode(); code > 128 {
		return syscall.Signal(code - 128)
	}
	return 0
}

// signalMeaning is what it often means that a signal ended Envoy. The log does not have it: its last line is about
// something else.
func signalMeaning(signal syscall.Signal) string {
	switch signal {
	case syscall.SIGKILL:
		return "often the system had no memory left for it; `dmesg`, or the events of its container, say so"
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT:
		return "somebody has ended it, but not headgate"
	case syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGILL, syscall.SIGFPE, syscall.SIGABRT:
		return "it crashed, and its log has the place"
	}
	return ""
}

func (p *envoyProcess) reasonFromLog() string { return endReason(p.log()) }

// log is Envoy's log, or why it can't be read.
func (p *envoyProcess) log() string {
	log, err := os.ReadFile(p.logPath())
	if err != nil {
		return err.Error()
	}
	return string(log)
}

// stop ends Envoy, by force if it does not end soon. Envoy has ended when stop returns.
func (p *envoyProcess) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(stopWithin):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}
