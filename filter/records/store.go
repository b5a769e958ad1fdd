package records

import (
	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/filter/abi"
)

// maxSwaps is how often a step is tried against other workers' swaps before the store counts as failed.
// docs/rationale.md says why 16.
const maxSwaps = 16

// fenced is the effect of an operation that a reconcile has taken the place of.
var fenced = admission.Effect{Verdict: admission.VerdictFenced}

// step carries out r.op on a key's record until it is stored, and tells the workers whom it concerns. Nil: the store
// failed and nothing is changed, or the key has lost its place and there is no other.
func (r *Records) step(k *Key) *admission.Effect {
	for range maxSwaps {
		e, stored := r.try(k, &r.op, nil)
		if e == nil {
			return nil
		}
		switch {
		case e.Verdict == admission.VerdictStale:
			if !r.relocate(k) {
				return nil
			}
			r.op.Gen = k.place.Gen
		case e.Verdict == admission.VerdictFenced:
			reconciled := r.renew() && r.reconcile(k)
			if r.op.Kind != admission.OpAcquire {
				return &fenced
			}
			if !reconciled {
				return nil
			}
			r.op.Me = r.seat.me
		case stored:
			return e
		}
	}
	return nil
}

// try makes one attempt at a step. The effect is nil if the store can't be read; stored says that the step is done.
// With live set, the worker table is read into it after the record, so that it knows every worker that the record
// names.
func (r *Records) try(k *Key, op *admission.Op, live *admission.WorkerTable) (e *admission.Effect, stored bool) {
	state, cas, s := abi.GetShared(k.data)
	switch s {
	case abi.StatusOK:
	case abi.StatusNotFound:
		if op.Kind == admission.OpMaintain {
			return nil, false // there is nothing to maintain
		}
		state, cas = nil, abi.CreateIfAbsent
	default:
		return nil, false
	}
	if live != nil {
		r.out = append(r.out[:0], state...) // the next host call reuses the memory of this one
		state = r.out
		r.readTable(live)
	}
	next, e := r.machine.Step(state, op)
	r.expectChange(k, e.NextChange)
	if !e.Changed {
		return e, e.Verdict < admission.VerdictStale
	}
	stats := &k.Pool.stats
	stats.raise(e)
	if abi.SetShared(k.data, next, cas) != abi.StatusOK {
		stats.unraise(e)
		abi.Increment(stats.CASRetry, 1)
		return e, false
	}
	r.lower(stats, e)
	for i := range e.Grants {
		r.mailbox.tell(e.Grants[i], r.cfg.Domain)
	}
	return e, true
}

// expectChange remembers when time alone will free something in a key's record, so that a tick sees to it; 0: never.
func (r *Records) expectChange(k *Key, at int64) {
	k.next = at
	if at == 0 {
		return
	}
	if !k.timed {
		k.timed = true
		r.timed = append(r.timed, k)
	}
	r.waker.WakeBy(at)
}

// The gauges follow the records: the steps of all workers add up. A worker raises a gauge before it stores the step and
// lowers it after, so that no reader ever sees it below zero.

func (s *Stats) raise(e *admission.Effect) {
	addGauge(s.Inflight, max(e.InflightDelta, 0))
	addGauge(s.Queued, max(e.QueuedDelta, 0))
	addGauge(s.OnHold, max(e.OnHoldDelta, 0))
}

func (s *Stats) unraise(e *admission.Effect) {
	addGauge(s.Inflight, -max(e.InflightDelta, 0))
	addGauge(s.Queued, -max(e.QueuedDelta, 0))
	addGauge(s.OnHold, -max(e.OnHoldDelta, 0))
}

func (r *Records) lower(s *Stats, e *admission.Effect) {
	addGauge(s.Inflight, min(e.InflightDelta, 0))
	addGauge(s.Queued, min(e.QueuedDelta, 0))
	addGauge(s.OnHold, min(e.OnHoldDelta, 0))
	if e.Reaped > 0 {
		abi.Increment(s.Reaped, int64(e.Reaped))
		r.gaugesSuspect = true
	}
	if e.Replaced {
		abi.Increment(s.StoreError, 1)
		r.gaugesSuspect = true
	}
}

func addGauge(gauge uint32, delta int) {
	if delta != 0 {
		abi.Increment(gauge, int64(delta))
	}
}

// reconcile makes a key's record say what is true here, and tells the tickets that had been granted without a message;
// false if the store failed.
func (r *Records) reconcile(k *Key) bool {
	for range maxSwaps {
		r.reconcileOp = admission.Reconcile(r.target(k), r.truth(k))
		e, stored := r.try(k, &r.reconcileOp, nil)
		switch {
		case e == nil:
			r.failed(k)
			return false
		case e.Verdict == admission.VerdictStale:
			if !r.relocate(k) {
				r.failed(k)
				return false
			}
		case e.Verdict == admission.VerdictFenced: // a later worker has the seat
			if !r.renew() {
				r.failed(k)
				return false
			}
		case stored:
			r.grantUnseen(e)
			return true
		}
	}
	r.failed(k)
	return false
}

// truth is what this context knows of a key; valid until the next one.
func (r *Records) truth(k *Key) admission.Truth {
	k.forgetIdle()
	r.waits = r.waits[:0]
	for _, t := range k.waiting {
		r.waits = append(r.waits, admission.Ticket{Tenant: uint16(k.tenant(t.Tenant, t.Weight)), Seq: t.Seq,
			Deadline: t.Due, Budget: uint32((t.Due - t.Since) / millisecond)})
	}
	return admission.Truth{Inflight: k.inflight, Waiting: r.waits, Probe: k.probe}
}

// grantUnseen tells the tickets that turned out to be granted.
func (r *Records) grantUnseen(e *admission.Effect) {
	for _, seq := range e.Unseen {
		if t := r.tickets[seq]; t != nil {
			r.stopWaiting(t)
			t.Waiter.Granted(r.granted(t, e))
		}
	}
}
