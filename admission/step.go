package admission

// A Worker is one incarnation of an Envoy worker's plugin: a place in the worker table and who is in it.
type Worker struct {
	Slot  uint16
	Epoch uint64 // random; never 0
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
	OpRetire                // give the record up, if idle, so that another key can have its slot
)

// An Op is one operation. Kind, Now, Gen, Name and Me are always needed; the rest as noted.
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
	Seq    uint32 // acquire, cancel: the ticket's number, unique within the worker incarnation

	Assert bool // acquire, sync, tend: Limit is asserted
	Limit  int
	Queue  int      // acquire: how many may wait
	Fair   bool     // acquire: a tenant may take its share of the queue only
	Budget Duration // acquire: how long to wait at most; <= 0: not at all

	Hold      Duration // release: how long the permit stays out of use
	Charge    bool     // release: the hold counts as the tenant's
	MinActive int      // release: permits that holds must leave alone

	Running []Share      // sync: the permits the worker holds, by tenant
	Waiting []Ticket     // sync: the worker's tickets, oldest first; Tenant is the index in Running
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
	VerdictStale                  // the key's slot belongs to another key or generation: look it up again
	VerdictFenced                 // the worker's column is missing: sync first
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

	Reaped     int  // permits and tickets of dead workers taken back
	Replaced   bool // the stored bytes were no record of this version and have been replaced
	RetryAfter int  // full, closed, expire: seconds until a permit is likely to come free, 1 to 60
}

// A Machine carries out steps. It holds buffers only; any machine can step any record. Not safe for concurrent use.
type Machine struct {
	rec     Record
	effect  Effect
	out     []byte
	skipped []bool
	own     bool // the acquire's own ticket has been granted
	op      *Op
}

// Step carries out op on a record's bytes (nil: there is none yet) and returns the record's new bytes and the effect.
// Both are valid until the next Step. If the effect says nothing changed, next is nil and nothing is to be stored.
func (m *Machine) Step(state []byte, op *Op) (next []byte, effect *Effect) {
	m.op, m.own = op, false
	m.effect = Effect{Grants: m.effect.Grants[:0], Mine: m.effect.Mine[:0]}
	if err := m.rec.Decode(state); err != nil {
		m.rec.reset(op.Gen, op.Name)
		m.effect.Replaced = len(state) > 0
	}
	e, r := &m.effect, &m.rec
	if len(state) > 0 && !e.Replaced {
		e.Gen = r.Gen
	}
	used, queued, held := r.Used(), r.Queue.Len(), r.Held()
	if e.Verdict = m.admissible(); e.Verdict != VerdictDone {
		return nil, e
	}
	e.Verdict = m.apply()
	if e.Verdict >= VerdictStale {
		return nil, e
	}
	e.Used, e.Queued, e.Held = r.Used(), r.Queue.Len(), r.Held()
	e.UsedDelta, e.QueuedDelta, e.HeldDelta = e.Used-used, e.Queued-queued, e.Held-held
	if e.Verdict == VerdictFull || e.Verdict == VerdictClosed || len(e.Mine) > 0 {
		e.RetryAfter = r.retryAfter(op.Now)
	}
	m.out = r.Append(m.out[:0])
	if e.Changed = string(m.out) != string(state); !e.Changed {
		return nil, e
	}
	return m.out, e
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
		r.reset(op.Gen, op.Name)
	}
	i := r.column(op.Me.Slot)
	if i >= 0 && r.Columns[i].Epoch != op.Me.Epoch && op.Me.Epoch != 0 {
		m.reap(i) // whoever was in my slot before me is gone
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
		r.Limit = uint32(op.Limit)
	}
	if op.Live != nil {
		m.reapDead()
	}
	r.unpark(op.Now)
	switch op.Kind {
	case OpAcquire:
		return m.acquire()
	case OpRelease:
		return m.release()
	case OpCancel:
		return m.cancel()
	case OpExpire:
		m.expire()
	case OpSync:
		m.sync()
	}
	m.dispatch()
	return VerdictDone
}

// acquire is append, then dispatch, then perhaps give up: a permit is never taken past the queue.
func (m *Machine) acquire() Verdict {
	r, op := &m.rec, m.op
	if r.Limit == 0 {
		m.dispatch()
		return VerdictClosed
	}
	room := op.Budget > 0 && r.Queue.Len() < op.Queue
	t := r.tenant(op.Tenant, op.Weight)
	if op.Fair {
		room = room && int(r.Tenants[t].Queued) < max(1, op.Queue-r.Queue.Len())
	}
	budget := max(op.Budget, 0)
	m.enqueue(Ticket{Tenant: t, Seq: op.Seq, Deadline: op.Now + int64(max(budget, 1)), Budget: uint32(budget / Millisecond)})
	m.dispatch()
	switch {
	case m.own:
		return VerdictGranted
	case room:
		return VerdictWaiting
	}
	m.dequeue(r.Queue.find(op.Me.Slot, op.Seq))
	return VerdictFull
}

func (m *Machine) release() Verdict {
	m.giveBack(m.op.Hold)
	m.dispatch()
	return VerdictDone
}

func (m *Machine) cancel() Verdict {
	r, op := &m.rec, m.op
	if i := r.Queue.find(op.Me.Slot, op.Seq); i >= 0 {
		m.dequeue(i)
		m.dispatch()
		return VerdictDone
	}
	m.giveBack(0)
	m.dispatch()
	return VerdictGranted
}

// giveBack takes one permit from the worker's column and frees or parks it. A permit that the column doesn't have is
// none to give back: the next sync sets the column right.
func (m *Machine) giveBack(hold Duration) {
	r, op := &m.rec, m.op
	t := r.find(op.Tenant)
	if t < 0 || !r.drop(op.Me.Slot, uint16(t), 1) {
		return
	}
	if hold > 0 && int(r.Limit)-r.Held()-1 >= op.MinActive {
		charged := uint16(noTenant)
		if op.Charge {
			charged = uint16(t)
		}
		r.park(op.Now+int64(hold), charged)
	} else {
		r.noteRelease(op.Now)
	}
	r.tidy()
}

// expire withdraws the worker's own tickets whose wait is over. Other workers' are skipped by dispatch and left to
// their owners, so that a ticket's absence means to its owner that it was granted.
func (m *Machine) expire() {
	r, op := &m.rec, m.op
	for i := 0; i < r.Queue.Len(); {
		if t := r.Queue.At(i); t.Slot == op.Me.Slot && t.Deadline <= op.Now {
			m.effect.Mine = append(m.effect.Mine, t.Seq)
			m.dequeue(i)
			continue
		}
		i++
	}
}

func (m *Machine) retire() Verdict {
	r := &m.rec
	if r.Retired && r.Gen >= m.op.Gen {
		return VerdictDone
	}
	if !r.Idle() || r.Gen > m.op.Gen {
		return VerdictBusy
	}
	limit := r.Limit
	r.reset(m.op.Gen, m.op.Name)
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

// dequeue removes the i-th ticket, and its worker's column if that was all it had.
func (m *Machine) dequeue(i int) {
	m.withdraw(i)
	m.rec.tidy()
}

// withdraw removes the i-th ticket.
func (m *Machine) withdraw(i int) {
	if i < 0 {
		return
	}
	r := &m.rec
	t := r.Queue.At(i)
	r.Queue.remove(i)
	r.Tenants[t.Tenant].Queued--
	if c := r.column(t.Slot); c >= 0 {
		r.Columns[c].Tickets--
	}
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
// used.
func (m *Machine) Look(state []byte, op *Op) Standing {
	r := &m.rec
	if r.Decode(state) != nil || r.Gen != op.Gen || r.Retired {
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
