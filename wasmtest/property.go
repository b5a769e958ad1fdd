package wasmtest

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"
)

// properties are values by path. The parts of a path are joined by NUL; a value is the bytes that a guest gets.
type properties struct {
	values map[string][]byte
}

func (p *properties) set(value any, path []string) {
	if p.values == nil {
		p.values = map[string][]byte{}
	}
	key := strings.Join(path, "\x00")
	if value == nil {
		delete(p.values, key)
		return
	}
	p.values[key] = propertyBytes(value)
}

// SetProperty sets what proxy_get_property(path) answers in this stream:
//
//	s.SetProperty("alice", "metadata", "filter_metadata", "envoy.filters.http.jwt_authn", "payload", "sub")
//
// Strings and bytes go as they are; integers, times (nanoseconds since 1970), durations (nanoseconds), floats and bools
// as the real host serialises them; nil unsets. Only whole paths are found: reading a map on the way to a value gives
// NotFound here. It panics on another type.
func (s *Stream) SetProperty(value any, path ...string) { s.props.set(value, path) }

// SetProperty sets a property of every context, roots included: see [Stream.SetProperty].
func (h *Host) SetProperty(value any, path ...string) { h.props.set(value, path) }

func propertyBytes(value any) []byte {
	number := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
	switch v := value.(type) {
	case string:
		return []byte(v)
	case []byte:
		return append([]byte{}, v...)
	case bool:
		return []byte{byte(asUint32(v))}
	case int:
		return number(uint64(v))
	case int64:
		return number(uint64(v))
	case uint64:
		return number(v)
	case float64:
		return number(math.Float64bits(v))
	case time.Duration:
		return number(uint64(v))
	case time.Time:
		return number(uint64(v.UnixNano()))
	}
	panic(fmt.Sprintf("wasmtest: a property can't be a %T", value))
}

// property looks a path up: first what the test set for the stream, then for its request and the host, then what the
// host knows.
func (c *guestContext) property(path []byte) ([]byte, bool) {
	if s := c.stream; s != nil {
		if v, ok := s.props.values[string(path)]; ok {
			return v, true
		}
		if v, ok := s.of.props.values[string(path)]; ok {
			return v, true
		}
	}
	if v, ok := c.vm.host.props.values[string(path)]; ok {
		return v, true
	}
	first, rest, nested := strings.Cut(string(path), "\x00")
	if v, ok := c.ownProperty(first); ok && !nested {
		return propertyBytes(v), true
	}
	if c.stream == nil {
		return nil, false
	}
	return c.stream.property(first, rest, nested)
}

func (c *guestContext) ownProperty(name string) (any, bool) {
	switch {
	case name == "plugin_vm_id":
		return c.vm.host.options.vmID, true
	case c.root == nil:
	case name == "plugin_name":
		return c.root.plugin.config.Name, true
	case name == "plugin_root_id":
		return c.root.plugin.config.RootID, true
	}
	return nil, false
}

func (s *Stream) property(first, rest string, nested bool) ([]byte, bool) {
	switch {
	case !nested:
		v, ok := s.of.state[first]
		return v, ok
	case first == "filter_state":
		v, ok := s.of.state[strings.TrimPrefix(rest, "wasm.")]
		return v, ok && strings.HasPrefix(rest, "wasm.")
	case first == "request":
		return s.requestProperty(rest)
	case first == "response":
		return s.responseProperty(rest)
	}
	return nil, false
}

// requestHeaderOf names the header behind each property of the request that is one.
var requestHeaderOf = map[string]string{
	"path": ":path", "host": ":authority", "scheme": ":scheme", "method": ":method",
	"referer": "referer", "useragent": "user-agent", "id": "x-request-id",
}

// requestProperty reads from the headers, and like the real host only while they can be reached.
func (s *Stream) requestProperty(name string) ([]byte, bool) {
	headers, _ := s.readableMap(requestHeadersMap)
	header, ok := requestHeaderOf[name]
	if name == "duration" && s.of.downstream != nil && s.of.downstream.ended != nil {
		return propertyBytes(requestTime), true
	}
	if name == "url_path" {
		path, found := headers.first(":path")
		path, _, _ = strings.Cut(path, "?")
		return []byte(path), found
	}
	if !ok {
		if header, ok = strings.CutPrefix(name, "headers\x00"); !ok {
			return nil, false
		}
	}
	value, found := headers.first(header)
	return []byte(value), found
}

func (s *Stream) responseProperty(name string) ([]byte, bool) {
	if header, ok := strings.CutPrefix(name, "headers\x00"); ok {
		headers, _ := s.readableMap(responseHeadersMap)
		value, found := headers.first(header)
		return []byte(value), found
	}
	code, flags, details := s.code, ResponseFlags(0), s.replyDetails()
	if s.ended != nil {
		code, flags, details = s.ended.Code, s.ended.Flags, s.ended.Details
	}
	if down := s.of.downstream; s.upstream && down != nil { // an attempt sees what the request as a whole has come to
		come := End{Code: down.code, Details: down.replyDetails()}
		if down.ended != nil {
			come = *down.ended
		}
		flags |= come.Flags
		if code == 0 {
			code = come.Code
		}
		if details == "" {
			details = come.Details
		}
	}
	switch {
	case name == "code" && code != 0:
		return propertyBytes(code), true
	case name == "flags":
		return propertyBytes(uint64(flags)), true
	case name == "code_details" && details != "":
		return []byte(details), true
	case name == "backend_latency" && s.ended != nil && s.ended.Cause == Completed && s.replied == nil:
		return propertyBytes(upstreamTime), true
	}
	return nil, false
}

// requestTime is the property request.duration. Only a request that has ended as a whole has it, whose attempts may end
// later.
const requestTime = time.Millisecond

// upstreamTime is the property response.backend_latency. Only a response that came whole from the upstream has it.
const upstreamTime = time.Millisecond

// replyDetails is response.code_details while the response passes.
func (s *Stream) replyDetails() string {
	switch {
	case s.replied != nil:
		return s.replied.Details
	case s.halves[response].headers != nil:
		return "via_upstream"
	}
	return ""
}

// setProperty writes filter state, which only streams have.
func (c *guestContext) setProperty(key, value []byte) Status {
	if c.stream == nil {
		return StatusNotFound
	}
	c.stream.of.SetFilterState(string(key), value)
	return StatusOk
}
