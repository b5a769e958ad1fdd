package admission

// valid checks all that can be checked without reading each ticket:
//
//   - what refers to something refers to something that is there;
//   - the sums that are kept beside the parts are the sums of the parts.
//
// Whatever the bytes are, a step on a valid record neither indexes wrongly nor counts below zero.
func (r *Record) valid() bool {
	n := len(r.Tenants)
	full := n == maxRecordTenants
	if r.Limit > MaxLimit || n > maxRecordTenants || full && r.Tenants[n-1].ID != sharedTenant ||
		r.Retired && (!r.Idle() || r.Source != FromConfig) || r.Provisional && r.Source != FromConfig {
		return false
	}
	return r.validColumns() && r.validHolders() && r.validHolds() && r.validOrder(r.byID, byID) &&
		r.validOrder(r.order, byTurn)
}

// validColumns checks that no seat has two columns, none is empty, and that tickets add up.
func (r *Record) validColumns() bool {
	var seen [MaxWorkers / 64]uint64
	permits, tickets := uint64(0), uint64(0)
	for i := range r.Columns {
		c := &r.Columns[i]
		if c.Seat >= MaxWorkers || c.Epoch == 0 || c.Inflight == 0 && c.Tickets == 0 || seen[c.Seat/64]>>(c.Seat%64)&1 != 0 {
			return false
		}
		seen[c.Seat/64] |= 1 << (c.Seat % 64)
		permits += uint64(c.Inflight)
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

// validHolders checks that each worker's and each tenant's permits are the sum of its holders'.
func (r *Record) validHolders() bool {
	var bySeat [MaxWorkers]uint32
	byTenant := r.scratch()
	for i := range r.Holders {
		h := &r.Holders[i]
		if h.Seat >= MaxWorkers || int(h.Tenant) >= len(byTenant) || h.Inflight == 0 || h.Inflight > MaxLimit*MaxWorkers {
			return false
		}
		bySeat[h.Seat] += h.Inflight
		byTenant[h.Tenant] += h.Inflight
	}
	total := uint64(0)
	for i := range r.Columns {
		if bySeat[r.Columns[i].Seat] != r.Columns[i].Inflight {
			return false
		}
		total += uint64(r.Columns[i].Inflight)
	}
	for i := range r.Holders {
		total -= uint64(r.Holders[i].Inflight)
	}
	for i, n := range byTenant {
		if n != r.Tenants[i].Inflight {
			return false
		}
	}
	return total == 0
}

// validHolds checks that each tenant's charged holds are the sum of its holds.
func (r *Record) validHolds() bool {
	byTenant := r.scratch()
	for i := range r.Holds {
		h := &r.Holds[i]
		switch {
		case h.Count == 0 || h.Count > MaxLimit:
			return false
		case h.Tenant == NoTenant:
		case int(h.Tenant) >= len(byTenant):
			return false
		default:
			byTenant[h.Tenant] += h.Count
		}
	}
	for i, n := range byTenant {
		if n != r.Tenants[i].OnHold {
			return false
		}
	}
	return true
}

// validQueue checks that each worker's and each tenant's tickets are those in the queue, that they are in the order of
// their arrival, and that each tenant's oldest one is known.
func (r *Record) validQueue() bool {
	var bySeat [MaxWorkers]uint32
	byTenant := r.scratch()
	for _, b := range r.Queue.b[:r.Queue.place(0)] {
		if b != 0 {
			return false
		}
	}
	for i := range r.Queue.Len() {
		t := r.Queue.At(i)
		if t.Seat >= MaxWorkers || int(t.Tenant) >= len(byTenant) || int32(r.Queue.arrivals-t.arrival) <= 0 ||
			i > 0 && int32(t.arrival-r.Queue.arrivalOf(i-1)) <= 0 ||
			byTenant[t.Tenant] == 0 && r.Tenants[t.Tenant].First != t.arrival {
			return false
		}
		bySeat[t.Seat]++
		byTenant[t.Tenant]++
	}
	for i := range r.Columns {
		if bySeat[r.Columns[i].Seat] != r.Columns[i].Tickets {
			return false
		}
	}
	for i, n := range byTenant {
		if n != r.Tenants[i].Queued || n == 0 && r.Tenants[i].First != 0 {
			return false
		}
	}
	return true // no seat without a column has a ticket: the sums agree
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
