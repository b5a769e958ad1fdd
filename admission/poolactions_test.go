package admission_test

import (
	"slices"

	"github.com/headgate/headgate/admission"
)

func (p *pool) quiet() bool {
	for i := range p.workers {
		if w := &p.workers[i]; len(w.stack)+len(w.tell) > 0 {
			return false
		}
	}
	return true
}

func (p *pool) actions(acts []action) []action {
	for i := range p.workers {
		acts = p.workerActions(acts, i)
	}
	for i := range p.messages {
		if i > 0 && p.messages[i] == p.messages[i-1] {
			continue
		}
		if w := p.owner(p.messages[i].Seat); w >= 0 && len(p.workers[w].stack)+len(p.workers[w].tell) == 0 {
			acts = append(acts, action{actDeliver, 0, uint8(i)})
		}
		if p.losses > 0 {
			acts = append(acts, action{actLose, 0, uint8(i)})
		}
	}
	shortWait := func(r request) bool { return r.short && !r.missed && r.now == phaseWaiting }
	if !p.late && slices.ContainsFunc(p.requests, shortWait) {
		acts = append(acts, action{kind: actLate})
	}
	return acts
}

// owner is the living worker that a seat's queue belongs to, or -1.
func (p *pool) owner(seat uint16) int {
	at := -1
	for i := range p.workers {
		if w := &p.workers[i]; w.born && !w.crashed && w.Seat == seat && (at < 0 || w.Epoch > p.workers[at].Epoch) {
			at = i
		}
	}
	return at
}

func (p *pool) workerActions(acts []action, i int) []action {
	w := &p.workers[i]
	who := uint8(i)
	if !w.born {
		if p.reuse && slices.Contains(p.dead, p.workers[0].Worker) || !p.reuse {
			acts = append(acts, action{actBirth, who, 0})
		}
		return acts
	}
	declared := slices.Contains(p.dead, w.Worker)
	if w.crashed {
		if !declared && p.seated(w.Worker) {
			acts = append(acts, action{actDeclare, who, 0})
		}
		return acts
	}
	if p.crashes > 0 {
		acts = append(acts, action{actCrash, who, 0})
	}
	if p.falseDeaths > 0 && !declared {
		acts = append(acts, action{actDeclare, who, 0})
	}
	switch {
	case len(w.stack) > 0:
		acts = append(acts, action{actStep, who, 0})
		if f := w.stack[len(w.stack)-1]; p.exhaustions > 0 && f.next == callSet && f.version != p.version {
			acts = append(acts, action{actGiveUp, who, 0})
		}
		return acts
	case len(w.tell) > 0:
		return append(acts, action{actSend, who, 0})
	}
	return p.tickActions(p.requestActions(acts, i), i)
}

// requestActions are those of a worker's requests.
func (p *pool) requestActions(acts []action, i int) []action {
	who := uint8(i)
	for r := range p.requests {
		if p.requests[r].worker != i {
			continue
		}
		switch what := uint8(r); p.requests[r].now {
		case phaseAhead:
			if r == 0 || p.requests[r-1].worker != i || p.requests[r-1].now > phaseAsking {
				acts = append(acts, action{actStart, who, what})
			}
		case phaseWaiting:
			acts = append(acts, action{actCancel, who, what})
		case phaseRunning, phaseStreaming:
			acts = append(acts, action{actFinish, who, what})
		}
	}
	return acts
}

// tickActions are those of a worker's tick.
func (p *pool) tickActions(acts []action, i int) []action {
	who := uint8(i)
	if p.mustBeat(i) {
		acts = append(acts, action{actBeat, who, 0})
	}
	if p.wantsMaintain(i) {
		acts = append(acts, action{actMaintain, who, 0})
	}
	if p.wantsReconcile(i) {
		acts = append(acts, action{actReconcile, who, 0})
	}
	if p.wantsExpire(i) {
		acts = append(acts, action{actExpire, who, 0})
	}
	if p.raises > 0 {
		acts = append(acts, action{actRaise, who, 0})
	}
	return acts
}

// seated says whether a worker has its seat: no later one has it.
func (p *pool) seated(w admission.Worker) bool {
	for i := range p.workers {
		if o := &p.workers[i]; o.born && o.Seat == w.Seat && o.Epoch > w.Epoch {
			return false
		}
	}
	return true
}

func (p *pool) mustBeat(i int) bool {
	w := &p.workers[i]
	return slices.Contains(p.dead, w.Worker) || !p.seated(w.Worker)
}

// wantsMaintain says whether a worker has died, so that the record is to be maintained. The filter maintains all
// records when it sees a death that is new to it, and once in a lease while a worker is dead.
func (p *pool) wantsMaintain(i int) bool {
	w := &p.workers[i]
	switch p.mutated {
	case mutantNoReaper:
		return false
	case mutantSweepOnce:
		return slices.ContainsFunc(p.dead, func(d admission.Worker) bool {
			return d != w.Worker && !slices.Contains(w.swept, d)
		})
	}
	if len(p.dead) == 0 && !p.reuse {
		return false
	}
	var r admission.Record
	dead := func(c admission.Column) bool { return c.Worker != w.Worker && !p.table().Alive(c.Worker) }
	return r.Decode(p.record) == nil && slices.ContainsFunc(r.Columns, dead)
}

func (p *pool) wantsReconcile(i int) bool {
	w := &p.workers[i]
	if p.mustBeat(i) {
		return false // a tick begins with that
	}
	return w.dirty || p.waits(i) && p.mutated != mutantNoScan && p.mutated != mutantWakeOnly
}

func (p *pool) waits(i int) bool {
	return slices.ContainsFunc(p.requests, func(r request) bool { return r.worker == i && r.now == phaseWaiting })
}

func (p *pool) wantsExpire(i int) bool {
	over := func(r request) bool { return r.worker == i && p.over(r) }
	return p.mutated != mutantNoExpire && !p.mustBeat(i) && slices.ContainsFunc(p.requests, over)
}

// over says whether a request has waited for all its budget.
func (p *pool) over(r request) bool { return p.late && r.short && !r.missed && r.now == phaseWaiting }

// involved says whether the worker should have a column.
func (p *pool) involved(i int) bool {
	return slices.ContainsFunc(p.requests, func(r request) bool {
		return r.worker == i && (r.now == phaseWaiting || r.now == phaseRunning)
	})
}

func (p *pool) do(a action) error {
	i := int(a.who)
	var w *poolWorker
	if i < len(p.workers) {
		w = &p.workers[i]
	}
	switch a.kind {
	case actStart:
		p.requests[a.what].now, p.requests[a.what].missed = phaseAsking, p.late
		p.call(i, admission.OpAcquire, int(a.what))
	case actFinish:
		return p.finish(i, int(a.what))
	case actCancel:
		p.requests[a.what].now = phaseDone
		p.call(i, admission.OpCancel, int(a.what))
	case actStep:
		return p.step(i)
	case actGiveUp:
		p.exhaustions--
		p.giveUp(i)
	case actSend:
		p.send(w.tell[0])
		w.tell = w.tell[1:]
	case actDeliver:
		return p.deliver(int(a.what))
	case actLose:
		p.losses--
		p.messages = slices.Delete(p.messages, int(a.what), int(a.what)+1)
	case actReconcile:
		w.dirty = false
		p.call(i, admission.OpReconcile, 0)
	case actExpire:
		p.call(i, admission.OpExpire, 0)
	case actMaintain:
		w.swept = slices.Clone(p.dead)
		p.call(i, admission.OpMaintain, 0)
	case actBeat:
		p.beat(i)
	case actDeclare:
		p.declare(i)
	case actCrash:
		p.crashes--
		p.crash(i)
	case actLate:
		p.late = true
	case actRaise:
		p.raises--
		p.limit = p.raise
		p.call(i, admission.OpMaintain, 1)
	case actBirth:
		p.birth(i)
	}
	return p.check()
}

func (p *pool) finish(i, r int) error {
	q := &p.requests[r]
	if p.mutated == mutantEarlyRelease {
		if q.now == phaseStreaming {
			q.now = phaseDone
			return p.check()
		}
		q.now = phaseStreaming
	} else {
		q.now = phaseDone
	}
	p.call(i, admission.OpRelease, r)
	return p.check()
}

// beat is a worker's beat that is refused. The worker comes back as a new incarnation, in its own seat if no other has
// that, and counts anew what it has.
func (p *pool) beat(i int) {
	w := &p.workers[i]
	seated := p.seated(w.Worker)
	p.dead = slices.DeleteFunc(p.dead, func(d admission.Worker) bool { return d == w.Worker })
	if p.mutated == mutantQuietRevival && seated {
		return
	}
	w.Epoch = p.claim(i)
	if !seated {
		w.Seat = uint16(len(p.workers) + i)
	}
	w.dirty = w.dirty || p.involved(i) && p.mutated != mutantNoReassert
}

func (p *pool) declare(i int) {
	w := &p.workers[i]
	if !w.crashed {
		p.falseDeaths--
	}
	p.dead = append(p.dead, w.Worker)
}

func (p *pool) crash(i int) {
	w := &p.workers[i]
	w.crashed, w.dirty, w.stack, w.tell, w.swept = true, false, nil, nil, nil
	for r := range p.requests {
		if q := &p.requests[r]; q.worker == i && q.now != phaseDone {
			q.now = phaseCut
		}
	}
}

// claim numbers a worker's next incarnation.
func (p *pool) claim(i int) (epoch uint64) {
	p.claims++
	p.claimed = append(slices.Clip(p.claimed), i)
	return p.claims << 32
}

// birth seats a worker: with reuse in the seat of the dead first one, otherwise in its own.
func (p *pool) birth(i int) {
	w := &p.workers[i]
	w.born, w.Epoch = true, p.claim(i)
	if p.reuse {
		w.Seat = p.workers[0].Seat
		p.dead = slices.DeleteFunc(p.dead, func(d admission.Worker) bool { return d == p.workers[0].Worker })
		p.call(i, admission.OpMaintain, 0)
	}
}
