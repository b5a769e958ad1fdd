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

// sharedTenant is the id of all tenants beyond maxRecordTenants - 1; the last place of the table is its own.
const sharedTenant = ^uint64(0)

// lookup returns the index of a tenant, or -1.
func (r *Record) lookup(id uint64) int {
	for i := range r.Tenants {
		if t := &r.Tenants[i]; t.ID == id && t.Weight != 0 {
			return i
		}
	}
	return -1
}

// tenant returns the index of a tenant, or of the shared one if the table is full, added if need be, with the given
// weight in force. Who is new, or has been forgotten, takes its turn behind all who were ever forgotten: if it came
// first, a tenant that is forgotten time and again would overtake one that waits as often.
func (r *Record) tenant(id uint64, weight uint32) uint16 {
	i := r.lookup(id)
	if i < 0 {
		i = r.vacancy()
	}
	if i < 0 {
		id, weight, i = sharedTenant, 1, maxRecordTenants-1
		if len(r.Tenants) == i {
			r.Tenants = append(r.Tenants, Tenant{})
		}
	}
	t := &r.Tenants[i]
	if t.Weight == 0 {
		*t = Tenant{ID: id, LastGrant: r.Forgotten}
	}
	t.Weight = max(weight, 1)
	return uint16(i)
}

// vacancy returns the index of a free place for a tenant of its own, or -1.
func (r *Record) vacancy() int {
	for i := range min(len(r.Tenants), maxRecordTenants-1) {
		if r.Tenants[i].Weight == 0 {
			return i
		}
	}
	n := len(r.Tenants)
	if n >= maxRecordTenants-1 {
		return -1
	}
	r.Tenants = append(r.Tenants, Tenant{})
	return n
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

// tidy forgets columns with nothing in them, and idle tenants beyond those worth remembering. It ends a step: what it
// forgets, nothing refers to, but the indexes of columns change.
func (r *Record) tidy() {
	for i := 0; i < len(r.Columns); {
		if c := &r.Columns[i]; c.Permits == 0 && c.Tickets == 0 {
			r.Columns = append(r.Columns[:i], r.Columns[i+1:]...)
			continue
		}
		i++
	}
	idle := 0
	for i := range r.Tenants {
		if t := &r.Tenants[i]; !t.idle() {
			continue
		} else if t.LastGrant <= r.Forgotten {
			*t = Tenant{} // as good as new
			continue
		}
		idle++
	}
	for ; idle > idleTenants; idle-- {
		t := &r.Tenants[r.stalest()]
		r.Forgotten = t.LastGrant
		*t = Tenant{}
	}
	for n := len(r.Tenants); n > 0 && r.Tenants[n-1].Weight == 0; n-- {
		r.Tenants = r.Tenants[:n-1]
	}
}

func (t *Tenant) idle() bool {
	return t.Weight != 0 && t.Inflight == 0 && t.Queued == 0 && t.Parked == 0
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
