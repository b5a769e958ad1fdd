package wasmtest

// Request is one client call: what its downstream stream and the router's attempts for it have in common, which is
// filter state (what proxy_set_property writes) and the properties the test gives it.
type Request struct {
	number     uint64
	downstream *Stream
	state      map[string][]byte
	props      properties
}

// NewRequest makes a request for [OfRequest]. A stream that isn't told its request makes one itself (see
// [Stream.Request]).
func (h *Host) NewRequest() *Request {
	h.requests++
	return &Request{number: h.requests}
}

// FilterState returns what a guest wrote with proxy_set_property(key); ok is false if nothing.
func (r *Request) FilterState(key string) (value []byte, ok bool) {
	value, ok = r.state[key]
	return append([]byte(nil), value...), ok
}

// SetFilterState writes what a guest reads with proxy_get_property(key), as another wasm filter would have written it.
func (r *Request) SetFilterState(key string, value []byte) {
	if r.state == nil {
		r.state = map[string][]byte{}
	}
	r.state[key] = append([]byte(nil), value...)
}

// SetProperty sets a property of all the request's streams: see [Stream.SetProperty].
func (r *Request) SetProperty(value any, path ...string) { r.props.set(value, path) }
