package filter

import (
	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/config"
	"github.com/headgate/headgate/filter/abi"
	"github.com/headgate/headgate/filter/records"
)

// The release of a request's permits, at its end: OnHttpStreamDone asks ending.go how it ended, which package admission
// judges, and gives the permits back, at once or in the next turn of the event loop.

// A holding is a permit of a pool. The zero permit says that the request was let through without one, because the store
// failed.
type holding struct {
	pool   *pool
	permit records.Permit
}

// leaving are the streams that have ended and are released in the next turn of the event loop.
type leaving []*stream

// OnHttpStreamDone gives back what the stream holds or waits for, whatever ended it.
func (s *stream) OnHttpStreamDone() {
	p := s.plugin
	if s.body != nil {
		p.bodies.forget(s)
	}
	if len(s.keys) > 0 || s.fate != fateNone {
		p.begin()
		s.abandon()
		outcome := s.conclude()
		if s.answer.ClientLeft && len(s.held) > 0 {
			p.releaseNextTurn(s)
			return
		}
		s.releaseAll(outcome)
	}
	s.recycle()
}

// releaseNextTurn releases a stream in the next turn of the event loop. When a client leaves, the host ends the filters
// of its request before it resets the upstream, in one turn: a permit handed on in between could start the next request
// while the upstream still sees this one.
func (p *plugin) releaseNextTurn(s *stream) {
	p.leaving = append(p.leaving, s)
	p.records.CallBack()
}

func (p *plugin) releaseLeaving() {
	streams := p.leaving
	p.leaving = p.leaving[:0:0]
	for _, s := range streams {
		s.releaseAll(admission.OutcomeCancel)
		s.recycle()
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
		p.records.Release(h.permit, admission.Finish{
			Outcome: o, Status: s.answer.Status, Pushback: s.answer.Pushback(), RetryAfter: s.answer.retryAfter})
	}
}

// recycle makes the stream ready for reuse.
func (s *stream) recycle() {
	p := s.plugin
	*s = stream{plugin: p, text: s.text[:0], deadlines: s.deadlines[:0], keys: s.keys[:0], held: s.held[:0]}
	p.free = append(p.free, s)
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
