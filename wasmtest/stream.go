package wasmtest

import (
	"fmt"
	"strconv"
)

// Action is what a guest answered to a piece of a stream, as the real host understands it. A number out of range counts
// as the strictest action. If the callback asked for a local reply, the answer doesn't count.
type Action int

// What a guest can answer. 2 and 3 mean different things for headers and for a body piece; trailers know 0 and 1.
const (
	Continue Action = 0
	// Pause stops here: headers wait (and the body with them, unless AllowOnHeadersStopIteration); a body piece is
	// buffered, and the guest sees the whole buffer next time.
	Pause Action = 1

	// StopAllAndBuffer and StopAllAndWatermark are answers to headers: they and all that follows wait.
	StopAllAndBuffer    Action = 2
	StopAllAndWatermark Action = 3

	// StopAndWatermark is an answer to a body piece: it waits, and the guest won't see it again.
	StopAndWatermark Action = 2
	// StopNoBuffer is an answer to a body piece: it is dropped.
	StopNoBuffer Action = 3

	// Held: the stream is stopped, so the host keeps the piece and the guest hasn't seen it.
	Held Action = -1
	// Ended: the stream had ended before; nothing happened.
	Ended Action = -2
)

// String returns the constant's name, or the number where a number has two names.
func (a Action) String() string {
	switch a {
	case Continue:
		return "Continue"
	case Pause:
		return "Pause"
	case Held:
		return "Held"
	case Ended:
		return "Ended"
	}
	return "Action(" + strconv.Itoa(int(a)) + ")"
}

// Stream is one HTTP stream as a filter sees it: a client's request, or with [Upstream] one attempt of the router's.
// The test plays the client, the filters around and the upstream: it hands the pieces in, and looks at what came
// through and how it ended.
type Stream struct {
	root     *Root
	vm       *VM
	worker   *Worker
	context  *guestContext
	of       *Request
	upstream bool
	created  bool
	history  []callback

	halves [2]half
	// While deciding what to do with a piece of the request, a reply of the guest's own is only prepared.
	deciding bool
	prepared *LocalReply
	replied  *LocalReply
	code     int
	logging  bool
	ended    *End
	props    properties
}

// StreamOption configures [Root.Stream].
type StreamOption func(*Stream)

// Upstream makes the stream an attempt of the router's, seen by the module as an upstream HTTP filter: no proxy_on_log,
// and a local reply of it goes out through the downstream stream of its [Request].
func Upstream() StreamOption { return func(s *Stream) { s.upstream = true } }

// OfRequest makes the stream part of r, with its filter state and properties.
func OfRequest(r *Request) StreamOption { return func(s *Stream) { s.of = r } }

// Stream begins a stream with its own context id. The guest's first callback for it comes with the first piece. A
// stream that ends before that ends with create, log, done and delete, without headers.
func (r *Root) Stream(options ...StreamOption) *Stream {
	s := &Stream{root: r, vm: r.vm, worker: r.vm.worker}
	for _, option := range options {
		option(s)
	}
	if s.of == nil {
		s.of = r.plugin.host.NewRequest()
	}
	if !s.upstream && s.of.downstream == nil {
		s.of.downstream = s
	}
	s.context = r.vm.newContext(r, s)
	r.streams++
	return s
}

// ContextID is the stream's context id in its VM.
func (s *Stream) ContextID() uint32 { return s.context.id }

// Root returns the root context the stream belongs to.
func (s *Stream) Root() *Root { return s.root }

// Request returns what the stream shares with other streams of the same request.
func (s *Stream) Request() *Request { return s.of }

// RequestHeaders hands in the request's headers. It copies h.
func (s *Stream) RequestHeaders(h Headers, endOfStream bool) Action {
	s.worker.enter()
	defer s.worker.leave()
	return s.headers(request, h, endOfStream)
}

// RequestBody hands in a piece of the request's body. While the stream is stopped at its headers the host keeps it and
// the answer is [Held]: it is delivered, with what else was held, when the guest continues.
func (s *Stream) RequestBody(data []byte, endOfStream bool) Action {
	s.worker.enter()
	defer s.worker.leave()
	return s.body(request, data, endOfStream)
}

// RequestTrailers hands in the request's trailers, its end.
func (s *Stream) RequestTrailers(h Headers) Action {
	s.worker.enter()
	defer s.worker.leave()
	return s.trailers(request, h)
}

// ResponseHeaders hands in the upstream's response headers. If they end the response and pass, the stream completes.
func (s *Stream) ResponseHeaders(h Headers, endOfStream bool) Action {
	s.worker.enter()
	defer s.worker.leave()
	return s.headers(response, h, endOfStream)
}

// ResponseBody hands in a piece of the response's body. If it ends the response and passes, the stream completes.
func (s *Stream) ResponseBody(data []byte, endOfStream bool) Action {
	s.worker.enter()
	defer s.worker.leave()
	return s.body(response, data, endOfStream)
}

// ResponseTrailers hands in the response's trailers, its end. If they pass, the stream completes.
func (s *Stream) ResponseTrailers(h Headers) Action {
	s.worker.enter()
	defer s.worker.leave()
	return s.trailers(response, h)
}

// Respond is a whole response: headers, and the body in one piece unless it is empty.
func (s *Stream) Respond(status int, body string) Action {
	a := s.ResponseHeaders(ResponseHeaders(status), body == "")
	if a != Ended && body != "" {
		a = s.ResponseBody([]byte(body), true)
	}
	return a
}

// Paused reports whether the request is stopped, so that nothing of it goes on until the guest continues it.
func (s *Stream) Paused() bool { return s.ended == nil && s.halves[request].stopped() }

// ResponsePaused is [Stream.Paused] for the response.
func (s *Stream) ResponsePaused() bool { return s.ended == nil && s.halves[response].stopped() }

// Forwarded is what has passed the filter towards the upstream.
func (s *Stream) Forwarded() Message { return s.halves[request].out.clone() }

// Received is what has passed the filter towards the client.
func (s *Stream) Received() Message { return s.halves[response].out.clone() }

// Callbacks lists the callbacks made for this stream, in order, without the prefix "proxy_".
func (s *Stream) Callbacks() []string {
	names := make([]string, len(s.history))
	for i, cb := range s.history {
		names[i] = cb.String()[len("proxy_"):]
	}
	return names
}

// String names the stream for failure messages.
func (s *Stream) String() string { return fmt.Sprintf("stream %d of %s", s.context.id, s.worker.name) }

// enterGuest calls a callback of this stream and notes it.
func (s *Stream) enterGuest(cb callback, args ...uint32) (uint32, bool) {
	if s.vm.failed == nil && s.vm.callbacks[cb] != nil {
		s.history = append(s.history, cb)
	}
	return s.vm.enterGuest(cb, s.context, args...)
}

func (s *Stream) create() {
	if s.created {
		return
	}
	s.created = true
	s.enterGuest(onContextCreate, s.root.context.id)
	s.vm.runActions()
}

// frame calls the callback for a piece of the stream, and acts on its answer as the real host does. It returns when
// what the guest deferred has happened; the stream may have ended by then.
func (s *Stream) frame(cb callback, strictest Action, args ...uint32) Action {
	if s.vm.callbacks[cb] == nil || !s.created {
		return Continue // the request was refused before it came to the filter, which then doesn't see the response
	}
	outer := s.deciding
	s.deciding = cb <= onRequestTrailers
	result, _ := s.enterGuest(cb, args...)
	answer := Action(result)
	if s.vm.stopIteration || answer > strictest {
		answer = strictest
	}
	s.vm.runActions()
	s.deciding = outer
	if s.broken() {
		return strictest
	}
	if reply := s.prepared; reply != nil && !outer && s.ended == nil {
		s.prepared = nil
		s.replyNow(reply)
	}
	return answer
}

// broken fails the stream if its VM is dead and the plugin doesn't fail open. The guest gets no callback.
func (s *Stream) broken() bool {
	dead := s.vm.failed != nil || s.root.state == rootRefused
	if !dead || s.root.plugin.config.FailOpen {
		return false
	}
	if s.ended != nil {
		return true
	}
	if s.halves[response].out.Headers != nil {
		s.end(End{Cause: VMFailed, Code: s.code, Details: "wasm_fail_stream", Flags: FlagLocalReset})
		return true
	}
	s.replied = &LocalReply{Code: 503, Details: "wasm_fail_stream", GRPCStatus: 14, byHost: true}
	s.halves[response].out.Headers = s.replied.headers(s)
	s.halves[response].out.Ended = true
	s.end(End{Cause: VMFailed, Code: 503, Details: "wasm_fail_stream"})
	return true
}
