package rig

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A Field is one header line. Headers are lists here, because tests send a name twice and care for the order.
type Field struct{ Name, Value string }

// A Call is one request. The zero Call is POST to the governed path for the model "m", without a body.
type Call struct {
	Script
	Method   string
	Path     string
	Tenant   string        // x-tenant, if any
	Model    string        // x-model; "": m
	NoModel  bool          // no x-model
	Class    string        // x-class, if any
	Deadline time.Duration // x-request-timeout-ms, if any
	Header   []Field
	Body     []byte
	Stream   io.Reader        // the body, over HTTP/2 alone, as it comes
	Delivery Delivery         // how the body goes over an HTTP/1.1 connection
	As       *tls.Certificate // the client's certificate, where the listener speaks TLS
}

// A Delivery is a way for a body to come. The zero Delivery is a content-length, and all of it at once.
type Delivery struct {
	Piece   int           // bytes in one piece; 0: all
	Gap     time.Duration // before each piece
	Chunked bool          // no content-length
	Expect  bool          // Expect: 100-continue, and the body only then
	Short   int           // that many bytes at the end are never sent
}

func (c Call) method() string {
	if c.Method == "" {
		return http.MethodPost
	}
	return c.Method
}

// target is the path with the script in its query.
func (c Call) target() string {
	path := c.Path
	if path == "" {
		path = Path
	}
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	return path + separator + c.query()
}

// fields are the headers besides those that frame the message.
func (c Call) fields() []Field {
	var fields []Field
	if c.Tenant != "" {
		fields = append(fields, Field{"x-tenant", c.Tenant})
	}
	if model := c.Model; !c.NoModel {
		if model == "" {
			model = "m"
		}
		fields = append(fields, Field{"x-model", model})
	}
	if c.Class != "" {
		fields = append(fields, Field{"x-class", c.Class})
	}
	if c.Deadline != 0 {
		fields = append(fields, Field{"x-request-timeout-ms", strconv.FormatInt(c.Deadline.Milliseconds(), 10)})
	}
	return append(fields, c.Header...)
}

// http1 is the head of the request as it goes over an HTTP/1.1 connection.
func (c Call) http1() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nhost: gateway\r\n", c.method(), c.target())
	for _, f := range c.fields() {
		fmt.Fprintf(&b, "%s: %s\r\n", f.Name, f.Value)
	}
	switch {
	case c.Delivery.Chunked:
		b.WriteString("transfer-encoding: chunked\r\n")
	case len(c.Body) > 0 || c.method() == http.MethodPost:
		fmt.Fprintf(&b, "content-length: %d\r\n", len(c.Body))
	}
	if c.Delivery.Expect {
		b.WriteString("expect: 100-continue\r\n")
	}
	b.WriteString("\r\n")
	return []byte(b.String())
}

// write sends the body.
func (d Delivery) write(out io.Writer, body []byte) error {
	piece := d.Piece
	if piece == 0 {
		piece = max(len(body), 1)
	}
	rest := body[:len(body)-d.Short]
	for len(rest) > 0 {
		wait(context.Background(), d.Gap)
		next := rest[:min(piece, len(rest))]
		rest = rest[len(next):]
		if d.Chunked {
			next = fmt.Appendf(nil, "%x\r\n%s\r\n", len(next), next)
		}
		if _, err := out.Write(next); err != nil {
			return err
		}
	}
	if d.Chunked && d.Short == 0 {
		_, err := io.WriteString(out, "0\r\n\r\n")
		return err
	}
	return nil
}

// Head is the head of the request, with a body of that size to come, as text for a Conn.
func (c Call) Head(bodySize int) string {
	c.Body = make([]byte, bodySize)
	return string(c.http1())
}

// With returns the call with an id, for the one-liners of tests.
func (c Call) With(id string) Call {
	c.ID = id
	return c
}
