package records

import (
	"github.com/headgate/headgate/admission"
)

// Seated reports whether the context has a seat, and so may have something to look after.
func (r *Records) Seated() bool { return r.seat.me.Epoch != 0 }

// A maintenance of all records is what is to be done in each.
type maintenance uint8

const (
	maintainNothing maintenance = iota
	maintainReap                // take back what dead workers hold
	maintainAssert              // likewise, and assert the configured limits
)

// AssertLimits puts the configured limits into the records that are there, and takes back what dead workers hold.
func (r *Records) AssertLimits() { r.maintainAll(maintainAssert) }

// MaintainAgain takes up the maintenance that an earlier turn could not finish.
func (r *Records) MaintainAgain() {
	if m := r.maintenance; m != maintainNothing {
		r.maintenance = maintainNothing
		r.maintainAll(m)
	}
}

// Age sees to the records in which a hold, an open breaker or a lowered limit has ended: waiters are granted, gauges
// fall. And it gives back the spares that were not needed lately.
func (r *Records) Age() {
	r.ageSpares()
	timed := r.timed
	r.timed = r.timed[:0:0]
	for _, k := range timed {
		k.timed = false
		if k.next > r.now {
			r.expectChange(k, k.next)
			continue
		}
		target := r.target(k)
		target.Expect = false
		r.op[0] = admission.Maintain(target, false, nil)
		e, res := r.commit(k, r.op[:])
		switch {
		case res == contended:
			r.expectChange(k, r.now)
		case (res != stored || e == &nothing) && k.involved(): // of other keys this context has no truth to tell
			r.mark(k, r.now+dirtyRetry)
		}
	}
}

// KeepSeat beats while anything is held or waited for, or the caller is busy, and leaves the seat otherwise.
func (r *Records) KeepSeat(busy bool) {
	due := r.now-r.seat.beat >= r.beatInterval
	switch {
	case !due && (r.seat.nextDeath == 0 || r.now < r.seat.nextDeath):
	case busy || r.permits+r.spares > 0 || len(r.tickets) > 0 || len(r.decidingKeys) > 0 || len(r.dirty) > 0:
		if r.renew(r.pools[0]) == contended {
			r.waker.WakeBy(r.now)
		}
		if due {
			r.each(r.verifyColumn)
		}
	case due:
		r.leave()
	}
}

// verifyColumn makes sure that what runs here is still counted: a record can vanish, or be damaged by another plugin.
func (r *Records) verifyColumn(k *Key) {
	if k.involved() {
		r.reconcile(k)
	}
}

// Repair reconciles the records that could not be put right when they should have been, and stores the journals that
// could not be stored.
func (r *Records) Repair() {
	dirty := r.dirty
	r.dirty = r.dirty[:0:0]
	for _, k := range dirty {
		k.dirty = false
		switch {
		case k.suspect:
			k.suspect = false
			r.reconcile(k)
		case len(k.journal) > 0 && k.deciding.n == 0: // otherwise it goes together with what is undecided
			r.commit(k, nil)
		}
	}
}

// leaveTries is how often a context that ends tries to put its records right.
const leaveTries = 8

// Leave gives the seat up at the end of the context. If some record still differs from the truth, it doesn't: the lease
// then gives back what could not be.
func (r *Records) Leave() {
	for len(r.aheadKeys) > 0 {
		r.recalled(r.aheadKeys[0])
	}
	for try := 0; try == 0 || len(r.dirty) > 0 && try < leaveTries; try++ {
		r.Repair()
	}
	if len(r.dirty) == 0 {
		r.leave()
	}
}

// Attend ends the waits whose budget is used up, and looks for grants without a message now and then.
func (r *Records) Attend() {
	if len(r.tickets) == 0 {
		r.firstDue = 0
		return
	}
	if r.now >= r.nextReconcile {
		r.nextReconcile = r.now + reconcileInterval
		for i := len(r.waitedKeys) - 1; i >= 0; i-- {
			r.reconcile(r.waitedKeys[i])
		}
	}
	if r.now < r.firstDue {
		return
	}
	for i := len(r.waitedKeys) - 1; i >= 0; i-- {
		r.expire(r.waitedKeys[i])
	}
	r.firstDue = 0
	for _, k := range r.waitedKeys {
		for t := k.waiting.first; t != nil; t = t.next {
			if r.firstDue == 0 || t.Due < r.firstDue {
				r.firstDue = t.Due
			}
		}
	}
}

// expire ends the waits for one key whose budget is used up. A due ticket that is no longer in the record was granted
// in time.
func (r *Records) expire(k *Key) {
	if !k.anyDue(r.now) {
		return
	}
	r.op[0] = admission.Expire(r.target(k))
	e, res := r.commit(k, r.op[:])
	if res != stored {
		r.expireUnstored(k, res)
		return
	}
	retryAfter := e.RetryAfter
	granted := admission.Effect{BreakerGen: e.BreakerGen, Probe: e.Probe} // what follows may step other records
	r.expired = append(r.expired[:0], e.Expired...)
	for _, seq := range r.expired {
		if t := r.tickets[seq]; t != nil {
			r.stopWaiting(t)
			t.Waiter.Expired(retryAfter)
		}
	}
	for t := k.waiting.first; t != nil; {
		next := t.next
		if t.Due <= r.now {
			r.stopWaiting(t)
			t.Waiter.Granted(r.granted(t, &granted))
		}
		t = next
	}
}

// expireUnstored ends the waits for one key whose budget is used up though the record could not be told: no wait is
// longer for it. The record learns of it later, and a permit that was granted meanwhile goes on to the next one.
func (r *Records) expireUnstored(k *Key, res result) {
	for t := k.waiting.first; t != nil; {
		next := t.next
		if t.Due <= r.now {
			r.stopWaiting(t)
			if k.queued <= crowd {
				k.noteCancel(t)
			}
			t.Waiter.Expired(1)
		}
		t = next
	}
	at := r.now
	if res == failed {
		at += dirtyRetry
	}
	r.mark(k, at)
}

func (k *Key) anyDue(now int64) bool {
	for t := k.waiting.first; t != nil; t = t.next {
		if t.Due <= now {
			return true
		}
	}
	return false
}

// WakeForSeat asks for the tick that the seat and the waiters need next.
func (r *Records) WakeForSeat() {
	if r.seat.me.Epoch == 0 {
		return
	}
	r.waker.WakeBy(r.seat.beat + r.beatInterval)
	if r.firstDue > 0 {
		r.waker.WakeBy(min(r.firstDue, r.nextReconcile))
		if r.seat.nextDeath > 0 {
			r.waker.WakeBy(r.seat.nextDeath)
		}
	}
}

// maintainAll carries a maintenance out in all records of all pools. What is contended is done again in a later turn.
func (r *Records) maintainAll(m maintenance) {
	for _, o := range r.pools {
		res := stored
		var override admission.Override
		r.eachRecord(o, func(k *Key) {
			override = r.directory.Override()
			res = max(res, r.maintain(k, m == maintainAssert))
		})
		switch {
		case res == contended:
			r.maintainLater(m, r.now)
		case m == maintainAssert && !r.overrideIs(o, &override): // or the store has failed
			r.maintainLater(m, r.now+dirtyRetry)
		}
	}
}

func (r *Records) maintainLater(m maintenance, at int64) {
	r.maintenance = max(r.maintenance, m)
	r.waker.WakeBy(at)
}

func (r *Records) maintain(k *Key, assert bool) result {
	target := r.target(k)
	target.Expect = false
	target.Override = r.inherits(k)
	r.maintainOp, r.retuneOp = admission.Maintain(target, assert, &r.seat.live), admission.Retune(target, false)
	r.double = [2]*admission.Op{&r.maintainOp, &r.retuneOp}
	ops := r.double[:]
	if !assert {
		ops = ops[:1]
	}
	for range maxSwaps {
		e, res := r.try(k, ops, &r.seat.live)
		if res != contended || e.Verdict >= admission.VerdictStale {
			return stored
		}
	}
	return contended
}
