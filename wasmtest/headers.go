package wasmtest

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// Header is one name and value of a header map. Names are lower case.
type Header struct {
	Name, Value string
}

// Headers is a header map in order, with repeated names as separate entries and pseudo headers (":path") first.
type Headers []Header

// HeadersOf makes a map from alternating names and values: HeadersOf("x-a", "1", "x-b", "2"). It panics when a value is
// missing.
func HeadersOf(namesAndValues ...string) Headers {
	if len(namesAndValues)%2 != 0 {
		panic(fmt.Sprintf("wasmtest: header %q has no value", namesAndValues[len(namesAndValues)-1]))
	}
	h := make(Headers, 0, len(namesAndValues)/2)
	for i := 0; i < len(namesAndValues); i += 2 {
		h = append(h, Header{strings.ToLower(namesAndValues[i]), namesAndValues[i+1]})
	}
	return h
}

// RequestHeaders makes the headers of a request: the four pseudo headers, then the given names and values.
func RequestHeaders(method, path string, namesAndValues ...string) Headers {
	h := Headers{{":method", method}, {":scheme", "http"}, {":authority", "example.test"}, {":path", path}}
	return append(h, HeadersOf(namesAndValues...)...)
}

// ResponseHeaders makes the headers of a response: :status, then the given names and values.
func ResponseHeaders(status int, namesAndValues ...string) Headers {
	h := Headers{{":status", fmt.Sprint(status)}}
	return append(h, HeadersOf(namesAndValues...)...)
}

// Get returns the first value of name, "" when there is none.
func (h Headers) Get(name string) string {
	value, _ := h.first(name)
	return value
}

// Has reports whether name occurs.
func (h Headers) Has(name string) bool {
	_, ok := h.first(name)
	return ok
}

// Values returns all values of name in order.
func (h Headers) Values(name string) []string {
	var values []string
	for _, e := range h {
		if strings.EqualFold(e.Name, name) {
			values = append(values, e.Value)
		}
	}
	return values
}

func (h Headers) first(name string) (string, bool) {
	for _, e := range h {
		if strings.EqualFold(e.Name, name) {
			return e.Value, true
		}
	}
	return "", false
}

func (h Headers) clone() Headers { return append(make(Headers, 0, len(h)+4), h...) }

// without returns the map without name, in place.
func (h Headers) without(name string) Headers {
	kept := h[:0]
	for _, e := range h {
		if !strings.EqualFold(e.Name, name) {
			kept = append(kept, e)
		}
	}
	return kept
}

// set replaces the first entry of name, drops the others, and appends when there was none.
func (h Headers) set(name, value string) Headers {
	for i, e := range h {
		if strings.EqualFold(e.Name, name) {
			h[i].Value = value
			return append(h[:i+1], h[i+1:].without(name)...)
		}
	}
	return append(h, Header{name, value})
}

// byteSize is what the real host answers proxy_get_header_map_size: bytes, not entries, whatever its name says.
func (h Headers) byteSize() int {
	size := 0
	for _, e := range h {
		size += len(e.Name) + len(e.Value)
	}
	return size
}

// The limits of the real host for a map that a guest hands over. A map above them, or a malformed one, counts as empty.
const (
	maxPairsBytes = 1 << 20
	maxPairsCount = 1024
)

// encode appends the proxy-wasm serialisation of h: the count, the sizes of each pair, then name NUL value NUL.
func (h Headers) encode(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(h)))
	for _, e := range h {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(e.Name)))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(e.Value)))
	}
	for _, e := range h {
		b = append(append(b, e.Name...), 0)
		b = append(append(b, e.Value...), 0)
	}
	return b
}

// decodeHeaders reads a map that a guest wrote; ok is false when the real host would take it for an empty one although
// the guest meant something else. Zero bytes are an empty map.
func decodeHeaders(b []byte) (h Headers, ok bool) {
	if len(b) == 0 {
		return nil, true
	}
	if len(b) < 4 || len(b) > maxPairsBytes {
		return nil, false
	}
	count := int(binary.LittleEndian.Uint32(b))
	if count > maxPairsCount || 4+8*count > len(b) {
		return nil, false
	}
	sizes, text := b[4:4+8*count], b[4+8*count:]
	next := func(size uint32) (string, bool) {
		if uint64(size) >= uint64(len(text)) || text[size] != 0 {
			return "", false
		}
		s := string(text[:size])
		text = text[size+1:]
		return s, true
	}
	h = make(Headers, count)
	for i := range h {
		name, nameOK := next(binary.LittleEndian.Uint32(sizes[8*i:]))
		value, valueOK := next(binary.LittleEndian.Uint32(sizes[8*i+4:]))
		if !nameOK || !valueOK {
			return nil, false
		}
		h[i] = Header{strings.ToLower(name), value}
	}
	return h, len(text) == 0
}
