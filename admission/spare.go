package admission

// Spares. A request that ends may leave its permit with its worker, counted in the worker's column as before, for the
// next request that comes to it. That costs no step. The mark Ahead of a column says that its worker may do so. The
// record never knows how many of a column's permits are spare: it counts them as inflight.

// recallTime is how long a recall may take: so long an acquire is not refused for want of a permit, since one may come
// back.
const recallTime = 20 * int64(Millisecond)

// settle ends an operation: it marks the worker's own column if the record is calm and the worker wants it, and recalls
// all spares if the record isn't at ease any more. The states in between leave the marks as they are, so that they
// don't come and go with each permit.
func (m *Machine) settle() {
	r, op := &m.rec, m.op
	own, marked := r.marks(op.Me)
	if marked || op.Ahead && own >= 0 {
		free := r.inForce(op.Shaping) - r.Inflight() - r.OnHold()
		switch {
		case !r.atEase(free):
			m.recall()
		case op.Ahead && own >= 0 && r.calm(free, op.Shaping):
			r.Columns[own].Ahead = true
		}
	}
	m.effect.Ahead = own >= 0 && r.Columns[own].Ahead
}

// needsRecall reports whether an operation on a common record may have to call spares back. The general way does that.
func (v *view) needsRecall(op *Op) bool {
	free := min(int(get32(v.head()[atLimit:])), int(v.limit(op))) - v.inflight
	if v.queue.n == 0 && free > v.columns+1 {
		return false
	}
	for i := range v.columns {
		if v.columnAt(i)[atColumnAhead] != 0 {
			return true
		}
	}
	return false
}

// markInPlace is settle for a common record that needs no recall, in its bytes. The breaker and the headroom are at
// ease, nothing is on hold, and no limit is in force but the asserted one.
func (m *Machine) markInPlace() {
	v, op, e := &m.view, m.op, &m.effect
	e.Ahead = false
	own := v.findColumn(op.Me.Seat)
	if own < 0 {
		return
	}
	mark := &v.columnAt(own)[atColumnAhead]
	if op.Ahead && v.queue.n == 0 && isCalm(int(get32(v.head()[atLimit:]))-e.Inflight, v.columns, op.Shaping) {
		*mark = 1
	}
	e.Ahead = *mark != 0
}

// marks returns the index of a worker's column, or -1, and whether any column is ahead.
func (r *Record) marks(w Worker) (own int, marked bool) {
	own = -1
	for i := range r.Columns {
		c := &r.Columns[i]
		marked = marked || c.Ahead
		if c.Seat == w.Seat && c.Epoch == w.Epoch {
			own = i
		}
	}
	return own, marked
}

// atEase reports whether nobody needs to be told when a permit comes free: no ticket waits, enough permits are free,
// and neither the breaker nor the headroom has anything to learn from a success.
func (r *Record) atEase(free int) bool {
	br := &r.breaker
	return r.Queue.Len() == 0 && free >= len(r.Columns) && r.headroom.cut == 0 &&
		br.state == BreakerClosed && br.row == 0 && br.level == 0
}

// calm reports whether the record is far from needing a recall, and a success has nothing to tell. A limit of 1 to 4 is
// never calm.
func (r *Record) calm(free int, s *Shaping) bool {
	return isCalm(free, len(r.Columns), s) && len(r.Holds) == 0 && !r.Provisional
}

func isCalm(free, columns int, s *Shaping) bool {
	return free-1 > 2*columns && (s == nil || s.Hold.Success == 0)
}

// recall clears all marks; the caller tells their workers. Only one that finds a mark begins a new recallTime, so that
// refusals are not put off for ever.
//
//go:noinline // what is rare stays apart
func (m *Machine) recall() {
	for i := range m.rec.Columns {
		if c := &m.rec.Columns[i]; c.Ahead {
			c.Ahead = false
			m.effect.Recalls = append(m.effect.Recalls, c.Worker)
			m.rec.RecallUntil = max(m.rec.RecallUntil, m.op.Now+recallTime)
		}
	}
}

// recalling reports whether a permit may still come back by a recall.
func (r *Record) recalling(now int64) bool {
	_, marked := r.marks(Worker{})
	return marked || now < r.RecallUntil
}

// maxUses is how many local uses a reconcile feeds into the mean, whose weight for each is an eighth.
const maxUses = 16

// noteUses takes into account what a worker's requests have used without a step of their own.
func (m *Machine) noteUses() {
	if m.op.Uses > 0 {
		m.rec.noteMove(m.op.Now)
	}
	for range min(m.op.Uses, maxUses) {
		m.rec.noteUse(m.op.Use)
	}
}
