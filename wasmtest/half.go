package wasmtest

import "bytes"

type direction int

const (
	request direction = iota
	response
)

// Message is a request or response as far as it has passed the filter.
type Message struct {
	Headers  Headers // nil if they haven't passed
	Body     []byte
	Trailers Headers
	Ended    bool // its end has passed
}

func (m Message) clone() Message {
	m.Body = bytes.Clone(m.Body)
	if m.Headers != nil {
		m.Headers = m.Headers.clone()
	}
	if m.Trailers != nil {
		m.Trailers = m.Trailers.clone()
	}
	return m
}

// stop is how far a half is stopped.
type stop int

const (
	flowing stop = iota
	// stoppedHere: nothing passes the filter, which still sees the pieces that follow.
	stoppedHere
	// stoppedAll: the filter sees nothing either.
	stoppedAll
)

// half is the request or the response of a stream.
type half struct {
	headers  Headers
	trailers Headers
	// Which of them the guest can reach; the body is reachable as long as it isn't nil.
	headersOpen, trailersOpen bool
	// chunk is the body piece the guest sees. buffer has the pieces that wait, which the guest sees only when
	// accumulating.
	chunk        []byte
	chunkOpen    bool
	buffer       []byte
	accumulating bool
	end          bool // the last delivered piece was the last one
	trailed      bool // trailers were delivered
	stop         stop

	held Message // what came while stoppedAll
	out  Message
}

func (h *half) stopped() bool { return h.stop != flowing }

func (s *Stream) headers(d direction, headers Headers, end bool) Action {
	if s.ended != nil {
		return Ended
	}
	h := &s.halves[d]
	h.headers, h.headersOpen, h.end = headers.clone(), true, end
	if s.broken() {
		return StopAllAndWatermark
	}
	cb := onRequestHeaders
	if d == response {
		cb = onResponseHeaders
	} else if s.create(); s.broken() {
		return StopAllAndWatermark
	}
	answer := s.frame(cb, StopAllAndWatermark, uint32(len(h.headers)), asUint32(end))
	if s.ended != nil {
		return answer
	}
	switch {
	case answer == Continue:
		h.headersOpen = false
		s.forward(d)
	case answer == Pause && s.root.plugin.config.AllowOnHeadersStopIteration:
		h.stop = stoppedHere
	default:
		h.stop = stoppedAll
	}
	return answer
}

func (s *Stream) body(d direction, data []byte, end bool) Action {
	h := &s.halves[d]
	switch {
	case s.ended != nil:
		return Ended
	case h.stop == stoppedAll:
		h.held.Body = append(h.held.Body, data...)
		h.held.Ended = end
		return Held
	case s.broken():
		return StopNoBuffer
	}
	return s.deliverBody(d, data, end)
}

func (s *Stream) deliverBody(d direction, data []byte, end bool) Action {
	h := &s.halves[d]
	accumulated := h.accumulating
	if accumulated {
		h.buffer = append(h.buffer, data...)
		if len(h.buffer) > s.worker.host.options.bodyLimit {
			s.tooLarge(d)
			return Pause
		}
	} else {
		h.chunk = bytes.Clone(data)
	}
	h.chunkOpen, h.end = true, end
	cb := onRequestBody
	if d == response {
		cb = onResponseBody
	}
	answer := s.frame(cb, StopNoBuffer, uint32(len(*h.visible())), asUint32(end))
	if s.ended != nil {
		return answer
	}
	s.place(d, answer, accumulated)
	return answer
}

// place puts a piece where the guest's answer says: forwards it, keeps it in the buffer, or drops it.
func (s *Stream) place(d direction, answer Action, accumulated bool) {
	h := &s.halves[d]
	waits := h.chunk
	if accumulated {
		waits = nil // it is in the buffer already
	}
	h.chunk, h.accumulating = nil, false
	if answer == StopNoBuffer {
		waits = nil // the guest keeps what it needs of the piece
	}
	h.buffer = append(h.buffer, waits...)
	if answer == Continue {
		h.chunkOpen = false
		s.release(d)
		return
	}
	h.stop = max(h.stop, stoppedHere)
	if answer == Pause {
		h.accumulating = true
		if len(h.buffer) > s.worker.host.options.bodyLimit {
			s.tooLarge(d)
		}
	}
}

// visible is the body the guest can read and change.
func (h *half) visible() *[]byte {
	if h.accumulating {
		return &h.buffer
	}
	return &h.chunk
}

func (s *Stream) trailers(d direction, trailers Headers) Action {
	h := &s.halves[d]
	switch {
	case s.ended != nil:
		return Ended
	case h.stop == stoppedAll:
		h.held.Trailers, h.held.Ended = trailers.clone(), true
		return Held
	case s.broken():
		return Pause
	}
	return s.deliverTrailers(d, trailers)
}

func (s *Stream) deliverTrailers(d direction, trailers Headers) Action {
	h := &s.halves[d]
	h.trailers, h.trailersOpen, h.trailed, h.end = trailers.clone(), true, true, true
	cb := onRequestTrailers
	if d == response {
		cb = onResponseTrailers
	}
	answer := s.frame(cb, Pause, uint32(len(h.trailers)))
	if s.ended != nil {
		return answer
	}
	if answer == Continue {
		h.trailersOpen = false
		s.release(d)
	} else {
		h.stop = max(h.stop, stoppedHere)
	}
	return answer
}

// release forwards what waits at the filter: an answer of Continue to a later piece resumes the earlier ones too.
func (s *Stream) release(d direction) {
	s.halves[d].stop = flowing
	s.forward(d)
}

// resume does what a guest's continue asks for.
func (s *Stream) resume(d direction) {
	h := &s.halves[d]
	if d == request && s.replied != nil {
		return // a reply is under way: nothing goes upstream any more
	}
	if h.stop == flowing {
		s.vm.violate(ContinueNotPaused, "%s", s)
		return
	}
	held := h.stop == stoppedAll
	s.release(d)
	if !held || s.ended != nil {
		return
	}
	kept := h.held
	h.held = Message{}
	if len(kept.Body) > 0 || (kept.Ended && kept.Trailers == nil) {
		s.deliverBody(d, kept.Body, kept.Ended && kept.Trailers == nil)
	}
	if kept.Trailers != nil && s.ended == nil {
		s.deliverTrailers(d, kept.Trailers)
	}
}

// forward passes on everything that waits in the filter. The response's end completes the stream.
func (s *Stream) forward(d direction) {
	h := &s.halves[d]
	if h.out.Headers == nil && h.headers != nil {
		h.out.Headers = h.headers.clone()
		if d == response {
			s.code = h.headers.status()
		}
	}
	h.out.Body = append(h.out.Body, h.buffer...)
	h.buffer, h.accumulating = nil, false
	if h.trailers != nil {
		h.out.Trailers = h.trailers.clone()
	}
	h.out.Ended = h.end
	if d == response && h.end {
		s.complete()
	}
}

// tooLarge is what the host does when a guest buffers more than the limit.
func (s *Stream) tooLarge(d direction) {
	if d == request {
		s.replyNow(&LocalReply{Code: 413, Body: []byte("Payload Too Large"), Details: "request_payload_too_large",
			GRPCStatus: NoGRPCStatus, byHost: true})
		return
	}
	s.replyNow(&LocalReply{Code: 500, Body: []byte("Internal Server Error"), Details: "response_payload_too_large",
		GRPCStatus: NoGRPCStatus, byHost: true})
}

func asUint32(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}
