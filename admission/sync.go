package admission

// sync makes the worker's column equal to its truth: the permits of the streams it runs, and its tickets that the record
// no longer lists because they were granted. If the column is missing altogether, the worker was declared dead (or the
// record was lost): its tickets were not granted but taken, so they queue again, and what it runs is counted again,
// above the limit if need be.
func (m *Machine) sync() {
	r, op := &m.rec, m.op
	lost := r.column(op.Me.Slot) < 0
	next, found := 0, 0
	for _, t := range op.Waiting {
		share := &op.Running[t.Tenant]
		at := r.Queue.findFrom(next, op.Me.Slot, t.Seq)
		switch {
		case at >= 0:
			next, found = at+1, found+1
		case lost:
			t.Tenant = r.tenant(share.Tenant, share.Weight)
			m.enqueue(t)
		default:
			m.effect.Mine = append(m.effect.Mine, t.Seq)
			share.Count++
		}
	}
	if !lost && int(r.Columns[r.column(op.Me.Slot)].Tickets) > found {
		m.dropForgotten()
	}
	m.dropStrangers()
	for i := range op.Running {
		m.setShare(&op.Running[i])
	}
	r.tidy()
}

// dropForgotten removes the worker's tickets that it no longer waits for: a cancel that found no free swap.
func (m *Machine) dropForgotten() {
	r, op := &m.rec, m.op
	for i := 0; i < r.Queue.Len(); {
		if t := r.Queue.At(i); t.Slot == op.Me.Slot && !op.waits(t.Seq) {
			m.withdraw(i)
			continue
		}
		i++
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

// setShare makes the worker's holder entry for one tenant say what the worker says.
func (m *Machine) setShare(s *Share) {
	r, op := &m.rec, m.op
	has := uint32(0)
	t := r.find(s.Tenant)
	if t >= 0 {
		has = r.holds(op.Me.Slot, uint16(t))
	}
	switch {
	case has > s.Count:
		r.drop(op.Me.Slot, uint16(t), has-s.Count)
		r.noteRelease(op.Now)
	case has < s.Count:
		r.take(op.Me, r.tenant(s.Tenant, s.Weight), s.Count-has)
	}
}

// dropStrangers drops what the column holds for tenants that the worker doesn't run.
func (m *Machine) dropStrangers() {
	r, op := &m.rec, m.op
	for i := 0; i < len(r.Holders); {
		h := r.Holders[i]
		if h.Slot == op.Me.Slot && !op.runs(r.Tenants[h.Tenant].ID) {
			r.drop(h.Slot, h.Tenant, h.Count)
			continue
		}
		i++
	}
}

func (op *Op) runs(tenant uint64) bool {
	for i := range op.Running {
		if op.Running[i].Tenant == tenant {
			return true
		}
	}
	return false
}

func (r *Record) holds(slot, tenant uint16) uint32 {
	for i := range r.Holders {
		if h := &r.Holders[i]; h.Slot == slot && h.Tenant == tenant {
			return h.Count
		}
	}
	return 0
}

// reapDead takes back what dead workers held and waited for.
func (m *Machine) reapDead() {
	r, op := &m.rec, m.op
	for i := 0; i < len(r.Columns); {
		if w := r.Columns[i].Worker; w != op.Me && !op.Live.Alive(w, op.Now) {
			m.reap(i)
			continue
		}
		i++
	}
}

// reap removes the i-th column with its permits and tickets.
func (m *Machine) reap(i int) {
	r := &m.rec
	c := r.Columns[i]
	m.effect.Reaped += int(c.Permits + c.Tickets)
	for k := 0; k < len(r.Holders); {
		if h := r.Holders[k]; h.Slot == c.Slot {
			r.Tenants[h.Tenant].Inflight -= h.Count
			r.Holders = append(r.Holders[:k], r.Holders[k+1:]...)
			continue
		}
		k++
	}
	for k := 0; k < r.Queue.Len(); {
		if t := r.Queue.At(k); t.Slot == c.Slot {
			r.Tenants[t.Tenant].Queued--
			r.Queue.remove(k)
			continue
		}
		k++
	}
	r.Columns = append(r.Columns[:i], r.Columns[i+1:]...)
	r.tidy()
}
