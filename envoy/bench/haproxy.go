package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

const noHAProxy = "Left out: HAProxy, because no `haproxy` is on PATH: `apt-get install haproxy` (Debian, Ubuntu)."

// findHAProxy returns where HAProxy is, "" if it isn't installed. Debian has it where users' PATH doesn't look.
func findHAProxy() string {
	for _, name := range []string{"haproxy", "/usr/sbin/haproxy"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// An haproxy is a running HAProxy that lets limit requests run at once and queues the rest.
type haproxy struct {
	cmd  *exec.Cmd
	port int
}

// haproxyConfig has as many threads as Envoy has workers, and shares its connections to the upstream among all clients,
// as Envoy does.
const haproxyConfig = `global
  nbthread %d
  maxconn 2000
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  timeout queue 60s
  http-reuse always
listen gateway
  bind 127.0.0.1:%d
  server upstream 127.0.0.1:%d maxconn %d
`

func launchHAProxy(path, dir string, threads, upstreamPort int) (*haproxy, error) {
	port, err := rig.FreePort()
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(config, fmt.Appendf(nil, haproxyConfig, threads, port, upstreamPort, limit),
		0o600); err != nil {
		return nil, err
	}
	h := &haproxy{cmd: exec.Command(path, "-db", "-f", config), port: port}
	h.cmd.Stdout, h.cmd.Stderr = os.Stderr, os.Stderr
	rig.EndWithParent(h.cmd)
	if err := h.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	if !rig.Poll(10*time.Second, h.answers) {
		h.stop()
		return nil, errors.New("HAProxy does not begin to listen")
	}
	return h, nil
}

func (h *haproxy) answers() bool {
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", h.port))
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// stop ends the process at once: it has nothing to save.
func (h *haproxy) stop() {
	_ = h.cmd.Process.Kill()
	_ = h.cmd.Wait() // says that it was killed
}
