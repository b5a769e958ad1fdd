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
	fateIdentified // the body won't come: to go on without it
)

// dimensions is how many things a key can be made of.
const dimensions = int(admission.DimensionClass) + 1

// A stream is one request.
type stream struct {
	types.DefaultHttpContext
	plugin *plugin
	id     uint32

	text      []byte // what is kept of the request's headers
	dims      [dimensions]span
	hash      uint64 // of the tenant's name
	grpc      bool
	inherited inheritance
	later     bool  // in shadow: the model is known only once the body has passed
	attempt   int64 // which try of its invocation it is, from 1; 0: no attempt
	deadline  int64 // monotonic nanoseconds; 0: none
	arrived   int64
	deadlines []deadlineHeader
	body      *reading // while the model is looked for in the body
	unheard   bool     // its body did not begin to come in time
	resumed   int64    // when its headers went on

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
	answer  answer
}

// A holding is a permit and when it was granted.
type holding struct {
	key        *key // nil: let through without one, because the store failed
	since      int64
	seq        uint32 // of the ticket that was granted
	breakerGen uint32 // of the breaker when it was
}

// OnHttpRequestHeaders takes a request through the pools.
func (s *stream) OnHttpRequestHeaders(_ int, end bool) types.Action {
	p := s.plugin
	if p.cfg == nil || p.cfg.Mode == admission.ModeDisabled {
		return types.ActionContinue
	}
	p.begin()
	found := s.identify(!end)
	switch found {
	case identityUngoverned:
		s.passUngoverned()
		return types.ActionContinue
	case identityAmbiguous:
		return s.refuseAmbiguous()
	case identityInBody:
		s.read()
		if s.shadow() {
			s.announce()
			return types.ActionContinue
		}
		return s.pause()
	}
	if found == identityLater {
		s.answer.sent = true
		return types.ActionContinue
	}
	s.later = false
	pass := s.proceed()
	if s.shadow() {
		s.announce()
		return types.ActionContinue
	}
	switch pass {
	case passWaiting:
		return s.pause()
	case passRefused:
		s.refuseNow()
		return s.pause()
	}
	s.announce()
	return types.ActionContinue
}

// shadow reports whether decisions are counted and not carried out.
func (s *stream) shadow() bool { return s.plugin.cfg.Mode == admission.ModeShadow }

func (s *stream) passUngoverned() {
	if s.inherited == inheritedNothing {
		abi.Increment(s.plugin.stats.ungoverned, 1)
		s.handOver(false)
	}
}

func (s *stream) refuseAmbiguous() types.Action {
	abi.Increment(s.plugin.stats.ambiguous, 1)
	if s.shadow() {
		s.handOver(false)
		return types.ActionContinue
	}
	s.refusal = refusal{reason: reasonAmbiguous}
	s.refuseNow()
	return s.pause()
}

func (s *stream) pause() types.Action {
	s.paused = true
	return types.ActionPause
}

// OnHttpStreamDone gives back what the stream holds or waits for, whatever ended it.
func (s *stream) OnHttpStreamDone() {
	p := s.plugin
	if s.body != nil {
		s.forgetBody()
	}
	if len(s.keys) > 0 || s.fate != fateNone {
		p.begin()
		s.abandon()
		outcome := s.conclude()
		if s.answer.left && len(s.held) > 0 {
			p.releaseNext(s)
			return
		}
		s.releaseAll(outcome)
	}
	s.recycle()
}

// releaseNext releases a stream in the next turn of the event loop. The host ends the filters of a request whose client has
// left before it resets the upstream, in one turn: a permit handed on in between could start the next request while the
// upstream still sees this one.
func (p *plugin) releaseNext(s *stream) {
	p.leaving = append(p.leaving, s)
	if len(p.leaving) == 1 {
		abi.Enqueue(p.queue, nothing)
		p.wakeBy(p.now + dirtyRetry) // should the message be lost
	}
}

// nothing is a message that only makes the host call back.
var nothing = []byte{0}

func (p *plugin) releaseLeaving() {
	leaving := p.leaving
	p.leaving = p.leaving[:0:0]
	for _, s := range leaving {
		s.releaseAll(admission.OutcomeCancel)
		s.recycle()
	}
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
		s.countCancelled()
	}
}

// countCancelled counts a client that left while it waited. In shadow nobody waits: the request had its outcome.
func (s *stream) countCancelled() {
	if !s.shadow() {
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
		s.countCancelled()
	}
	s.fate = fateNone
}

// recycle makes the stream ready for reuse.
func (s *stream) recycle() {
	p := s.plugin
	*s = stream{plugin: p, text: s.text[:0], deadlines: s.deadlines[:0], keys: s.keys[:0], held: s.held[:0]}
	p.free = append(p.free, s)
}

// Recovered implements abi.Recoverer. What the stream held is no longer counted as held here, so that the tick's sync takes
// it out of the records, and the request follows on_error.
func (s *stream) Recovered(string) types.Action {
	p := s.plugin
	for _, h := range s.held {
		if h.key != nil {
			h.key.drop(s.tenantOf(h.key))
			if h.key.probe == h.seq {
				h.key.probe = 0
			}
			p.permits--
			p.failed(h.key)
		}
	}
	if s.at != nil && p.waiting[s.seq] == s {
		p.stopWaiting(s)
		p.failed(s.at)
	}
	s.held, s.keys = s.held[:0], s.keys[:0]
	s.forgetBody()
	if p.cfg == nil || p.cfg.OnError == admission.OnErrorOpen || s.at == nil {
		return types.ActionContinue
	}
	s.refusal = refusal{reason: reasonRejected, pool: s.at.pool.Name, retryAfter: 1}
	s.refuseNow()
	return s.pause()
}
