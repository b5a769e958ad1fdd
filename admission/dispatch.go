package admission

// dispatch hands free permits to waiting tickets: to the tenant with the least inflight per weight, on a tie to the one
// granted longest ago, inside a tenant to the oldest ticket that hasn't expired.
func (m *Machine) dispatch() {
	r := &m.rec
	if r.Queue.Len() == 0 {
		return
	}
	free := min(r.inForce(m.op.Pool)-r.Used()-r.Held(), r.passes(m.op.Now, m.op.breaker()))
	for ; free > 0 && r.Queue.Len() > 0; free-- {
		if !m.grantNext() {
			return
		}
	}
}

// grantNext gives one permit; false if nobody can have it.
func (m *Machine) grantNext() bool {
	r, now := &m.rec, m.op.Now
	t := r.neediest(nil)
	if t < 0 {
		return false
	}
	i := r.Queue.head(uint16(t), now)
	if i < 0 { // all its tickets have expired: who has others?
		if t = r.neediest(r.waiting(now)); t < 0 {
			return false
		}
		i = r.Queue.head(uint16(t), now)
	}
	return m.grant(i)
}

// neediest returns the index of the tenant to be granted next, or -1. With eligible given, those count that have a
// ticket by it.
func (r *Record) neediest(eligible []uint32) int {
	best := -1
	for i := range r.Tenants {
		t := &r.Tenants[i]
		if t.Queued > 0 && (eligible == nil || eligible[i] > 0) && (best < 0 || t.before(&r.Tenants[best])) {
			best = i
		}
	}
	return best
}

// waiting counts each tenant's tickets that haven't expired.
func (r *Record) waiting(now int64) []uint32 {
	n := r.scratch()
	for i := range r.Queue.Len() {
		if t := r.Queue.At(i); t.Deadline > now && int(t.Tenant) < len(n) {
			n[t.Tenant]++
		}
	}
	return n
}

// before is the dispatch rule. Shares are compared crosswise, so that nothing is divided or rounded.
func (t *Tenant) before(u *Tenant) bool {
	a := (uint64(t.Inflight) + uint64(t.Parked)) * uint64(u.Weight)
	b := (uint64(u.Inflight) + uint64(u.Parked)) * uint64(t.Weight)
	switch {
	case a != b:
		return a < b
	case t.LastGrant != u.LastGrant:
		return t.LastGrant < u.LastGrant
	}
	return t.ID < u.ID
}

// grant gives the i-th ticket a permit; false if the record is damaged.
func (m *Machine) grant(i int) bool {
	r := &m.rec
	t := r.Queue.At(i)
	r.Queue.remove(i)
	c, ok := m.discount(t)
	if !ok {
		return false
	}
	r.GrantSeq++
	r.Tenants[t.Tenant].LastGrant = r.GrantSeq
	w := c.Worker
	if r.breaker.state == breakerHalfOpen {
		r.breaker.probe = ticketID{w.Slot, t.Seq}
	}
	r.take(w, t.Tenant, 1)
	if m.op.Kind == OpAcquire && w == m.op.Me && t.Seq == m.op.Seq {
		m.own = true
		return true
	}
	m.effect.Grants = append(m.effect.Grants, Grant{Worker: w, Seq: t.Seq})
	return true
}

// noteRelease feeds the estimate behind retry-after: an exponentially weighted mean (1/8) of the time between releases.
// Workers' clocks are read before their steps, so a step may be a little older than the one before it: that is no time.
func (r *Record) noteRelease(now int64) {
	since := max(now-r.LastRelease, 0)
	if r.LastRelease > 0 {
		if r.ReleaseEvery == 0 {
			r.ReleaseEvery = since
		}
		r.ReleaseEvery += (since - r.ReleaseEvery) / 8
	}
	r.LastRelease = max(r.LastRelease, now)
}

// The bounds of retry-after in seconds.
const (
	minRetryAfter = 1
	maxRetryAfter = 60
)

// retryAfter estimates in whole seconds when a request that came now would find a permit: as many releases from now as
// requests wait, and one. A pool that has released nothing for longer than its mean is slower than its mean.
func (r *Record) retryAfter(now int64) int {
	if r.Limit == 0 {
		return maxRetryAfter
	}
	if r.breaker.state != breakerClosed {
		wait := r.breaker.until - now
		if r.Used()+r.Held() >= int(r.Limit) { // and then the probe needs a permit
			wait = max(wait, r.firstUnpark()-now)
		}
		return boundedSeconds(wait)
	}
	wait := r.ReleaseEvery
	if r.LastRelease > 0 {
		wait = max(wait, now-r.LastRelease)
	}
	wait = min(wait, maxRetryAfter*int64(Second)) * int64(1+r.Queue.Len())
	if end := r.firstUnpark(); end > 0 && (r.Used() == 0 || wait == 0) {
		wait = end - now
	}
	return boundedSeconds(wait)
}

// boundedSeconds rounds nanoseconds up to whole seconds within retry-after's bounds.
func boundedSeconds(wait int64) int {
	return int(min(max((wait+int64(Second)-1)/int64(Second), minRetryAfter), maxRetryAfter))
}
