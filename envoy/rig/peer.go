package rig

import (
	"errors"
	"net"
	"syscall"
)

// A peer is Envoy's end of one request at the upstream.
type peer struct {
	conn   net.Conn
	gone   <-chan struct{}
	shared bool // the connection carries other requests too (h2)
}

// alive says whether Envoy still holds the request. It looks into the socket itself, because net/http notices a closed
// connection only when its reading goroutine gets to run.
func (p *peer) alive() bool {
	select {
	case <-p.gone:
		return false
	default:
	}
	return p.shared || !closedByPeer(p.conn)
}

func closedByPeer(conn net.Conn) bool {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	closed := false
	err = raw.Control(func(fd uintptr) {
		var one [1]byte
		n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		closed = (err == nil && n == 0) || (err != nil && !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR))
	})
	return closed || err != nil
}
