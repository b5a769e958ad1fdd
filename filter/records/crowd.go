package records

import "github.com/headgate/headgate/admission"

// A crowd is a queue so long that a step costs more for the bytes of the queue than for what it does. Then what one
// turn of the event loop brings goes together in one swap in the next turn: acquires as a batch of operations, and
// clients that have left by a reconcile, which takes all of their tickets out in one pass.

// crowd is from how many tickets in a key's queue on this is so.
const crowd = 1024

// batchMost is how many acquires go into one swap.
const batchMost = 256

// TakeUp does what earlier turns have left to a later one: it puts the records right that are marked, and decides the
// acquires that are undecided.
func (r *Records) TakeUp() {
	r.calledBack = false
	r.Repair()
	for left := r.undecided.n; left > 0 && r.undecided.n > 0; {
		t := r.undecided.first
		if r.now >= t.decideBy {
			r.withdraw(t)
			t.Waiter.Expired(1)
			left--
			continue
		}
		left -= r.decideBatch(t.Key, min(left, batchMost))
	}
}

// decideBatch decides the first undecided acquire and those behind it for the same key, at most so many. It returns how
// many it took up. What is contended is undecided again.
func (r *Records) decideBatch(k *Key, most int) (n int) {
	r.batch = r.batch[:0]
	for t := r.undecided.first; t != nil && t.Key == k && len(r.batch) < most; t = r.undecided.first {
		r.withdraw(t)
		r.batch = append(r.batch, t)
	}
	batch := r.batch
	if len(batch) == 1 || k.queued <= crowd || r.place(k) != stored {
		for _, t := range batch {
			r.tell(t)
		}
		return len(batch)
	}
	r.acquires = r.acquires[:0]
	for _, t := range batch {
		r.acquires = append(r.acquires, r.acquire(t))
	}
	e, res := r.commit(k, r.acquires)
	if res != stored {
		for _, t := range batch {
			r.undecide(t, res)
		}
		return len(batch)
	}
	r.verdicts = append(r.verdicts[:0], e.Verdicts[len(e.Verdicts)-len(batch):]...)
	effect := admission.Effect{BreakerGen: e.BreakerGen, Probe: e.Probe, RetryAfter: e.RetryAfter}
	for i, t := range batch {
		t.Waiter.Decided(r.answer(t, r.verdicts[i], &effect), Decided)
	}
	return len(batch)
}

// tell decides one acquire by itself, and tells its Waiter unless it is left undecided again.
func (r *Records) tell(t *Ticket) {
	e, res := r.ask(t)
	if res != stored {
		r.undecide(t, res)
		return
	}
	t.Waiter.Decided(r.answer(t, e.Verdict, e), Decided)
}

// undecide leaves an acquire to a later turn if it was contended, and tells its Waiter if the store failed.
func (r *Records) undecide(t *Ticket, res result) {
	if res == failed {
		t.Waiter.Decided(Answer{}, Failed)
		return
	}
	r.leaveUndecided(t)
	r.waker.WakeBy(r.now)
}
