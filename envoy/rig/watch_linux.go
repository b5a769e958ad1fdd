package rig

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	allProtocols = 0x0300 // ETH_P_ALL in network order: only a socket for all of them sees packets as they are sent
	outgoing     = 4      // PACKET_OUTGOING
	captureBytes = 64 << 20
)

// A capture is the packets to and from one port, in the order in which they were sent.
type capture struct {
	fd    int
	port  uint16
	ended atomic.Bool
	done  chan struct{}

	mu      sync.Mutex
	packets []packet
	err     error
}

// watchPackets reads the packets that go over the loopback until the test ends.
func watchPackets(t testing.TB, port int) (*Watch, error) {
	c, err := openCapture(uint16(port))
	if err != nil {
		return nil, err
	}
	go c.read()
	t.Cleanup(c.close)
	return &Watch{How: "the packets on the loopback", spans: func(t testing.TB) []Span {
		t.Helper()
		spans, err := spansOf(c.settled())
		if err != nil {
			t.Fatalf("the packets on the loopback: %v", err)
		}
		return spans
	}}, nil
}

func openCapture(port uint16) (*capture, error) {
	loopback, err := net.InterfaceByName("lo")
	if err != nil {
		return nil, err
	}
	fd, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, allProtocols)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	step := 50 * time.Millisecond
	timeout := syscall.NsecToTimeval(step.Nanoseconds())
	err = errors.Join(
		syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_RCVBUFFORCE, captureBytes),
		syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_TIMESTAMPNS, 1),
		syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &timeout),
		syscall.Bind(fd, &syscall.SockaddrLinklayer{Protocol: allProtocols, Ifindex: loopback.Index}))
	if err != nil {
		syscall.Close(fd)
		return nil, err
	}
	return &capture{fd: fd, port: port, done: make(chan struct{})}, nil
}

func (c *capture) close() {
	c.ended.Store(true)
	<-c.done
	syscall.Close(c.fd)
}

// read keeps what goes to and from the port, as it is sent. The loopback shows each packet a second time, as it comes.
func (c *capture) read() {
	defer close(c.done)
	bytes, control := make([]byte, 1<<17), make([]byte, 256)
	for !c.ended.Load() {
		n, cn, flags, from, err := syscall.Recvmsg(c.fd, bytes, control, syscall.MSG_TRUNC)
		if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR) {
			continue
		}
		link, isLink := from.(*syscall.SockaddrLinklayer)
		if err == nil && (!isLink || link.Pkttype != outgoing) {
			continue
		}
		if err == nil && flags&syscall.MSG_TRUNC != 0 {
			err = fmt.Errorf("a packet has %d bytes", n)
		}
		c.keep(bytes[:min(n, len(bytes))], stampOf(control[:cn]), err)
		if err != nil {
			return
		}
	}
}

func (c *capture) keep(ip []byte, at time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.err = err
		return
	}
	if p, ok := parsePacket(ip, c.port); ok {
		p.order, p.at = int64(len(c.packets))<<packetBits, at
		c.packets = append(c.packets, p)
	}
}

// stampOf is when the kernel saw the packet.
func stampOf(control []byte) time.Time {
	messages, _ := syscall.ParseSocketControlMessage(control)
	for _, m := range messages {
		if m.Header.Type == syscall.SO_TIMESTAMPNS && len(m.Data) >= 16 {
			return time.Unix(int64(binary.NativeEndian.Uint64(m.Data)), int64(binary.NativeEndian.Uint64(m.Data[8:])))
		}
	}
	return time.Now()
}

// settled returns the packets once no more come, as when all requests have ended.
func (c *capture) settled() ([]packet, error) {
	const quiet = 100 * time.Millisecond
	count := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.packets)
	}
	last, since := count(), time.Now()
	Poll(5*time.Second, func() bool {
		if n := count(); n != last {
			last, since = n, time.Now()
		}
		return time.Since(since) > quiet
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.packets, c.err
}
