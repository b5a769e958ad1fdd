package filter

import (
	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/config"
	"github.com/headgate/headgate/filter/abi"
	"github.com/headgate/headgate/filter/records"
)

// The release of a request's permits, at its end: OnHttpStreamDone asks ending.go how it ended, which package admission
// judges, and gives the permits back, at once or when the upstream has been reset.

// A holding is a permit of a pool. The zero permit says that the request was let through without one, because the store
// failed.
type holding struct {
	pool   *pool
	permit records.Permit
}

// leavers are the streams that have ended while their upstream may still be at work. They are released in a later turn
// of the event loop: when the reset of their upstream is on the wire.
//
// Envoy ends the filters of a request before it resets the upstream, or just after. A reset over HTTP/1 closes the
// connection in the same turn. A reset over HTTP/2 is a frame, which the next turn writes. A permit that is handed on
// before could start the next request, on another worker, while the upstream still sees this one.
//
// A message to our own queue comes before the frame is written. A tick that was set after the request's end comes
// after it. A tick that was set before may come in the same turn as the end. So those that are there when a tick is set
// are due at it, and those that come later are due at the next.
type leavers struct {
	first, last *stream // linked by behind
	lastDue     *stream // nil: none is due at the next tick
}

// OnHttpStreamDone gives back what the stream holds or waits for, whatever ended it.
func (s *stream) OnHttpStreamDone() {
	p := s.plugin
	if s.body != nil {
		p.bodies.forget(s)
	}
	if len(s.keys) == 0 && s.fate == fateNone {
		s.recycle()
		return
	}
	p.begin()
	s.judgeEnd()
	s.noteEnd()
	if s.shadow() && !s.hasGivenUp() {
		s.onRealEnd()
		return
	}
	waited := s.fate != fateNone || s.ticket.Open()
	s.abandon()
	s.countEnds()
	if !waited && len(s.held) > 0 && s.leavesUpstreamBusy() {
		s.tellFailure()
		p.releaseLater(s)
		return
	}
	s.releaseAll(s.answer.outcome)
	s.recycle()
}

// tellFailure tells the records of a failure at once, although the permits come back later: the next try of the same
// request may come before them, and must find the breaker as it leaves it.
func (s *stream) tellFailure() {
	if s.answer.outcome != admission.OutcomeFailure && !s.answer.Pushback() {
		return
	}
	for i := range s.held {
		if p := &s.held[i].permit; p.Key != nil {
			s.plugin.records.Tell(p, s.finish(s.answer.outcome))
		}
	}
}

// releaseLater releases a stream once the reset of its upstream is on the wire.
func (p *plugin) releaseLater(s *stream) {
	l := &p.leavers
	if l.first == nil {
		l.first = s
	} else {
		l.last.behind = s
	}
	l.last = s
	if l.lastDue == nil && !p.timer.ticking {
		l.lastDue = s
		p.timer.restart(p.turn.now)
	}
}

// releaseDue releases the streams that are due at this tick.
func (p *plugin) releaseDue() {
	l := &p.leavers
	for l.lastDue != nil {
		s := l.first
		if l.first = s.behind; s == l.lastDue {
			l.lastDue = nil
		}
		s.releaseAll(s.answer.outcome)
		s.recycle()
	}
}

// awaitNext asks for a tick, at which those are due that have come since the last one was set. A tick ends with it.
func (p *plugin) awaitNext() {
	l := &p.leavers
	if l.first != nil {
		l.lastDue = l.last
		p.WakeBy(p.turn.now)
	}
}

// releaseAll gives back the permits that the stream holds, the last one first. The outcome says for how long they stay
// out of use.
func (s *stream) releaseAll(o admission.Outcome) {
	p := s.plugin
	for i := len(s.held) - 1; i >= 0; i-- {
		h := s.held[i]
		s.held = s.held[:i]
		if h.permit.Key == nil {
			continue
		}
		abi.Record(h.pool.stats.heldMillis, uint64((p.turn.now-h.permit.Since)/millisecond))
		p.records.Release(h.permit, s.finish(o))
	}
}

// finish is what the request's end says of its permits.
func (s *stream) finish(o admission.Outcome) admission.Finish {
	a := &s.answer
	return admission.Finish{Outcome: o, Status: a.Status, Pushback: a.Pushback(), RetryAfter: a.retryAfter}
}

// recycle makes the stream ready for reuse.
//
//go:noinline // many bytes in two places
func (s *stream) recycle() {
	p := s.plugin
	*s = stream{plugin: p, text: s.text[:0], deadlines: s.deadlines[:0], keys: s.keys[:0], held: s.held[:0]}
	p.free = append(p.free, s)
	p.countEnded()
}

// Recovered implements abi.Recoverer: after a panic in a callback of the stream. What the stream held counts here as
// held no more, so that a reconcile takes it out of the records, and the request follows on_error.
func (s *stream) Recovered(string) types.Action {
	p := s.plugin
	for _, h := range s.held {
		if h.permit.Key != nil {
			p.records.ForgetPermit(h.permit)
		}
	}
	if s.ticket.Open() {
		p.records.ForgetTicket(&s.ticket)
	}
	s.held, s.keys = s.held[:0], s.keys[:0]
	p.bodies.forget(s)
	if p.cfg == nil || p.cfg.OnError == config.OnErrorOpen || s.asked == nil {
		return types.ActionContinue
	}
	s.refusal = refusal{reason: reasonFailed, pool: s.asked.Name, retryAfter: 1}
	s.refuseNow()
	return s.pause()
}
