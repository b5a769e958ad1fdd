package admission

// sound checks all that can be checked without reading each ticket: that what refers to something refers to something
// that is there, and that the sums kept beside the parts are the sums of the parts. No bytes, however damaged, can then
// make a step index wrongly or count below zero.
func (r *Record) sound() bool {
	n := len(r.Tenants)
	if r.Limit > MaxLimit || n > maxRecordTenants || n == maxRecordTenants && r.Tenants[n-1].ID != sharedTenant || r.Retired && !r.Idle() {
		return false
	}
	return r.soundColumns() && r.soundHolders() && r.soundHolds()
}

// soundColumns checks that no slot has two columns, none is empty, and that tickets add up.
func (r *Record) soundColumns() bool {
	var seen [MaxWorkers / 64]uint64
	permits, tickets := uint64(0), uint64(0)
	for i := range r.Columns {
		c := &r.Columns[i]
		if c.Slot >= MaxWorkers || c.Epoch == 0 || c.Permits == 0 && c.Tickets == 0 || seen[c.Slot/64]>>(c.Slot%64)&1 != 0 {
			return false
		}
		seen[c.Slot/64] |= 1 << (c.Slot % 64)
		permits += uint64(c.Permits)
		tickets += uint64(c.Tickets)
	}
	inflight, queued := uint64(0), uint64(0)
	for i := range r.Tenants {
		t := &r.Tenants[i]
		if t.Weight == 0 && *t != (Tenant{}) {
			return false
		}
		inflight += uint64(t.Inflight)
		queued += uint64(t.Queued)
	}
	return permits == inflight && permits <= MaxLimit*MaxWorkers && tickets == queued && tickets == uint64(r.Queue.Len())
}

// soundHolders checks that each worker's and each tenant's permits are the sum of its holders'.
func (r *Record) soundHolders() bool {
	var bySlot [MaxWorkers]uint32
	byTenant := r.scratch()
	for i := range r.Holders {
		h := &r.Holders[i]
		if h.Slot >= MaxWorkers || int(h.Tenant) >= len(byTenant) || h.Count == 0 || h.Count > MaxLimit*MaxWorkers {
			return false
		}
		bySlot[h.Slot] += h.Count
		byTenant[h.Tenant] += h.Count
	}
	total := uint64(0)
	for i := range r.Columns {
		if bySlot[r.Columns[i].Slot] != r.Columns[i].Permits {
			return false
		}
		total += uint64(r.Columns[i].Permits)
	}
	for i := range r.Holders {
		total -= uint64(r.Holders[i].Count)
	}
	for i, n := range byTenant {
		if n != r.Tenants[i].Inflight {
			return false
		}
	}
	return total == 0
}

// soundHolds checks that each tenant's charged holds are the sum of its holds.
func (r *Record) soundHolds() bool {
	byTenant := r.scratch()
	for i := range r.Holds {
		p := &r.Holds[i]
		switch {
		case p.Count == 0 || p.Count > MaxLimit:
			return false
		case p.Tenant == NoTenant:
		case int(p.Tenant) >= len(byTenant):
			return false
		default:
			byTenant[p.Tenant] += p.Count
		}
	}
	for i, n := range byTenant {
		if n != r.Tenants[i].Parked {
			return false
		}
	}
	return true
}

// soundQueue checks that each worker's and each tenant's tickets are those in the queue.
func (r *Record) soundQueue() bool {
	var bySlot [MaxWorkers]uint32
	byTenant := r.scratch()
	for i := range r.Queue.Len() {
		t := r.Queue.At(i)
		if t.Slot >= MaxWorkers || int(t.Tenant) >= len(byTenant) {
			return false
		}
		bySlot[t.Slot]++
		byTenant[t.Tenant]++
	}
	for i := range r.Columns {
		if bySlot[r.Columns[i].Slot] != r.Columns[i].Tickets {
			return false
		}
	}
	for i, n := range byTenant {
		if n != r.Tenants[i].Queued {
			return false
		}
	}
	return true // no slot without a column has a ticket: the sums agree
}

// scratch is a zeroed counter for each tenant.
func (r *Record) scratch() []uint32 {
	for cap(r.sums) < len(r.Tenants) {
		r.sums = append(r.sums[:cap(r.sums)], 0)
	}
	r.sums = r.sums[:len(r.Tenants)]
	clear(r.sums)
	return r.sums
}
