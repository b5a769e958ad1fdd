package records

import (
	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/config"
	"github.com/headgate/headgate/filter/abi"
)

const millisecond = int64(admission.Millisecond)

const (
	// reconcileInterval is how often waiters are looked up in their records, for grants whose message was lost.
	reconcileInterval = 50 * millisecond

	// dirtyRetry is when a record that could not be put right is tried again.
	dirtyRetry = 10 * millisecond

	// crowdTime is for how long a context that has lost its swaps to other workers tries once in a turn, and gathers
	// what requests bring for the turns that ticks begin.
	crowdTime = 10 * millisecond
)

// A Waker calls the plugin context back.
type Waker interface {
	// WakeBy asks for a tick at that time at the latest, in monotonic nanoseconds.
	WakeBy(at int64)
}

// An Onlooker is told of changes of records that are about no request of the context's in particular.
type Onlooker interface {
	// Saw tells that a step has changed a key's breaker or has taken back what a dead worker had. It must not call the
	// Records.
	Saw(*Key, *admission.Effect)
}

// Records are the records of one plugin context's pools. Not safe for concurrent use.
type Records struct {
	Onlooker Onlooker // nil: nobody

	cfg   *config.Config
	waker Waker
	pools []*Pool
	now   int64 // monotonic time of the current callback

	beatInterval int64              // how often a seat's lease is renewed, nanoseconds
	quietTime    admission.Duration // of a record made in place of a lost one

	machine admission.Machine

	// The operations in hand. Each kind that may be needed in the middle of another has one of its own.
	op                                [1]admission.Op
	reconcileOp, retireOp, maintainOp admission.Op
	retuneOp                          admission.Op
	acquires                          []admission.Op
	foreseen                          [2]admission.Op

	ops    []*admission.Op // what commit stores in one swap
	more   int             // how many of them, at the end, are not of the journal
	double [2]*admission.Op

	inflight  []admission.TenantInflight // scratch of truth
	waits     []admission.Ticket         // likewise
	unseen    []uint32                   // scratch of grantUnseen
	expired   []uint32                   // scratch of expire
	takenUp   []*Key                     // scratch of TakeUp
	batch     []*Ticket                  // scratch of decideBatch
	verdicts  []admission.Verdict        // likewise
	out       []byte                     // scratch for directories and tables
	directory admission.Directory

	seat    seat
	mailbox mailbox

	permits       int                // of this context's requests
	spares        int                // permits that none of them has
	aheadKeys     []*Key             // for which this context may keep spares
	aging         int                // how many of them are still to be looked at
	nextAging     int64              // when spares are looked at next; 0: there are none
	tickets       map[uint32]*Ticket // that wait, by number
	waitedKeys    []*Key             // with tickets
	decidingKeys  []*Key             // with acquires that are left to a later turn
	timed         []*Key             // in whose record time alone will free something
	dirty         []*Key             // whose record may differ from the truth, or whose journal is not stored
	maintenance   maintenance        // of all records, to be done again
	calledBack    bool               // a callback in the next turn has been asked for
	gaugesSuspect bool               // the gauges may have lost touch with the records

	firstDue      int64 // no ticket is due before this; 0: none waits
	nextReconcile int64 // when the records of waited keys are looked at next
}

// New returns the records for a configuration. It touches none until the first operation.
func New(cfg *config.Config, w Waker) *Records {
	beat := int64(cfg.Lease) / beatsPerLease
	return &Records{cfg: cfg, waker: w, tickets: map[uint32]*Ticket{},
		beatInterval: beat, quietTime: admission.Duration(beat + beat/2)}
}

// AddPool adds one of the configuration's pools.
func (r *Records) AddPool(c *config.Pool, stats Stats) *Pool {
	o := newPool(r.cfg, c, stats)
	r.pools = append(r.pools, o)
	return o
}

// SetTime sets the time of what follows.
func (r *Records) SetTime(now int64) { r.now = now }

// target is where and by whom an operation on a key is carried out.
//
//go:noinline // many bytes in many places
func (r *Records) target(k *Key) admission.Target {
	return admission.Target{Now: r.now, Gen: k.place.Gen, Name: k.Name, Me: r.seat.me, Expect: k.involved(),
		Limit: k.limit, Override: k.inherited, QuietTime: r.quietTime, Shaping: &k.Pool.Shaping, Ahead: r.warm(k)}
}

// decidingTime is how long an acquire may take to be decided where a request may not wait: being decided is no waiting.
const decidingTime = int64(admission.Second)

// Acquire asks for a permit for a ticket, which may wait for budget; <= 0: not at all. The decision is to fall until
// the given time; with Deciding the Waiter is told it, and with VerdictWaiting what becomes of the wait.
func (r *Records) Acquire(t *Ticket, budget admission.Duration, deadline int64) (Answer, Decision) {
	if k := t.Key; k.forgotten { // while the request waited elsewhere
		t.Key = k.Pool.KeyFor(k.Name)
	}
	t.Since, t.Due = r.now, r.now+int64(budget)
	if t.decideBy = t.Due; budget <= 0 {
		t.decideBy = r.now + decidingTime
	}
	if deadline > 0 {
		t.decideBy = min(t.decideBy, deadline)
	}
	return r.decide(t)
}

// decide carries an acquire out, or leaves it to a later turn. It never overtakes an acquire for the same key that is
// still undecided.
func (r *Records) decide(t *Ticket) (Answer, Decision) {
	k := t.Key
	if k.deciding.n > 0 || r.contended(k) {
		r.leaveUndecided(t)
		r.waker.WakeBy(r.now)
		return Answer{}, Deciding
	}
	if r.Seated() && k.queued > crowd {
		r.leaveUndecided(t)
		r.CallBack()
		return Answer{}, Deciding
	}
	if r.take(t) {
		return Answer{Verdict: admission.VerdictGranted, Permit: r.permitFor(t, k.gen)}, Decided
	}
	e, res := r.ask(t)
	switch {
	case res == stored && e.Verdict != admission.VerdictRecalling:
		return r.answer(t, e.Verdict, e), Decided
	case res != failed:
		r.leaveUndecided(t)
		r.waker.WakeBy(r.now)
		return Answer{}, Deciding
	}
	return Answer{}, Failed
}

func (r *Records) leaveUndecided(t *Ticket) {
	k := t.Key
	t.state = ticketDeciding
	if k.deciding.n == 0 {
		r.decidingKeys = append(r.decidingKeys, k)
	}
	k.deciding.push(t)
}

// answer acts on the verdict of an acquire that is stored; e is the effect that says so.
func (r *Records) answer(t *Ticket, v admission.Verdict, e *admission.Effect) Answer {
	a := Answer{Verdict: v, RetryAfter: e.RetryAfter, LastStatus: e.LastStatus}
	switch v {
	case admission.VerdictGranted:
		a.Permit = r.granted(t, e)
	case admission.VerdictWaiting:
		r.wait(t)
	}
	return a
}

// ask carries an acquire out on the key's record, or on the record of the key that stands in for it.
func (r *Records) ask(t *Ticket) (*admission.Effect, result) {
	k := t.Key
	if res := r.ensureSeat(k.Pool); res != stored {
		return nil, r.postpone(k, res)
	}
	for {
		t.Key = k
		res := r.place(k)
		if res == stored {
			r.op[0] = r.acquire(t)
			var e *admission.Effect
			if e, res = r.commit(k, r.op[:]); res == stored {
				return e, stored
			}
		} else if res != full {
			return nil, r.postpone(k, res)
		}
		if res != full {
			return nil, res
		}
		k = k.Pool.other // there is no slot left, or the key has lost its own; other has always one
		if k.deciding.n > 0 {
			t.Key = k
			return nil, contended
		}
	}
}

// acquire is the operation for a ticket, which gets its number by it.
func (r *Records) acquire(t *Ticket) admission.Op {
	t.Seq = r.seat.nextTicket()
	o, target := t.Key.Pool, r.target(t.Key)
	t.Key.asked = r.now
	return admission.Acquire(target, admission.Request{Tenant: t.Tenant, Weight: t.Weight, Seq: t.Seq,
		Queue: o.Queue, Fair: o.FairBy, Budget: admission.Duration(t.Due - r.now)})
}

// granted counts a permit that the record already counts for this context; e is the effect that says so.
func (r *Records) granted(t *Ticket, e *admission.Effect) Permit {
	if e.Probe == t.Seq {
		t.Key.probe = t.Seq
	}
	return r.grant(t, e.BreakerGen)
}

// grant counts a permit for a request of this context's, which it has from now on.
//
//go:noinline // as stopWaiting
func (r *Records) grant(t *Ticket, breakerGen uint32) Permit {
	t.Key.add(t.Tenant, t.Weight)
	r.permits++
	return r.permitFor(t, breakerGen)
}

// permitFor is the permit that a ticket's request has from now on.
func (r *Records) permitFor(t *Ticket, breakerGen uint32) Permit {
	return Permit{Key: t.Key, Tenant: t.Tenant, Seq: t.Seq, Since: r.now, BreakerGen: breakerGen}
}

// wait notes that a ticket is in its key's queue.
func (r *Records) wait(t *Ticket) {
	k := t.Key
	t.Since, t.state = r.now, ticketWaiting
	r.tickets[t.Seq] = t
	if k.waiting.n == 0 {
		r.waitedKeys = append(r.waitedKeys, k)
	}
	k.waiting.push(t)
	if r.firstDue == 0 {
		r.nextReconcile = r.now + reconcileInterval
	}
	if r.firstDue == 0 || t.Due < r.firstDue {
		r.firstDue = t.Due
	}
	r.waker.WakeBy(min(t.Due, r.nextReconcile))
}

// stopWaiting notes that a ticket waits no more. What the record says is the caller's business.
//
//go:noinline // what is rare and called from many places stays one piece of the module
func (r *Records) stopWaiting(t *Ticket) {
	k := t.Key
	t.state = ticketIdle
	delete(r.tickets, t.Seq)
	k.waiting.remove(t)
	if k.waiting.n == 0 {
		r.waitedKeys = without(r.waitedKeys, k)
	}
}

// without takes a key out of a list.
func without(keys []*Key, k *Key) []*Key {
	for i := range keys {
		if keys[i] == k {
			return append(keys[:i], keys[i+1:]...)
		}
	}
	return keys
}

// Cancel ends a ticket's wait, or withdraws an acquire that is not decided. If the ticket had been granted, its permit
// goes on to the next one.
func (r *Records) Cancel(t *Ticket) {
	if r.withdraw(t) {
		return
	}
	k := t.Key
	r.stopWaiting(t)
	if k.queued > crowd { // a reconcile takes all out that leave now
		r.mark(k, r.now+dirtyRetry)
		r.CallBack()
		return
	}
	k.noteCancel(t)
	r.storeJournal(k)
}

// noteCancel writes into the journal that a ticket's wait is over.
//
//go:noinline // as stopWaiting
func (k *Key) noteCancel(t *Ticket) {
	k.journal = append(k.journal, admission.Cancel(admission.Target{}, t.Tenant, t.Seq))
}

// withdraw forgets an acquire that is not decided: nothing of it is stored. False: the ticket is none.
func (r *Records) withdraw(t *Ticket) bool {
	if t.state != ticketDeciding {
		return false
	}
	k := t.Key
	t.state = ticketIdle
	k.deciding.remove(t)
	if k.deciding.n == 0 {
		r.decidingKeys = without(r.decidingKeys, k)
	}
	return true
}

// Release gives a permit back, or keeps it here for the next request. What the finish says arrives in the record, if
// not now then with the next swap that works.
func (r *Records) Release(p Permit, f admission.Finish) {
	if r.keep(&p, &f) {
		return
	}
	k := p.Key
	k.remove(p.Tenant)
	r.permits--
	if k.probe == p.Seq {
		k.probe = 0
	}
	f.BreakerGen, f.Use, f.Told = p.BreakerGen, admission.Duration(r.now-p.Since), p.Told
	k.journal = append(k.journal, admission.Release(admission.Target{}, p.Tenant, p.Seq, f))
	r.storeJournal(k)
}

// Foresee returns what a request like the permit's would be told that asks the same key once the permit is given back
// with that finish: granted, open, closed, or full, and then in how many seconds it is worth to come back. Nothing is
// stored. Where the record can't be read, it is granted.
func (r *Records) Foresee(p *Permit, f admission.Finish) (v admission.Verdict, retryAfter int) {
	k := p.Key
	if r.mayKeep(p, &f) {
		return admission.VerdictGranted, 0
	}
	state, _, res := get(k.data)
	if res != stored || state == nil {
		return admission.VerdictGranted, 0
	}
	f.BreakerGen, f.Use = p.BreakerGen, admission.Duration(r.now-p.Since)
	target := r.target(k)
	r.foreseen[0] = admission.Release(target, p.Tenant, p.Seq, f)
	target.Expect = false // the release may have taken the last of this worker's permits
	r.foreseen[1] = admission.Acquire(target, admission.Request{Tenant: p.Tenant, Weight: 1, Seq: p.Seq})
	r.collect(k, r.foreseen[:])
	_, e := r.machine.Steps(state, r.ops)
	if e.Verdict >= admission.VerdictRecalling {
		return admission.VerdictGranted, 0
	}
	return e.Verdict, e.RetryAfter
}

// Report tells how the breaker's probe will end.
func (r *Records) Report(p *Permit, o admission.Outcome) {
	k := p.Key
	k.probe = 0
	k.journal = append(k.journal, admission.Report(admission.Target{}, p.Seq, o))
	r.storeJournal(k)
}

// Tell tells how a permit's request ended, before the permit is given back.
func (r *Records) Tell(p *Permit, f admission.Finish) {
	k := p.Key
	if k.probe == p.Seq {
		k.probe = 0
	}
	f.BreakerGen, p.Told = p.BreakerGen, true
	k.journal = append(k.journal, admission.Tell(admission.Target{}, p.Tenant, p.Seq, f))
	r.storeJournal(k)
}

// ForgetPermit counts a permit as held no more, without giving it back: a reconcile takes it out of the record.
func (r *Records) ForgetPermit(p Permit) {
	k := p.Key
	k.remove(p.Tenant)
	if k.probe == p.Seq {
		k.probe = 0
	}
	r.permits--
	r.failed(k)
}

// ForgetTicket ends a ticket's wait, without withdrawing it: a reconcile takes it out of the record.
func (r *Records) ForgetTicket(t *Ticket) {
	if !r.withdraw(t) {
		r.stopWaiting(t)
		r.failed(t.Key)
	}
}

// failed counts a fault that has parted a key's record from the truth, and remembers to put it right.
func (r *Records) failed(k *Key) {
	abi.Increment(k.Pool.stats.StoreError, 1)
	r.mark(k, r.now+dirtyRetry)
}

// mark remembers that a key's record has to be reconciled, and when to try.
func (r *Records) mark(k *Key, at int64) {
	k.suspect = true
	r.enlist(k, at)
}

// enlist remembers that a key's journal has to be stored, and when to try.
//
//go:noinline // as stopWaiting
func (r *Records) enlist(k *Key, at int64) {
	if !k.dirty {
		k.dirty = true
		r.dirty = append(r.dirty, k)
	}
	r.waker.WakeBy(at)
}

// each calls f with every key this context knows.
func (r *Records) each(f func(*Key)) {
	for _, o := range r.pools {
		for _, k := range o.known {
			f(k)
		}
		f(o.only)
		f(o.other)
	}
}
