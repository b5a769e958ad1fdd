package admission

// A Machine carries out steps. It holds buffers only; any machine can step any record. Not safe for concurrent use.
type Machine struct {
	rec        Record
	effect     Effect
	out        []byte
	wanted     []uint32 // reconcile: by tenant index, the permits that the worker should have
	waiters    []waiter // reconcile: the tickets that the worker says wait, by number
	op         *Op      // in hand
	single     [1]*Op   // scratch of Step
	view       view     // of a step in place
	copy       []byte   // Step's copy of a state
	before     []byte   // a state as it was before several steps in place
	ownGranted bool     // the acquire's own ticket has been granted
	refused    bool     // an acquire has been refused
	lost       bool     // the record is made in place of one that was lost
	damaged    bool     // a ticket turned out to refer to what isn't there
}

// Step carries out op on a record's bytes (nil: there is none yet) and returns the record's new bytes and the effect.
// Both are valid until the next step, and so state must not be what this machine returned last. If the effect says
// nothing changed, next is nil and nothing is to be stored.
func (m *Machine) Step(state []byte, op *Op) (next []byte, effect *Effect) {
	m.single[0] = op
	return m.Steps(state, m.single[:])
}

// Steps carries out several operations of one worker in order, as one step: the same as a Step for each, but that
// nothing is stored in between, and nothing at all if one of them is refused with VerdictStale, VerdictFenced or
// VerdictBusy. The effect has the verdict of the last one, or of the one refused, and what all of them did.
func (m *Machine) Steps(state []byte, ops []*Op) (next []byte, effect *Effect) {
	if len(ops) == 1 && len(state) > 0 {
		m.copy = append(m.copy[:0], state...)
		return m.Change(m.copy, ops)
	}
	return m.stepGenerally(state, ops)
}

// Change is Steps for a caller that has no more use for state: its bytes, and those up to its capacity, may change, and
// may be what is returned.
func (m *Machine) Change(state []byte, ops []*Op) (next []byte, effect *Effect) {
	next, done, before := m.changeInPlace(state, ops)
	if done {
		return next, &m.effect
	}
	return m.stepGenerally(before, ops)
}

// stepGenerally decodes the record, carries the operations out and encodes it.
func (m *Machine) stepGenerally(state []byte, ops []*Op) (next []byte, effect *Effect) {
	m.op, m.lost = ops[0], false
	e, r := &m.effect, &m.rec
	valid := r.load(state) && (!readQueue(ops) || r.validQueue())
	if valid {
		gen := r.Gen
		m.run(ops)
		e.Gen = gen
	}
	if !valid || m.damaged {
		r.reset(ops[0])
		m.lost = len(state) > 0 || ops[0].Expect
		m.run(ops)
		e.Replaced = m.lost
	}
	return m.finish(state)
}

// readQueue reports whether one of the operations looks at every ticket, so that all of them have to be checked.
func readQueue(ops []*Op) bool {
	for _, op := range ops {
		if op.Kind == OpReconcile || op.Kind == OpMaintain {
			return true
		}
	}
	return false
}

// finish encodes the record if it has changed.
func (m *Machine) finish(state []byte) ([]byte, *Effect) {
	e, r := &m.effect, &m.rec
	if e.Verdict >= VerdictStale {
		return nil, e
	}
	if m.refused || len(e.Expired) > 0 {
		e.RetryAfter, e.LastStatus = m.retryAfter(), r.breaker.lastStatus()
	}
	m.out = r.Append(m.out[:0])
	if e.Changed = string(m.out) != string(state); !e.Changed {
		return nil, e
	}
	return m.out, e
}

// run carries the operations out on the decoded record.
func (m *Machine) run(ops []*Op) {
	e, r := &m.effect, &m.rec
	e.reset()
	m.damaged, m.refused = false, false
	inflight, queued, onHold := r.Inflight(), r.Queue.Len(), r.OnHold()
	turn := r.breaker.isOpen()
	e.BreakerBefore = r.breaker.state
	if m.op = ops[0]; m.lost && m.op.QuietTime > 0 {
		r.holdAll(m.op.Now + int64(m.op.QuietTime))
	}
	for _, op := range ops {
		m.op, m.ownGranted = op, false
		r.endHolds(op.Now)
		r.decay(op.Now, op.Shaping)
		if e.Verdict = m.enter(); e.Verdict == VerdictDone {
			e.Verdict = m.apply()
		}
		r.forgetIdle()
		if e.Verdict >= VerdictStale {
			break
		}
		m.settle()
		e.Verdicts = append(e.Verdicts, e.Verdict)
		m.refused = m.refused || e.Verdict == VerdictFull || e.Verdict == VerdictClosed || e.Verdict == VerdictOpen
	}
	e.BreakerGen, e.NextChange = r.breaker.gen, r.nextChange(m.op.Now, m.op.Shaping)
	if p := r.breaker.probe; p.seq != 0 && p.seat == m.op.Me.Seat {
		e.Probe = p.seq
	}
	e.Inflight, e.Queued, e.OnHold = r.Inflight(), r.Queue.Len(), r.OnHold()
	e.InflightDelta, e.QueuedDelta, e.OnHoldDelta = e.Inflight-inflight, e.Queued-queued, e.OnHold-onHold
	e.BreakerTurn, e.Breaker = r.breaker.isOpen()-turn, r.breaker.state
}

// enter takes the record over for op's generation if it may, and checks the fence: a worker that has been declared dead
// must not go on under its old epoch.
func (m *Machine) enter() Verdict {
	r, op := &m.rec, m.op
	if op.Kind == OpRetire {
		return VerdictDone
	}
	if r.Gen != op.Gen || r.Retired {
		if r.Gen >= op.Gen || !r.Idle() {
			return VerdictStale
		}
		r.reset(op)
	}
	i := r.column(op.Me.Seat)
	if i >= 0 && r.Columns[i].Epoch != op.Me.Epoch && op.Me.Epoch != 0 {
		if newer(r.Columns[i].Epoch, op.Me.Epoch) {
			return VerdictFenced // a later worker has the seat
		}
		m.reap(i, nil) // an earlier incarnation of its own, which counts anew what runs
		i = -1
	}
	if op.Expect && i < 0 && op.Kind != OpReconcile {
		return VerdictFenced
	}
	return VerdictDone
}

func (m *Machine) apply() Verdict {
	r, op := &m.rec, m.op
	if op.Kind == OpRetire {
		return m.retire()
	}
	if op.Assert && r.Source == FromConfig {
		r.Limit, r.Provisional = op.limit(), false
	}
	if op.Live != nil {
		m.reapDead()
	}
	verdict := VerdictDone
	switch op.Kind {
	case OpAcquire:
		return m.acquire()
	case OpRelease:
		m.release()
	case OpReport:
		m.report()
	case OpTell:
		m.learn()
	case OpCancel:
		verdict = m.cancel()
	case OpExpire:
		m.expire()
	case OpReconcile:
		m.reconcile()
	case OpRetune:
		m.retune()
	}
	m.dispatch()
	return verdict
}

// acquire appends a ticket, then dispatches, then perhaps gives up: a permit is never taken past the queue.
func (m *Machine) acquire() Verdict {
	r, op := &m.rec, m.op
	if r.Limit == 0 {
		return VerdictClosed
	}
	room := op.Budget > 0 && r.Queue.Len() < op.Queue
	t := r.ensureTenant(op.Tenant, op.Weight)
	if op.Fair {
		room = room && int(r.Tenants[t].Queued) < max(1, op.Queue-r.Queue.Len())
	}
	m.enqueue(op.ticket(t))
	m.dispatch()
	switch {
	case m.ownGranted:
		return VerdictGranted
	case room && r.breaker.state == BreakerClosed:
		return VerdictWaiting
	}
	m.withdraw(r.Queue.Len() - 1)
	r.Queue.arrivals-- // a refusal leaves no trace
	if r.breaker.state != BreakerClosed {
		return VerdictOpen
	}
	if r.recalling(op.Now) {
		return VerdictRecalling
	}
	return VerdictFull
}

// ticket is an acquire's ticket. One without a budget is there for this dispatch only.
func (op *Op) ticket(tenant uint16) Ticket {
	budget := min(max(op.Budget, 1), maxBudget)
	return Ticket{Seat: op.Me.Seat, Tenant: tenant, Seq: op.Seq,
		Deadline: op.Now + int64(budget), Budget: uint32(budget / Millisecond)}
}

// maxBudget is the longest wait: its milliseconds fit in 32 bits.
const maxBudget = 48 * 24 * Hour

// cancel withdraws a ticket, or gives back the permit that it has become.
func (m *Machine) cancel() Verdict {
	if i := m.rec.Queue.find(m.op.Me.Seat, m.op.Seq); i >= 0 {
		m.withdraw(i)
		return VerdictDone
	}
	m.rec.countOutcome(m.op.Now, m.op.breaker(), ticketID{m.op.Me.Seat, m.op.Seq}, 0, OutcomeNone)
	m.returnPermit(0, false)
	return VerdictGranted
}

// release gives a permit back and takes into account how its request ended.
func (m *Machine) release() {
	hold, charged := Duration(0), false
	if op := m.op; op.Shaping != nil {
		hold, charged = m.rec.holdTime(op)
		if !op.Told {
			m.learn()
		}
	}
	m.returnPermit(hold, charged)
}

// learn takes into account what a request's end says of the provider.
func (m *Machine) learn() {
	r, op := &m.rec, m.op
	s := op.Shaping
	if s == nil {
		return
	}
	if op.Outcome == OutcomeFailure {
		r.breaker.raisePenalty(s.Breaker)
		r.breaker.noteStatus(op.Status)
	}
	r.countOutcome(op.Now, s.Breaker, ticketID{op.Me.Seat, op.Seq}, op.BreakerGen, op.Outcome)
	switch {
	case op.Pushback && s.Headroom != nil:
		r.onPushback(op.Now, s)
	case op.Outcome == OutcomeSuccess:
		r.regrow(op.Now, s)
	}
}

// report ends the probe as soon as its answer has begun; its stream may go on for hours.
func (m *Machine) report() {
	id := ticketID{m.op.Me.Seat, m.op.Seq}
	if m.rec.breaker.probe == id {
		m.rec.countOutcome(m.op.Now, m.op.breaker(), id, 0, m.op.Outcome)
	}
}

// returnPermit takes one permit from the worker's column and frees it or puts it on hold. A permit that the column
// doesn't have can't be returned: the next reconcile sets the column right.
func (m *Machine) returnPermit(hold Duration, charged bool) {
	r, op := &m.rec, m.op
	t, ok := r.removeOne(op.Me.Seat, op.Tenant)
	if !ok {
		return
	}
	if hold <= 0 || int(r.Limit)-r.OnHold()-1 < op.Shaping.MinActive {
		r.noteMove(op.Now)
		r.noteUse(op.Use)
		return
	}
	if op.Use > 0 {
		r.noteUse(op.Use + min(hold, MaxHold))
	}
	if !charged {
		t = NoTenant
	}
	r.hold(op.Now+int64(min(hold, MaxHold)), t)
}

// removeOne takes one of a worker's permits off a tenant, which may have been counted as the shared tenant.
func (r *Record) removeOne(seat uint16, id uint64) (tenant uint16, ok bool) {
	if t := r.findTenant(id); t >= 0 && r.removeInflight(seat, uint16(t), 1) {
		return uint16(t), true
	}
	t := uint16(maxRecordTenants - 1)
	return t, r.removeInflight(seat, t, 1)
}

// expire withdraws the worker's own tickets whose wait is over. Dispatch skips the expired tickets of other workers and
// leaves them to their owners, so that a ticket's absence means to its owner that it was granted.
func (m *Machine) expire() {
	op := m.op
	m.keepTickets(func(t Ticket) bool {
		if t.Seat != op.Me.Seat || t.Deadline > op.Now {
			return true
		}
		m.effect.Expired = append(m.effect.Expired, t.Seq)
		m.uncountTicket(t)
		return false
	})
}

func (m *Machine) retire() Verdict {
	r, op := &m.rec, m.op
	if r.Retired && r.Gen >= op.Gen {
		return VerdictDone
	}
	if !r.Idle() || r.remembers(op.Now) || r.Source == FromKey || r.Gen > op.Gen {
		return VerdictBusy
	}
	limit := r.Limit
	r.reset(op)
	r.Retired, r.Limit = true, limit
	return VerdictDone
}

// enqueue appends the worker's own ticket.
func (m *Machine) enqueue(t Ticket) {
	t.Seat = m.op.Me.Seat
	m.rec.Columns[m.rec.ensureColumn(m.op.Me)].Tickets++
	tenant := &m.rec.Tenants[t.Tenant]
	if tenant.Queued == 0 {
		tenant.First = m.rec.Queue.arrivals
	}
	tenant.Queued++
	m.rec.Queue.push(&t)
}

// withdraw removes the i-th ticket.
func (m *Machine) withdraw(i int) {
	t := m.rec.Queue.At(i)
	m.rec.Queue.remove(i)
	if _, ok := m.uncountTicket(t); ok {
		m.rec.findFirst(t, i)
	}
}

// findFirst finds a tenant's oldest ticket anew after t was taken out of the queue at position i.
func (r *Record) findFirst(t Ticket, i int) {
	if tenant := &r.Tenants[t.Tenant]; tenant.Queued > 0 && tenant.First == t.arrival {
		if next := r.Queue.next(t.Tenant, i); next >= 0 {
			tenant.First = r.Queue.arrivalOf(next)
		}
	}
}

// findAllFirst finds the oldest ticket of all tenants anew.
func (r *Record) findAllFirst() {
	for i := range r.Tenants {
		r.Tenants[i].First = 0
	}
	for i := r.Queue.Len() - 1; i >= 0; i-- {
		if t := r.Queue.At(i); int(t.Tenant) < len(r.Tenants) {
			r.Tenants[t.Tenant].First = t.arrival
		}
	}
}

// keepTickets removes the tickets for which keep is false; it has counted them off.
func (m *Machine) keepTickets(keep func(Ticket) bool) {
	n := m.rec.Queue.Len()
	if m.rec.Queue.keep(keep); m.rec.Queue.Len() < n {
		m.rec.findAllFirst()
	}
}

// uncountTicket takes a ticket that has left the queue off its tenant's and its worker's count, and returns the column.
// A ticket that isn't counted there was never put there by a step: the record is damaged.
func (m *Machine) uncountTicket(t Ticket) (column *Column, ok bool) {
	r := &m.rec
	i := r.column(t.Seat)
	if i < 0 || r.Columns[i].Tickets == 0 || int(t.Tenant) >= len(r.Tenants) || r.Tenants[t.Tenant].Queued == 0 {
		m.damaged = true
		return nil, false
	}
	r.Columns[i].Tickets--
	if r.Tenants[t.Tenant].Queued--; r.Tenants[t.Tenant].Queued == 0 {
		r.Tenants[t.Tenant].First = 0
	}
	return &r.Columns[i], true
}
