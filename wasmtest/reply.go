package wasmtest

import (
	"bytes"
	"strconv"
	"strings"
)

// NoGRPCStatus is a local reply's GRPCStatus when the guest named none.
const NoGRPCStatus = -1

// LocalReply is a response made by a filter or by the host itself instead of the upstream.
type LocalReply struct {
	Code       int
	Headers    Headers // what the guest added; the response also has :status and so on, see [Stream.Received]
	Body       []byte
	GRPCStatus int // 0 to 16, or [NoGRPCStatus]
	Details    string

	flags  ResponseFlags
	byHost bool
}

// LocalReply returns the reply the stream got instead of an upstream's response, nil if none.
func (s *Stream) LocalReply() *LocalReply { return s.replied }

// HostReply is a reply by the host or another filter: a timeout, a missing route, no healthy upstream. It passes the
// response callbacks as a guest's own reply does. If a response has begun, the stream is cut instead.
func (s *Stream) HostReply(code int, details string, flags ResponseFlags) {
	s.worker.enter()
	defer s.worker.leave()
	if s.ended == nil {
		s.replyNow(&LocalReply{Code: code, Details: details, GRPCStatus: NoGRPCStatus, flags: flags, byHost: true})
	}
}

// reply does what a guest asked for. In the middle of the stream's own callback it waits for that to end.
func (s *Stream) reply(r *LocalReply) {
	if s.deciding && s.halves[response].headers == nil {
		s.prepared = r
		return
	}
	s.replyNow(r)
}

func (s *Stream) replyNow(r *LocalReply) {
	if s.halves[response].out.Headers != nil {
		s.end(End{Cause: Replied, Details: r.Details, Flags: FlagLocalReset})
		return
	}
	s.replied = r
	if s.upstream {
		s.replyForRouter(r)
		return
	}
	if s.halves[response].headers != nil {
		s.replyDirectly(r)
		return
	}
	headers, body := r.headers(s), r.body(s)
	s.headers(response, headers, len(body) == 0)
	if len(body) > 0 && s.ended == nil {
		s.body(response, body, true)
	}
}

// replyDirectly replaces a response that is on its way through the filters: the filters don't see the replacement.
func (s *Stream) replyDirectly(r *LocalReply) {
	s.halves[response].out = Message{Headers: r.headers(s), Body: r.body(s), Ended: true}
	s.code = r.Code
	s.complete()
}

// replyForRouter is a reply to an attempt. It skips the attempt's own response callbacks and goes to the client through
// the downstream stream. Then the router is done, and drops the attempt.
func (s *Stream) replyForRouter(r *LocalReply) {
	if down := s.of.downstream; down != nil && down.ended == nil && down.worker == s.worker {
		down.replyNow(&LocalReply{Code: r.Code, Headers: r.Headers, Body: r.Body, GRPCStatus: r.GRPCStatus,
			Details: r.Details, flags: r.flags, byHost: true})
	}
	s.end(End{Cause: Replied, Code: r.Code, Details: r.Details})
}

// headers are the response's, made as Envoy makes them: for gRPC, trailers only.
func (r *LocalReply) headers(s *Stream) Headers {
	if s.grpc() {
		h := ResponseHeaders(200, "content-type", "application/grpc", "grpc-status", strconv.Itoa(r.grpcStatus()))
		if len(r.Body) > 0 {
			h = append(h, Header{"grpc-message", string(r.Body)})
		}
		return append(h, r.Headers...)
	}
	h := append(ResponseHeaders(r.Code), r.Headers...)
	if len(r.Body) > 0 {
		h = h.set("content-length", strconv.Itoa(len(r.Body)))
		if !h.Has("content-type") {
			h = append(h, Header{"content-type", "text/plain"})
		}
	}
	return h
}

func (r *LocalReply) body(s *Stream) []byte {
	if s.grpc() || s.halves[request].headers.Get(":method") == "HEAD" {
		return nil
	}
	return bytes.Clone(r.Body)
}

// grpcStatus maps the HTTP code as gRPC prescribes, if the guest chose no status itself.
func (r *LocalReply) grpcStatus() int {
	if r.GRPCStatus != NoGRPCStatus {
		return r.GRPCStatus
	}
	switch r.Code {
	case 400:
		return 13
	case 401:
		return 16
	case 403:
		return 7
	case 404:
		return 12
	case 429, 502, 503, 504:
		return 14
	}
	return 2
}

func (s *Stream) grpc() bool {
	t := s.halves[request].headers.Get("content-type")
	return t == "application/grpc" || strings.HasPrefix(t, "application/grpc+")
}

func (h Headers) status() int {
	code, _ := strconv.Atoi(h.Get(":status"))
	return code
}
