package filter

import (
	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/filter/abi"
)

// maxSwaps is how often a step is tried against other workers' swaps before the caller is told that the store failed.
const maxSwaps = 16

// fenced is the effect of an operation that a sync has taken the place of.
var fenced = admission.Effect{Verdict: admission.VerdictFenced}

// prepare resets an operation for a key.
func (p *plugin) prepare(op *admission.Op, kind admission.OpKind, k *key) *admission.Op {
	op.Kind, op.Now, op.Gen, op.Name, op.Me, op.Expect = kind, p.now, k.place.Gen, k.name, p.seat, k.involved()
	op.Assert, op.Limit, op.Live, op.Pool, op.Probe = false, k.limit, nil, k.pool.Pool, k.probe
	op.Settle = admission.Duration(p.beatInterval() + p.beatInterval()/2)
	op.Outcome, op.Pushback, op.RetryAfter = admission.OutcomeNone, false, 0
	op.Running, op.Waiting = op.Running[:0], op.Waiting[:0]
	return op
}

// step carries out p.op on a key's record until it is stored, and tells whom it concerns. Nil: the store failed and
// nothing is changed, or the key has lost its place and there is no other.
func (p *plugin) step(k *key) *admission.Effect {
	for range maxSwaps {
		e, stored := p.try(k, &p.op, nil)
		if e == nil {
			return nil
		}
		switch {
		case e.Verdict == admission.VerdictStale:
			if !p.relocate(k) {
				return nil
			}
			p.op.Gen = k.place.Gen
		case e.Verdict == admission.VerdictFenced:
			synced := p.renew() && p.sync(k)
			if p.op.Kind != admission.OpAcquire {
				return &fenced
			}
			if !synced {
				return nil
			}
			p.op.Me = p.seat
		case stored:
			return e
		}
	}
	return nil
}

// try makes one attempt at a step. The effect is nil if the store can't be read; stored says that the step is done. With
// live set, the worker table is read anew behind the record, so that it knows everybody whom the record names.
func (p *plugin) try(k *key, op *admission.Op, live *admission.WorkerTable) (e *admission.Effect, stored bool) {
	state, cas, s := abi.GetShared(k.data)
	switch s {
	case abi.StatusOK:
	case abi.StatusNotFound:
		if op.Kind == admission.OpTend {
			return nil, false // nothing there to tend
		}
		state, cas = nil, abi.CreateIfAbsent
	default:
		return nil, false
	}
	if live != nil {
		p.out = append(p.out[:0], state...)
		state = p.out
		p.readTable(live)
	}
	next, e := p.machine.Step(state, op)
	p.expect(k, e.Next)
	if !e.Changed {
		return e, e.Verdict < admission.VerdictStale
	}
	stats := &k.pool.stats
	p.raise(stats, e)
	if abi.SetShared(k.data, next, cas) != abi.StatusOK {
		p.unraise(stats, e)
		abi.Increment(stats.casRetry, 1)
		return e, false
	}
	p.lower(stats, e)
	for i := range e.Grants {
		p.tell(e.Grants[i])
	}
	return e, true
}

// expect remembers when time alone will free something in a key's record, so that the tick sees to it.
func (p *plugin) expect(k *key, at int64) {
	k.next = at
	if at == 0 {
		return
	}
	if !k.timed {
		k.timed = true
		p.timed = append(p.timed, k)
	}
	p.wakeBy(at)
}

func (p *plugin) raise(stats *poolStats, e *admission.Effect) {
	move(stats.inflight, max(e.UsedDelta, 0))
	move(stats.queued, max(e.QueuedDelta, 0))
	move(stats.held, max(e.HeldDelta, 0))
}

func (p *plugin) unraise(stats *poolStats, e *admission.Effect) {
	move(stats.inflight, -max(e.UsedDelta, 0))
	move(stats.queued, -max(e.QueuedDelta, 0))
	move(stats.held, -max(e.HeldDelta, 0))
}

func (p *plugin) lower(stats *poolStats, e *admission.Effect) {
	move(stats.inflight, min(e.UsedDelta, 0))
	move(stats.queued, min(e.QueuedDelta, 0))
	move(stats.held, min(e.HeldDelta, 0))
	if e.Reaped > 0 {
		abi.Increment(stats.reaped, int64(e.Reaped))
		p.doubt = true
	}
	if e.Replaced {
		abi.Increment(stats.storeError, 1)
		p.doubt = true
	}
}

// sync makes the record say what is true here, and lets waiters go on that had been granted unnoticed; false if the
// store failed.
func (p *plugin) sync(k *key) bool {
	for range maxSwaps {
		p.truth(k)
		e, stored := p.try(k, &p.syncOp, nil)
		switch {
		case e == nil:
			p.failed(k)
			return false
		case e.Verdict == admission.VerdictStale:
			if !p.relocate(k) {
				p.failed(k)
				return false
			}
		case e.Verdict == admission.VerdictFenced: // the seat has become a later worker's
			if !p.renew() {
				p.failed(k)
				return false
			}
		case stored:
			p.noticeGrants(e)
			return true
		}
	}
	p.failed(k)
	return false
}

// truth fills syncOp with what this context knows of a key.
func (p *plugin) truth(k *key) {
	op := p.prepare(&p.syncOp, admission.OpSync, k)
	k.tidy()
	for _, s := range k.queue {
		k.share(s.share(k))
	}
	op.Running = append(op.Running, k.running...)
	for _, s := range k.queue {
		op.Waiting = append(op.Waiting, admission.Ticket{Tenant: uint16(k.share(s.share(k))), Seq: s.seq,
			Deadline: s.due, Budget: uint32((s.due - s.since) / int64(admission.Millisecond))})
	}
}

// noticeGrants queues the streams whose tickets turned out to be granted; the tick or the current callback resumes them.
func (p *plugin) noticeGrants(e *admission.Effect) {
	for _, seq := range e.Mine {
		if s, ok := p.waiting[seq]; ok {
			p.stopWaiting(s)
			s.take(e)
			p.decide(s, fateGranted)
		}
	}
}

// failed counts a failure of the store and remembers to make up for it.
func (p *plugin) failed(k *key) {
	abi.Increment(k.pool.stats.storeError, 1)
	p.mark(k)
}

// mark remembers that a key's record has to be put right.
//
//go:noinline // as stopWaiting
func (p *plugin) mark(k *key) {
	if !k.dirty {
		k.dirty = true
		p.dirty = append(p.dirty, k)
	}
	p.wakeBy(p.now + dirtyRetry)
}
