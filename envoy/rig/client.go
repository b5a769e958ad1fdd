package rig

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// Send starts a call on an HTTP/1.1 connection of its own.
func (e *Env) Send(t testing.TB, c Call) *Pending {
	t.Helper()
	tcp, err := e.dial()
	if err != nil {
		t.Fatalf("connect to the gateway: %v", err)
	}
	t.Cleanup(func() { leave(tcp, LeaveRST) })
	conn := net.Conn(tcp)
	if e.setup.TLS != nil {
		conn = e.setup.TLS.client(tcp, c.As)
	}
	p := newPending(func(how Leave) { leave(tcp, how) })
	go func() {
		defer conn.Close()
		p.finish(p.exchange(conn, bufio.NewReader(conn), c))
	}()
	return p
}

// Do makes a call on a connection of its own and returns the whole reply.
func (e *Env) Do(t testing.TB, c Call) *Reply {
	t.Helper()
	return e.Send(t, c).Wait()
}

func (e *Env) dial() (*net.TCPConn, error) {
	conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", e.Port), Patience)
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// leave ends a connection. After a FIN the client goes on reading, since a close with unread bytes would be a reset.
func leave(conn *net.TCPConn, how Leave) {
	if how == LeaveFIN {
		conn.CloseWrite()
		return
	}
	conn.SetLinger(0)
	conn.Close()
}

func (p *Pending) exchange(conn net.Conn, in *bufio.Reader, c Call) error {
	head := c.http1()
	if len(c.Body) == 0 || c.Delivery == (Delivery{}) {
		head = append(head, c.Body...)
	}
	if _, err := conn.Write(head); err != nil {
		return err
	}
	if len(c.Body) == 0 && !c.Delivery.Chunked || c.Delivery == (Delivery{}) {
		return p.read(in, c.method())
	}
	if c.Delivery.Expect && !p.continued(in) {
		return p.read(in, c.method())
	}
	go c.Delivery.write(conn, c.Body) // an answer may come before the body's end; an error shows in the reply
	return p.read(in, c.method())
}

// continued reads the answer to an Expect: 100-continue; false if it is a final one, which stays unread.
func (p *Pending) continued(in *bufio.Reader) bool {
	const want = "HTTP/1.1 100"
	if start, err := in.Peek(len(want)); err != nil || string(start) != want {
		return false
	}
	p.mu.Lock()
	p.reply.Interim = append(p.reply.Interim, http.StatusContinue)
	p.mu.Unlock()
	for {
		if line, err := in.ReadString('\n'); err != nil || line == "\r\n" {
			return err == nil
		}
	}
}

// read reads one whole reply.
func (p *Pending) read(in *bufio.Reader, method string) error {
	var head Reply
	if err := head.readHead(in); err != nil {
		return err
	}
	p.mu.Lock()
	p.reply.Status, p.reply.Head, p.reply.Header, p.reply.First = head.Status, head.Head, head.Header, head.First
	p.reply.Interim = append(p.reply.Interim, head.Interim...)
	p.mu.Unlock()
	body := head.body(in, method)
	if body == nil {
		return nil
	}
	if err := p.readBody(body); err != nil || !head.chunked() {
		return err
	}
	_, trailer, err := readFields(in) // the chunked reader leaves them to us
	p.reply.Trailer = trailer
	return err
}

// A Conn is a client's HTTP/1.1 connection driven by hand.
type Conn struct {
	conn *net.TCPConn
	in   *bufio.Reader
}

// Dial opens a connection that ends with the test.
func (e *Env) Dial(t testing.TB) *Conn {
	t.Helper()
	conn, err := e.dial()
	if err != nil {
		t.Fatalf("connect to the gateway: %v", err)
	}
	t.Cleanup(func() { conn.Close() })
	return &Conn{conn: conn, in: bufio.NewReader(conn)}
}

// begin gives what is read and written next its time.
func (c *Conn) begin() { c.conn.SetDeadline(time.Now().Add(Patience)) }

// Write sends bytes as they are.
func (c *Conn) Write(t testing.TB, text string) {
	t.Helper()
	c.begin()
	if _, err := c.conn.Write([]byte(text)); err != nil {
		t.Fatalf("write to the gateway: %v", err)
	}
}

// Read reads the next whole reply to a request with that method.
func (c *Conn) Read(method string) *Reply {
	c.begin()
	p := newPending(nil)
	p.finish(p.read(c.in, method))
	return p.Wait()
}

// ReadHead reads a status line and headers alone: behind a 101 the connection is the test's.
func (c *Conn) ReadHead(t testing.TB) *Reply {
	t.Helper()
	c.begin()
	r := &Reply{Start: time.Now()}
	r.Err = r.readHead(c.in)
	return r
}

// AwaitText reads exactly this text.
func (c *Conn) AwaitText(t testing.TB, text string) {
	t.Helper()
	c.begin()
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c.in, got); err != nil || string(got) != text {
		t.Fatalf("got %q (%v), want %q", got, err, text)
	}
}

// Leave ends the connection.
func (c *Conn) Leave(how Leave) { leave(c.conn, how) }

// Do makes a call on the connection and reads its reply.
func (c *Conn) Do(call Call) *Reply {
	c.begin()
	p := newPending(nil)
	p.finish(p.exchange(c.conn, c.in, call))
	return p.Wait()
}

// Raw sends bytes on a connection of their own and reads one reply.
func (e *Env) Raw(t testing.TB, text string) *Reply {
	t.Helper()
	c := e.Dial(t)
	c.Write(t, text)
	return c.Read(http.MethodPost)
}
