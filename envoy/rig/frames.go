package rig

import (
	"bytes"
	"fmt"
	"net"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Frames is a client's HTTP/2 connection that a test drives frame by frame, also against the rules. Its requests are
// the streams 1, 3, 5 and so on.
type Frames struct {
	*http2.Framer // to write with; the frames that come are read already
	conn          *net.TCPConn

	mu       sync.Mutex
	answered map[uint32]bool // the streams whose answers have begun
}

// Frames opens an HTTP/2 connection that ends with the test.
func (e *Env) Frames(t testing.TB) *Frames {
	t.Helper()
	conn, err := e.dial()
	if err != nil {
		t.Fatalf("connect to the gateway: %v", err)
	}
	t.Cleanup(func() { conn.Close() })
	f := &Frames{Framer: http2.NewFramer(conn, conn), conn: conn, answered: map[uint32]bool{}}
	f.AllowIllegalWrites = true
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatalf("write to the gateway: %v", err)
	}
	f.WriteSettings()
	go f.read()
	return f
}

// read notes the answers that begin, until the connection ends. It writes nothing: Envoy does not wait for the
// acknowledgement of its settings.
func (f *Frames) read() {
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		if h, ok := frame.(*http2.HeadersFrame); ok {
			f.mu.Lock()
			f.answered[h.StreamID] = true
			f.mu.Unlock()
		}
	}
}

// Head sends the headers of a call as a stream, whose body may follow.
func (f *Frames) Head(t testing.TB, stream uint32, c Call, end bool) {
	t.Helper()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	encoder.SetMaxDynamicTableSize(0) // so that no block depends on one before it
	pseudo := []Field{{":method", c.method()}, {":scheme", "http"}, {":authority", "gateway"}, {":path", c.target()}}
	for _, field := range append(pseudo, c.fields()...) {
		encoder.WriteField(hpack.HeaderField{Name: field.Name, Value: field.Value})
	}
	err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true,
		EndStream: end})
	if err != nil {
		t.Fatalf("write to the gateway: %v", err)
	}
}

// AwaitAnswer waits until the answer of a stream has begun.
func (f *Frames) AwaitAnswer(t testing.TB, stream uint32) {
	t.Helper()
	Await(t, fmt.Sprintf("the answer of stream %d has begun", stream), func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.answered[stream]
	})
}

// Leave ends the connection.
func (f *Frames) Leave(how Leave) { leave(f.conn, how) }
