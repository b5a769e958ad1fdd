package admission_test

import (
	"fmt"
	"slices"

	"github.com/headgate/headgate/admission"
)

// The spares of the pool world: what its workers do between two steps.

// A message is a grant, or a recall.
type message struct {
	admission.Grant
	recall bool
}

func (w *poolWorker) tellGrants(e *admission.Effect) {
	for _, g := range e.Grants {
		w.tell = append(w.tell, message{Grant: g})
	}
}

// tellRecalls lets a worker tell the others that their marks are gone, or note that its own is.
func (p *pool) tellRecalls(i int, e *admission.Effect) {
	w := &p.workers[i]
	for _, c := range e.Recalls {
		switch {
		case c == w.Worker:
			w.ahead, w.dirty = false, w.dirty || len(w.spares) > 0
		case p.mutated != mutantNoRecall:
			w.tell = append(w.tell, message{Grant: admission.Grant{Worker: c}, recall: true})
		}
	}
}

// unmarked is a target whose operation keeps no spares.
func unmarked(t admission.Target) admission.Target {
	t.Ahead = false
	return t
}

// settled says whether a worker has nothing under way, so that it may keep and take permits. A worker looks at its lease
// first.
func (p *pool) settled(i int) bool {
	if p.mustBeat(i) {
		p.beat(i)
	}
	w := &p.workers[i]
	return w.ahead && len(w.journal) == 0 && !w.dirty && !p.hasRequest(i, phaseWaiting) &&
		!p.hasRequest(i, phaseUndecided) && !p.hasRequest(i, phaseAsking)
}

// keep lets a permit stay with its worker.
func (p *pool) keep(i int, tenant uint64) bool {
	if !p.spares || p.hold || !p.settled(i) {
		return false
	}
	w := &p.workers[i]
	if w.spares = append(w.spares, tenant); p.mutated == mutantSpareTwice {
		w.spares = append(w.spares, tenant)
	}
	slices.Sort(w.spares)
	return true
}

// take gives a request a spare.
func (p *pool) take(i int, tenant uint64) bool {
	if !p.spares || !p.settled(i) {
		return false
	}
	w := &p.workers[i]
	at := slices.Index(w.spares, tenant)
	if p.mutated == mutantAnyTenant {
		at = len(w.spares) - 1
	}
	if at >= 0 {
		w.spares = slices.Delete(w.spares, at, at+1)
	}
	return at >= 0
}

// spareActions are those of a tick that looks at the spares.
func (p *pool) spareActions(acts []action, i int) []action {
	w := &p.workers[i]
	if p.mutated == mutantNoAging || p.mustBeat(i) {
		return acts
	}
	if w.ahead || len(w.spares) > 0 {
		acts = append(acts, action{actAge, uint8(i), 0})
	}
	if len(w.spares) > 0 {
		acts = append(acts, action{actAge, uint8(i), 1})
	}
	return acts
}

// age looks at a worker's spares. Those that were needed stay, if the mark is still there.
func (p *pool) age(i int, back bool) {
	p.begin(i, deedReconcile)
	p.workers[i].turn.ages = !back
}

// noteMark is what a stored turn says of the worker's spares.
func (p *pool) noteMark(i int, t *turn, e *admission.Effect) {
	w := &p.workers[i]
	if w.ahead = e.Ahead; t.rejoins || t.does == deedReconcile && !t.ages {
		if p.mutated != mutantSpareAfterSync {
			w.spares = nil
		}
	}
	if p.mutated == mutantGrantIsSpare && w.ahead {
		p.spareIsTheRest(i)
	}
}

// spareIsTheRest takes for spare what the record counts for a worker beside what runs.
func (p *pool) spareIsTheRest(i int) {
	w := &p.workers[i]
	c := p.column(w.Worker)
	run, tenant := 0, uint64(0)
	for _, q := range p.requests {
		if q.worker == i {
			run += int(bit(q.now == phaseRunning || q.now == phaseAsking))
			tenant = q.tenant
		}
	}
	for w.spares = nil; run+len(w.spares) < int(c.Inflight); {
		w.spares = append(w.spares, tenant)
	}
}

// heed is a recall's arrival: the worker gives its spares back.
func (p *pool) heed(i int) {
	w := &p.workers[i]
	if !w.ahead && len(w.spares) == 0 || p.mutated == mutantIgnoreRecall {
		return
	}
	if p.mustBeat(i) {
		p.beat(i)
	}
	if w.ahead = false; len(w.spares) > 0 {
		p.begin(i, deedReconcile)
	}
}

// recalling says whether an undecided request waits for a recall.
func (p *pool) recalling() bool {
	var r admission.Record
	undecided := slices.ContainsFunc(p.requests, func(r request) bool { return r.now == phaseUndecided })
	return undecided && r.Decode(p.record) == nil && r.RecallUntil > p.time()
}

// column is what the record has of a worker.
func (p *pool) column(w admission.Worker) (column admission.Column) {
	var r admission.Record
	if r.Decode(p.record) == nil {
		for _, c := range r.Columns {
			if c.Worker == w {
				column = c
			}
		}
	}
	return column
}

// checkCounted checks that a record counts all of a worker's requests and spares, and each for its tenant. A worker that
// has to count anew has no spares.
func (p *pool) checkCounted(i int, r *admission.Record) error {
	w := &p.workers[i]
	run, has := 0, map[uint64]int{}
	for _, q := range p.requests {
		if q.worker == i && q.now == phaseRunning {
			run++
			has[q.tenant]++
		}
	}
	c := p.column(w.Worker)
	switch {
	case len(w.spares) == 0 && c.Inflight == 0:
		return nil
	case run+len(w.spares) > int(c.Inflight):
		return fmt.Errorf("I1: worker %d runs %d and has %d spares, of %d permits", i, run, len(w.spares), c.Inflight)
	}
	for _, tenant := range w.spares {
		has[tenant]++
	}
	for _, h := range r.Holders {
		if h.Seat == w.Seat {
			has[r.Tenants[h.Tenant].ID] -= int(h.Inflight)
		}
	}
	for tenant, n := range has {
		if n > 0 {
			return fmt.Errorf("I3: worker %d runs or has spare %d that are not counted for tenant %d", i, n, tenant)
		}
	}
	return nil
}

// checkSpares is what must hold at any time: a worker's requests and spares are all counted (I1), and one that believes
// itself ahead is, or is about to hear that it isn't (I4).
func (p *pool) checkSpares() error {
	if !p.spares {
		return nil
	}
	var r admission.Record
	if p.record != nil && r.Decode(p.record) == nil && r.Inflight() > max(p.first, p.raise)+p.reaped {
		return fmt.Errorf("I1: %d permits at a limit of %d, %d reaped by mistake", r.Inflight(), max(p.first, p.raise), p.reaped)
	}
	if p.refused && r.RecallUntil > p.time() {
		return fmt.Errorf("I4: refused while spares are called back")
	}
	for i := range p.workers {
		w := &p.workers[i]
		if !w.born || w.crashed || p.mustBeat(i) {
			continue
		}
		c := p.column(w.Worker)
		if err := p.checkCounted(i, &r); err != nil {
			return err
		}
		told := func(m message) bool { return m.recall && m.Seat == w.Seat }
		due := p.unsent || w.dirty || w.turn != nil || slices.ContainsFunc(p.messages, told) ||
			slices.ContainsFunc(p.workers, func(o poolWorker) bool { return slices.ContainsFunc(o.tell, told) })
		if (w.ahead || len(w.spares) > 0) && !c.Ahead && !due {
			return fmt.Errorf("I4: worker %d has %d spares, and nothing tells it that its mark is gone", i, len(w.spares))
		}
	}
	return nil
}
