package admission

// column returns the index of a slot's column, or -1.
func (r *Record) column(slot uint16) int {
	for i := range r.Columns {
		if r.Columns[i].Slot == slot {
			return i
		}
	}
	return -1
}

// join returns the index of a worker's column, made if need be.
func (r *Record) join(w Worker) int {
	if i := r.column(w.Slot); i >= 0 {
		return i
	}
	r.Columns = append(r.Columns, Column{Worker: w})
	return len(r.Columns) - 1
}

// find returns the index of a tenant, or of the shared one that it was counted under when the table was full, or -1.
func (r *Record) find(id uint64) int {
	shared := -1
	for i := range r.Tenants {
		t := &r.Tenants[i]
		switch {
		case !t.Live:
		case t.ID == id:
			return i
		case t.ID == sharedTenant:
			shared = i
		}
	}
	return shared
}

// sharedTenant is the id of all tenants beyond maxRecordTenants.
const sharedTenant = ^uint64(0)

// tenant returns the index of a tenant, added if need be, with the given weight in force.
func (r *Record) tenant(id uint64, weight uint32) uint16 {
	free := -1
	for i := range r.Tenants {
		t := &r.Tenants[i]
		if t.Live && t.ID == id {
			t.Weight = weight
			return uint16(i)
		}
		if !t.Live && free < 0 {
			free = i
		}
	}
	if free < 0 && len(r.Tenants) < maxRecordTenants-1 || id == sharedTenant && free < 0 {
		free = len(r.Tenants)
		r.Tenants = append(r.Tenants, Tenant{})
	}
	if free < 0 {
		return r.tenant(sharedTenant, 1)
	}
	r.Tenants[free] = Tenant{ID: id, Live: true, Weight: weight}
	return uint16(free)
}

// take counts n permits for a worker and tenant.
func (r *Record) take(w Worker, tenant uint16, n uint32) {
	r.Columns[r.join(w)].Permits += n
	r.Tenants[tenant].Inflight += n
	for i := range r.Holders {
		if h := &r.Holders[i]; h.Slot == w.Slot && h.Tenant == tenant {
			h.Count += n
			return
		}
	}
	r.Holders = append(r.Holders, Holder{Slot: w.Slot, Tenant: tenant, Count: n})
}

// drop takes n permits off a worker and tenant; false, and nothing changed, if there are not so many.
func (r *Record) drop(slot, tenant uint16, n uint32) bool {
	for i := range r.Holders {
		h := &r.Holders[i]
		if h.Slot != slot || h.Tenant != tenant {
			continue
		}
		if h.Count < n {
			return false
		}
		h.Count -= n
		r.Columns[r.column(slot)].Permits -= n
		r.Tenants[tenant].Inflight -= n
		if h.Count == 0 {
			r.Holders = append(r.Holders[:i], r.Holders[i+1:]...)
		}
		return true
	}
	return false
}

// tidy forgets columns with nothing in them, and tenants beyond the idle ones worth remembering.
func (r *Record) tidy() {
	for i := 0; i < len(r.Columns); {
		if c := &r.Columns[i]; c.Permits == 0 && c.Tickets == 0 {
			r.Columns = append(r.Columns[:i], r.Columns[i+1:]...)
			continue
		}
		i++
	}
	for r.idle() > idleTenants {
		r.Tenants[r.stalest()] = Tenant{}
	}
	for n := len(r.Tenants); n > 0 && !r.Tenants[n-1].Live; n-- {
		r.Tenants = r.Tenants[:n-1]
	}
}

func (t *Tenant) idle() bool { return t.Live && t.Inflight == 0 && t.Queued == 0 && t.Parked == 0 }

func (r *Record) idle() int {
	n := 0
	for i := range r.Tenants {
		if r.Tenants[i].idle() {
			n++
		}
	}
	return n
}

// stalest is the idle tenant granted longest ago.
func (r *Record) stalest() int {
	at := -1
	for i := range r.Tenants {
		if t := &r.Tenants[i]; t.idle() && (at < 0 || t.LastGrant < r.Tenants[at].LastGrant) {
			at = i
		}
	}
	return at
}
