package filter

import (
	"github.com/headgate/headgate/filter/abi"
	"github.com/headgate/headgate/filter/records"
)

// The wait of a request, from the acquire that queued its ticket to its end. A box is a state; the ticket's own state
// is in package records, the fate here.
//
//	                          acquire: waiting
//	                                 │
//	       ┌─────────────────────────▼──────────────────────────┐
//	       │ waiting: the ticket is in the queue                │
//	       └───┬──────────────────┬───────────────────────┬─────┘
//	  Granted  │         Expired  │          stream done  │
//	           │                  │          (abandon)    │
//	┌──────────▼──────┐  ┌────────▼────────┐  ┌───────────▼─────────────┐
//	│ fateGranted:    │  │ fateRefused:    │  │ cancelled: the ticket   │
//	│ has its permit  │  │ holds nothing   │  │ is withdrawn            │
//	└──────────┬──────┘  └────────┬────────┘  └─────────────────────────┘
//	    flush  │           flush  │
//	           │                  └─▶ 429
//	           └─▶ asks the pools ahead: resumed, refused, or waiting again
//
// Between fate and flush the stream is in the backlog: a callback may make 32 actions only, and the rest is left to the
// next tick. A stream that ends in the backlog leaves it (withdraw): one with a permit counts as cancelled while it
// waited and gives the permit back; a refused one has been counted.
//
// An acquire that other workers' swaps keep from being decided leaves the stream as if it waited; a later turn decides
// it (Decided): it is admitted, refused, or waiting from then on.
//
// fateIdentified comes from body.go: a request whose body was waited for too long goes on without it, in the same way.

// A fate is what has been decided of a stream and not yet carried out.
type fate uint8

const (
	fateNone       fate = iota
	fateGranted         // has its permit after a wait
	fateAdmitted        // has its permit, without a wait
	fateRefused         // holds nothing
	fateIdentified      // its body won't come
)

// A backlog is the streams whose fate is decided, in order. Any of them can leave it at once, however many there are.
type backlog struct {
	_ incomparable

	first, last *stream
	flushed     bool // the current callback ends in a flush
}

func (b *backlog) push(s *stream) {
	s.before, s.behind = b.last, nil
	if b.last == nil {
		b.first = s
	} else {
		b.last.behind = s
	}
	b.last = s
}

func (b *backlog) remove(s *stream) {
	if s.before == nil {
		b.first = s.behind
	} else {
		s.before.behind = s.behind
	}
	if s.behind == nil {
		b.last = s.before
	} else {
		s.behind.before = s.before
	}
	s.before, s.behind = nil, nil
}

// Granted implements records.Waiter: it puts the stream into the backlog with its permit.
func (s *stream) Granted(p records.Permit) {
	s.held = append(s.held, holding{s.asked, p})
	s.plugin.decide(s, fateGranted)
}

// Decided implements records.Waiter: an acquire that other workers' swaps had kept from being decided now is. The
// stream goes on from there; being decided is no waiting.
func (s *stream) Decided(a records.Answer, d records.Decision) {
	switch s.take(a, d) {
	case passAdmitted:
		s.plugin.decide(s, fateAdmitted)
	case passRefused:
		s.plugin.decide(s, fateRefused)
	}
}

// Expired implements records.Waiter: it counts a wait that used up its budget, and puts the stream into the backlog.
func (s *stream) Expired(retryAfter int) {
	stats := &s.asked.stats
	s.waited += s.plugin.turn.now - s.ticket.Since
	if s.deadline > 0 && s.ticket.Due >= s.deadline {
		s.count(stats.expiredDeadline, stats.shadowWouldExpire)
	} else {
		s.count(stats.expiredMaxWait, stats.shadowWouldExpire)
	}
	s.refuse(reasonExpired, retryAfter)
	s.plugin.decide(s, fateRefused)
}

// decide puts a stream into the backlog.
//
//go:noinline // what is rare and called from many places stays one piece of the module
func (p *plugin) decide(s *stream, f fate) {
	s.fate = f
	p.backlog.push(s)
	if !p.backlog.flushed {
		p.WakeBy(p.turn.now)
	}
}

// flush carries out what is decided, as far as this callback may.
func (p *plugin) flush() {
	b := &p.backlog
	for b.first != nil && p.turn.actions < maxActions {
		s := b.first
		b.remove(s)
		s.carryOut()
	}
	if b.first != nil {
		p.WakeBy(p.turn.now)
	}
}

// carryOut carries out the stream's fate.
func (s *stream) carryOut() {
	f := s.fate
	s.fate = fateNone
	switch f {
	case fateGranted:
		s.onGranted()
	case fateAdmitted, fateIdentified:
		s.askPoolsAndAct()
	case fateRefused:
		if s.shadow() {
			s.republishVirtual()
			s.goOnVirtually(passRefused)
			return
		}
		s.reply()
	}
}

// onGranted goes on with a waiter that has its permit.
func (s *stream) onGranted() {
	s.countAdmitted(max(s.plugin.turn.now-s.ticket.Since, 1))
	s.askPoolsAndAct()
}

// askPoolsAndAct takes a request through the pools still ahead, from outside its callbacks.
func (s *stream) askPoolsAndAct() {
	pass := s.askPools()
	switch {
	case s.shadow():
		s.republishVirtual()
	case pass == passAdmitted:
		s.resume()
	case pass == passRefused:
		s.reply()
	}
}

// abandon ends the wait of a stream that has ended.
func (s *stream) abandon() {
	switch {
	case s.fate != fateNone:
		s.plugin.backlog.withdraw(s)
	case s.ticket.Open():
		s.plugin.records.Cancel(&s.ticket)
		s.countCancelled()
	}
}

// withdraw takes a stream out of the backlog. One that was granted keeps its permit, to give it back with the others.
func (b *backlog) withdraw(s *stream) {
	b.remove(s)
	if s.fate == fateGranted {
		s.countCancelled()
	}
	s.fate = fateNone
}

// countCancelled counts a client that left while it waited. In shadow each request has had its outcome.
func (s *stream) countCancelled() {
	s.noteCancelled()
	if !s.shadow() {
		abi.Increment(s.asked.stats.cancelledWaiting, 1)
	}
}
