package wasmtest

// Cause says in general what ended a stream.
type Cause string

// The ways a stream ends. The guest gets the same callbacks whatever it was.
const (
	Completed    Cause = "completed"      // the response's end went out to the client
	Replied      Cause = "local reply"    // by the guest, by another filter or by the host
	ClientGone   Cause = "client gone"    // the client closed or reset
	UpstreamGone Cause = "upstream reset" // the upstream closed or reset in the middle of its response
	Closed       Cause = "closed"         // the guest called proxy_close_stream
	VMFailed     Cause = "VM failed"      // the host cut it because its VM is dead
)

// ResponseFlags is the property response.flags.
type ResponseFlags uint64

// Some of Envoy's response flags, by their bits.
const (
	FlagUpstreamTimeout       ResponseFlags = 1 << 2  // UT
	FlagLocalReset            ResponseFlags = 1 << 3  // LR
	FlagUpstreamRemoteReset   ResponseFlags = 1 << 4  // UR
	FlagUpstreamTermination   ResponseFlags = 1 << 6  // UC
	FlagDownstreamTermination ResponseFlags = 1 << 14 // DC
	FlagStreamIdleTimeout     ResponseFlags = 1 << 16 // SI
	FlagDownstreamRemoteReset ResponseFlags = 1 << 28 // DR: an HTTP/2 client reset its stream
)

// End is how a stream ended; the guest reads the last three as the properties response.code, response.flags and
// response.code_details.
type End struct {
	Cause   Cause
	Code    int // 0 if no response had begun
	Flags   ResponseFlags
	Details string
}

// End ends the stream the way e says, at once, paused or not: proxy_on_log (not for an attempt), proxy_on_done and
// proxy_on_delete. On a stream that has ended, nothing happens. A zero e.Code means the code of the response so far.
func (s *Stream) End(e End) {
	s.worker.enter()
	defer s.worker.leave()
	s.end(e)
}

// Complete ends the stream as if the whole response had gone out, even if the test handed in only a part of it.
func (s *Stream) Complete() {
	s.worker.enter()
	defer s.worker.leave()
	s.complete()
}

// ClientGone ends the stream because the client has closed its connection or reset the stream.
func (s *Stream) ClientGone() {
	s.End(End{Cause: ClientGone, Flags: FlagDownstreamTermination, Details: "downstream_remote_disconnect"})
}

// UpstreamReset is a reset by the upstream: after the response's headers it ends the stream; before them a client's
// stream gets the host's 503. An attempt just ends: what Envoy says of the reset, it says of the request as a whole,
// and later.
func (s *Stream) UpstreamReset() {
	switch {
	case s.upstream:
		s.End(End{Cause: UpstreamGone})
		return
	case s.halves[response].out.Headers != nil:
		s.End(End{Cause: UpstreamGone, Flags: FlagUpstreamRemoteReset,
			Details: "upstream_reset_after_response_started{remote_reset}"})
		return
	}
	s.HostReply(503, "upstream_reset_before_response_started{remote_reset}", FlagUpstreamRemoteReset)
}

// Ended returns how the stream ended; ok is false while it lives.
func (s *Stream) Ended() (e End, ok bool) {
	if s.ended == nil {
		return End{}, false
	}
	return *s.ended, true
}

func (s *Stream) complete() {
	e := End{Cause: Completed, Details: "via_upstream"}
	if s.replied != nil {
		e = End{Cause: Replied, Details: s.replied.Details, Flags: s.replied.flags}
	}
	s.end(e)
}

// end makes the last callbacks. The context id stays valid until the event is over, as the proxy deletes it later.
func (s *Stream) end(e End) {
	if s.ended != nil {
		return
	}
	if e.Code == 0 {
		e.Code = s.code
	}
	s.ended = &e
	s.worker.ended = append(s.worker.ended, s.context)
	for i := range s.halves {
		h := &s.halves[i]
		h.headersOpen, h.trailersOpen, h.chunkOpen = false, false, false
	}
	if !s.upstream {
		s.create() // a request that no filter has seen is logged too
		s.logging = true
		s.enterGuest(onLog)
		s.vm.runActions()
		s.logging = false
	}
	if s.created {
		s.enterGuest(onDone)
		s.vm.runActions()
		s.enterGuest(onDelete)
		s.vm.runActions()
	}
}
