package admission_test

import (
	"errors"
	"fmt"
	"slices"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/admissiontest"
)

// call begins an operation.
func (p *pool) call(i int, kind admission.OpKind, request int) {
	p.workers[i].stack = append(p.workers[i].stack, frame{kind: kind, request: request, late: p.late, limit: p.limit})
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

// op makes the operation of a frame, from what the worker knows now.
func (p *pool) op(i int, f *frame) admission.Op {
	r, seq := &p.requests[f.request], uint32(f.request+1)
	target := admission.Target{Now: timeWhen(f.late), Me: p.workers[i].Worker, Expect: p.involved(i), Limit: f.limit}
	expecting := target
	expecting.Expect = true
	switch f.kind {
	case admission.OpAcquire:
		budget := longBudget
		if r.short {
			budget = shortBudget
		}
		return admission.Acquire(target, admission.Request{Tenant: r.tenant, Weight: 1, Seq: seq, Queue: p.queue,
			Fair: p.fair, Budget: budget})
	case admission.OpRelease:
		return admission.Release(expecting, r.tenant, seq, admission.Finish{})
	case admission.OpCancel:
		return admission.Cancel(expecting, r.tenant, seq)
	case admission.OpReconcile:
		return admission.Reconcile(target, p.truth(i))
	case admission.OpMaintain:
		target.Expect = false
		return admission.Maintain(target, f.request == 1, admissiontest.Alive(f.living...))
	}
	return admission.Expire(target)
}

// truth is what a worker knows of its requests.
func (p *pool) truth(i int) (truth admission.Truth) {
	for k, q := range p.requests {
		if q.worker != i || q.now != phaseRunning && q.now != phaseWaiting {
			continue
		}
		at := slices.IndexFunc(truth.Inflight, func(s admission.TenantInflight) bool { return s.Tenant == q.tenant })
		if at < 0 {
			at = len(truth.Inflight)
			truth.Inflight = append(truth.Inflight, admission.TenantInflight{Tenant: q.tenant, Weight: 1})
		}
		if q.now == phaseRunning {
			truth.Inflight[at].Inflight++
			continue
		}
		t := admission.Ticket{Tenant: uint16(at), Seq: uint32(k + 1), Deadline: p.deadline(k)}
		truth.Waiting = append(truth.Waiting, t)
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

// step makes the next host call of the operation under way.
func (p *pool) step(i int) error {
	w := &p.workers[i]
	f := &w.stack[len(w.stack)-1]
	switch f.next {
	case callTable:
		f.next, f.living = callSet, p.living()
		return p.check()
	case callGet:
		f.next, f.record, f.version = callSet, p.record, p.version
		if f.kind == admission.OpMaintain {
			f.next = callTable
		}
		if p.mutated == mutantTellFirst {
			op := p.op(i, f)
			_, e := p.m.Step(f.record, &op)
			w.tell = append(w.tell, e.Grants...)
		}
		return p.check()
	}
	op := p.op(i, f)
	next, e, err := p.mutatedStep(f.record, &op)
	if err != nil {
		return err
	}
	f.next, f.living = callGet, nil
	switch {
	case e.Verdict == admission.VerdictFenced:
		p.fenced(i, f)
		return p.check()
	case f.version != p.version && e.Changed && p.mutated != mutantBlindSet:
		return p.check() // the swap is lost: it is tried again
	case e.Changed:
		p.record = slices.Clone(next)
		p.version++
		if e.Reaped > 0 {
			p.countReaped(f.record)
		}
	}
	kind, request := f.kind, f.request
	w.stack = w.stack[:len(w.stack)-1]
	if p.mutated != mutantTellFirst {
		w.tell = append(w.tell, e.Grants...)
	}
	if err := p.finishOp(i, kind, request, e); err != nil {
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
		if gone && !p.workers[p.claimed[c.Epoch>>32-1]].crashed {
			p.reaped += int(c.Inflight)
		}
	}
}

// mutatedStep is Machine.Step, watched, with the mutants that change it.
func (p *pool) mutatedStep(record []byte, op *admission.Op) ([]byte, *admission.Effect, error) {
	switch {
	case p.mutated == mutantWakeOnly && (op.Kind == admission.OpRelease || op.Kind == admission.OpCancel):
		next, e := p.wakeOnly(record, op)
		return next, e, nil
	case p.mutated == mutantOldEpochReaps:
		record = forgetEpochs(record, op)
	}
	next, e := p.m.Step(record, op)
	if p.mutated == mutantCancelForgotten && op.Kind == admission.OpCancel && e.Verdict == admission.VerdictGranted {
		e.Changed, e.Grants = false, e.Grants[:0]
		return nil, e, nil
	}
	*p.w = admissiontest.Watch{}
	if p.mutated != mutantNone {
		return next, e, nil
	}
	return next, e, p.w.Step(record, op, next, e)
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

// fenced is an operation whose worker's column is missing: the worker was declared dead. What it has is counted anew.
func (p *pool) fenced(i int, f *frame) {
	w := &p.workers[i]
	if p.mustBeat(i) && p.mutated != mutantOldEpochReaps {
		p.beat(i) // the filter renews its seat before it goes on
	}
	if p.mutated == mutantNoReassert {
		if f.kind == admission.OpAcquire {
			p.requests[f.request].now = phaseDone
		}
		w.stack = w.stack[:len(w.stack)-1]
		return
	}
	switch f.kind {
	case admission.OpAcquire:
		w.stack = append(w.stack, frame{kind: admission.OpReconcile, late: f.late, limit: f.limit})
	default:
		*f = frame{kind: admission.OpReconcile, late: f.late, limit: f.limit}
	}
}

// giveUp is what happens when too many swaps have failed.
func (p *pool) giveUp(i int) {
	w := &p.workers[i]
	for _, f := range w.stack {
		switch f.kind {
		case admission.OpAcquire:
			p.requests[f.request].now = phaseDone // on_error decides; it holds nothing
		case admission.OpMaintain:
			w.swept = nil
		default:
			w.dirty = true
		}
	}
	w.stack = w.stack[:0]
}

// finishOp changes what the worker knows after an operation is stored.
func (p *pool) finishOp(i int, kind admission.OpKind, request int, e *admission.Effect) error {
	switch kind {
	case admission.OpAcquire:
		switch e.Verdict {
		case admission.VerdictGranted:
			p.requests[request].now = phaseRunning
		case admission.VerdictWaiting:
			p.requests[request].now = phaseWaiting
		default:
			p.requests[request].now = phaseDone
		}
	case admission.OpReconcile:
		for _, seq := range e.Unseen {
			if err := p.granted(i, seq); err != nil {
				return err
			}
		}
	case admission.OpExpire:
		return p.expired(i, e)
	case admission.OpMaintain:
		if e.Reaped > 0 && p.mutated == mutantNoReaper {
			return errors.New("no reaper")
		}
	}
	return nil
}

func (p *pool) expired(i int, e *admission.Effect) error {
	over := slices.Clone(e.Expired)
	for _, seq := range over {
		if r := &p.requests[seq-1]; r.now == phaseWaiting && p.mutated != mutantGrantExpired {
			r.now = phaseDone
		}
	}
	for r := range p.requests {
		if q := &p.requests[r]; q.worker == i && p.over(*q) {
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

func (p *pool) send(g admission.Grant) {
	p.messages = append(p.messages, g)
	slices.SortFunc(p.messages, func(a, b admission.Grant) int {
		return int(a.Seat)*100 + int(a.Seq) - int(b.Seat)*100 - int(b.Seq)
	})
}

// deliver hands a message to its worker, which looks into the record before it acts on it.
func (p *pool) deliver(m int) error {
	g := p.messages[m]
	p.messages = slices.Delete(p.messages, m, m+1)
	i := p.owner(g.Seat)
	w := &p.workers[i]
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
		p.call(i, admission.OpReconcile, 0)
	case p.mutated == mutantWakeOnly:
		p.call(i, admission.OpMaintain, 0)
	}
	return p.check()
}
