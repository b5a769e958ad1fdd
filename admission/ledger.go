package admission

// column returns the index of a seat's column, or -1.
func (r *Record) column(seat uint16) int {
	for i := range r.Columns {
		if r.Columns[i].Seat == seat {
			return i
		}
	}
	return -1
}

// ensureColumn returns the index of a worker's column, and adds it if it is not there.
func (r *Record) ensureColumn(w Worker) int {
	if i := r.column(w.Seat); i >= 0 {
		return i
	}
	r.Columns = append(r.Columns, Column{Worker: w})
	return len(r.Columns) - 1
}

// sharedTenant is the id of all tenants beyond maxRecordTenants - 1. It has the last place of the table.
const sharedTenant = ^uint64(0)

// findTenant returns the index of a tenant, or -1.
func (r *Record) findTenant(id uint64) int {
	for i := range r.Tenants {
		if t := &r.Tenants[i]; t.ID == id && t.Weight != 0 {
			return i
		}
	}
	return -1
}

// ensureTenant returns the index of a tenant, or of the shared tenant if the table is full, and adds it if it is not
// there. The given weight is in force from now on.
//
// A tenant that is new, or has been forgotten, takes its turn behind all that were ever forgotten. If it came first, a
// tenant that is forgotten again and again would overtake one that waits as often.
func (r *Record) ensureTenant(id uint64, weight uint32) uint16 {
	i := r.findTenant(id)
	if i < 0 {
		i = r.freeTenant()
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

// freeTenant returns the index of a free place for a tenant of its own, or -1.
func (r *Record) freeTenant() int {
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

// addInflight counts n more permits for a worker and a tenant.
func (r *Record) addInflight(w Worker, tenant uint16, n uint32) {
	r.Columns[r.ensureColumn(w)].Inflight += n
	r.Tenants[tenant].Inflight += n
	for i := range r.Holders {
		if h := &r.Holders[i]; h.Seat == w.Seat && h.Tenant == tenant {
			h.Inflight += n
			return
		}
	}
	r.Holders = append(r.Holders, Holder{Seat: w.Seat, Tenant: tenant, Inflight: n})
}

// removeInflight counts n permits fewer for a worker and a tenant; false, and nothing changed, if there are not so
// many.
func (r *Record) removeInflight(seat, tenant uint16, n uint32) bool {
	for i := range r.Holders {
		h := &r.Holders[i]
		if h.Seat != seat || h.Tenant != tenant {
			continue
		}
		if h.Inflight < n {
			return false
		}
		h.Inflight -= n
		r.Columns[r.column(seat)].Inflight -= n
		r.Tenants[tenant].Inflight -= n
		if h.Inflight == 0 {
			r.Holders = append(r.Holders[:i], r.Holders[i+1:]...)
		}
		return true
	}
	return false
}

// forgetIdle removes the columns that have nothing in them, and the idle tenants beyond those worth remembering. It is
// the end of a step: nothing refers to what it removes, but the indexes of columns change.
func (r *Record) forgetIdle() {
	for i := 0; i < len(r.Columns); {
		if c := &r.Columns[i]; c.Inflight == 0 && c.Tickets == 0 {
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
	for n := idle; idle > maxIdleTenants && n > idleTenants; n-- {
		t := &r.Tenants[r.longestIdle()]
		r.Forgotten = t.LastGrant
		*t = Tenant{}
	}
	for n := len(r.Tenants); n > 0 && r.Tenants[n-1].Weight == 0; n-- {
		r.Tenants = r.Tenants[:n-1]
	}
}

func (t *Tenant) idle() bool {
	return t.Weight != 0 && t.Inflight == 0 && t.Queued == 0 && t.OnHold == 0
}

// longestIdle is the index of the idle tenant whose last grant is the oldest.
func (r *Record) longestIdle() int {
	at := -1
	for i := range r.Tenants {
		if t := &r.Tenants[i]; t.idle() && (at < 0 || t.LastGrant < r.Tenants[at].LastGrant) {
			at = i
		}
	}
	return at
}
