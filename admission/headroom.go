package admission

// headroomRecord is by how much a pool key's limit in force is below the asserted one, because its provider pushed back.
type headroomRecord struct {
	cut   uint32 // permits
	last  int64  // the last pushback that counted, monotonic nanoseconds
	grown int64  // aimd: when the limit was last raised again
}

const (
	// cutShare is what an aimd pushback takes off the limit in force: a fifth, and one permit at least.
	cutShare = 5
	// adjustEvery is the least time between two changes in one direction of an aimd limit: one burst of 429s is one signal.
	adjustEvery = int64(Second)
)

// inForce is the limit that grants go by: the asserted one, less what pushback has cut off, and never below the minimum.
func (r *Record) inForce(p *Pool) int {
	limit, least := int(r.Limit), 1
	if p != nil && p.Headroom != nil {
		least = p.Headroom.Min
	}
	return max(limit-int(r.headroom.cut), min(least, limit))
}

// pushBack lowers the limit in force after a provider's 429: by one until a quiet window has passed, or, aimd, by a fifth.
func (r *Record) pushBack(now int64, p *Pool) {
	h := &r.headroom
	switch {
	case !p.Headroom.AIMD:
		h.cut, h.last = 1, now
	case h.last == 0 || now-h.last >= adjustEvery:
		e := r.inForce(p)
		e = max(e-max(1, e/cutShare), min(p.Headroom.Min, int(r.Limit)))
		h.cut, h.last, h.grown = uint32(max(int(r.Limit)-e, 0)), now, now
	}
}

// relax gives back what time gives back, the step's permit after a quiet window, and what is no longer configured.
func (r *Record) relax(now int64, p *Pool) {
	h := &r.headroom
	if p != nil && p.Breaker == nil {
		r.breaker = breakerRecord{gen: r.breaker.gen}
	}
	switch {
	case p == nil:
	case p.Headroom == nil:
		*h = headroomRecord{}
	case !p.Headroom.AIMD && h.cut > 0 && now >= h.last+int64(p.Headroom.Window):
		*h = headroomRecord{}
	}
}

// recover raises an aimd limit by one after a success, if a quiet window has passed and the pool is really used: an idle
// pool says nothing about what its provider can take.
func (r *Record) recover(now int64, p *Pool) {
	h := &r.headroom
	if p.Headroom == nil || !p.Headroom.AIMD || h.cut == 0 || 2*r.Used() < r.inForce(p) {
		return
	}
	if now-h.last >= int64(p.Headroom.Window) && now-h.grown >= adjustEvery {
		h.cut, h.grown = h.cut-1, now
	}
}

func (h *headroomRecord) load(b []byte) {
	h.cut, h.last, h.grown = get32(b), int64(get64(b[4:])), int64(get64(b[12:]))
}

func (h *headroomRecord) store(b []byte) {
	put32(b, h.cut)
	put64(b[4:], uint64(h.last))
	put64(b[12:], uint64(h.grown))
}

// next is when time alone frees something next: a hold, an open breaker, a lowered limit. A breaker whose open time is over
// stays as it is until somebody comes.
func (r *Record) next(now int64, p *Pool) int64 {
	next := r.firstUnpark()
	if r.breaker.state == breakerOpen && r.breaker.until > now {
		next = earlier(next, r.breaker.until)
	}
	if p != nil && p.Headroom != nil && !p.Headroom.AIMD && r.headroom.cut > 0 {
		next = earlier(next, r.headroom.last+int64(p.Headroom.Window))
	}
	return next
}

// earlier is the earlier of two times, of which 0 is none.
func earlier(a, b int64) int64 {
	if a == 0 || b < a {
		return b
	}
	return a
}
