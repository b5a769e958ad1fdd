package admission

// sync makes the worker's column equal to its truth: the permits of the streams it runs, and its tickets that the record
// no longer lists because they were granted. If the column is missing altogether, the worker was declared dead (or the
// record was lost): its tickets were not granted but taken, so they queue again, and what it runs is counted again,
// above the limit if need be.
func (m *Machine) sync() {
	op := m.op
	m.resolve()
	i := m.rec.column(op.Me.Slot)
	if i < 0 {
		for _, t := range op.Waiting {
			t.Tenant = m.rec.tenant(op.Running[t.Tenant].Tenant, op.Running[t.Tenant].Weight)
			m.enqueue(t)
		}
	} else {
		m.match(int(m.rec.Columns[i].Tickets))
	}
	m.settle()
	m.missProbe()
	if r := &m.rec; r.Provisional && i < 0 {
		// Others have still to say what they run, so no more than that may run as yet; but one, so that nobody waits in vain.
		r.Limit = max(r.Limit, min(op.limit(), uint32(max(r.Used(), 1))))
	}
}

// missProbe frees the probe's place if the record says that this worker has the probe and it doesn't: the probe's end found no
// free swap.
func (m *Machine) missProbe() {
	p := &m.rec.breaker.probe
	if p.seq == 0 || p.slot != m.op.Me.Slot || p.seq == m.op.Probe {
		return
	}
	for _, seq := range m.effect.Mine {
		if seq == p.seq {
			return // granted, and only now known to be
		}
	}
	*p = ticketID{}
}

// resolve finds out how many permits the worker runs, by the tenants of the record.
func (m *Machine) resolve() {
	r := &m.rec
	m.wanted = m.wanted[:0]
	for _, s := range m.op.Running {
		if s.Count > 0 {
			m.want(r.tenant(s.Tenant, s.Weight), s.Count)
		}
	}
}

// want counts permits that the worker should have. Several of its tenants may share one of the record's.
func (m *Machine) want(tenant uint16, n uint32) {
	for int(tenant) >= len(m.wanted) {
		m.wanted = append(m.wanted, 0)
	}
	m.wanted[tenant] += n
}

// match compares the worker's tickets with those of its that are in the queue. The record knows listed of them.
func (m *Machine) match(listed int) {
	r, op := &m.rec, m.op
	next, found := 0, 0
	for _, t := range op.Waiting {
		if at := r.Queue.findFrom(next, op.Me.Slot, t.Seq); at >= 0 {
			next, found = at+1, found+1
			continue
		}
		m.effect.Mine = append(m.effect.Mine, t.Seq)
		m.want(r.tenant(op.Running[t.Tenant].Tenant, op.Running[t.Tenant].Weight), 1)
	}
	if listed > found { // a cancel that found no free swap
		r.Queue.keep(func(t Ticket) bool {
			if t.Slot != op.Me.Slot || op.waits(t.Seq) {
				return true
			}
			m.discount(t)
			return false
		})
	}
}

func (op *Op) waits(seq uint32) bool {
	for i := range op.Waiting {
		if op.Waiting[i].Seq == seq {
			return true
		}
	}
	return false
}

// settle makes the worker's holders say what is wanted.
func (m *Machine) settle() {
	r, op := &m.rec, m.op
	for i := len(r.Holders) - 1; i >= 0; i-- {
		h := r.Holders[i]
		if h.Slot != op.Me.Slot {
			continue
		}
		want := uint32(0)
		if int(h.Tenant) < len(m.wanted) {
			want, m.wanted[h.Tenant] = m.wanted[h.Tenant], 0
		}
		switch {
		case h.Count > want:
			r.drop(h.Slot, h.Tenant, h.Count-want)
			r.noteRelease(op.Now)
		case h.Count < want:
			r.take(op.Me, h.Tenant, want-h.Count)
		}
	}
	for t, n := range m.wanted {
		if n > 0 {
			r.take(op.Me, uint16(t), n)
		}
	}
}

// reapDead takes back what dead workers held and waited for.
func (m *Machine) reapDead() {
	r, op := &m.rec, m.op
	for i := len(r.Columns) - 1; i >= 0; i-- {
		if w := r.Columns[i].Worker; w != op.Me && !op.Live.Alive(w) {
			m.reap(i)
		}
	}
}

// reap removes the i-th column with its permits and tickets.
func (m *Machine) reap(i int) {
	r := &m.rec
	c := &r.Columns[i]
	m.effect.Reaped += int(c.Permits + c.Tickets)
	if r.breaker.probe.slot == c.Slot {
		r.breaker.probe = ticketID{}
	}
	for k := len(r.Holders) - 1; k >= 0; k-- {
		if h := r.Holders[k]; h.Slot == c.Slot {
			r.drop(h.Slot, h.Tenant, h.Count)
		}
	}
	if c.Tickets > 0 {
		slot := c.Slot
		r.Queue.keep(func(t Ticket) bool {
			if t.Slot != slot {
				return true
			}
			m.discount(t)
			return false
		})
	}
	r.Columns = append(r.Columns[:i], r.Columns[i+1:]...)
}
