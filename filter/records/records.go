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
)

// A Waker calls the plugin context back.
type Waker interface {
	// WakeBy asks for a tick at that time at the latest, in monotonic nanoseconds.
	WakeBy(at int64)
}

// A Waiter is told what becomes of a ticket that waits. Both calls end the ticket's wait.
type Waiter interface {
	// Granted tells that the ticket has a permit.
	Granted(Permit)
	// Expired tells that the ticket's budget is used up, and in how many seconds it is worth to come back.
	Expired(retryAfter int)
}

// A Ticket is a request of this context's that asks a key for a permit. Whoever makes it sets Key, Tenant, Weight and
// Waiter, and leaves it where it is while it waits.
type Ticket struct {
	Key    *Key   // Acquire sets another one if the key has no record of its own
	Tenant uint64 // 0 if the pool isn't fair by tenant
	Weight uint32
	Waiter Waiter

	Seq     uint32 // its number in this context's incarnation
	Since   int64  // when it began to wait
	Due     int64  // when its budget is used up
	waiting bool
}

// Waiting reports whether the ticket is in the queue, as far as is known here.
func (t *Ticket) Waiting() bool { return t.waiting }

// A Permit is what a request of this context's holds. The zero Permit is none.
type Permit struct {
	Key        *Key
	Tenant     uint64
	Seq        uint32 // of the ticket that was granted
	Since      int64  // when it was granted
	BreakerGen uint32 // of the breaker when it was granted
}

// IsProbe reports whether the permit's request is its breaker's probe.
func (p *Permit) IsProbe() bool { return p.Key != nil && p.Key.probe == p.Seq }

// An Answer is what became of an acquire.
type Answer struct {
	Verdict    admission.Verdict // granted, waiting, full, closed or open
	Permit     Permit            // granted
	RetryAfter int               // full, closed, open: seconds
}

// Records are the records of one plugin context's pools. Not safe for concurrent use.
type Records struct {
	cfg   *config.Config
	waker Waker
	pools []*Pool
	now   int64 // monotonic time of the current callback

	machine admission.Machine

	// The operations in hand. Each kind that may be needed in the middle of another has one of its own.
	op, reconcileOp, retireOp, maintainOp admission.Op

	waits     []admission.Ticket // scratch of reconcile
	expired   []uint32           // scratch of expire
	out       []byte             // scratch for directories and tables
	directory admission.Directory

	seat    seat
	mailbox mailbox

	permits       int                // of this context's requests
	tickets       map[uint32]*Ticket // that wait, by number
	waitedKeys    []*Key             // with tickets
	timed         []*Key             // in whose record time alone will free something
	dirty         []*Key             // whose record may differ from the truth
	gaugesSuspect bool               // the gauges may have lost touch with the records

	firstDue      int64 // no ticket is due before this; 0: none waits
	nextReconcile int64 // when the records of waited keys are looked at next
}

// New returns the records for a configuration. It touches none until the first operation.
func New(cfg *config.Config, w Waker) *Records {
	return &Records{cfg: cfg, waker: w, tickets: map[uint32]*Ticket{}}
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
func (r *Records) target(k *Key) admission.Target {
	return admission.Target{Now: r.now, Gen: k.place.Gen, Name: k.Name, Me: r.seat.me, Expect: k.involved(), Limit: k.limit,
		QuietTime: admission.Duration(r.beatInterval() + r.beatInterval()/2), Shaping: &k.Pool.Shaping}
}

// targetOf is target for an operation of a request whose column has to be there, whatever is counted here by now.
func (r *Records) targetOf(k *Key) admission.Target {
	t := r.target(k)
	t.Expect = true
	return t
}

// Acquire asks for a permit for a ticket. If the verdict is VerdictWaiting, the ticket waits for budget and its Waiter
// is told the rest; with budget <= 0 it doesn't wait. False: the store failed, and nothing was decided.
func (r *Records) Acquire(t *Ticket, budget admission.Duration) (Answer, bool) {
	if !r.ensureSeat() {
		return Answer{}, false
	}
	t.Seq = r.seat.nextTicket()
	e := r.ask(t, budget)
	if e == nil {
		return Answer{}, false
	}
	a := Answer{Verdict: e.Verdict, RetryAfter: e.RetryAfter}
	switch e.Verdict {
	case admission.VerdictGranted:
		a.Permit = r.granted(t, e)
	case admission.VerdictWaiting:
		r.wait(t, budget)
	}
	return a, true
}

// ask carries an acquire out on the key's record, or on the record of the key that stands in for it. Nil: the store
// failed.
func (r *Records) ask(t *Ticket, budget admission.Duration) *admission.Effect {
	for range 2 { // twice: the key may lose its place in between, and share another
		k := r.resolve(t.Key)
		t.Key = k
		r.op = admission.Acquire(r.target(k), admission.Request{Tenant: t.Tenant, Weight: t.Weight, Seq: t.Seq,
			Queue: k.Pool.Queue, Fair: k.Pool.FairBy, Budget: budget})
		if e := r.step(k); e != nil {
			return e
		}
		if k.fixed || k.placed {
			return nil
		}
	}
	return nil
}

// granted counts a permit that the record already counts for this context; e is the effect that says so.
func (r *Records) granted(t *Ticket, e *admission.Effect) Permit {
	k := t.Key
	k.add(t.Tenant, t.Weight)
	if e.Probe == t.Seq {
		k.probe = t.Seq
	}
	if r.permits++; r.permits == 1 {
		r.waker.WakeBy(r.seat.beat + r.beatInterval())
	}
	return Permit{Key: k, Tenant: t.Tenant, Seq: t.Seq, Since: r.now, BreakerGen: e.BreakerGen}
}

// wait notes that a ticket is in its key's queue.
func (r *Records) wait(t *Ticket, budget admission.Duration) {
	k := t.Key
	t.Since, t.Due, t.waiting = r.now, r.now+int64(budget), true
	r.tickets[t.Seq] = t
	if len(k.waiting) == 0 {
		r.waitedKeys = append(r.waitedKeys, k)
	}
	k.waiting = append(k.waiting, t)
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
	t.waiting = false
	delete(r.tickets, t.Seq)
	for i, w := range k.waiting {
		if w == t {
			k.waiting = append(k.waiting[:i], k.waiting[i+1:]...)
			break
		}
	}
	if len(k.waiting) > 0 {
		return
	}
	for i, w := range r.waitedKeys {
		if w == k {
			r.waitedKeys = append(r.waitedKeys[:i], r.waitedKeys[i+1:]...)
			return
		}
	}
}

// Cancel ends a ticket's wait. If the ticket had been granted, its permit goes on to the next one.
func (r *Records) Cancel(t *Ticket) {
	k := t.Key
	r.stopWaiting(t)
	r.op = admission.Cancel(r.targetOf(k), t.Tenant, t.Seq)
	if r.step(k) == nil {
		r.failed(k)
	}
}

// Release gives a permit back.
func (r *Records) Release(p Permit, f admission.Finish) {
	k := p.Key
	k.remove(p.Tenant)
	r.permits--
	f.BreakerGen = p.BreakerGen
	r.op = admission.Release(r.targetOf(k), p.Tenant, p.Seq, f)
	if k.probe == p.Seq {
		k.probe = 0
	}
	if r.step(k) == nil {
		r.failed(k)
	}
}

// Report tells how the breaker's probe will end.
func (r *Records) Report(p *Permit, o admission.Outcome) {
	k := p.Key
	r.op = admission.Report(r.targetOf(k), p.Seq, o)
	k.probe = 0
	if r.step(k) == nil {
		r.failed(k)
	}
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
	r.stopWaiting(t)
	r.failed(t.Key)
}

// failed counts a failure of the store and remembers to make up for it.
func (r *Records) failed(k *Key) {
	abi.Increment(k.Pool.stats.StoreError, 1)
	r.mark(k)
}

// mark remembers that a key's record has to be reconciled.
//
//go:noinline // as stopWaiting
func (r *Records) mark(k *Key) {
	if !k.dirty {
		k.dirty = true
		r.dirty = append(r.dirty, k)
	}
	r.waker.WakeBy(r.now + dirtyRetry)
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
