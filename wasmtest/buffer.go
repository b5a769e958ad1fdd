package wasmtest

// The buffers a guest can name.
const (
	requestBodyBuffer         = 0
	responseBodyBuffer        = 1
	callResponseBodyBuffer    = 4
	vmConfigurationBuffer     = 6
	pluginConfigurationBuffer = 7
	lastBuffer                = 8
)

// buffer is one that can be read in this context. Bodies can always be asked for, and are empty when there is none.
func (c *guestContext) buffer(kind uint64) (data []byte, ok bool) {
	switch kind {
	case requestBodyBuffer, responseBodyBuffer:
		if body := c.body(kind); body != nil {
			return *body, true
		}
		return nil, true
	case callResponseBodyBuffer:
		if c.root != nil && c.root.answer != nil {
			return c.root.answer.Body, true
		}
	case vmConfigurationBuffer:
		return c.vm.configuration, true
	case pluginConfigurationBuffer:
		if p := c.vm.configuring; p != nil {
			return p.config.Configuration, true
		}
	}
	return nil, false
}

// body is a body piece that can be changed, nil if there is none.
func (c *guestContext) body(kind uint64) *[]byte {
	if c.stream == nil || kind > responseBodyBuffer {
		return nil
	}
	h := &c.stream.halves[direction(kind)]
	if !h.chunkOpen {
		return nil
	}
	return h.visible()
}

// setBuffer changes a body in the three ways that the real host can: it prepends, replaces the whole, or appends.
func (c *guestContext) setBuffer(kind, start, length uint64, data []byte) Status {
	if _, ok := c.buffer(kind); !ok {
		return StatusNotFound
	}
	body := c.body(kind)
	if body == nil {
		return StatusBadArgument
	}
	size := uint64(len(*body))
	switch {
	case start == 0 && length == 0:
		*body = append(append([]byte(nil), data...), *body...)
	case start == 0 && length >= size:
		*body = append((*body)[:0], data...)
	case start > 0 && start >= size:
		*body = append(*body, data...)
	default:
		return StatusBadArgument
	}
	return StatusOk
}
