package admission

// dispatch hands free permits to waiting tickets: to the tenant with the least inflight per weight, on a tie to the one
// granted longest ago, inside a tenant to the oldest ticket that hasn't expired.
func (m *Machine) dispatch() {
	r := &m.rec
	if r.Queue.Len() == 0 {
		return
	}
	r.breaker.advance(m.op.Now, m.op.breaker())
	free := min(r.inForce(m.op.Shaping)-r.Inflight()-r.OnHold(), r.allowance(m.op.breaker()))
	for ; free > 0 && r.Queue.Len() > 0; free-- {
		if !m.grantNext() {
			return
		}
	}
}

// grantNext gives one permit; false if no ticket can have it.
func (m *Machine) grantNext() bool {
	r, now := &m.rec, m.op.Now
	t := r.neediest(nil)
	if t < 0 {
		return false
	}
	i := r.Queue.head(uint16(t), now)
	if i < 0 { // all its tickets have expired: look for a tenant with others
		if t = r.neediest(r.unexpired(now)); t < 0 {
			return false
		}
		i = r.Queue.head(uint16(t), now)
	}
	return m.grant(i)
}

// neediest returns the index of the tenant to be granted next, or -1. eligible counts each tenant's tickets that can be
// granted; nil: all that are queued.
func (r *Record) neediest(eligible []uint32) int {
	best := -1
	for i := range r.Tenants {
		t := &r.Tenants[i]
		if t.Queued > 0 && (eligible == nil || eligible[i] > 0) && (best < 0 || byTurn.less(t, &r.Tenants[best])) {
			best = i
		}
	}
	return best
}

// unexpired counts each tenant's tickets that haven't expired.
func (r *Record) unexpired(now int64) []uint32 {
	n := r.scratch()
	for i := range r.Queue.Len() {
		if t := r.Queue.At(i); t.Deadline > now && int(t.Tenant) < len(n) {
			n[t.Tenant]++
		}
	}
	return n
}

// grant gives the i-th ticket a permit; false if the record is damaged.
func (m *Machine) grant(i int) bool {
	r := &m.rec
	t := r.Queue.At(i)
	r.Queue.remove(i)
	c, ok := m.uncountTicket(t)
	if !ok {
		return false
	}
	r.findFirst(t, i)
	r.GrantSeq++
	r.noteMove(m.op.Now)
	r.Tenants[t.Tenant].LastGrant = r.GrantSeq
	w := c.Worker
	if r.breaker.state == BreakerHalfOpen {
		r.breaker.probe = ticketID{w.Seat, t.Seq}
	}
	r.addInflight(w, t.Tenant, 1)
	if m.op.Kind == OpAcquire && w == m.op.Me && t.Seq == m.op.Seq {
		m.ownGranted = true
		return true
	}
	m.effect.Grants = append(m.effect.Grants, Grant{Worker: w, Seq: t.Seq})
	return true
}
