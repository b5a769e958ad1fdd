package admission

// dispatch hands free permits to waiting tickets: to the tenant with the least inflight per weight, on a tie to the one
// granted longest ago, inside a tenant to the oldest ticket that hasn't expired.
func (m *Machine) dispatch() {
	r := &m.rec
	if r.Queue.Len() == 0 {
		return
	}
	free := int(r.Limit) - r.Used() - r.Held()
	if free <= 0 {
		return
	}
	m.skipped = m.skipped[:0]
	for range r.Tenants {
		m.skipped = append(m.skipped, false)
	}
	for free > 0 && r.Queue.Len() > 0 {
		t := m.neediest()
		if t < 0 {
			return
		}
		i := r.Queue.head(uint16(t), m.op.Now)
		if i < 0 {
			m.skipped[t] = true
			continue
		}
		if m.grant(i) {
			free--
		}
	}
}

// neediest returns the index of the tenant to be granted next, or -1.
func (m *Machine) neediest() int {
	best := -1
	for i := range m.rec.Tenants {
		t := &m.rec.Tenants[i]
		if t.Live && t.Queued > 0 && !m.skipped[i] && (best < 0 || t.before(&m.rec.Tenants[best])) {
			best = i
		}
	}
	return best
}

// before is the dispatch rule. Shares are compared crosswise, so that nothing is divided or rounded.
func (t *Tenant) before(u *Tenant) bool {
	a := uint64(t.Inflight+t.Parked) * uint64(u.Weight)
	b := uint64(u.Inflight+u.Parked) * uint64(t.Weight)
	switch {
	case a != b:
		return a < b
	case t.LastGrant != u.LastGrant:
		return t.LastGrant < u.LastGrant
	}
	return t.ID < u.ID
}

// grant gives the i-th ticket a permit; false if its worker has no column, so that nobody would take it.
func (m *Machine) grant(i int) bool {
	r := &m.rec
	t := r.Queue.At(i)
	r.Queue.remove(i)
	tenant := &r.Tenants[t.Tenant]
	tenant.Queued--
	c := r.column(t.Slot)
	if c < 0 {
		return false
	}
	r.Columns[c].Tickets--
	r.GrantSeq++
	tenant.LastGrant = r.GrantSeq
	w := r.Columns[c].Worker
	r.take(w, t.Tenant, 1)
	if m.op.Kind == OpAcquire && w == m.op.Me && t.Seq == m.op.Seq {
		m.own = true
		return true
	}
	m.effect.Grants = append(m.effect.Grants, Grant{Worker: w, Seq: t.Seq})
	return true
}

// noteRelease feeds the estimate behind retry-after: an exponentially weighted mean (1/8) of the time between releases.
func (r *Record) noteRelease(now int64) {
	if since := now - r.LastRelease; r.LastRelease > 0 && since >= 0 {
		if r.ReleaseEvery == 0 {
			r.ReleaseEvery = since
		}
		r.ReleaseEvery += (since - r.ReleaseEvery) / 8
	}
	r.LastRelease = now
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
	wait := r.ReleaseEvery
	if r.LastRelease > 0 {
		wait = max(wait, now-r.LastRelease)
	}
	wait = min(wait, maxRetryAfter*int64(Second)) * int64(1+r.Queue.Len())
	if end := r.firstUnpark(); end > 0 && (r.Used() == 0 || wait == 0) {
		wait = end - now
	}
	return int(min(max((wait+int64(Second)-1)/int64(Second), minRetryAfter), maxRetryAfter))
}
