package admission_test

import (
	"slices"

	"github.com/headgate/headgate/admission"
)

// busy says whether a worker is in the middle of a turn, or has still to tell of grants.
func (w *poolWorker) busy() bool { return w.turn != nil || len(w.tell) > 0 }

func (p *pool) quiet() bool {
	for i := range p.workers {
		if p.workers[i].busy() {
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
		if w := p.owner(p.messages[i].Seat); w >= 0 && !p.workers[w].busy() {
			acts = append(acts, action{actDeliver, 0, uint8(i)})
		}
		if p.losses > 0 {
			acts = append(acts, action{actLose, 0, uint8(i)})
		}
	}
	shortWait := func(r request) bool {
		return r.short && !r.missed && (r.now == phaseWaiting || r.now == phaseUndecided)
	}
	if !p.late && slices.ContainsFunc(p.requests, shortWait) {
		acts = append(acts, action{kind: actLate})
	}
	if p.spares && p.recalling() {
		acts = append(acts, action{kind: actWait})
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
	case w.turn != nil:
		acts = append(acts, action{actStep, who, 0})
		if t := w.turn; !p.calm && t.does != deedRetune && t.next == callSet && t.version != p.version {
			acts = append(acts, action{actEndTurn, who, 0})
		}
		return acts
	case len(w.tell) > 0:
		return append(acts, action{actSend, who, 0})
	}
	return p.tickActions(p.requestActions(acts, i), i)
}

// requestActions are those of a worker's requests, which come in order.
func (p *pool) requestActions(acts []action, i int) []action {
	who := uint8(i)
	ahead := false
	for r := range p.requests {
		if p.requests[r].worker != i {
			continue
		}
		if q := p.requests[r]; q.joined && (q.now == phaseAhead || p.requests[r-1].now == q.now) {
			continue // as good as the one before
		}
		switch what := uint8(r); p.requests[r].now {
		case phaseAhead:
			if !ahead {
				acts = append(acts, action{actStart, who, what})
			}
			ahead = true
		case phaseUndecided:
			acts = append(acts, action{actCancel, who, what})
			if p.over(p.requests[r]) {
				acts = append(acts, action{actDrop, who, what})
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
	if p.hasRequest(i, phaseUndecided) {
		acts = append(acts, action{actDecide, who, 0})
	}
	if p.workers[i].asserts {
		acts = append(acts, action{actAssert, who, 0})
	}
	if p.raises > 0 {
		acts = append(acts, action{actRaise, who, 0})
	}
	if p.faults.retunes > 0 {
		acts = append(acts, action{actRetune, who, 0})
	}
	return p.spareActions(acts, i)
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
	looks := p.mutated != mutantNoScan && p.mutated != mutantWakeOnly
	return w.dirty || looks && p.hasRequest(i, phaseWaiting)
}

func (p *pool) hasRequest(i int, now phase) bool {
	return slices.ContainsFunc(p.requests, func(r request) bool { return r.worker == i && r.now == now })
}

func (p *pool) wantsExpire(i int) bool {
	over := func(r request) bool { return r.worker == i && r.now == phaseWaiting && p.over(r) }
	return p.mutated != mutantNoExpire && !p.mustBeat(i) && slices.ContainsFunc(p.requests, over)
}

// over says whether a request has used up its budget.
func (p *pool) over(r request) bool { return p.late && r.short && !r.missed }

// involved says whether the worker should have a column.
func (p *pool) involved(i int) bool {
	return p.active(i) || len(p.workers[i].spares) > 0
}

// active is involved but for spares.
func (p *pool) active(i int) bool {
	return p.hasRequest(i, phaseWaiting) || p.hasRequest(i, phaseRunning)
}

func (p *pool) do(a action) error {
	i := int(a.who)
	var w *poolWorker
	if i < len(p.workers) {
		w = &p.workers[i]
	}
	switch a.kind {
	case actStart:
		p.ask(i, int(a.what))
	case actFinish:
		p.finish(i, int(a.what))
	case actCancel:
		p.cancel(i, int(a.what))
	case actDecide:
		p.decide(i)
	case actDrop:
		p.requests[a.what].now = phaseDone
	case actStep:
		return p.step(i)
	case actEndTurn:
		p.endTurn(i)
	case actSend:
		p.send(w.tell[0])
		w.tell = w.tell[1:]
	case actAge:
		p.age(i, a.what == 1)
	case actWait:
		p.waits++
	case actDeliver:
		return p.deliver(int(a.what))
	case actLose:
		p.losses--
		p.unsent = p.unsent || p.messages[a.what].recall
		p.messages = slices.Delete(p.messages, int(a.what), int(a.what)+1)
	case actReconcile:
		p.begin(i, deedReconcile)
	case actExpire:
		p.begin(i, deedExpire)
	case actMaintain:
		w.swept = slices.Clone(p.dead)
		p.begin(i, deedMaintain)
	case actBeat:
		p.beat(i)
	case actDeclare:
		p.declare(i)
	case actCrash:
		p.crashes--
		p.crash(i)
	case actLate:
		p.late = true
	case actRaise, actAssert, actRetune:
		p.beginLimit(a.kind, i)
	case actBirth:
		p.birth(i)
	}
	return p.check()
}

// ask is a request's coming. It doesn't overtake one that is undecided.
func (p *pool) ask(i, r int) {
	for n := r; n < len(p.requests) && (n == r || p.requests[n].joined); n++ {
		q := &p.requests[n]
		q.missed = p.late
		switch {
		case p.crowd || p.hasRequest(i, phaseUndecided) && p.mutated != mutantOvertake:
			q.now = phaseUndecided
		case p.take(i, q.tenant):
			q.now = phaseRunning
		default:
			q.now = phaseAsking
		}
	}
	if p.hasRequest(i, phaseAsking) {
		p.begin(i, deedAcquire)
	}
}

// decide asks again for all of a worker's undecided requests.
func (p *pool) decide(i int) {
	p.move(i, phaseUndecided, phaseAsking)
	p.begin(i, deedAcquire)
}

func (p *pool) finish(i, r int) {
	q, w := &p.requests[r], &p.workers[i]
	switch {
	case p.mutated == mutantEarlyRelease && q.now == phaseStreaming:
		q.now = phaseDone
		return
	case p.mutated == mutantEarlyRelease:
		q.now = phaseStreaming
	default:
		q.now = phaseDone
	}
	q.said = true
	if p.keep(i, q.tenant) {
		return
	}
	w.journal = append(w.journal, ending{request: r})
	p.begin(i, deedNothing)
}

func (p *pool) cancel(i, r int) {
	q, w := &p.requests[r], &p.workers[i]
	waited := q.now == phaseWaiting
	switch q.now = phaseDone; {
	case !waited: // nothing of it is stored
	case p.crowd:
		w.dirty = true
	default:
		w.journal = append(w.journal, ending{request: r, cancel: true})
		p.begin(i, deedNothing)
	}
}

// beat is a worker's beat that is refused. The worker comes back as a new incarnation, in its own seat if no other has
// that, and counts anew what it has.
func (p *pool) beat(i int) {
	w := &p.workers[i]
	seated, involved := p.seated(w.Worker), p.involved(i)
	p.dead = slices.DeleteFunc(p.dead, func(d admission.Worker) bool { return d == w.Worker })
	if p.mutated == mutantQuietRevival && seated {
		return
	}
	if w.Epoch = p.claim(i); p.mutated != mutantSpareAfterDeath {
		w.ahead, w.spares = false, nil
	}
	if !seated {
		w.Seat = uint16(len(p.workers) + i)
	}
	w.dirty = w.dirty || involved && p.mutated != mutantNoReassert
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
	p.unsent = p.unsent || slices.ContainsFunc(w.tell, func(m message) bool { return m.recall })
	*w = poolWorker{Worker: w.Worker, born: true, crashed: true}
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
		p.begin(i, deedMaintain)
	}
}
