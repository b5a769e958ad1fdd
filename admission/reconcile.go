package admission

// reconcile makes the worker's column equal to its truth: the permits that its requests hold, and its tickets that the
// record no longer lists because they were granted.
//
// If the column is missing altogether, the worker was declared dead, or the record was lost. Its tickets were then not
// granted but taken away, so they queue again; and what it runs is counted again, above the limit if need be.
func (m *Machine) reconcile() {
	op := m.op
	m.wantInflight()
	i := m.rec.column(op.Me.Seat)
	if i < 0 {
		for _, t := range op.Waiting {
			t.Tenant = m.rec.ensureTenant(op.Inflight[t.Tenant].Tenant, op.Inflight[t.Tenant].Weight)
			m.enqueue(t)
		}
	} else {
		c := &m.rec.Columns[i]
		c.Ahead = c.Ahead && op.Ahead
		m.matchTickets(int(c.Tickets))
	}
	m.correctInflight()
	m.noteUses()
	m.forgetLostProbe()
	if r := &m.rec; r.Provisional && i < 0 {
		// Other workers have still to say what they run, so no more than what is known may run as yet. But one may, or
		// nobody would ever be granted.
		r.Limit = max(r.Limit, min(op.limit(), uint32(max(r.Inflight(), 1))))
	}
}

// forgetLostProbe frees the probe's place if the record says that this worker runs the probe and the worker says that
// it doesn't: the report of the probe's end was not stored.
func (m *Machine) forgetLostProbe() {
	p := &m.rec.breaker.probe
	if p.seq == 0 || p.seat != m.op.Me.Seat || p.seq == m.op.Probe {
		return
	}
	for _, seq := range m.effect.Unseen {
		if seq == p.seq {
			return // the worker learns of this grant only now
		}
	}
	*p = ticketID{}
}

// wantInflight finds out how many permits the worker's requests hold, by the tenants of the record.
func (m *Machine) wantInflight() {
	r := &m.rec
	m.wanted = m.wanted[:0]
	for _, i := range m.op.Inflight {
		if i.Inflight > 0 {
			m.want(r.ensureTenant(i.Tenant, i.Weight), i.Inflight)
		}
	}
}

// want adds n to the permits that the worker should have for a tenant. Several of its tenants may be one in the record.
func (m *Machine) want(tenant uint16, n uint32) {
	for int(tenant) >= len(m.wanted) {
		m.wanted = append(m.wanted, 0)
	}
	m.wanted[tenant] += n
}

// matchTickets compares the worker's tickets with those in the queue. listed is how many the record counts for it. The
// time grows with the queue and not with its square: a crowd of clients may come and go at once.
func (m *Machine) matchTickets(listed int) {
	r, op := &m.rec, m.op
	m.sortWaiting()
	found := 0
	for i := range r.Queue.Len() {
		if t := r.Queue.At(i); t.Seat == op.Me.Seat {
			if w := m.waitingTicket(t.Seq); w != nil && !w.listed {
				w.listed = true
				found++
			}
		}
	}
	for _, t := range op.Waiting {
		if found < len(op.Waiting) && !m.waitingTicket(t.Seq).listed {
			m.effect.Unseen = append(m.effect.Unseen, t.Seq)
			m.want(r.ensureTenant(op.Inflight[t.Tenant].Tenant, op.Inflight[t.Tenant].Weight), 1)
		}
	}
	if listed > found { // cancels were not stored
		m.keepTickets(func(t Ticket) bool {
			if t.Seat != op.Me.Seat || m.waitingTicket(t.Seq) != nil {
				return true
			}
			m.uncountTicket(t)
			return false
		})
	}
}

// A waiter is a ticket that the worker says waits.
type waiter struct {
	seq    uint32
	listed bool // it is in the queue
}

// sortWaiting sorts the worker's tickets by number. They come in that order but for the wrap-round of the numbers.
func (m *Machine) sortWaiting() {
	m.waiters = m.waiters[:0]
	for _, t := range m.op.Waiting {
		m.waiters = append(m.waiters, waiter{seq: t.Seq})
		for i := len(m.waiters) - 1; i > 0 && m.waiters[i].seq < m.waiters[i-1].seq; i-- {
			m.waiters[i], m.waiters[i-1] = m.waiters[i-1], m.waiters[i]
		}
	}
}

// waitingTicket finds one of the worker's tickets; nil: the worker doesn't say that it waits.
func (m *Machine) waitingTicket(seq uint32) *waiter {
	from, to := 0, len(m.waiters)
	for from < to {
		if mid := (from + to) / 2; m.waiters[mid].seq < seq {
			from = mid + 1
		} else {
			to = mid
		}
	}
	if from == len(m.waiters) || m.waiters[from].seq != seq {
		return nil
	}
	return &m.waiters[from]
}

// correctInflight makes the worker's holders say what is wanted.
func (m *Machine) correctInflight() {
	r, op := &m.rec, m.op
	for i := len(r.Holders) - 1; i >= 0; i-- {
		h := r.Holders[i]
		if h.Seat != op.Me.Seat {
			continue
		}
		want := uint32(0)
		if int(h.Tenant) < len(m.wanted) {
			want, m.wanted[h.Tenant] = m.wanted[h.Tenant], 0
		}
		switch {
		case h.Inflight > want:
			r.removeInflight(h.Seat, h.Tenant, h.Inflight-want)
			r.noteMove(op.Now)
		case h.Inflight < want:
			r.addInflight(op.Me, h.Tenant, want-h.Inflight)
		}
	}
	for t, n := range m.wanted {
		if n > 0 {
			r.addInflight(op.Me, uint16(t), n)
		}
	}
}

// reapDead takes back what dead workers held and waited for.
func (m *Machine) reapDead() {
	r, op := &m.rec, m.op
	for i := len(r.Columns) - 1; i >= 0; i-- {
		if w := r.Columns[i].Worker; w != op.Me && !op.Live.Alive(w) {
			m.reap(i, op.Shaping)
		}
	}
}

// reap removes the i-th column with its permits and tickets. The permits stay on hold as long as s says.
func (m *Machine) reap(i int, s *Shaping) {
	r := &m.rec
	inflight := r.Columns[i].Inflight
	c := &r.Columns[i]
	m.effect.Reaped += int(c.Inflight + c.Tickets)
	if r.breaker.probe.seat == c.Seat {
		r.breaker.probe = ticketID{}
	}
	for k := len(r.Holders) - 1; k >= 0; k-- {
		if h := r.Holders[k]; h.Seat == c.Seat {
			r.removeInflight(h.Seat, h.Tenant, h.Inflight)
		}
	}
	if c.Tickets > 0 {
		seat := c.Seat
		m.keepTickets(func(t Ticket) bool {
			if t.Seat != seat {
				return true
			}
			m.uncountTicket(t)
			return false
		})
	}
	r.Columns = append(r.Columns[:i], r.Columns[i+1:]...)
	if s != nil && s.ReapHold > 0 {
		for range inflight {
			r.hold(m.op.Now+int64(s.ReapHold), NoTenant)
		}
	}
}
