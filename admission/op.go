package admission

// A Worker is one incarnation of a plugin context: a seat in the worker table, and who sits there.
type Worker struct {
	Seat  uint16
	Epoch uint64 // never 0; a seat's later epochs are newer, see WorkerTable.Claim
}

// An OpKind is the kind of an operation on a record.
type OpKind uint8

// The operations. doc.go has a table of what each needs and what it can answer.
const (
	OpAcquire   OpKind = iota // ask for a permit: granted, waiting or refused
	OpRelease                 // give a permit back
	OpCancel                  // withdraw a ticket; if it has been granted meanwhile, give the permit back
	OpExpire                  // withdraw the worker's own tickets whose wait is over
	OpReconcile               // make the worker's column equal to its truth
	OpMaintain                // assert the limit, reap dead workers
	OpReport                  // tell how the breaker's probe ends before it has ended
	OpTell                    // tell how a request ended whose permit comes back later
	OpRetire                  // give the record up, if idle, so that another key can have its slot
	OpRetune                  // set the override of the limit, or take it away
)

// A Target says on which record an operation is carried out, when, and for which worker. An operation changes none of
// it.
type Target struct {
	_ incomparable

	Now  int64  // monotonic nanoseconds
	Gen  uint32 // the directory generation of the key
	Name string // the key's name
	Me   Worker

	// Expect says that the worker has permits or tickets here, so that its column must be there. If it is not, the
	// worker has been declared dead, and the verdict is VerdictFenced: the caller reconciles and tries again.
	Expect bool

	// Limit is the limit of a record that the operation makes. An operation with Assert gives it to a record that is
	// there, too, unless that has an override.
	Limit int

	// Override is the override of a record that the operation makes. A retune gives it to a record that is there, too.
	Override Override

	// QuietTime is how long a record that is made in place of a lost one grants nothing: by then every worker has
	// counted anew what it runs.
	QuietTime Duration

	Shaping *Shaping // what is configured of holds, breaker and headroom; nil: nothing

	// Ahead says that the worker would keep spares here. An operation without it leaves its column's mark as it is, but
	// for a reconcile, which takes it away.
	Ahead bool
}

// An Op is one operation. A constructor (Acquire, Release, ...) sets it whole. The comments name the kinds that use a
// field.
type Op struct {
	Kind OpKind
	Target
	Assert bool // acquire, maintain: Target.Limit is the limit from now on, unless there is an override
	Own    bool // retune: what is set is the key's own, and replaces whatever is there

	Tenant uint64   // acquire, release, cancel: the tenant's id; 0 if the pool isn't fair by tenant
	Weight uint32   // acquire: the tenant's weight, >= 1
	Seq    uint32   // acquire, release, cancel, report, tell: the ticket's number in its worker's incarnation, not 0
	Queue  int      // acquire: how many may wait
	Fair   bool     // acquire: a tenant may take its share of the queue only
	Budget Duration // acquire: how long to wait at most; <= 0: not at all

	Outcome    Outcome  // release, report, tell: how the request ended
	Status     int      // release, tell: of its answer; 0: none has begun
	BreakerGen uint32   // release, tell: Effect.BreakerGen at the permit's grant
	Pushback   bool     // release, tell: the provider's answer was a 429
	RetryAfter Duration // release: what the provider said about coming back; 0: nothing
	Use        Duration // release: how long the request had the permit; 0: not known. reconcile: the mean of Uses
	Told       bool     // release: a tell has said how the request ended

	Inflight []TenantInflight // reconcile: the permits that the worker's requests hold, and the spares that it keeps
	Uses     int              // reconcile: requests that ended here without an operation
	Waiting  []Ticket         // reconcile: the worker's tickets, oldest first; Tenant is the index in Inflight
	Probe    uint32           // reconcile: the ticket of the request that the worker runs as the breaker's probe; 0: none
	Live     *WorkerTable     // maintain: reap the columns of workers that this table calls dead; nil: reap nobody
}

// A TenantInflight is how many permits a worker's requests hold for one tenant.
type TenantInflight struct {
	Tenant   uint64
	Weight   uint32
	Inflight uint32
}

// A Request is what an acquire asks for.
type Request struct {
	Tenant uint64
	Weight uint32
	Seq    uint32
	Queue  int
	Fair   bool
	Budget Duration
}

// Acquire asks for a permit, and asserts the target's limit.
func Acquire(t Target, r Request) Op {
	return Op{Kind: OpAcquire, Target: t, Assert: true,
		Tenant: r.Tenant, Weight: r.Weight, Seq: r.Seq, Queue: r.Queue, Fair: r.Fair, Budget: r.Budget}
}

// A Finish is how the request of a released permit ended.
type Finish struct {
	Outcome    Outcome
	Status     int
	BreakerGen uint32
	Pushback   bool
	RetryAfter Duration
	Use        Duration
	Told       bool
}

// Release gives back the permit that was granted to a tenant's ticket.
func Release(t Target, tenant uint64, seq uint32, f Finish) Op {
	return Op{Kind: OpRelease, Target: t, Tenant: tenant, Seq: seq,
		Outcome: f.Outcome, Status: f.Status, BreakerGen: f.BreakerGen, Pushback: f.Pushback,
		RetryAfter: f.RetryAfter, Use: f.Use, Told: f.Told}
}

// Tell tells how the request of a tenant's ticket ended, whose permit is given back by a later release.
func Tell(t Target, tenant uint64, seq uint32, f Finish) Op {
	op := Release(t, tenant, seq, f)
	op.Kind = OpTell
	return op
}

// Cancel withdraws a tenant's ticket, or gives back the permit that it has become.
func Cancel(t Target, tenant uint64, seq uint32) Op {
	return Op{Kind: OpCancel, Target: t, Tenant: tenant, Seq: seq}
}

// Expire withdraws the worker's tickets whose wait is over.
func Expire(t Target) Op { return Op{Kind: OpExpire, Target: t} }

// A Truth is what a worker knows of its own requests on a key. Op has the meaning of each field.
type Truth struct {
	Inflight []TenantInflight
	Waiting  []Ticket
	Probe    uint32
	Uses     int
	Use      Duration
}

// Reconcile makes the record say of the worker what is true.
func Reconcile(t Target, truth Truth) Op {
	return Op{Kind: OpReconcile, Target: t, Inflight: truth.Inflight, Waiting: truth.Waiting, Probe: truth.Probe,
		Uses: truth.Uses, Use: truth.Use}
}

// Maintain reaps the columns of the workers that live calls dead, and with assert sets the limit.
func Maintain(t Target, assert bool, live *WorkerTable) Op {
	return Op{Kind: OpMaintain, Target: t, Assert: assert, Live: live}
}

// Report tells how the breaker's probe, which was granted to the ticket, will end.
func Report(t Target, seq uint32, o Outcome) Op {
	return Op{Kind: OpReport, Target: t, Seq: seq, Outcome: o}
}

// Retire gives up the idle record of a generation.
func Retire(now int64, gen uint32) Op {
	return Op{Kind: OpRetire, Target: Target{Now: now, Gen: gen}}
}

// Retune gives the record the target's override, or, if that is none, the target's limit. Own says that this is about
// the key's own override; otherwise a key's own stays what it is.
func Retune(t Target, own bool) Op { return Op{Kind: OpRetune, Target: t, Own: own} }

// limit is the operation's limit, within what any configuration can say.
func (op *Op) limit() uint32 { return boundedLimit(op.Limit) }

// breaker is what is configured of the breaker; nil: nothing.
func (op *Op) breaker() *Breaker {
	if op.Shaping == nil {
		return nil
	}
	return op.Shaping.Breaker
}

// A Verdict is what became of an operation.
type Verdict uint8

// The verdicts. Those from VerdictStale on leave the record as it was.
const (
	VerdictDone      Verdict = iota // carried out; of a cancel: the ticket was still waiting
	VerdictGranted                  // acquire: a permit. cancel: the ticket had been granted, its permit is given back
	VerdictWaiting                  // acquire: the ticket is in the queue
	VerdictFull                     // acquire: no permit and no place in the queue
	VerdictClosed                   // acquire: the limit is 0
	VerdictOpen                     // acquire: the breaker lets nobody through
	VerdictRecalling                // acquire: no permit and no place in the queue, but spares are called back: ask again
	VerdictStale                    // the slot belongs to another key or generation: look the key up again
	VerdictFenced                   // the worker's column is missing: reconcile first. reconcile: another has its seat
	VerdictBusy                     // retire: the record is in use
)

// A Grant tells that another ticket was given a permit; its worker is to be told.
type Grant struct {
	Worker
	Seq uint32
}

// GrantBytes is the length of a grant as a message to its worker.
const GrantBytes = 12

// Encode writes the message that tells a grant to its worker: the epoch in 8 bytes, the ticket's number in 4, little
// endian.
func (g *Grant) Encode(b *[GrantBytes]byte) {
	put64(b[:], g.Epoch)
	put32(b[8:], g.Seq)
}

// DecodeGrant reads such a message; false if it is none.
func DecodeGrant(b []byte) (epoch uint64, seq uint32, ok bool) {
	if len(b) != GrantBytes {
		return 0, 0, false
	}
	return get64(b), get32(b[8:]), true
}

// An Effect is what a step did and what the caller has to do about it once the new state is stored. Its slices are
// valid until the machine's next step.
type Effect struct {
	Verdict Verdict
	Changed bool // there is a new state to store; without it nothing below has happened but the verdict

	Gen uint32 // the generation that the record was found at; 0 if there was none

	Verdicts []Verdict // of all operations of the step, in order
	Grants   []Grant   // tickets granted, other than an acquire's own
	Expired  []uint32  // expire: the worker's tickets that were withdrawn
	Unseen   []uint32  // reconcile: the worker's tickets that had been granted without its knowing

	Inflight, Queued, OnHold                int // permits granted, tickets waiting, permits on hold, after the step
	InflightDelta, QueuedDelta, OnHoldDelta int // the same, less what it was before

	Ahead   bool     // the worker's column is marked: the worker may keep spares
	Recalls []Worker // the workers whose mark the step has taken away: they are to give their spares back

	BreakerTurn int // 1: the step has opened the closed breaker; -1: it has closed the breaker; else 0

	BreakerBefore, Breaker BreakerState // before and after the step

	BreakerGen uint32 // acquire, reconcile: the generation under which requests are granted now
	Probe      uint32 // acquire, reconcile: the ticket of the worker's own that is the breaker's probe; 0: none
	NextChange int64  // when a hold, an open breaker or a lowered limit ends next, monotonic nanoseconds; 0: none

	Reaped     int  // permits and tickets of dead workers taken back
	Replaced   bool // the stored bytes were no record of this version, or were gone, and have been replaced
	RetryAfter int  // full, closed, open, expire: seconds until a permit is likely to come free, 1 to 60
	LastStatus int  // open: the status of the last failure; 0: it had none
}

// reset makes the effect that of nothing, and keeps its buffers.
func (e *Effect) reset() {
	*e = Effect{Verdicts: e.Verdicts[:0], Grants: e.Grants[:0], Expired: e.Expired[:0], Unseen: e.Unseen[:0],
		Recalls: e.Recalls[:0]}
}
