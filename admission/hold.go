package admission

// holdGrain is the grain of holds' ends: ends that fall into the same grain are one group in the record. A hold is
// never shorter than asked, and at most a grain longer.
const holdGrain = 10 * int64(Millisecond)

// hold keeps one permit out of use until the given time, charged to a tenant or to NoTenant.
func (r *Record) hold(until int64, tenant uint16) {
	until = (until + holdGrain - 1) / holdGrain * holdGrain
	if tenant != NoTenant {
		r.Tenants[tenant].OnHold++
	}
	for i := range r.Holds {
		if h := &r.Holds[i]; h.Until == until && h.Tenant == tenant {
			h.Count++
			return
		}
	}
	r.Holds = append(r.Holds, HoldGroup{Until: until, Tenant: tenant, Count: 1})
}

// holdAll keeps all permits out of use until the given time.
func (r *Record) holdAll(until int64) {
	if r.Limit > 0 {
		r.Holds = append(r.Holds, HoldGroup{Until: until, Tenant: NoTenant, Count: r.Limit})
	}
}

// endHolds ends the holds that are due.
func (r *Record) endHolds(now int64) {
	for i := 0; i < len(r.Holds); {
		h := r.Holds[i]
		if h.Until > now {
			i++
			continue
		}
		if h.Tenant != NoTenant {
			r.Tenants[h.Tenant].OnHold -= min(h.Count, r.Tenants[h.Tenant].OnHold)
		}
		r.noteMove(h.Until)
		r.Holds = append(r.Holds[:i], r.Holds[i+1:]...)
	}
}

// firstHoldEnd is when the first hold ends; 0: there is none.
func (r *Record) firstHoldEnd() int64 {
	first := int64(0)
	for i := range r.Holds {
		if first == 0 || r.Holds[i].Until < first {
			first = r.Holds[i].Until
		}
	}
	return first
}

// holdsEnding is how many permits on hold come free until the given time.
func (r *Record) holdsEnding(until int64) int {
	n := 0
	for i := range r.Holds {
		if h := &r.Holds[i]; h.Until <= until {
			n += int(h.Count)
		}
	}
	return n
}

// holdTime is how long a permit stays out of use after its request ended, and whether the tenant is charged for it.
//
//   - After a success: the success hold, which every provider needs that counts a call a moment longer than it lasts.
//   - After a cancel or a failure: their own hold, and the success hold on top.
//   - With a penalty, failures in a row are held for the penalty, doubled each time, in place of the failure hold.
//   - The provider's Retry-After lengthens a failure's hold, but makes none where none is configured.
func (r *Record) holdTime(op *Op) (d Duration, charged bool) {
	s := op.Shaping
	switch op.Outcome {
	case OutcomeSuccess:
		return s.Hold.Success, true
	case OutcomeCancel:
		return s.Hold.Cancel + s.Hold.Success, true
	case OutcomeFailure:
		d = s.Hold.Failure
		if b := s.Breaker; b != nil && b.Penalty > 0 {
			level := r.breaker.level
			if op.Told && level > 0 { // the failure itself has raised it
				level--
			}
			d = doubled(b.Penalty, level, b.MaxPenalty)
		}
		if d > 0 {
			d = max(d, op.RetryAfter)
		}
		return d + s.Hold.Success, false
	}
	return 0, false
}
