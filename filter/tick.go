package filter

import (
	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/filter/abi"
)

const (
	millisecond = int64(admission.Millisecond)

	// maxActions bounds the continues and local replies of one callback: the host runs them nested on one stack.
	maxActions = 32

	// syncInterval is how often waiters are looked up in their records, for grants whose message was lost.
	syncInterval = 50 * millisecond

	// dirtyRetry is when a record that could not be put right is tried again.
	dirtyRetry = 10 * millisecond
)

// A ticker is when the plugin context wants to be called. It ticks only while something needs time.
type ticker struct {
	asserted  bool  // the configured limits are in the records
	period    int64 // of the host's timer, nanoseconds; 0: stopped
	rings     int64 // when it fires next
	ticking   bool  // in OnTick: wishes are collected and armed once, at its end
	wish      int64 // the earliest wish; 0: none
	firstDue  int64 // no waiter's budget ends before this; 0: nobody waits
	nextSync  int64
	nextDeath int64 // when the next worker will be dead if it doesn't beat; 0: none
}

// wakeBy asks for a tick at that time at the latest.
func (p *plugin) wakeBy(at int64) {
	if p.ticking {
		if p.wish == 0 || at < p.wish {
			p.wish = at
		}
		return
	}
	if p.period == 0 || at < p.rings {
		p.arm(at)
	}
}

func (p *plugin) arm(at int64) {
	period := max((at-p.now+millisecond-1)/millisecond, 1) * millisecond
	if period != p.period {
		p.period = period
		abi.SetTick(uint32(period / millisecond))
	}
	p.rings = p.now + period
}

// OnTick does what needs time.
func (p *plugin) OnTick() {
	if p.cfg == nil {
		return
	}
	p.begin()
	p.ticking, p.wish = true, 0
	if !p.asserted {
		p.asserted = true
		p.tend(true)
	}
	p.releaseLeaving()
	p.giveUpReading()
	p.age()
	p.flush()
	if p.seat.Epoch != 0 {
		p.drain()
		p.keepSeat()
		p.repair()
		p.attend()
		p.flush()
	}
	p.ticking = false
	p.rearm()
}

// rearm sets the timer to the earliest wish, or stops it.
func (p *plugin) rearm() {
	if p.seat.Epoch != 0 {
		p.wakeBySeat()
	}
	if p.wish == 0 {
		if p.period != 0 {
			abi.SetTick(0)
		}
		p.period = 0
		return
	}
	p.arm(p.wish)
}

func (p *plugin) wakeBySeat() {
	p.ticking = true
	p.wakeBy(p.beat + p.beatInterval())
	if p.firstDue > 0 {
		p.wakeBy(p.firstDue)
		p.wakeBy(p.nextSync)
		if p.nextDeath > 0 {
			p.wakeBy(p.nextDeath)
		}
	}
	p.ticking = false
}

// keepSeat beats while anything is held or waited for, and leaves the seat otherwise.
func (p *plugin) keepSeat() {
	due := p.now-p.beat >= p.beatInterval()
	switch {
	case !due && (p.nextDeath == 0 || p.now < p.nextDeath):
	case p.permits > 0 || len(p.waiting) > 0 || len(p.dirty) > 0 || len(p.backlog) > 0:
		p.renew()
		if due {
			p.each(p.verifyColumn)
		}
	case due:
		p.leave()
	}
}

// verifyColumn makes sure that what runs here is still counted: a record can vanish, or be damaged by another plugin.
func (p *plugin) verifyColumn(k *key) {
	if k.involved() {
		p.sync(k)
	}
}

// each calls f with every key this context knows.
func (p *plugin) each(f func(*key)) {
	for _, o := range p.pools {
		for _, k := range o.known {
			f(k)
		}
		f(o.only)
		f(o.other)
	}
}

// age sees to the records in which a hold, an open breaker or a lowered limit has ended: waiters are granted, gauges fall.
func (p *plugin) age() {
	timed := p.timed
	p.timed = p.timed[:0:0]
	for _, k := range timed {
		k.timed = false
		if k.next > p.now {
			p.expect(k, k.next)
			continue
		}
		p.prepare(&p.op, admission.OpTend, k).Expect = false
		if p.step(k) == nil && k.involved() { // of others this context has no truth to tell
			p.mark(k)
		}
	}
}

// repair puts records right that could not be when they should have been.
func (p *plugin) repair() {
	dirty := p.dirty
	p.dirty = p.dirty[:0:0]
	for _, k := range dirty {
		k.dirty = false
		p.sync(k)
	}
}

// attend ends the waits whose budget is used up, and looks for lost grants now and then.
func (p *plugin) attend() {
	if len(p.waiting) == 0 {
		p.firstDue = 0
		return
	}
	if p.now >= p.nextSync {
		p.nextSync = p.now + syncInterval
		for i := len(p.lines) - 1; i >= 0; i-- {
			p.sync(p.lines[i])
		}
	}
	if p.now < p.firstDue {
		return
	}
	for i := len(p.lines) - 1; i >= 0; i-- {
		p.expire(p.lines[i])
	}
	p.firstDue = 0
	for _, k := range p.lines {
		for _, s := range k.queue {
			if p.firstDue == 0 || s.due < p.firstDue {
				p.firstDue = s.due
			}
		}
	}
}

// expire ends the waits for one key whose budget is used up. One that is no longer in the record was granted in time.
func (p *plugin) expire(k *key) {
	if !k.anyDue(p.now) {
		return
	}
	p.prepare(&p.op, admission.OpExpire, k)
	e := p.step(k)
	if e == nil {
		p.failed(k)
		return
	}
	if e.Verdict != admission.VerdictDone {
		p.wakeBy(p.now + dirtyRetry) // a sync has taken its place
		return
	}
	retryAfter := e.RetryAfter
	granted := admission.Effect{BreakerGen: e.BreakerGen, Probe: e.Probe} // what follows may step other records
	p.seqs = append(p.seqs[:0], e.Mine...)
	for _, seq := range p.seqs {
		if s := p.waiting[seq]; s != nil {
			p.stopWaiting(s)
			s.expire(retryAfter)
			p.decide(s, fateRefused)
		}
	}
	for i := 0; i < len(k.queue); {
		if s := k.queue[i]; s.due <= p.now {
			p.stopWaiting(s)
			s.take(&granted)
			p.decide(s, fateGranted)
			continue
		}
		i++
	}
}

func (k *key) anyDue(now int64) bool {
	for _, s := range k.queue {
		if s.due <= now {
			return true
		}
	}
	return false
}

// decide puts a stream whose wait is over into the backlog, from which flush resumes or answers it.
//
//go:noinline // as stopWaiting
func (p *plugin) decide(s *stream, f fate) {
	s.fate = f
	p.backlog = append(p.backlog, s)
	p.wakeBy(p.now)
}

// flush resumes and answers decided streams as far as this callback may.
func (p *plugin) flush() {
	n := 0
	for n < len(p.backlog) && p.actions < maxActions {
		s := p.backlog[n]
		n++
		f := s.fate
		s.fate = fateNone
		switch f {
		case fateGranted:
			s.carryOn()
		case fateIdentified:
			s.goOn()
		case fateRefused:
			if !s.shadow() {
				s.reply()
			}
		}
	}
	p.backlog = append(p.backlog[:0], p.backlog[n:]...)
	if len(p.backlog) > 0 {
		p.wakeBy(p.now)
	}
}
