package rig

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
)

// Ports come from below the range the kernel takes for outgoing connections, which would take one between our look and
// Envoy's bind.
const (
	firstPort = 20_000
	portCount = 12_000
)

var nextPort atomic.Int64

func init() { nextPort.Store(rand.Int64N(portCount)) }

// FreePort returns a port of 127.0.0.1 that nobody listens on; it returns each one once.
func FreePort() (int, error) {
	for range portCount {
		port := firstPort + int(nextPort.Add(1)%portCount)
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			listener.Close()
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port from %d to %d", firstPort, firstPort+portCount)
}
