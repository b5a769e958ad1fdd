package admission

// Steps in place. Most steps are one acquire or one release on a common record: no hold, the breaker closed without a
// recent failure, the limit in force as asserted, the worker as the record knows it. Such a step changes a few words of
// the bytes that the store handed over, whatever else is in them. It gives the same bytes and the same effect as the
// general way, which decodes the record, carries the operation out and encodes it: TestInPlace compares them.
//
// A step in place looks first and changes then. If anything is not as it should be, nothing is changed, and the general
// way decides what that means.

// changeInPlace carries operations out in the bytes of a common record, one by one. Where that can't be done for all of
// them, it returns the state as it was.
func (m *Machine) changeInPlace(state []byte, ops []*Op) (next []byte, done bool, before []byte) {
	before = state
	if len(ops) > 1 {
		if !inPlace(ops) {
			return nil, false, state
		}
		m.before = append(m.before[:0], state...)
		before = m.before
	}
	m.effect.reset()
	for _, op := range ops {
		if state, done = m.stepInPlace(state, op); !done {
			return nil, false, before
		}
	}
	return state, true, nil
}

// inPlace reports whether all of the operations are of kinds that can be carried out in place.
func inPlace(ops []*Op) bool {
	for _, op := range ops {
		if op.Kind > OpRelease {
			return false
		}
	}
	return true
}

// stepInPlace carries an operation out in the bytes of a common record, and adds to the effect; false: nothing is
// changed.
func (m *Machine) stepInPlace(state []byte, op *Op) (next []byte, done bool) {
	v := &m.view
	if op.Kind > OpRelease || op.Live != nil || !v.open(state) || !v.common(op) || v.needsRecall(op) {
		return nil, false
	}
	m.op = op
	e := &m.effect
	queued := v.queue.n
	e.Inflight = v.inflight
	if op.Kind == OpAcquire {
		done = m.acquireInPlace()
	} else {
		done = m.releaseInPlace()
	}
	if !done {
		return nil, false
	}
	b := v.head()
	put16(b[4:], uint16(v.tenants))
	put16(b[6:], uint16(v.columns))
	put32(b[8:], uint32(v.holders))
	put32(b[128:], uint32(v.queue.n))
	put32(b[132:], uint32(v.queue.gone))
	put32(b[136:], v.queue.arrivals)
	put16(b[140:], uint16(v.named))
	put16(b[142:], uint16(v.waiting))
	put16(b[144:], uint16(v.idle))
	e.Verdicts = append(e.Verdicts, e.Verdict)
	e.Changed, e.Gen, e.BreakerGen = true, op.Gen, get32(b[atBreaker+4:])
	e.InflightDelta += e.Inflight - v.inflight
	e.Queued = v.queue.n
	e.QueuedDelta += v.queue.n - queued
	m.markInPlace()
	return v.queue.b, true
}

// common reports whether a record is one that can be stepped in place, and finds the worker's column.
func (v *view) common(op *Op) bool {
	b, s := v.head(), op.Shaping
	if b[1] != 0 || b[atSource] > byte(FromFleet) || v.holds > 0 || get32(b[16:]) != op.Gen || !v.calm(s) ||
		op.Me.Epoch == 0 || op.Me.Seat >= MaxWorkers {
		return false
	}
	v.inflight, v.column = v.sumInflight(), v.findColumn(op.Me.Seat)
	if v.column < 0 {
		return !op.Expect
	}
	return get64(v.columnAt(v.column)[2:]) == op.Me.Epoch
}

// calm reports whether nothing is to be done about the breaker and the headroom, neither by time nor by a success.
func (v *view) calm(s *Shaping) bool {
	head := v.head()
	br, h := (*breakerArray)(head[atBreaker:]), (*headroomArray)(head[atHeadroom:])
	if br[0] != byte(BreakerClosed) || br[2] != 0 || get16(br[18:]) != 0 || get32(br[20:]) != 0 || get32(h[:]) != 0 {
		return false
	}
	if s == nil {
		return true
	}
	if s.Breaker == nil { // the general way would clear them
		if br[1]|br[3] != 0 || get64(br[8:])|get64(br[16:])|get64(br[24:])|get64(br[32:])|get64(br[40:]) != 0 ||
			get32(br[48:]) != 0 {
			return false
		}
	}
	return s.Headroom != nil || get64(h[4:]) == 0 && get64(h[12:]) == 0
}

// acquireInPlace grants a permit where nobody waits and one is free, or lets the request wait where none is.
func (m *Machine) acquireInPlace() bool {
	v, op := &m.view, m.op
	limit := int(v.limit(op))
	t := v.findTenant(op.Tenant)
	if !op.Assert || limit == 0 || v.waiting > v.queue.n || !v.mayTake(t, op) {
		return false
	}
	queued := 0
	if t >= 0 {
		queued = int(get32(v.tenant(t)[atTenantQueued:]))
	}
	if v.queue.n == 0 && v.inflight < limit {
		put32(v.head()[atLimit:], uint32(limit))
		v.grantOwn(v.take(t, op), op)
		m.effect.Verdict = VerdictGranted
		m.effect.Inflight++
		return true
	}
	room := op.Budget > 0 && v.queue.n < op.Queue && (!op.Fair || queued < max(1, op.Queue-v.queue.n))
	if !room || v.inflight < limit {
		return false
	}
	put32(v.head()[atLimit:], uint32(limit))
	v.enqueueOwn(v.take(t, op), op)
	m.effect.Verdict = VerdictWaiting
	return true
}

// mayTake reports whether tenant t can be taken in place. t is -1 for a tenant that the record doesn't know.
func (v *view) mayTake(t int, op *Op) bool {
	if t < 0 {
		return v.tenants < maxRecordTenants-1
	}
	tenant := v.tenant(t)
	queued := int(get32(tenant[atTenantQueued:]))
	return queued <= v.queue.n && (v.idle > 0 || !isIdle(tenant)) &&
		(queued == 0 || get32(tenant[atTenantWeight:]) == max(op.Weight, 1)) // else its turn may change
}

// isIdle reports whether the tenant in those bytes is only remembered.
func isIdle(t *tenantArray) bool {
	return get64(t[atTenantInflight:]) == 0 && get32(t[atTenantOnHold:]) == 0
}

// take makes tenant t, or a new one, one that is not only remembered, sets its weight, and returns its index.
func (v *view) take(t int, op *Op) int {
	if t < 0 {
		t = v.addTenant(op.Tenant)
	} else if isIdle(v.tenant(t)) {
		v.idle--
	}
	put32(v.tenant(t)[atTenantWeight:], max(op.Weight, 1))
	return t
}

// addTenant adds a tenant in the first free place.
func (v *view) addTenant(id uint64) int {
	t := v.tenants
	for i := 0; v.named < v.tenants && i < v.tenants; i++ {
		if get32(v.tenant(i)[atTenantWeight:]) == 0 {
			t = i
			break
		}
	}
	if t == v.tenants {
		v.queue.b = gap(v.queue.b, v.atByID, tenantBytes)
		v.tenants++
		v.atByID += tenantBytes
		v.queue.at += tenantBytes
	}
	tenant := v.tenant(t)
	*tenant = tenantArray{}
	put64(tenant[:], id)
	put64(tenant[atTenantGrant:], get64(v.head()[atForgotten:]))
	at := v.atByID + 2*v.placeByID(id)
	v.queue.b = gap(v.queue.b, at, 2)
	put16(v.queue.b[at:], uint16(t))
	v.named++
	v.queue.at += 2
	return t
}

// ensureColumn adds the worker's column if it isn't there.
func (v *view) ensureColumn(me *Worker) *columnArray {
	if v.column < 0 {
		at := v.atHolders()
		v.queue.b = gap(v.queue.b, at, columnBytes)
		c := (*columnArray)(v.queue.b[at:])
		put16(c[:], me.Seat)
		put64(c[2:], me.Epoch)
		put64(c[10:], 0)
		c[atColumnAhead] = 0
		v.column = v.columns
		v.columns++
	}
	return v.columnAt(v.column)
}

// grantOwn grants the operation's own ticket.
func (v *view) grantOwn(t int, op *Op) {
	v.ensureColumn(&op.Me)
	v.queue.arrivals++
	v.grant(t, v.column, op.Now)
}

// grant counts one more permit for a tenant and a column.
func (v *view) grant(t, column int, now int64) {
	head := v.head()
	seq := get64(head[atGrantSeq:]) + 1
	put64(head[atGrantSeq:], seq)
	noteMove(head, now)
	tenant := v.tenant(t)
	put64(tenant[atTenantGrant:], seq)
	add32(tenant[atTenantInflight:], 1)
	c := v.columnAt(column)
	add32(c[10:], 1)
	seat := get16(c[:])
	if at := v.findHolder(seat, uint16(t)); at >= 0 {
		add32(v.queue.b[at+4:], 1)
		return
	}
	at := len(v.queue.b)
	v.queue.b = extend(v.queue.b, holderBytes)
	h := v.queue.b[at:]
	put16(h, seat)
	put16(h[2:], uint16(t))
	put32(h[4:], 1)
	v.holders++
}

// noteMove is Record.noteMove on a record's head.
func noteMove(head *headArray, now int64) {
	put64(head[atLastMove:], uint64(max(int64(get64(head[atLastMove:])), now)))
}

// enqueueOwn appends the operation's own ticket.
func (v *view) enqueueOwn(t int, op *Op) {
	if tenant := v.tenant(t); get32(tenant[atTenantQueued:]) == 0 {
		put32(tenant[atTenantFirst:], v.queue.arrivals)
		v.insertInOrder(t)
	}
	add32(v.tenant(t)[atTenantQueued:], 1)
	add32(v.ensureColumn(&op.Me)[14:], 1)
	ticket := op.ticket(uint16(t))
	v.queue.push(&ticket)
}

// insertInOrder gives a tenant its place in the order of turns.
func (v *view) insertInOrder(t int) {
	own := turnOf(v.tenant(t))
	at := v.atOrder() + 2*v.placeInOrder(&own)
	v.queue.b = gap(v.queue.b, at, 2)
	put16(v.queue.b[at:], uint16(t))
	v.waiting++
}

func (v *view) removeFromOrder(place int) {
	v.queue.b = cut(v.queue.b, v.atOrder()+2*place, 2)
	v.waiting--
}
