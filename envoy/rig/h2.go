package rig

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// An H2 is one HTTP/2 connection of a client (h2c with prior knowledge) that carries all of its calls.
type H2 struct {
	client *http.ClientConn
	conn   *net.TCPConn
	port   int
}

// H2 opens an HTTP/2 connection that ends with the test.
func (e *Env) H2(t testing.TB) *H2 {
	t.Helper()
	h := &H2{port: e.Port}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols, DisableCompression: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			conn, err := e.dial()
			h.conn = conn
			return conn, err
		}}
	client, err := transport.NewClientConn(context.Background(), "http", fmt.Sprintf("127.0.0.1:%d", e.Port))
	if err != nil {
		t.Fatalf("connect to the gateway over HTTP/2: %v", err)
	}
	h.client = client
	t.Cleanup(func() { h.conn.Close() })
	return h
}

// Send starts a call as a stream of the connection. Leaving resets the stream.
func (h *H2) Send(c Call) *Pending {
	ctx, cancel := context.WithCancel(context.Background())
	p := newPending(func(Leave) { cancel() })
	go func() {
		defer cancel()
		p.finish(p.stream(ctx, h, c))
	}()
	return p
}

// Do makes a call on the connection and returns the whole reply.
func (h *H2) Do(c Call) *Reply { return h.Send(c).Wait() }

// Kill resets the connection under all of its streams.
func (h *H2) Kill() { leave(h.conn, LeaveRST) }

func (p *Pending) stream(ctx context.Context, h *H2, c Call) error {
	request, err := c.http2(ctx, h.port)
	if err != nil {
		return err
	}
	response, err := h.client.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	p.mu.Lock()
	p.reply.Status, p.reply.Header, p.reply.First = response.StatusCode, response.Header, time.Now()
	p.mu.Unlock()
	err = p.readBody(response.Body)
	p.reply.Trailer = response.Trailer
	return err
}

func (c Call) http2(ctx context.Context, port int) (*http.Request, error) {
	body := io.Reader(bytes.NewReader(c.Body))
	if c.Stream != nil {
		body = c.Stream
	}
	request, err := http.NewRequestWithContext(ctx, c.method(), fmt.Sprintf("http://127.0.0.1:%d%s", port, c.target()),
		body)
	if err != nil {
		return nil, err
	}
	for _, f := range c.fields() {
		request.Header.Add(f.Name, f.Value)
	}
	return request, nil
}
