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
	if r.calledBack = false; len(r.decidingKeys)+len(r.dirty) == 0 {
		return
	}
	r.Repair()
	r.takenUp = append(r.takenUp[:0], r.decidingKeys...)
	for _, k := range r.takenUp {
		r.decideKey(k)
		if len(k.journal) > 0 && !k.dirty { // nothing was left to decide
			r.commit(k, nil)
		}
	}
}

// Answer is TakeUp if a callback has been asked for. A turn that tried in vain waits for a tick: a message of another
// worker's may come much sooner.
func (r *Records) Answer() {
	if r.calledBack {
		r.TakeUp()
	}
}

// decideKey decides the undecided acquires for a key, oldest first, and ends those that are late. What is contended
// stays undecided, and so does what came after it.
func (r *Records) decideKey(k *Key) {
	for t := k.deciding.first; t != nil; {
		next := t.next
		if r.now >= t.decideBy {
			r.withdraw(t)
			t.Waiter.Expired(1)
		}
		t = next
	}
	for k.deciding.n > 0 {
		switch r.decideBatch(k) {
		case contended:
			r.waker.WakeBy(r.now)
			return
		case full:
			r.standIn(k)
			return
		}
	}
}

// decideBatch decides the oldest undecided acquires for a key in one swap. Unless the store fails, they are decided all
// or none.
func (r *Records) decideBatch(k *Key) result {
	r.batch = r.batch[:0]
	for t := k.deciding.first; t != nil && len(r.batch) < batchMost; t = t.next {
		r.batch = append(r.batch, t)
	}
	e, res := r.askAll(k, r.batch)
	switch res {
	case failed:
		for _, t := range r.batch {
			r.withdraw(t)
			t.Waiter.Decided(Answer{}, Failed)
		}
	case stored:
		r.verdicts = append(r.verdicts[:0], e.Verdicts[len(e.Verdicts)-len(r.batch):]...)
		effect := admission.Effect{BreakerGen: e.BreakerGen, Probe: e.Probe, RetryAfter: e.RetryAfter,
			LastStatus: e.LastStatus}
		for i, t := range r.batch {
			if r.verdicts[i] == admission.VerdictRecalling {
				res = contended // as far as the rest is concerned
				continue
			}
			r.withdraw(t)
			t.Waiter.Decided(r.answer(t, r.verdicts[i], &effect), Decided)
		}
	}
	return res
}

// askAll carries acquires for one key out on its record.
func (r *Records) askAll(k *Key, tickets []*Ticket) (*admission.Effect, result) {
	if res := r.ensureSeat(k.Pool); res != stored {
		return nil, r.postpone(k, res)
	}
	if res := r.place(k); res != stored {
		return nil, r.postpone(k, res)
	}
	r.acquires = r.acquires[:0]
	for _, t := range tickets {
		r.acquires = append(r.acquires, r.acquire(t))
	}
	return r.commit(k, r.acquires)
}

// standIn lets the pool's other key stand in for a key that can have no record: it decides the key's acquires behind
// its own.
func (r *Records) standIn(k *Key) {
	other := k.Pool.other
	for t := k.deciding.first; t != nil; t = k.deciding.first {
		r.withdraw(t)
		t.Key = other
		r.leaveUndecided(t)
	}
	r.decideKey(other)
}
