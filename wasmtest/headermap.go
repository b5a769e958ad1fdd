package wasmtest

// The header maps a guest can name.
const (
	requestHeadersMap       = 0
	requestTrailersMap      = 1
	responseHeadersMap      = 2
	responseTrailersMap     = 3
	callResponseHeadersMap  = 6
	callResponseTrailersMap = 7
	lastMap                 = 7
)

// readableMap is a map of the stream that can be read now; ok is false if it can't be reached. In proxy_on_log the
// headers of both sides can, in proxy_on_done and proxy_on_delete nothing.
func (s *Stream) readableMap(kind uint64) (h Headers, ok bool) {
	if s.logging {
		return s.loggedMap(kind)
	}
	m := s.writableMap(kind)
	if m == nil {
		return nil, false
	}
	return *m, true
}

func (s *Stream) loggedMap(kind uint64) (h Headers, ok bool) {
	switch kind {
	case requestHeadersMap:
		h = s.halves[request].headers
	case responseHeadersMap:
		h = s.halves[response].out.Headers
	case responseTrailersMap:
		h = s.halves[response].out.Trailers
	}
	return h, h != nil
}

// writableMap is a map of the stream that the guest can change now, nil if it can't. It can change headers from their
// callback until they go on: by the answer Continue, or by a continue later. The same holds for trailers. With the last
// body piece it may add trailers.
func (s *Stream) writableMap(kind uint64) *Headers {
	d := request
	if kind >= responseHeadersMap {
		d = response
	}
	h := &s.halves[d]
	switch kind {
	case requestHeadersMap, responseHeadersMap:
		if h.headersOpen {
			return &h.headers
		}
	case requestTrailersMap, responseTrailersMap:
		if h.trailersOpen || (h.chunkOpen && h.end) {
			return &h.trailers
		}
	}
	return nil
}

// readableMap is a map that can be read in this context.
func (c *guestContext) readableMap(kind uint64) (Headers, bool) {
	if kind == callResponseHeadersMap || kind == callResponseTrailersMap {
		return c.calloutMap(kind)
	}
	if c.stream == nil {
		return nil, false
	}
	return c.stream.readableMap(kind)
}

func (c *guestContext) calloutMap(kind uint64) (Headers, bool) {
	if c.root == nil || c.root.answer == nil {
		return nil, false
	}
	h := c.root.answer.Headers
	if kind == callResponseTrailersMap {
		h = c.root.answer.Trailers
	}
	return h, h != nil
}

func (c *guestContext) writableMap(kind uint64) *Headers {
	if c.stream == nil {
		return nil
	}
	return c.stream.writableMap(kind)
}

// noMap is the status for a name that isn't there or a map that can't be reached.
func (c *guestContext) noMap() Status {
	if c.stream != nil && c.stream.logging {
		return StatusNotFound
	}
	return StatusBadArgument
}
