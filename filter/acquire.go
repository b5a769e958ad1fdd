package filter

import (
	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/config"
	"github.com/headgate/headgate/filter/abi"
	"github.com/headgate/headgate/filter/records"
)

// A poolKey is a pool that a request has to pass, and the request's key in it.
type poolKey struct {
	pool *pool
	key  *records.Key
}

// A passage is how far a request has come.
type passage uint8

const (
	passAdmitted passage = iota // through all pools
	passWaiting                 // in the queue of one, or one has yet to decide
	passRefused                 // refused by one; everything it held is given back
)

// askPools asks the pools that are still ahead, in order.
func (s *stream) askPools() passage {
	pass := passAdmitted
	for pass == passAdmitted && len(s.held) < len(s.keys) {
		pass = s.acquire(s.keys[len(s.held)])
	}
	if s.shadow() {
		s.beginVirtual()
		s.goOnVirtually(pass)
	}
	return pass
}

// acquire asks one pool for a permit.
func (s *stream) acquire(k poolKey) passage {
	stats := &k.pool.stats
	abi.Increment(stats.evaluated, 1)
	if s.shadow() {
		abi.Increment(stats.admitted, 1)
	}
	s.asked = k.pool
	budget := k.pool.MaxWait
	if s.deadline > 0 {
		left := admission.Duration(s.deadline - s.plugin.turn.now)
		if left <= 0 {
			s.count(stats.expiredDeadline, stats.shadowWouldExpire)
			return s.refuse(reasonExpired, 1)
		}
		budget = min(budget, left)
	}
	s.ticket = records.Ticket{Key: k.key, Waiter: s}
	s.ticket.Tenant, s.ticket.Weight = s.tenantIn(k.pool)
	a, d := s.plugin.records.Acquire(&s.ticket, budget, s.deadline)
	return s.take(a, d)
}

// take acts on what became of an acquire.
func (s *stream) take(a records.Answer, d records.Decision) passage {
	switch d {
	case records.Deciding:
		return passWaiting
	case records.Failed:
		return s.followOnError()
	}
	stats := &s.asked.stats
	switch a.Verdict {
	case admission.VerdictGranted:
		s.held = append(s.held, holding{s.asked, a.Permit})
		s.countAdmitted(0)
		return passAdmitted
	case admission.VerdictWaiting:
		if s.shadow() {
			abi.Increment(stats.shadowWouldWait, 1)
		}
		return passWaiting
	case admission.VerdictOpen:
		s.count(stats.rejectedBreaker, stats.shadowWouldReject)
		pass := s.refuse(reasonBreaker, a.RetryAfter)
		s.refusal.lastStatus = a.LastStatus
		return pass
	case admission.VerdictClosed:
		s.count(stats.rejectedClosed, stats.shadowWouldReject)
		return s.refuse(reasonClosed, a.RetryAfter)
	}
	s.count(stats.rejectedQueueFull, stats.shadowWouldReject)
	return s.refuse(reasonFull, a.RetryAfter)
}

// tenantIn is the tenant id and weight under which the stream counts in a pool's records.
func (s *stream) tenantIn(o *pool) (id uint64, weight uint32) {
	if !o.FairBy {
		return 0, 1
	}
	s.plugin.journal.TenantSeen(s.tenantHash, s.kept(s.dims[config.DimensionTenant]))
	weight = 1
	if w, ok := o.Weights[view(s.kept(s.dims[config.DimensionTenant]))]; ok {
		weight = uint32(w)
	}
	return s.tenantHash, weight
}

// followOnError follows on_error when the store failed: it lets the request pass without a permit, or refuses it.
func (s *stream) followOnError() passage {
	p, stats := s.plugin, &s.asked.stats
	if p.cfg.OnError == config.OnErrorOpen {
		s.held = append(s.held, holding{pool: s.asked})
		if !s.shadow() {
			abi.Increment(stats.admitted, 1)
		}
		return passAdmitted
	}
	s.count(stats.rejectedClosed, stats.shadowWouldReject)
	return s.refuse(reasonFailed, 1)
}

// count counts a refusal: by its own counter, or in shadow by that of what would have happened.
//
//go:noinline // as decide
func (s *stream) count(enforced, shadow uint32) {
	if s.shadow() {
		enforced = shadow
	}
	abi.Increment(enforced, 1)
}

// countAdmitted counts an admission to the pool asked last, after the given wait. In shadow the wait is what it would
// have been.
func (s *stream) countAdmitted(waited int64) {
	stats := &s.asked.stats
	if !s.shadow() {
		abi.Increment(stats.admitted, 1)
		if waited > 0 {
			abi.Increment(stats.admittedAfterWait, 1)
		}
	}
	if waited > 0 {
		abi.Record(stats.waitMillis, uint64(waited/millisecond))
		s.waited += waited
		s.noteWait(waited)
	}
}

// refuse gives back what the request holds and remembers why it is refused.
//
//go:noinline // as decide
func (s *stream) refuse(r reason, retryAfter int) passage {
	s.refusal = refusal{reason: r, pool: s.asked.Name, retryAfter: retryAfter}
	s.noteRefusal(r)
	s.releaseAll(admission.OutcomeNone)
	return passRefused
}
