package admission

// headroomRecord says by how much a pool key's limit in force is below the asserted one, because its provider pushed
// back.
type headroomRecord struct {
	cut   uint32 // permits
	last  int64  // the last pushback that counted, monotonic nanoseconds
	grown int64  // aimd: when the limit was last raised again
}

const (
	// An aimd pushback takes 1/cutShare off the limit in force, and one permit at least.
	cutShare = 5
	// adjustEvery is the least time between two changes in one direction of an aimd limit: one burst of 429s is one
	// signal.
	adjustEvery = int64(Second)
)

// inForce is the limit that grants go by: the asserted one, less what pushback has cut off, and never below the
// minimum.
func (r *Record) inForce(s *Shaping) int {
	limit, least := int(r.Limit), 1
	if s != nil && s.Headroom != nil {
		least = s.Headroom.Min
	}
	return max(limit-int(r.headroom.cut), min(least, limit))
}

// onPushback lowers the limit in force after a provider's 429. In mode step it is lower by one until a quiet window has
// passed; in mode aimd it falls by a fifth.
func (r *Record) onPushback(now int64, s *Shaping) {
	h := &r.headroom
	switch {
	case !s.Headroom.AIMD:
		h.cut, h.last = 1, now
	case h.last == 0 || now-h.last >= adjustEvery:
		e := r.inForce(s)
		e = max(e-max(1, e/cutShare), min(s.Headroom.Min, int(r.Limit)))
		h.cut, h.last, h.grown = uint32(max(int(r.Limit)-e, 0)), now, now
	}
}

// decay ends what time ends: in mode step the lowered limit, after a quiet window. It also forgets what is no longer
// configured.
func (r *Record) decay(now int64, s *Shaping) {
	h := &r.headroom
	if s != nil && s.Breaker == nil {
		r.breaker = breakerRecord{gen: r.breaker.gen}
	}
	switch {
	case s == nil:
	case s.Headroom == nil:
		*h = headroomRecord{}
	case !s.Headroom.AIMD && h.cut > 0 && now >= h.last+int64(s.Headroom.Window):
		*h = headroomRecord{}
	}
}

// regrow raises an aimd limit by one after a success, if a quiet window has passed and the pool is at least half used:
// an idle pool says nothing about what its provider can take.
func (r *Record) regrow(now int64, s *Shaping) {
	h := &r.headroom
	if s.Headroom == nil || !s.Headroom.AIMD || h.cut == 0 || 2*r.Inflight() < r.inForce(s) {
		return
	}
	if now-h.last >= int64(s.Headroom.Window) && now-h.grown >= adjustEvery {
		h.cut, h.grown = h.cut-1, now
	}
}

// headroomArray is an encoded headroomRecord.
type headroomArray [20]byte

func (h *headroomRecord) load(b *headroomArray) {
	h.cut, h.last, h.grown = get32(b[:]), int64(get64(b[4:])), int64(get64(b[12:]))
}

func (h *headroomRecord) store(b *headroomArray) {
	put32(b[:], h.cut)
	put64(b[4:], uint64(h.last))
	put64(b[12:], uint64(h.grown))
}

// nextChange is when time alone frees something next: a hold, an open breaker, a lowered limit; 0: never. A breaker
// whose open time is over stays open until a request comes.
func (r *Record) nextChange(now int64, s *Shaping) int64 {
	next := r.firstHoldEnd()
	if r.breaker.state == BreakerOpen && r.breaker.until > now {
		next = earlier(next, r.breaker.until)
	}
	if s != nil && s.Headroom != nil && !s.Headroom.AIMD && r.headroom.cut > 0 {
		next = earlier(next, r.headroom.last+int64(s.Headroom.Window))
	}
	return next
}

// earlier is the earlier of two times; a that is 0 is none.
func earlier(a, b int64) int64 {
	if a == 0 || b < a {
		return b
	}
	return a
}
