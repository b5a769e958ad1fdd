package admission

// A Worker is one incarnation of an Envoy worker's plugin: a place in the worker table and who is in it.
type Worker struct {
	Slot  uint16
	Epoch uint64 // never 0; a slot's later epochs are newer, see WorkerTable.Claim
}

// An OpKind is the kind of an operation on a record.
type OpKind uint8

// The operations.
const (
	OpAcquire OpKind = iota // ask for a permit: granted, waiting or rejected
	OpRelease               // give one back
	OpCancel                // withdraw a ticket; if it has been granted meanwhile, give the permit back
	OpExpire                // withdraw the worker's own tickets whose wait is over
	OpSync                  // make the worker's column equal to its truth
	OpTend                  // assert the limit, reap dead workers
	OpReport                // tell how the breaker's probe ends before it has ended
	OpRetire                // give the record up, if idle, so that another key can have its slot
)

// An Op is one operation. Kind, Now, Gen, Name, Me and Limit are always needed; the rest as noted. An operation changes
// none of it.
type Op struct {
	Kind OpKind
	Now  int64  // monotonic nanoseconds
	Gen  uint32 // the directory generation of the key
	Name string // the key's name
	Me   Worker

	// Expect says that the worker has permits or tickets here, so that its column must be there. If it is not, the
	// worker has been declared dead, and the verdict is VerdictFenced: the caller syncs and tries again.
	Expect bool

	Tenant uint64 // acquire, release, cancel: the tenant's id; 0 if the pool isn't fair by tenant
	Weight uint32 // acquire: the tenant's weight, >= 1
	Seq    uint32 // acquire, cancel, release, report: the ticket's number, not 0, unique within the worker incarnation

	Limit  int      // the limit of a record that is made by this operation
	Assert bool     // acquire, sync, tend: Limit is the limit of one that is there, too
	Queue  int      // acquire: how many may wait
	Fair   bool     // acquire: a tenant may take its share of the queue only
	Budget Duration // acquire: how long to wait at most; <= 0: not at all

	// Settle is how long a record that is made in place of a lost one grants nothing: by then every worker has counted
	// anew what it holds.
	Settle Duration

	Pool *Pool // what is configured of holds, breaker and headroom; nil: nothing

	Outcome    Outcome  // release, report: how the request ended
	BreakerGen uint32   // release: Effect.BreakerGen at its grant
	Pushback   bool     // release: the provider's answer was a 429
	RetryAfter Duration // release: what the provider said about coming back; 0: nothing

	Running []Share      // sync: the permits the worker holds, by tenant
	Waiting []Ticket     // sync: the worker's tickets, oldest first; Tenant is the index in Running
	Probe   uint32       // sync: the ticket of the stream that the worker runs as the breaker's probe; 0: none
	Live    *WorkerTable // sync, tend: reap the columns of workers that this table calls dead
}

// A Share is what a worker holds for one tenant.
type Share struct {
	Tenant uint64
	Weight uint32
	Count  uint32
}

// A Verdict is what became of an operation.
type Verdict uint8

// The verdicts. Those from VerdictStale on leave the record as it was.
const (
	VerdictDone    Verdict = iota // release, cancel of a waiting ticket, expire, sync, tend, retire: carried out
	VerdictGranted                // acquire: a permit. cancel: the ticket had been granted, its permit is given back
	VerdictWaiting                // acquire: the ticket is in the queue
	VerdictFull                   // acquire: no permit and no place in the queue
	VerdictClosed                 // acquire: the limit is 0
	VerdictOpen                   // acquire: the breaker lets nobody through
	VerdictStale                  // the key's slot belongs to another key or generation: look it up again
	VerdictFenced                 // the worker's column is missing: sync first. sync: its slot is a later worker's: claim another
	VerdictBusy                   // retire: the record is in use
)

// A Grant tells that another ticket was given a permit; its worker is to be told.
type Grant struct {
	Worker
	Seq uint32
}

// An Effect is what a step did and what the caller has to do about it once the new state is stored. Its slices are
// valid until the machine's next step.
type Effect struct {
	Verdict Verdict
	Changed bool // there is a new state to store; without it nothing below has happened but the verdict

	Gen uint32 // the generation that the record was found at; 0 if there was none

	Grants []Grant  // tickets granted, other than the acquire's own
	Mine   []uint32 // expire: the worker's tickets that were withdrawn. sync: those that had been granted

	Used, Queued, Held                int // permits granted, tickets waiting, permits on hold, after the step
	UsedDelta, QueuedDelta, HeldDelta int // the same, less what it was before

	BreakerGen uint32 // acquire, sync: the generation under which requests are granted now
	Probe      uint32 // acquire, sync: the ticket of the worker's own that is the breaker's probe; 0: none
	Next       int64  // when a hold, an open breaker or a lowered limit ends next, monotonic nanoseconds; 0: none

	Reaped     int  // permits and tickets of dead workers taken back
	Replaced   bool // the stored bytes were no record of this version, or were gone, and have been replaced
	RetryAfter int  // full, closed, open, expire: seconds until a permit is likely to come free, 1 to 60
}

// A Machine carries out steps. It holds buffers only; any machine can step any record. Not safe for concurrent use.
type Machine struct {
	rec     Record
	effect  Effect
	out     []byte
	wanted  []uint32 // sync: by tenant index, the permits the worker should have
	op      *Op
	own     bool // the acquire's own ticket has been granted
	lost    bool // the record is made in place of one that was lost
	damaged bool // a ticket turned out to refer to what isn't there
}

// Step carries out op on a record's bytes (nil: there is none yet) and returns the record's new bytes and the effect.
// Both are valid until the next Step, and so state must not be what this machine returned last. If the effect says
// nothing changed, next is nil and nothing is to be stored.
func (m *Machine) Step(state []byte, op *Op) (next []byte, effect *Effect) {
	m.op, m.lost = op, false
	e, r := &m.effect, &m.rec
	sound := r.load(state) && (op.Kind != OpSync && op.Kind != OpTend || r.soundQueue())
	if sound {
		gen := r.Gen
		m.run()
		e.Gen = gen
	}
	if !sound || m.damaged {
		r.reset(op)
		m.lost = len(state) > 0 || op.Expect
		m.run()
		e.Replaced = m.lost
	}
	return m.finish(state)
}

// finish encodes the record if it has changed.
func (m *Machine) finish(state []byte) ([]byte, *Effect) {
	e, r := &m.effect, &m.rec
	if e.Verdict >= VerdictStale {
		return nil, e
	}
	if e.Verdict == VerdictFull || e.Verdict == VerdictClosed || e.Verdict == VerdictOpen || m.op.Kind == OpExpire && len(e.Mine) > 0 {
		e.RetryAfter = r.retryAfter(m.op.Now)
	}
	m.out = r.Append(m.out[:0])
	if e.Changed = string(m.out) != string(state); !e.Changed {
		return nil, e
	}
	return m.out, e
}

// run carries the operation out on the decoded record.
func (m *Machine) run() {
	e, r := &m.effect, &m.rec
	*e = Effect{Grants: e.Grants[:0], Mine: e.Mine[:0]}
	m.own, m.damaged = false, false
	used, queued, held := r.Used(), r.Queue.Len(), r.Held()
	if m.lost && m.op.Settle > 0 {
		r.withhold(m.op.Now + int64(m.op.Settle))
	}
	r.unpark(m.op.Now)
	r.relax(m.op.Now, m.op.Pool)
	if e.Verdict = m.admissible(); e.Verdict == VerdictDone {
		e.Verdict = m.apply()
	}
	r.tidy()
	e.BreakerGen, e.Next = r.breaker.gen, r.next(m.op.Now, m.op.Pool)
	if p := r.breaker.probe; p.seq != 0 && p.slot == m.op.Me.Slot {
		e.Probe = p.seq
	}
	e.Used, e.Queued, e.Held = r.Used(), r.Queue.Len(), r.Held()
	e.UsedDelta, e.QueuedDelta, e.HeldDelta = e.Used-used, e.Queued-queued, e.Held-held
}

// admissible takes the record over for op's generation if it may, and checks the fence.
func (m *Machine) admissible() Verdict {
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
	i := r.column(op.Me.Slot)
	if i >= 0 && r.Columns[i].Epoch != op.Me.Epoch && op.Me.Epoch != 0 {
		if newer(r.Columns[i].Epoch, op.Me.Epoch) {
			return VerdictFenced // I am the one who is gone
		}
		m.reap(i)
		i = -1
	}
	if op.Expect && i < 0 && op.Kind != OpSync {
		return VerdictFenced
	}
	return VerdictDone
}

func (m *Machine) apply() Verdict {
	r, op := &m.rec, m.op
	if op.Kind == OpRetire {
		return m.retire()
	}
	if op.Assert {
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
	case OpCancel:
		verdict = m.cancel()
	case OpExpire:
		m.expire()
	case OpSync:
		m.sync()
	}
	m.dispatch()
	return verdict
}

// limit is the operation's limit, within what any configuration can say.
func (op *Op) limit() uint32 { return uint32(min(max(op.Limit, 0), MaxLimit)) }

// acquire is append, then dispatch, then perhaps give up: a permit is never taken past the queue.
func (m *Machine) acquire() Verdict {
	r, op := &m.rec, m.op
	if r.Limit == 0 {
		return VerdictClosed
	}
	room := op.Budget > 0 && r.Queue.Len() < op.Queue
	t := r.tenant(op.Tenant, op.Weight)
	if op.Fair {
		room = room && int(r.Tenants[t].Queued) < max(1, op.Queue-r.Queue.Len())
	}
	budget := min(max(op.Budget, 1), maxBudget) // without one it is there for this dispatch
	m.enqueue(Ticket{Tenant: t, Seq: op.Seq, Deadline: op.Now + int64(budget), Budget: uint32(budget / Millisecond)})
	m.dispatch()
	switch {
	case m.own:
		return VerdictGranted
	case room && r.breaker.state == breakerClosed:
		return VerdictWaiting
	}
	m.withdraw(r.Queue.Len() - 1)
	if r.breaker.state != breakerClosed {
		return VerdictOpen
	}
	return VerdictFull
}

// maxBudget is the longest wait: its milliseconds fit in 32 bits.
const maxBudget = 48 * 24 * Hour

// cancel withdraws a ticket, or gives back the permit that it has become.
func (m *Machine) cancel() Verdict {
	if i := m.rec.Queue.find(m.op.Me.Slot, m.op.Seq); i >= 0 {
		m.withdraw(i)
		return VerdictDone
	}
	m.rec.settle(m.op.Now, m.op.breaker(), ticketID{m.op.Me.Slot, m.op.Seq}, 0, OutcomeNone)
	m.giveBack(0, false)
	return VerdictGranted
}

// release gives a permit back and takes into account how its request ended.
func (m *Machine) release() {
	r, op := &m.rec, m.op
	hold, charged := Duration(0), false
	if p := op.Pool; p != nil {
		hold, charged = r.holdOf(p, op.Outcome, op.RetryAfter)
		r.settle(op.Now, p.Breaker, ticketID{op.Me.Slot, op.Seq}, op.BreakerGen, op.Outcome)
		switch {
		case op.Pushback && p.Headroom != nil:
			r.pushBack(op.Now, p)
		case op.Outcome == OutcomeSuccess:
			r.recover(op.Now, p)
		}
	}
	m.giveBack(hold, charged)
}

// report settles the probe as soon as its answer has begun; its stream may go on for hours.
func (m *Machine) report() {
	id := ticketID{m.op.Me.Slot, m.op.Seq}
	if m.rec.breaker.probe == id {
		m.rec.settle(m.op.Now, m.op.breaker(), id, 0, m.op.Outcome)
	}
}

func (op *Op) breaker() *Breaker {
	if op.Pool == nil {
		return nil
	}
	return op.Pool.Breaker
}

// giveBack takes one permit from the worker's column and frees or parks it. A permit that the column doesn't have is
// none to give back: the next sync sets the column right.
func (m *Machine) giveBack(hold Duration, charged bool) {
	r, op := &m.rec, m.op
	t, ok := r.giveBackFor(op.Me.Slot, op.Tenant)
	if !ok {
		return
	}
	if hold <= 0 || int(r.Limit)-r.Held()-1 < op.Pool.MinActive {
		r.noteRelease(op.Now)
		return
	}
	if !charged {
		t = NoTenant
	}
	r.park(op.Now+int64(min(hold, maxHold)), t)
}

// giveBackFor drops one of a worker's permits for a tenant, which may have been counted under the shared one.
func (r *Record) giveBackFor(slot uint16, id uint64) (tenant uint16, ok bool) {
	if t := r.lookup(id); t >= 0 && r.drop(slot, uint16(t), 1) {
		return uint16(t), true
	}
	t := uint16(maxRecordTenants - 1)
	return t, r.drop(slot, t, 1)
}

// expire withdraws the worker's own tickets whose wait is over. Other workers' are skipped by dispatch and left to
// their owners, so that a ticket's absence means to its owner that it was granted.
func (m *Machine) expire() {
	op := m.op
	m.rec.Queue.keep(func(t Ticket) bool {
		if t.Slot != op.Me.Slot || t.Deadline > op.Now {
			return true
		}
		m.effect.Mine = append(m.effect.Mine, t.Seq)
		m.discount(t)
		return false
	})
}

func (m *Machine) retire() Verdict {
	r, op := &m.rec, m.op
	if r.Retired && r.Gen >= op.Gen {
		return VerdictDone
	}
	if !r.Idle() || r.remembers(op.Now) || r.Gen > op.Gen {
		return VerdictBusy
	}
	limit := r.Limit
	r.reset(op)
	r.Retired, r.Limit = true, limit
	return VerdictDone
}

// enqueue appends the worker's own ticket.
func (m *Machine) enqueue(t Ticket) {
	t.Slot = m.op.Me.Slot
	m.rec.Columns[m.rec.join(m.op.Me)].Tickets++
	m.rec.Tenants[t.Tenant].Queued++
	m.rec.Queue.push(t)
}

// withdraw removes the i-th ticket.
func (m *Machine) withdraw(i int) {
	t := m.rec.Queue.At(i)
	m.rec.Queue.remove(i)
	m.discount(t)
}

// discount takes a ticket that has left the queue off its tenant's and its worker's count, and returns the column. One
// that isn't counted there was never put there by a step: the record is damaged.
func (m *Machine) discount(t Ticket) (column *Column, ok bool) {
	r := &m.rec
	i := r.column(t.Slot)
	if i < 0 || r.Columns[i].Tickets == 0 || int(t.Tenant) >= len(r.Tenants) || r.Tenants[t.Tenant].Queued == 0 {
		m.damaged = true
		return nil, false
	}
	r.Columns[i].Tickets--
	r.Tenants[t.Tenant].Queued--
	return &r.Columns[i], true
}

// A Standing is what a record says of one ticket.
type Standing uint8

// The standings.
const (
	StandingWaiting Standing = iota // it is in the queue
	StandingGranted                 // it is not, and its worker's column is there: it has been granted
	StandingUnknown                 // the worker's column is missing, or the record is another key's: sync
)

// Look reads what a record says of a ticket that a worker waits for, and changes nothing. Only op's Gen, Me and Seq are
// used. The effect has BreakerGen and Probe only.
func (m *Machine) Look(state []byte, op *Op) (Standing, *Effect) {
	r := &m.rec
	standing := m.look(state, op)
	m.effect = Effect{Grants: m.effect.Grants[:0], Mine: m.effect.Mine[:0], BreakerGen: r.breaker.gen}
	if r.breaker.probe == (ticketID{op.Me.Slot, op.Seq}) {
		m.effect.Probe = op.Seq
	}
	return standing, &m.effect
}

func (m *Machine) look(state []byte, op *Op) Standing {
	r := &m.rec
	if !r.load(state) || r.Gen != op.Gen || r.Retired {
		return StandingUnknown
	}
	i := r.column(op.Me.Slot)
	switch {
	case i < 0 || r.Columns[i].Epoch != op.Me.Epoch:
		return StandingUnknown
	case r.Queue.find(op.Me.Slot, op.Seq) >= 0:
		return StandingWaiting
	}
	return StandingGranted
}

// Sums reads the permits granted, the tickets waiting and the permits on hold in a record; zero in what is none.
func (m *Machine) Sums(state []byte) (used, queued, held int) {
	r := &m.rec
	if !r.load(state) {
		return 0, 0, 0
	}
	return r.Used(), r.Queue.Len(), r.Held()
}
