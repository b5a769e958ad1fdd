package rig

import (
	"fmt"
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

// http1 is the request as it goes over an HTTP/1.1 connection.
func (c Call) http1() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nhost: gateway\r\n", c.method(), c.target())
	for _, f := range c.fields() {
		fmt.Fprintf(&b, "%s: %s\r\n", f.Name, f.Value)
	}
	if len(c.Body) > 0 || c.method() == http.MethodPost {
		fmt.Fprintf(&b, "content-length: %d\r\n", len(c.Body))
	}
	b.WriteString("\r\n")
	b.Write(c.Body)
	return []byte(b.String())
}

// With returns the call with an id, for the one-liners of tests.
func (c Call) With(id string) Call {
	c.ID = id
	return c
}
