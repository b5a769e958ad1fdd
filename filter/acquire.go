package filter

import (
	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/filter/abi"
)

// A passage is how far a request has come.
type passage uint8

const (
	passAdmitted passage = iota // through all pools
	passWaiting                 // in the queue of one
	passRefused                 // by one; everything it held is given back
)

// proceed asks the pools that are still ahead, in order.
func (s *stream) proceed() passage {
	for len(s.held) < len(s.keys) {
		if pass := s.acquire(s.keys[len(s.held)]); pass != passAdmitted {
			return pass
		}
	}
	return passAdmitted
}

// acquire asks one pool for a permit.
func (s *stream) acquire(k *key) passage {
	p := s.plugin
	stats := &k.pool.stats
	abi.Increment(stats.evaluated, 1)
	if s.shadow() {
		abi.Increment(stats.admitted, 1)
	}
	s.at = k
	budget := k.pool.MaxWait
	if s.deadline > 0 {
		left := admission.Duration(s.deadline - p.now)
		if left <= 0 {
			s.count(stats.expiredDeadline, stats.shadowWouldExpire)
			return s.refuse(reasonExpired, 1)
		}
		budget = min(budget, left)
	}
	e := s.ask(budget)
	if e == nil {
		return s.undecided()
	}
	switch e.Verdict {
	case admission.VerdictGranted:
		s.seq = p.seq
		s.take(e)
		s.admit(0)
		return passAdmitted
	case admission.VerdictWaiting:
		s.wait(budget)
		if s.shadow() {
			abi.Increment(stats.shadowWouldWait, 1)
		}
		return passWaiting
	case admission.VerdictOpen:
		s.count(stats.rejectedBreaker, stats.shadowWouldReject)
		return s.refuse(reasonBreaker, e.RetryAfter)
	case admission.VerdictClosed:
		s.count(stats.rejectedClosed, stats.shadowWouldReject)
	default:
		s.count(stats.rejectedQueueFull, stats.shadowWouldReject)
	}
	return s.refuse(reasonRejected, e.RetryAfter)
}

// count counts a refusal: by its own counter, or in shadow by that of what would have happened.
func (s *stream) count(enforced, shadow uint32) {
	if s.shadow() {
		enforced = shadow
	}
	abi.Increment(enforced, 1)
}

// ask carries the acquire out on the key's record, or on that of the key which stands in for it. Nil: the store failed.
func (s *stream) ask(budget admission.Duration) *admission.Effect {
	p := s.plugin
	if !p.sit() {
		return nil
	}
	if p.seq++; p.seq == 0 {
		p.seq = 1 // 0 is no ticket
	}
	for range 2 { // twice: the key may lose its place in between, and share another
		k := p.resolve(s.at)
		s.at = k
		op := p.prepare(&p.op, admission.OpAcquire, k)
		op.Tenant, op.Weight = s.share(k)
		op.Seq, op.Budget = p.seq, budget
		op.Assert = true
		op.Queue, op.Fair = k.pool.Queue, k.pool.FairBy
		if e := p.step(k); e != nil {
			s.keys[len(s.held)] = k
			return e
		}
		if k.fixed || k.placed {
			return nil
		}
	}
	return nil
}

// undecided follows on_error when the store failed: let pass without a permit, or refuse.
func (s *stream) undecided() passage {
	p := s.plugin
	abi.Increment(s.at.pool.stats.storeError, 1)
	if p.cfg.OnError == admission.OnErrorOpen {
		s.held = append(s.held, holding{since: p.now})
		if !s.shadow() {
			abi.Increment(s.at.pool.stats.admitted, 1)
		}
		return passAdmitted
	}
	s.count(s.at.pool.stats.rejectedClosed, s.at.pool.stats.shadowWouldReject)
	return s.refuse(reasonRejected, 1)
}

// take records a permit of s.at, granted under s.seq, that the record already counts for this worker; e is the effect that
// said so.
func (s *stream) take(e *admission.Effect) {
	p, k := s.plugin, s.at
	k.take(s.share(k))
	if e.Probe == s.seq {
		k.probe = s.seq
	}
	if p.permits++; p.permits == 1 {
		p.wakeBy(p.beat + p.beatInterval())
	}
	s.held = append(s.held, holding{key: k, since: p.now, seq: s.seq, breakerGen: e.BreakerGen})
}

// admit counts an admission to s.at after the given wait; in shadow the wait is what it would have been.
func (s *stream) admit(waited int64) {
	stats := &s.at.pool.stats
	if !s.shadow() {
		abi.Increment(stats.admitted, 1)
		if waited > 0 {
			abi.Increment(stats.admittedAfterWait, 1)
		}
	}
	if waited > 0 {
		abi.Record(stats.waitMillis, uint64(waited/millisecond))
		s.waited += waited
	}
}

// wait queues the stream for s.at.
func (s *stream) wait(budget admission.Duration) {
	p, k := s.plugin, s.at
	s.seq, s.since, s.due = p.seq, p.now, p.now+int64(budget)
	p.waiting[s.seq] = s
	if len(k.queue) == 0 {
		p.lines = append(p.lines, k)
	}
	k.queue = append(k.queue, s)
	if p.firstDue == 0 {
		p.nextSync = p.now + syncInterval
	}
	if p.firstDue == 0 || s.due < p.firstDue {
		p.firstDue = s.due
	}
	p.wakeBy(min(s.due, p.nextSync))
}

// stopWaiting takes a stream out of the local queue; what the record says is the caller's business.
//
//go:noinline // what is rare and called from many places stays one piece of the module
func (p *plugin) stopWaiting(s *stream) {
	k := s.at
	delete(p.waiting, s.seq)
	for i, w := range k.queue {
		if w == s {
			k.queue = append(k.queue[:i], k.queue[i+1:]...)
			break
		}
	}
	if len(k.queue) > 0 {
		return
	}
	for i, l := range p.lines {
		if l == k {
			p.lines = append(p.lines[:i], p.lines[i+1:]...)
			return
		}
	}
}

// carryOn goes on with a waiter that was granted: to the pools still ahead, then upstream or to a refusal.
func (s *stream) carryOn() {
	s.admit(max(s.plugin.now-s.since, 1))
	s.goOn()
}

// goOn takes a request through the pools still ahead, from outside its callbacks.
func (s *stream) goOn() {
	pass := s.proceed()
	switch {
	case s.shadow():
	case pass == passAdmitted:
		s.resume()
	case pass == passRefused:
		s.reply()
	}
}

// expire counts a wait that used up its budget, and remembers how to refuse the request.
func (s *stream) expire(retryAfter int) {
	stats := &s.at.pool.stats
	s.waited += s.plugin.now - s.since
	if s.deadline > 0 && s.due >= s.deadline {
		s.count(stats.expiredDeadline, stats.shadowWouldExpire)
	} else {
		s.count(stats.expiredMaxWait, stats.shadowWouldExpire)
	}
	s.refuse(reasonExpired, retryAfter)
}

// refuse gives back what the request holds and remembers why it is refused.
func (s *stream) refuse(r reason, retryAfter int) passage {
	s.refusal = refusal{reason: r, pool: s.at.pool.Name, retryAfter: retryAfter}
	s.releaseAll(admission.OutcomeNone)
	return passRefused
}

// cancel withdraws the stream's ticket; if that had been granted, the permit goes on to the next one.
func (s *stream) cancel() {
	p, k := s.plugin, s.at
	op := p.prepare(&p.op, admission.OpCancel, k)
	op.Expect = true
	op.Tenant, op.Weight = s.share(k)
	op.Seq = s.seq
	if p.step(k) == nil {
		p.failed(k)
	}
}

// releaseAll gives back the permits the stream holds, the last one first; the outcome says for how long they stay out of
// use.
func (s *stream) releaseAll(outcome admission.Outcome) {
	for i := len(s.held) - 1; i >= 0; i-- {
		h := s.held[i]
		s.held = s.held[:i]
		if h.key != nil {
			s.release(h, outcome)
		}
	}
}

func (s *stream) release(h holding, outcome admission.Outcome) {
	p, k := s.plugin, h.key
	tenant := s.tenantOf(k)
	k.drop(tenant)
	p.permits--
	abi.Record(k.pool.stats.heldMillis, uint64((p.now-h.since)/millisecond))
	op := p.prepare(&p.op, admission.OpRelease, k)
	op.Expect = true
	op.Tenant, op.Seq = tenant, h.seq
	op.Outcome, op.BreakerGen, op.Pushback, op.RetryAfter = outcome, h.breakerGen, s.answer.pushback, s.answer.retryAfter
	if k.probe == h.seq {
		k.probe = 0
	}
	if p.step(k) == nil {
		p.failed(k)
	}
}

// tenantOf is the tenant id under which the stream counts in a key's record.
func (s *stream) tenantOf(k *key) uint64 {
	if !k.pool.FairBy {
		return 0
	}
	return s.hash
}

// share is the tenant id and weight under which the stream counts in a key's record.
func (s *stream) share(k *key) (tenant uint64, weight uint32) {
	if !k.pool.FairBy {
		return 0, 1
	}
	weight = 1
	if w, ok := k.pool.Weights[view(s.kept(s.dims[admission.DimensionTenant]))]; ok {
		weight = uint32(w)
	}
	return s.hash, weight
}
