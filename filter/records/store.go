package records

import (
	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/filter/abi"
)

// A result is what became of an attempt to change something in the store.
type result uint8

const (
	stored    result = iota
	contended        // other workers' swaps came first all the time: nothing is changed, a later turn tries again
	failed           // the store answered with an error: nothing is changed
	full             // of a key's place: there is none to give
)

// mostRenewals is how often a turn finds a key's place or this context's seat anew. That is no lost swap: a turn that
// may try once only must get through it, or it would begin with it again and again.
const mostRenewals = 3

// commit stores in one swap what the key's journal says, and then more operations. The journal is empty then. If that
// is not possible now, the journal stays, and the key is marked for a later turn.
func (r *Records) commit(k *Key, more []admission.Op) (*admission.Effect, result) {
	if r.Seated() { // a turn may be long, and a worker that works must not be taken for dead
		if res := r.ensureSeat(k.Pool); res != stored {
			return nil, r.postpone(k, res)
		}
	}
	r.collect(k, more)
	tries := maxSwaps
	if r.contended(k) { // the others have a lot to store
		tries = 1
	}
	for renewals := 0; tries > 0 && renewals < mostRenewals; {
		e, res := r.try(k, r.ops, nil)
		switch {
		case res == failed:
			return nil, r.postpone(k, failed)
		case e.Verdict == admission.VerdictStale:
			if res := r.relocate(k); res != stored {
				return nil, r.postpone(k, res)
			}
			r.forfeit(k)
			r.retarget(k)
			renewals++
		case e.Verdict == admission.VerdictFenced:
			if res := r.renew(k.Pool); res != stored {
				return nil, r.postpone(k, res)
			}
			r.forfeit(k)
			r.rejoin(k)
			renewals++
		case res == stored:
			if r.reconciles() {
				r.settle(k)
			}
			k.journal, k.gen = k.journal[:0], e.BreakerGen
			r.noteAhead(k, e.Ahead)
			if len(e.Unseen) > 0 {
				r.grantUnseen(e)
			}
			return e, stored
		default: // another worker's swap came first
			tries--
		}
	}
	return nil, r.postpone(k, contended)
}

// storeJournal stores a key's journal, or leaves that to a later turn.
func (r *Records) storeJournal(k *Key) {
	if r.contended(k) {
		r.enlist(k, r.now)
		return
	}
	r.commit(k, nil)
}

// collect fills r.ops with the key's journal and more. The worker's column has to be there for the journal, whatever is
// counted here by now.
func (r *Records) collect(k *Key, more []admission.Op) {
	r.ops = r.ops[:0]
	target := r.target(k)
	target.Expect = true
	for i := range k.journal {
		k.journal[i].Target = target
		r.ops = append(r.ops, &k.journal[i])
	}
	for i := range more {
		more[i].Me = r.seat.me
		r.ops = append(r.ops, &more[i])
	}
	r.more = len(more)
}

// retarget makes the operations in hand those of the key's present place and of the context's present seat. It has no
// spares there any more, so there need not be a column for what is no end of a request.
func (r *Records) retarget(k *Key) {
	for i, op := range r.ops {
		op.Gen, op.Me = k.place.Gen, r.seat.me
		if i >= len(r.ops)-r.more {
			op.Expect = op.Expect && k.busy()
		}
	}
}

// rejoin puts a reconcile before the operations in hand: the worker was declared dead, so its column has to be made
// anew before anything can be taken off it. Or its spares have to go back before an acquire asks for a permit. The
// truth is that of before the journal; a reconcile at the end has nothing to add then.
func (r *Records) rejoin(k *Key) {
	if n := len(r.ops); r.ops[0] != &r.reconcileOp {
		if r.ops[n-1].Kind == admission.OpReconcile {
			r.ops, r.more = r.ops[:n-1], r.more-1
		}
		r.plan(k, false)
		target := r.target(k)
		target.Ahead = false
		r.reconcileOp = admission.Reconcile(target, r.truth(k, true))
		r.ops = append(r.ops, nil)
		copy(r.ops[1:], r.ops)
		r.ops[0] = &r.reconcileOp
	}
	r.retarget(k)
}

// postpone leaves to a later turn what could not be stored in this one.
func (r *Records) postpone(k *Key, res result) result {
	stats := &k.Pool.stats
	switch res {
	case contended:
		abi.Increment(stats.Contended, 1)
		k.outrun = r.now + crowdTime
		if len(k.journal) > 0 {
			r.enlist(k, r.now)
		}
	case failed:
		abi.Increment(stats.StoreError, 1)
		if k.inUse() {
			r.mark(k, r.now+dirtyRetry)
		}
	}
	return res
}

// nothing is the effect of maintaining a record that isn't there.
var nothing admission.Effect

// try makes one attempt at a step. The effect is there unless the store failed. The result is contended if the swap was
// lost or the record refused the step; the effect's verdict tells which. With live set, the worker table is read into
// it after the record, so that it knows every worker that the record names.
func (r *Records) try(k *Key, ops []*admission.Op, live *admission.WorkerTable) (*admission.Effect, result) {
	state, cas, res := get(k.data)
	if res != stored {
		return nil, res
	}
	if state == nil && ops[0].Kind == admission.OpMaintain {
		return &nothing, stored
	}
	if live != nil {
		r.out = append(r.out[:0], state...) // the next host call reuses the memory of this one
		state = r.out
		if _, res := r.readTable(live); res != stored {
			return nil, res
		}
	}
	gives := live == nil && k.spares > 0
	var next []byte
	var e *admission.Effect
	if gives {
		next, e = r.machine.Steps(state, ops) // which leaves state as it is
	} else {
		next, e = r.machine.Change(state, ops)
	}
	if gives && !e.Ahead && e.Verdict < admission.VerdictStale {
		r.rejoin(k) // the mark is gone, and what is in hand finds the spares given back
		next, e = r.machine.Change(state, r.ops)
	}
	r.expectChange(k, e.NextChange)
	if !e.Changed {
		if e.Verdict < admission.VerdictStale {
			return e, stored
		}
		return e, contended
	}
	if res = stored; e.Replaced {
		res = r.inheritAnew(k, ops)
	}
	if res == stored {
		res = r.swap(k, next, e, cas)
	}
	if res == failed {
		return nil, failed
	}
	return e, res
}

// swap stores what a step has made of a key's record, and tells whom it concerns.
func (r *Records) swap(k *Key, next []byte, e *admission.Effect, cas uint32) result {
	stats := &k.Pool.stats
	stats.raise(e)
	if res := r.set(stats, k.data, next, cas); res != stored {
		stats.unraise(e)
		return res
	}
	r.lower(stats, e)
	if r.Onlooker != nil && (e.Breaker != e.BreakerBefore || e.Reaped > 0) {
		r.Onlooker.Saw(k, e)
	}
	k.queued = e.Queued
	for i := range e.Grants {
		r.mailbox.tell(e.Grants[i], r.cfg.Domain)
	}
	for i := range e.Recalls {
		r.tellRecall(e.Recalls[i], k)
	}
	return stored
}

// get reads a value, and the number to set it with; nil if there is none.
func get(key string) (b []byte, cas uint32, res result) {
	b, cas, s := abi.GetShared(key)
	switch s {
	case abi.StatusOK:
		return b, cas, stored
	case abi.StatusNotFound:
		return nil, abi.CreateIfAbsent, stored
	}
	return nil, 0, failed
}

// set stores a value if nobody else has since it was read, and counts the swaps that are lost.
func (r *Records) set(stats *Stats, key string, value []byte, cas uint32) result {
	switch abi.SetShared(key, value, cas) {
	case abi.StatusOK:
		return stored
	case abi.StatusCasMismatch:
		abi.Increment(stats.CASRetry, 1)
		return contended
	}
	return failed
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
	addCount(s.BreakerOpened, e.BreakerTurn)
	addCount(s.BreakerClosed, -e.BreakerTurn)
	if e.Reaped > 0 {
		abi.Increment(s.Reaped, int64(e.Reaped))
		r.gaugesSuspect = true
	}
	if e.Replaced {
		abi.Increment(s.StoreError, 1)
		r.gaugesSuspect = true
	}
}

// addCount adds to a counter.
func addCount(counter uint32, n int) {
	addGauge(counter, max(n, 0))
}

// addGauge adds to a gauge.
//
//go:noinline // many bytes in many places
func addGauge(gauge uint32, delta int) {
	if delta != 0 {
		abi.Increment(gauge, int64(delta))
	}
}

// reconcile makes a key's record say what is true here, and tells the tickets that had been granted without a message.
// All spares go back.
func (r *Records) reconcile(k *Key) result { return r.reconcileWith(k, false) }

// reconcileWith is reconcile; aging, those spares stay that were needed lately.
func (r *Records) reconcileWith(k *Key, aging bool) result {
	res := r.ensureSeat(k.Pool) // without one the record would take this context for another worker
	if res == stored {
		r.plan(k, aging)
		target := r.target(k)
		target.Ahead = aging
		r.op[0] = admission.Reconcile(target, r.truth(k, false))
		_, res = r.commit(k, r.op[:])
	}
	switch res {
	case contended:
		r.mark(k, r.now)
	case failed: // also where nothing is held or waited for any more: the record may say otherwise
		r.mark(k, r.now+dirtyRetry)
	}
	return res
}

// truth is what this context knows of a key: as it is once the key's journal is stored, or as it was before. Spares
// that are planned to stay are inflight.
func (r *Records) truth(k *Key, before bool) admission.Truth {
	k.forgetIdle()
	r.inflight, r.waits = r.inflight[:0], r.waits[:0]
	for i := range k.shares {
		r.inflight = append(r.inflight, k.shares[i].TenantInflight)
		r.inflight[i].Inflight += k.shares[i].kept
	}
	for t := k.waiting.first; t != nil; t = t.next {
		i := tenantIn(&r.inflight, t.Tenant, t.Weight)
		r.waits = append(r.waits, admission.Ticket{Tenant: uint16(i), Seq: t.Seq,
			Deadline: t.Due, Budget: uint32((t.Due - t.Since) / millisecond)})
	}
	for i := 0; before && i < len(k.journal); i++ {
		if op := &k.journal[i]; op.Kind != admission.OpReport && op.Kind != admission.OpTell {
			r.inflight[tenantIn(&r.inflight, op.Tenant, 0)].Inflight++
		}
	}
	truth := admission.Truth{Inflight: r.inflight, Waiting: r.waits, Probe: k.probe}
	if k.tellsUses() {
		truth.Uses, truth.Use = k.uses, admission.Duration(k.used/int64(k.uses))
	}
	return truth
}

// reconciles reports whether the operations in hand make the column anew.
func (r *Records) reconciles() bool {
	return r.ops[0] == &r.reconcileOp || r.ops[len(r.ops)-1].Kind == admission.OpReconcile
}

// grantUnseen tells the tickets that turned out to be granted.
func (r *Records) grantUnseen(e *admission.Effect) {
	r.unseen = append(r.unseen[:0], e.Unseen...)
	granted := admission.Effect{BreakerGen: e.BreakerGen, Probe: e.Probe}
	for _, seq := range r.unseen {
		if t := r.tickets[seq]; t != nil {
			r.stopWaiting(t)
			t.Waiter.Granted(r.granted(t, &granted))
		}
	}
}
