package filter

import (
	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/filter/abi"
)

// Shadow mode lets every request pass at once, and plays beside it what enforcing would have done: the request's life
// in the virtual gateway. It waits in the queues that it would have waited in, then has its permits for as long as the
// real request took, and gives them back with what the real one's end said. So the virtual life of a request that would
// have waited goes on after the real one has ended.

// A virtualLife is how far a request has come in the virtual gateway.
type virtualLife struct {
	_ incomparable

	asked int64 // when the first pool was asked
	began int64 // when the last one granted; 0: not yet
	took  int64 // how long the real request went on after asked
	over  bool  // the real request has ended
	ends  int64 // when the virtual request gives its permits back; 0: not known yet
	place int   // its place in virtuals.all, from 1; 0: none
}

// beginVirtual begins the virtual life of a request in shadow mode, once.
func (s *stream) beginVirtual() {
	if s.virtual == nil {
		s.virtual = &virtualLife{asked: s.plugin.turn.now}
	}
}

// goOnVirtually notes what a pool has said, and tells the access log while the real request runs.
func (s *stream) goOnVirtually(pass passage) {
	p, v := s.plugin, s.virtual
	if pass == passAdmitted && v.began == 0 {
		v.began = p.turn.now
	}
	if v.over {
		s.endVirtually()
	}
}

// endVirtually is called when the real request has ended, and then again when something has changed. It ends the
// virtual life if that is over, or lets it go on without the real request.
func (s *stream) endVirtually() {
	p, v := s.plugin, s.virtual
	switch {
	case s.ticket.Open() || s.fate != fateNone: // it waits, and will be called again
	case len(s.held) == 0 || v.began+v.took <= p.turn.now:
		p.virtuals.remove(s)
		s.countEnds()
		s.releaseAll(s.answer.outcome)
		s.recycle()
		return
	default:
		v.ends = v.began + v.took
		p.WakeBy(v.ends)
	}
	p.virtuals.add(s)
}

// hasGivenUp reports whether the client left before it had any answer. Its patience would have been over at the same
// moment in the virtual gateway.
func (s *stream) hasGivenUp() bool {
	return s.answer.outcome == admission.OutcomeCancel && s.answer.Status == 0
}

// onRealEnd lets the virtual life of a request go on whose real one has ended.
func (s *stream) onRealEnd() {
	v := s.virtual
	v.over, v.took = true, s.plugin.turn.now-v.asked
	s.endVirtually()
}

// virtuals are the requests that go on in the virtual gateway after the real ones have ended. They hold or wait, so
// there are no more of them than limits and queues allow.
type virtuals struct {
	all  []*stream
	next int64 // none of them ends before this; 0: none does by time
}

func (g *virtuals) add(s *stream) {
	if s.virtual.place == 0 {
		g.all = append(g.all, s)
		s.virtual.place = len(g.all)
	}
	if at := s.virtual.ends; at > 0 && (g.next == 0 || at < g.next) {
		g.next = at
	}
}

func (g *virtuals) remove(s *stream) {
	if at := s.virtual.place; at > 0 {
		n := len(g.all)
		last := g.all[n-1]
		g.all[at-1], last.virtual.place = last, at
		g.all[n-1], s.virtual.place = nil, 0
		g.all = g.all[:n-1]
	}
}

// endVirtuals ends those whose time has come.
func (p *plugin) endVirtuals() {
	g := &p.virtuals
	if g.next == 0 || p.turn.now < g.next {
		if g.next > 0 {
			p.WakeBy(g.next)
		}
		return
	}
	g.next = 0
	for i := len(g.all) - 1; i >= 0; i-- { // from behind: one that ends is replaced by the last
		s := g.all[i]
		if at := s.virtual.ends; at > 0 {
			s.endVirtually()
		}
	}
}

// forgetVirtuals ends all of them at the end of the plugin context: nobody would be left to end them.
func (p *plugin) forgetVirtuals() {
	for g := &p.virtuals; len(g.all) > 0; {
		s := g.all[len(g.all)-1]
		g.remove(s)
		s.abandon()
		s.releaseAll(admission.OutcomeNone)
	}
}

// would is what enforcing would have done to a request so far.
func (s *stream) would() string {
	switch {
	case s.refusal.reason == reasonExpired:
		return "expired"
	case s.refusal.reason != reasonNone:
		return "rejected"
	case s.ticket.Open() || s.waited > 0:
		return "waited"
	}
	return "admitted"
}

// publishVirtual tells the access log what enforcing would have done. It is called in a callback of the stream's own.
func (s *stream) publishVirtual() {
	p := s.plugin
	if s.asked == nil {
		return
	}
	p.out = appendOutcome(p.out[:0], "admitted", s.asked.Name, s.waited/millisecond, max(s.attempt, 1))
	p.out = put(put(put(p.out[:len(p.out)-1], `,"would":"`), s.would()), `"}`)
	abi.SetProperty("headgate", p.out)
}

// republishVirtual is publishVirtual from outside the stream's callbacks.
func (s *stream) republishVirtual() {
	p := s.plugin
	if s.virtual == nil || s.virtual.over || abi.SetEffectiveContext(s.id) != abi.StatusOK {
		return
	}
	s.publishVirtual()
	abi.SetEffectiveContext(p.id)
}
