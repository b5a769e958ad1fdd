package admission

// holdGrain is the grain of holds' ends: ends that fall into the same grain share an entry of the record. A hold is
// never shorter than asked, and at most a grain longer.
const holdGrain = 10 * int64(Millisecond)

// maxHold is the longest hold, whatever an upstream asks for.
const maxHold = 10 * Minute

// park keeps one permit out of use until the given time, charged to a tenant or to NoTenant.
func (r *Record) park(until int64, tenant uint16) {
	until = (until + holdGrain - 1) / holdGrain * holdGrain
	if tenant != NoTenant {
		r.Tenants[tenant].Parked++
	}
	for i := range r.Holds {
		if p := &r.Holds[i]; p.Until == until && p.Tenant == tenant {
			p.Count++
			return
		}
	}
	r.Holds = append(r.Holds, Parked{Until: until, Tenant: tenant, Count: 1})
}

// withhold keeps all permits out of use until the given time.
func (r *Record) withhold(until int64) {
	if r.Limit > 0 {
		r.Holds = append(r.Holds, Parked{Until: until, Tenant: NoTenant, Count: r.Limit})
	}
}

// unpark ends the holds that are due.
func (r *Record) unpark(now int64) {
	for i := 0; i < len(r.Holds); {
		p := r.Holds[i]
		if p.Until > now {
			i++
			continue
		}
		if p.Tenant != NoTenant {
			r.Tenants[p.Tenant].Parked -= min(p.Count, r.Tenants[p.Tenant].Parked)
		}
		r.noteRelease(p.Until)
		r.Holds = append(r.Holds[:i], r.Holds[i+1:]...)
	}
}

// firstUnpark is when the first hold ends; 0: there is none.
func (r *Record) firstUnpark() int64 {
	first := int64(0)
	for i := range r.Holds {
		if first == 0 || r.Holds[i].Until < first {
			first = r.Holds[i].Until
		}
	}
	return first
}
