package admission

// A Snapshot is what a record says of its key at one time, for display.
type Snapshot struct {
	_ incomparable

	Limit    int // in force
	Source   Source
	Usable   int // what the headroom and the penalties leave of the limit
	Inflight int // permits granted, and spares with them: a record doesn't know them apart
	Queued   int
	OnHold   int

	OldestWait Duration // how long the oldest ticket has waited; 0: none waits

	Breaker BreakerState

	// How long it is until time alone changes something; 0: it doesn't.
	BreakerChange  Duration // until the open breaker becomes half open
	HeadroomChange Duration // until the headroom may give a permit back
	PenaltyEnd     Duration // until the last permit that is on hold for a failure comes free
	HoldEnd        Duration // until the first permit on hold comes free

	Tenants []TenantShare // those with a permit or a ticket
}

// A TenantShare is what a key's record counts for one tenant.
type TenantShare struct {
	ID                       uint64 // 0 in a pool that isn't fair by tenant
	Inflight, Queued, OnHold uint32
	Weight                   uint32
}

// Read reads a record for display as it is at the target's time, and changes nothing. Only the target's Now, Gen and
// Shaping are used. The snapshot reuses s's memory; false: there is no record of that generation.
func (m *Machine) Read(state []byte, t *Target, s *Snapshot) bool {
	r := &m.rec
	if r.Decode(state) != nil || r.Gen != t.Gen || r.Retired {
		return false
	}
	r.endHolds(t.Now)
	r.decay(t.Now, t.Shaping)
	*s = Snapshot{Tenants: s.Tenants[:0], Limit: int(r.Limit), Source: r.Source,
		Inflight: r.Inflight(), Queued: r.Queue.Len(), OnHold: r.OnHold()}
	if s.Queued > 0 {
		oldest := r.Queue.At(0)
		s.OldestWait = max(Duration(t.Now-oldest.Deadline)+Duration(oldest.Budget)*Millisecond, 0)
	}
	var breaker *Breaker
	if t.Shaping != nil {
		breaker = t.Shaping.Breaker
	}
	if r.breaker.advance(t.Now, breaker); r.breaker.state == BreakerOpen {
		s.BreakerChange = t.until(r.breaker.until)
	}
	s.Breaker = r.breaker.state
	s.HeadroomChange = t.until(r.headroom.givesBack(t.Shaping))
	s.HoldEnd = t.until(r.firstHoldEnd())
	penalized, last := r.penalized(breaker)
	s.PenaltyEnd = t.until(last)
	s.Usable = max(r.inForce(t.Shaping)-penalized, 0)
	for i := range r.Tenants {
		if t := &r.Tenants[i]; t.Inflight+t.Queued+t.OnHold > 0 {
			s.Tenants = append(s.Tenants, TenantShare{t.ID, t.Inflight, t.Queued, t.OnHold, t.Weight})
		}
	}
	return true
}

// until is how long it is until then; 0: it has come.
func (t *Target) until(at int64) Duration { return Duration(max(at-t.Now, 0)) }

// givesBack is when a lowered limit may rise again: by time alone, or with the next success; 0: it isn't lowered.
func (h *headroomRecord) givesBack(s *Shaping) int64 {
	if h.cut == 0 || s == nil || s.Headroom == nil {
		return 0
	}
	at := h.last + int64(s.Headroom.Window)
	if s.Headroom.AIMD {
		at = max(at, h.grown+adjustEvery)
	}
	return at
}

// penalized is how many permits are on hold because of failures, where those have a penalty, and when the last of them
// comes free; 0: there is none.
func (r *Record) penalized(b *Breaker) (n int, last int64) {
	if b == nil || b.Penalty <= 0 {
		return 0, 0
	}
	for i := range r.Holds {
		if h := &r.Holds[i]; h.Tenant == NoTenant {
			n, last = n+int(h.Count), max(last, h.Until)
		}
	}
	return n, last
}

// InForce reads the limit in force in a record, and where it comes from; false: there is no record.
func InForce(state []byte) (limit int, from Source, ok bool) {
	if len(state) < headBytes || state[0] != RecordVersion {
		return 0, FromConfig, false
	}
	return int(get32(state[atLimit:])), Source(state[atSource]), true
}
