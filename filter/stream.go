package filter

import (
	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/filter/abi"
)

// A fate is what has been decided of a waiter and not yet done.
type fate uint8

const (
	fateNone fate = iota
	fateGranted
	fateRefused
)

// A stream is one request.
type stream struct {
	types.DefaultHttpContext
	plugin *plugin
	id     uint32

	text      []byte // what identity.go keeps of the request
	tenant    span
	hash      uint64 // of the tenant's name
	grpc      bool
	deadline  int64 // monotonic nanoseconds; 0: none
	arrived   int64
	deadlines []deadlineHeader

	keys   []*key    // the keys to pass, in the order of the pools
	held   []holding // those it holds a permit of
	waited int64     // nanoseconds in all queues

	paused bool // its headers wait
	at     *key // the key it waits for, or waited for last
	seq    uint32
	since  int64
	due    int64
	fate   fate

	refusal refusal
}

// A holding is a permit and when it was granted.
type holding struct {
	key   *key
	since int64
}

// OnHttpRequestHeaders takes a request through the pools.
func (s *stream) OnHttpRequestHeaders(int, bool) types.Action {
	p := s.plugin
	if p.cfg == nil || p.cfg.Mode == admission.ModeDisabled {
		return types.ActionContinue
	}
	p.begin()
	switch s.identify() {
	case identityUngoverned:
		abi.Increment(p.stats.ungoverned, 1)
		return types.ActionContinue
	case identityAmbiguous:
		abi.Increment(p.stats.ambiguous, 1)
		s.refusal = refusal{reason: reasonAmbiguous}
		s.answer()
		return s.pause()
	}
	switch s.proceed() {
	case passWaiting:
		return s.pause()
	case passRefused:
		s.answer()
		return s.pause()
	}
	s.announce()
	return types.ActionContinue
}

func (s *stream) pause() types.Action {
	s.paused = true
	return types.ActionPause
}

// OnHttpRequestBody holds the body back while the headers wait: where the host lets the body come (Envoy's
// allow_on_headers_stop_iteration), a body callback that goes on would let the headers go too.
func (s *stream) OnHttpRequestBody(int, bool) types.Action {
	if s.paused {
		return abi.ActionPauseBody
	}
	return types.ActionContinue
}

// OnHttpRequestTrailers holds the trailers back likewise.
func (s *stream) OnHttpRequestTrailers(int) types.Action {
	if s.paused {
		return types.ActionPause
	}
	return types.ActionContinue
}

// OnHttpStreamDone gives back what the stream holds or waits for, whatever ended it.
func (s *stream) OnHttpStreamDone() {
	p := s.plugin
	if len(s.keys) > 0 {
		p.begin()
		s.abandon()
		s.releaseAll()
	}
	s.recycle()
}

// abandon ends a wait whose client has gone.
func (s *stream) abandon() {
	p := s.plugin
	switch {
	case s.fate != fateNone:
		p.withdraw(s)
	case s.at != nil && p.waiting[s.seq] == s:
		p.stopWaiting(s)
		s.cancel()
		abi.Increment(s.at.pool.stats.cancelledWaiting, 1)
	}
}

// withdraw takes a stream out of the backlog. A granted one has its permit, and gives it back with the others; what it
// was counted as stays: refused, or gone while it waited.
func (p *plugin) withdraw(s *stream) {
	for i, b := range p.backlog {
		if b == s {
			p.backlog = append(p.backlog[:i], p.backlog[i+1:]...)
			break
		}
	}
	if s.fate == fateGranted {
		abi.Increment(s.at.pool.stats.cancelledWaiting, 1)
	}
	s.fate = fateNone
}

// recycle makes the stream ready for reuse.
func (s *stream) recycle() {
	p := s.plugin
	*s = stream{plugin: p, text: s.text[:0], deadlines: s.deadlines[:0], keys: s.keys[:0], held: s.held[:0]}
	p.free = append(p.free, s)
}

// Recovered implements abi.Recoverer: a request that could not be decided follows on_error.
func (s *stream) Recovered(string) types.Action {
	if s.plugin.cfg == nil || s.plugin.cfg.OnError == admission.OnErrorOpen {
		return types.ActionContinue
	}
	s.refusal = refusal{reason: reasonRejected, retryAfter: 1}
	s.answer()
	return s.pause()
}
