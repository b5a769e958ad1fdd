package admission_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/admissiontest"
)

// begin begins a turn.
func (p *pool) begin(i int, does deed) {
	w := &p.workers[i]
	w.turn = &turn{does: does, late: p.late, waits: p.waits, limit: p.limit}
	if does == deedReconcile {
		w.dirty = false
	}
}

func (p *pool) table() *admission.WorkerTable { return admissiontest.Alive(p.living()...) }

func (p *pool) living() (living []admission.Worker) {
	for i := range p.workers {
		if w := &p.workers[i]; w.born && p.seated(w.Worker) && !slices.Contains(p.dead, w.Worker) {
			living = append(living, w.Worker)
		}
	}
	return living
}

// ops makes the operations of a turn, from what the worker knows now.
func (p *pool) ops(i int, t *turn) (ops []admission.Op) {
	w := &p.workers[i]
	target := admission.Target{Now: timeWhen(t.late) + int64(t.waits)*recallWait, Me: w.Worker, Expect: p.involved(i),
		Limit: t.limit, Shaping: &admission.Shaping{}, Ahead: p.spares}
	if p.hold {
		target.Shaping.Hold.Success = longBudget
	}
	if t.does == deedRetune {
		target.Me, target.Expect, target.Ahead, target.Override = admission.Worker{}, false, false, t.tune
		return append(ops, admission.Retune(target, true))
	}
	if t.does >= deedMaintain {
		target.Expect = false
		return append(ops, admission.Maintain(target, t.does == deedAssert, admissiontest.Alive(t.living...)))
	}
	if t.rejoins && p.mutated != mutantNoRejoin {
		ops = append(ops, admission.Reconcile(unmarked(target), p.truth(i, true, false)))
		target.Expect = p.active(i)
	}
	if p.mutated != mutantJournalLast {
		ops = p.carry(ops, w, target, t)
	}
	switch t.does {
	case deedAcquire:
		for r := range p.requests {
			if q := &p.requests[r]; q.worker == i && q.now == phaseAsking {
				ops = append(ops, admission.Acquire(target, admission.Request{Tenant: q.tenant, Weight: 1, Seq: uint32(r + 1),
					Queue: p.queue, Fair: p.fair, Budget: admission.Duration(p.deadline(r) - target.Now)}))
			}
		}
	case deedExpire:
		ops = append(ops, admission.Expire(target))
	case deedReconcile:
		if t.ages && !t.rejoins {
			ops = append(ops, admission.Reconcile(target, p.truth(i, false, true)))
		} else if !t.rejoins || p.mutated == mutantNoRejoin {
			ops = append(ops, admission.Reconcile(unmarked(target), p.truth(i, false, false)))
		}
	}
	if p.mutated == mutantJournalLast {
		ops = p.carry(ops, w, target, t)
	}
	return ops
}

// carry appends what the worker's journal says. The worker's column has to be there for it.
func (p *pool) carry(ops []admission.Op, w *poolWorker, target admission.Target, t *turn) []admission.Op {
	target.Expect = !t.rejoins || p.mutated != mutantNoRejoin
	for _, e := range w.journal {
		tenant, seq := p.requests[e.request].tenant, uint32(e.request+1)
		op := admission.Release(target, tenant, seq, admission.Finish{Outcome: admission.OutcomeSuccess})
		if e.cancel {
			op = admission.Cancel(target, tenant, seq)
		}
		if ops = append(ops, op); p.mutated == mutantJournalTwice {
			op.Expect = false
			ops = append(ops, op)
		}
	}
	return ops
}

// truth is what a worker knows of its requests: as it is once its journal is stored, or as it was before; with its
// spares, or without.
func (p *pool) truth(i int, before, spares bool) (truth admission.Truth) {
	entry := func(tenant uint64) int {
		at := slices.IndexFunc(truth.Inflight, func(s admission.TenantInflight) bool { return s.Tenant == tenant })
		if at < 0 {
			at = len(truth.Inflight)
			truth.Inflight = append(truth.Inflight, admission.TenantInflight{Tenant: tenant, Weight: 1})
		}
		return at
	}
	for r, q := range p.requests {
		switch {
		case q.worker != i:
		case q.now == phaseRunning:
			truth.Inflight[entry(q.tenant)].Inflight++
		case q.now == phaseWaiting:
			t := admission.Ticket{Tenant: uint16(entry(q.tenant)), Seq: uint32(r + 1), Deadline: p.deadline(r)}
			truth.Waiting = append(truth.Waiting, t)
		}
	}
	if before {
		for _, e := range p.workers[i].journal {
			truth.Inflight[entry(p.requests[e.request].tenant)].Inflight++
		}
	}
	if spares {
		for _, tenant := range p.workers[i].spares {
			truth.Inflight[entry(tenant)].Inflight++
		}
	}
	return truth
}

func (p *pool) deadline(r int) int64 {
	q := &p.requests[r]
	if q.short {
		return timeWhen(q.missed) + int64(shortBudget)
	}
	return timeWhen(q.missed) + int64(longBudget)
}

// step makes the next host call of the turn under way.
func (p *pool) step(i int) error {
	w := &p.workers[i]
	t := w.turn
	switch t.next {
	case callTable:
		t.next, t.living = callSet, p.living()
		return p.check()
	case callGet:
		t.next, t.record, t.version = callSet, p.record, p.version
		if t.does == deedMaintain || t.does == deedAssert {
			t.next = callTable
		}
		if p.mutated == mutantTellFirst {
			_, e := p.mutatedSteps(t.record, p.ops(i, t))
			w.tellGrants(e)
		}
		return p.check()
	}
	next, e, err := p.steps(t.record, p.ops(i, t))
	if err == nil && t.does < deedMaintain && len(w.spares) > 0 && !e.Ahead && e.Verdict < admission.VerdictStale && !t.rejoins {
		t.rejoins = true // the mark is gone: the spares go back first
		next, e, err = p.steps(t.record, p.ops(i, t))
	}
	if err != nil {
		return err
	}
	t.next, t.living = callGet, nil
	switch {
	case e.Verdict == admission.VerdictFenced:
		p.fenced(i)
		return p.check()
	case t.version != p.version && e.Changed && p.mutated != mutantBlindSet:
		return p.check() // the swap is lost: it is tried again
	case e.Changed:
		p.record = slices.Clone(next)
		p.version++
		if e.Reaped > 0 {
			p.countReaped(t.record)
		}
	}
	if p.mutated != mutantTellFirst {
		w.tellGrants(e)
	}
	p.tellRecalls(i, e)
	if err := p.stored(i, e); err != nil {
		return err
	}
	return p.check()
}

// countReaped adds up the permits that have just been taken from the living.
func (p *pool) countReaped(before []byte) {
	var was, is admission.Record
	if was.Decode(before) != nil || is.Decode(p.record) != nil {
		return
	}
	for _, c := range was.Columns {
		gone := !slices.ContainsFunc(is.Columns, func(d admission.Column) bool { return d.Worker == c.Worker })
		if w := &p.workers[p.claimed[c.Epoch>>32-1]]; gone && !w.crashed {
			p.reaped += int(c.Inflight)
			if w.Worker == c.Worker {
				p.reaped -= len(w.spares) // which it will not use
			}
		}
	}
}

// steps is Machine.Steps, watched or mutated.
func (p *pool) steps(record []byte, ops []admission.Op) ([]byte, *admission.Effect, error) {
	if p.mutated != mutantNone {
		next, e := p.mutatedSteps(record, ops)
		return next, e, nil
	}
	pointers := make([]*admission.Op, len(ops))
	for i := range ops {
		pointers[i] = &ops[i]
	}
	next, e := p.m.Steps(record, pointers)
	*p.w = admissiontest.Watch{}
	if len(ops) == 1 {
		return next, e, p.w.Step(record, &ops[0], next, e)
	}
	state := record
	for i := range ops {
		n, one := p.judge.Step(state, &ops[i])
		if err := p.w.Step(state, &ops[i], n, one); err != nil {
			return nil, nil, err
		}
		if one.Verdict >= admission.VerdictStale {
			state = record
			break
		}
		if one.Changed {
			state = slices.Clone(n)
		}
	}
	if e.Changed && !bytes.Equal(state, next) || !e.Changed && !bytes.Equal(state, record) {
		return nil, nil, errors.New("operations in one step are not what they are one by one")
	}
	return next, e, nil
}

// mutatedSteps is Machine.Steps with the mutants that change a step.
func (p *pool) mutatedSteps(record []byte, ops []admission.Op) ([]byte, *admission.Effect) {
	next, sum := record, &admission.Effect{}
	for i := range ops {
		n, e := p.mutatedStep(next, &ops[i])
		if sum.Verdict = e.Verdict; e.Verdict >= admission.VerdictStale {
			return nil, &admission.Effect{Verdict: e.Verdict}
		}
		sum.Verdicts = append(sum.Verdicts, e.Verdict)
		sum.Grants = append(sum.Grants, e.Grants...)
		sum.Expired = append(sum.Expired, e.Expired...)
		sum.Unseen = append(sum.Unseen, e.Unseen...)
		sum.Reaped += e.Reaped
		sum.Ahead, sum.Recalls = e.Ahead, append(sum.Recalls, e.Recalls...)
		if e.Changed {
			next = slices.Clone(n)
		}
	}
	sum.Changed = !bytes.Equal(next, record)
	return next, sum
}

func (p *pool) mutatedStep(record []byte, op *admission.Op) ([]byte, *admission.Effect) {
	switch {
	case p.mutated == mutantWakeOnly && (op.Kind == admission.OpRelease || op.Kind == admission.OpCancel):
		return p.wakeOnly(record, op)
	case p.mutated == mutantOldEpochReaps:
		record = forgetEpochs(record, op)
	}
	next, e := p.m.Step(record, op)
	if p.mutated == mutantCancelForgotten && op.Kind == admission.OpCancel && e.Verdict == admission.VerdictGranted {
		e.Changed, e.Grants = false, e.Grants[:0]
	}
	return next, e
}

// wakeOnly is a step that frees a permit and grants it to no ticket: it only tells the oldest one to ask again.
func (p *pool) wakeOnly(record []byte, op *admission.Op) ([]byte, *admission.Effect) {
	var r admission.Record
	if r.Decode(record) != nil {
		return p.m.Step(record, op)
	}
	limit := r.Limit
	r.Limit = 0
	next, e := p.m.Step(r.Append(nil), op)
	if !e.Changed || r.Decode(next) != nil {
		return next, e
	}
	r.Limit = limit
	freed := op.Kind == admission.OpRelease || e.Verdict == admission.VerdictGranted
	if r.Queue.Len() > 0 && r.Inflight() < int(limit) && freed {
		t := r.Queue.At(0)
		column := slices.IndexFunc(r.Columns, func(c admission.Column) bool { return c.Seat == t.Seat })
		e.Grants = append(e.Grants, admission.Grant{Worker: r.Columns[column].Worker, Seq: t.Seq})
	}
	return r.Append(nil), e
}

// forgetEpochs makes the column of the worker's seat older than the worker.
func forgetEpochs(record []byte, op *admission.Op) []byte {
	var r admission.Record
	if r.Decode(record) != nil {
		return record
	}
	for i := range r.Columns {
		if c := &r.Columns[i]; c.Seat == op.Me.Seat && c.Epoch > op.Me.Epoch {
			c.Epoch = 1
		}
	}
	return r.Append(nil)
}

// fenced is what a worker does whose column is missing: it was declared dead. What it has is counted anew, as it was
// before its journal, and then the journal goes on.
func (p *pool) fenced(i int) {
	w := &p.workers[i]
	if p.mustBeat(i) && p.mutated != mutantOldEpochReaps {
		p.beat(i) // the filter renews its seat before it goes on
	}
	switch {
	case w.turn.does >= deedMaintain:
		w.turn = nil
	case p.mutated == mutantNoReassert:
		p.move(i, phaseAsking, phaseDone)
		w.journal, w.turn = nil, nil
	default:
		w.turn.rejoins = true
		if p.mutated != mutantSpareAfterDeath {
			w.ahead, w.spares = false, nil
		}
	}
}

// endTurn is what happens when the turn's swaps are lost to other workers, once too often: a later turn goes on.
func (p *pool) endTurn(i int) {
	w := &p.workers[i]
	switch does := w.turn.does; {
	case does == deedMaintain:
		w.swept = nil
	case does == deedAssert:
		w.asserts = true
	case does == deedReconcile || len(w.journal) > 0:
		w.dirty = true
	}
	if w.turn.does < deedMaintain && p.mutated == mutantForgetRelease {
		w.journal = nil
	}
	if w.turn = nil; p.mutated == mutantLetPass {
		p.move(i, phaseAsking, phaseRunning)
	}
	p.move(i, phaseAsking, phaseUndecided)
}

// move takes all of a worker's requests from one phase to another.
func (p *pool) move(i int, from, to phase) {
	for r := range p.requests {
		if q := &p.requests[r]; q.worker == i && q.now == from {
			q.now = to
		}
	}
}

// stored changes what the worker knows after a turn is stored.
func (p *pool) stored(i int, e *admission.Effect) error {
	w := &p.workers[i]
	t, does := w.turn, w.turn.does
	if does == deedRetune && e.Changed {
		p.override = t.tune
	}
	if w.turn = nil; does >= deedMaintain {
		return nil
	}
	w.journal = nil
	p.noteMark(i, t, e)
	for _, seq := range e.Unseen {
		if err := p.granted(i, seq); err != nil {
			return err
		}
	}
	switch does {
	case deedAcquire:
		p.decided(i, e.Verdicts)
		return p.checkOrder(i)
	case deedExpire:
		return p.expired(i, e)
	}
	return nil
}

// decided acts on the verdicts of the requests that were asking; the last ones are theirs.
func (p *pool) decided(i int, verdicts []admission.Verdict) {
	for r := len(p.requests) - 1; r >= 0; r-- {
		q := &p.requests[r]
		if q.worker != i || q.now != phaseAsking {
			continue
		}
		switch last := len(verdicts) - 1; verdicts[last] {
		case admission.VerdictGranted:
			q.now = phaseRunning
		case admission.VerdictWaiting:
			q.now = phaseWaiting
		case admission.VerdictRecalling:
			if q.now = phaseUndecided; p.mutated == mutantRefuseInRecall {
				q.now = phaseDone
				p.refused = true
			}
		default:
			q.now = phaseDone
		}
		verdicts = verdicts[:len(verdicts)-1]
	}
}

func (p *pool) expired(i int, e *admission.Effect) error {
	over := slices.Clone(e.Expired)
	for _, seq := range over {
		if r := &p.requests[seq-1]; r.now == phaseWaiting && p.mutated != mutantGrantExpired {
			r.now = phaseDone
		}
	}
	for r := range p.requests {
		if q := &p.requests[r]; q.worker == i && q.now == phaseWaiting && p.over(*q) {
			if err := p.granted(i, uint32(r+1)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *pool) granted(i int, seq uint32) error {
	q := &p.requests[seq-1]
	if q.worker != i || q.now != phaseWaiting {
		return fmt.Errorf("I2: request %d of worker %d granted to worker %d in phase %d", seq-1, q.worker, i, q.now)
	}
	q.now = phaseRunning
	return nil
}

func (p *pool) send(g message) {
	p.messages = append(p.messages, g)
	slices.SortFunc(p.messages, func(a, b message) int {
		return int(a.Seat)*100 + int(a.Seq) - int(b.Seat)*100 - int(b.Seq)
	})
}

// deliver hands a message to its worker, which looks into the record before it acts on it.
func (p *pool) deliver(m int) error {
	g := p.messages[m]
	p.messages = slices.Delete(p.messages, m, m+1)
	i := p.owner(g.Seat)
	w := &p.workers[i]
	if g.recall {
		p.heed(i)
		return p.check()
	}
	if w.Epoch != g.Epoch || p.requests[g.Seq-1].now != phaseWaiting {
		return p.check()
	}
	if p.mutated == mutantTrustMessage || p.mutated == mutantTellFirst {
		if err := p.granted(i, g.Seq); err != nil {
			return err
		}
		return p.check()
	}
	standing, _ := p.m.Look(p.record, &admission.Target{Me: w.Worker}, g.Seq)
	switch {
	case standing == admission.StandingGranted:
		if err := p.granted(i, g.Seq); err != nil {
			return err
		}
	case standing == admission.StandingUnknown:
		if p.mustBeat(i) {
			p.beat(i)
		}
		p.begin(i, deedReconcile)
	case p.mutated == mutantWakeOnly:
		p.begin(i, deedMaintain)
	}
	return p.check()
}
