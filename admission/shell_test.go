package admission_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/admissiontest"
)

// pool is a small world around one record: workers that each do what the filter does, one host call at a time, over a
// store that has the host's rules. A get reads the record with its version; a set stores if the version is still the
// same; messages arrive whenever they like. Between any two host calls a worker can crash, and the others go on.
type pool struct {
	*poolConfig
	record  []byte
	version uint32
	late    bool // the short budgets are over
	limit   int
	faults
	claims   uint64
	claimed  []int              // by number of claim: the worker
	dead     []admission.Worker // declared dead in the worker table, their seats still theirs
	workers  []shell
	requests []request
	messages []admission.Grant
	reaped   int // permits that were taken from living workers by mistake, and so may be granted twice
}

// poolConfig is what doesn't change.
type poolConfig struct {
	first   int // the limit at the start
	queue   int
	fair    bool
	raise   int // the limit that a worker's configuration may change to, once; 0: never
	reuse   bool
	mutated poolMutant
	m       *admission.Machine
	w       *admissiontest.Watch
}

// faults is what may still go wrong.
type faults struct{ crashes, losses, falseDeaths, exhaustions, raises int }

// A poolMutant is a shell with a fault in it.
type poolMutant uint8

const (
	mutantNone            poolMutant = iota
	mutantNoScan                     // ticks don't look for grants whose message was lost
	mutantCancelForgotten            // cancelling a ticket that has been granted gives nothing back
	mutantWakeOnly                   // a release wakes the next waiter, which then asks again, rather than handing over
	mutantNoReaper                   // dead workers keep what they have
	mutantNoReassert                 // who was declared dead by mistake doesn't count again
	mutantBlindSet                   // set without compare
	mutantEarlyRelease               // the permit is given back when the response begins
	mutantQuietRevival               // who was declared dead by mistake goes on under its old epoch
	mutantSweepOnce                  // records are looked after once for each death, and never again
	mutantTellFirst                  // grants are told before the record is stored
	mutantGrantExpired               // a waiter whose budget is over goes on although its ticket was withdrawn
	mutantTrustMessage               // a message is believed without a look at the record
	mutantNoExpire                   // nobody ends waits that are over
	mutantOldEpochReaps              // a worker takes its slot back from a later one
)

// A shell is one worker: what the filter knows in one VM.
type shell struct {
	admission.Worker
	born, crashed bool
	dirty         bool
	swept         []admission.Worker
	stack         []frame // the operation under way; a sync in the middle of another lies on top of it
	tell          []admission.Grant
}

// A frame is an operation between its get and its set.
type frame struct {
	kind    admission.OpKind
	request int
	next    call
	record  []byte // what get returned
	version uint32
	late    bool               // the time when the callback began
	limit   int                // the worker's configuration then
	living  []admission.Worker // the worker table, read behind the record
}

// A call is the next host call of an operation.
type call uint8

const (
	callGet call = iota
	callTable
	callSet
)

// A request is one stream.
type request struct {
	worker int
	tenant uint64
	short  bool // its budget ends when it gets late
	missed bool // it came when it was late already: this budget doesn't end
	now    phase
}

type phase uint8

const (
	phaseAhead phase = iota
	phaseAsking
	phaseWaiting
	phaseRunning
	phaseStreaming // mutantEarlyRelease: runs, and its permit is gone
	phaseDone
	phaseCut // its worker crashed
)

const (
	actStart   uint8 = iota // who: worker, what: request
	actFinish               // what: request
	actCancel               // what: request
	actStep                 // who: the next host call of the operation under way
	actGiveUp               // who: too many swaps have failed
	actSend                 // who: the next message
	actDeliver              // what: message
	actLose                 // what: message
	actSync                 // who
	actExpire               // who
	actTend                 // who
	actBeat                 // who: finds itself declared dead
	actDeclare              // who is declared dead
	actCrash                // who
	actLate                 // the short budgets end
	actRaise                // who: has a new configuration, and asserts it
	actBirth                // who: takes a seat
)

var actNames = [...]string{"start", "finish", "cancel", "step", "give up", "send", "deliver", "lose", "sync", "expire", "tend", "beat",
	"declare dead", "crash", "late", "raise", "birth"}

func (p *pool) label(a action) string {
	return fmt.Sprintf("%s worker %d item %d", actNames[a.kind], a.who, a.what)
}

func (p *pool) String() string {
	var r admission.Record
	s := "no record"
	if r.Decode(p.record) == nil {
		s = fmt.Sprintf("limit %d columns", r.Limit)
		for _, c := range r.Columns {
			s += fmt.Sprintf(" %d/%d:%d+%d", c.Seat, c.Epoch>>32, c.Inflight, c.Tickets)
		}
		s += " queue"
		for i := range r.Queue.Len() {
			s += fmt.Sprintf(" %d/%d", r.Queue.At(i).Seat, r.Queue.At(i).Seq)
		}
	}
	s += "; requests"
	for _, q := range p.requests {
		s += " " + phaseNames[q.now]
	}
	s += fmt.Sprintf("; messages %v dead %v", p.messages, p.dead)
	for _, w := range p.workers {
		s += fmt.Sprintf(" worker{%d/%d crashed %v dirty %v ops", w.Seat, w.Epoch>>32, w.crashed, w.dirty)
		for _, f := range w.stack {
			s += fmt.Sprintf(" %s(%d):%d", kindNames[f.kind], f.request, f.next)
		}
		s += fmt.Sprintf(" tell %v}", w.tell)
	}
	return s
}

var phaseNames = [...]string{"ahead", "asking", "waiting", "running", "streaming", "done", "cut"}

// short and long are the two budgets; the clock has two readings, before and after the short one's end.
const (
	earlyTime   = int64(1000 * admission.Millisecond)
	shortBudget = 10 * admission.Millisecond
	longBudget  = admission.Hour
	lateTime    = earlyTime + int64(shortBudget)
)

func (p *pool) time() int64 { return timeWhen(p.late) }

func timeWhen(late bool) int64 {
	if late {
		return lateTime
	}
	return earlyTime
}

func (p *pool) clone() system {
	c := *p
	c.workers = slices.Clone(p.workers)
	for i := range c.workers {
		w := &c.workers[i]
		w.stack, w.tell, w.swept = slices.Clone(w.stack), slices.Clone(w.tell), slices.Clone(w.swept)
	}
	c.requests, c.messages, c.dead = slices.Clone(p.requests), slices.Clone(p.messages), slices.Clone(p.dead)
	return &c
}

func (p *pool) key(b []byte) []byte {
	b = putBytes(b, p.record)
	b = put(b, bit(p.late), uint64(p.limit), uint64(p.crashes), uint64(p.losses), uint64(p.falseDeaths), uint64(p.exhaustions), uint64(p.raises), p.claims, uint64(p.reaped))
	for _, d := range p.dead {
		b = put(b, uint64(d.Seat), d.Epoch)
	}
	for i := range p.workers {
		w := &p.workers[i]
		b = put(b, uint64(w.Seat), w.Epoch, bit(w.born), bit(w.crashed), bit(w.dirty), uint64(len(w.swept)), uint64(len(w.stack)))
		for _, f := range w.stack {
			b = put(b, uint64(f.kind), uint64(f.request), uint64(f.next), bit(f.late), uint64(f.limit))
			for _, l := range f.living {
				b = put(b, uint64(l.Seat), l.Epoch)
			}
			if f.next != callGet { // what was read matters only while it is still what is stored, or if nobody compares
				current := f.version == p.version
				b = put(b, bit(current))
				if !current && p.mutated == mutantBlindSet {
					b = putBytes(b, f.record)
				}
			}
		}
		for _, g := range w.tell {
			b = put(b, 1, uint64(g.Seat), g.Epoch, uint64(g.Seq))
		}
		b = put(b, 0)
	}
	for _, r := range p.requests {
		b = put(b, uint64(r.now), bit(r.missed))
	}
	for _, m := range p.messages {
		b = put(b, uint64(m.Seat), m.Epoch, uint64(m.Seq))
	}
	return b
}

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
	if !p.late && slices.ContainsFunc(p.requests, func(r request) bool { return r.short && !r.missed && r.now == phaseWaiting }) {
		acts = append(acts, action{kind: actLate})
	}
	return acts
}

// owner is the living worker that a slot's queue belongs to, or -1.
func (p *pool) owner(slot uint16) int {
	at := -1
	for i := range p.workers {
		if w := &p.workers[i]; w.born && !w.crashed && w.Seat == slot && (at < 0 || w.Epoch > p.workers[at].Epoch) {
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
	if p.mustBeat(i) {
		acts = append(acts, action{actBeat, who, 0})
	}
	if p.wantsTend(i) {
		acts = append(acts, action{actTend, who, 0})
	}
	if p.wantsSync(i) {
		acts = append(acts, action{actSync, who, 0})
	}
	if p.wantsExpire(i) {
		acts = append(acts, action{actExpire, who, 0})
	}
	if p.raises > 0 {
		acts = append(acts, action{actRaise, who, 0})
	}
	return acts
}

// seated says whether a worker has its seat: nobody later has its slot.
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

// wantsTend: somebody has died. The filter looks after all records when it sees a death that is new to it, and once in a
// lease while somebody is dead.
func (p *pool) wantsTend(i int) bool {
	w := &p.workers[i]
	switch p.mutated {
	case mutantNoReaper:
		return false
	case mutantSweepOnce:
		return slices.ContainsFunc(p.dead, func(d admission.Worker) bool { return d != w.Worker && !slices.Contains(w.swept, d) })
	}
	if len(p.dead) == 0 && !p.reuse {
		return false
	}
	var r admission.Record
	return r.Decode(p.record) == nil && slices.ContainsFunc(r.Columns, func(c admission.Column) bool { return c.Worker != w.Worker && !p.table().Alive(c.Worker) })
}

func (p *pool) wantsSync(i int) bool {
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
	return p.mutated != mutantNoExpire && !p.mustBeat(i) && slices.ContainsFunc(p.requests, func(r request) bool { return r.worker == i && p.over(r) })
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
	var w *shell
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
	case actSync:
		w.dirty = false
		p.call(i, admission.OpReconcile, 0)
	case actExpire:
		p.call(i, admission.OpExpire, 0)
	case actTend:
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

// call begins an operation.
func (p *pool) call(i int, kind admission.OpKind, request int) {
	p.workers[i].stack = append(p.workers[i].stack, frame{kind: kind, request: request, late: p.late, limit: p.limit})
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

// beat is a worker's beat that is refused: it comes back as a new incarnation, in its own seat if that still is its own,
// and counts anew what it has.
func (p *pool) beat(i int) {
	w := &p.workers[i]
	mine := p.seated(w.Worker)
	p.dead = slices.DeleteFunc(p.dead, func(d admission.Worker) bool { return d == w.Worker })
	if p.mutated == mutantQuietRevival && mine {
		return
	}
	w.Epoch = p.claim(i)
	if !mine {
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
func (p *pool) op(i int, f *frame) *admission.Op {
	w, r := &p.workers[i], &p.requests[f.request]
	op := &admission.Op{Kind: f.kind, Target: admission.Target{Now: timeWhen(f.late), Me: w.Worker, Expect: p.involved(i), Limit: f.limit}, Queue: p.queue, Fair: p.fair, Tenant: r.tenant, Weight: 1, Seq: uint32(f.request + 1)}
	switch f.kind {
	case admission.OpAcquire:
		if op.Assert, op.Budget = true, longBudget; r.short {
			op.Budget = shortBudget
		}
	case admission.OpRelease, admission.OpCancel:
		op.Expect = true
	case admission.OpReconcile:
		for k, q := range p.requests {
			if q.worker != i || q.now != phaseRunning && q.now != phaseWaiting {
				continue
			}
			share := slices.IndexFunc(op.Inflight, func(s admission.TenantInflight) bool { return s.Tenant == q.tenant })
			if share < 0 {
				share = len(op.Inflight)
				op.Inflight = append(op.Inflight, admission.TenantInflight{Tenant: q.tenant, Weight: 1})
			}
			if q.now == phaseRunning {
				op.Inflight[share].Inflight++
				continue
			}
			op.Waiting = append(op.Waiting, admission.Ticket{Tenant: uint16(share), Seq: uint32(k + 1), Deadline: p.deadline(k)})
		}
	case admission.OpMaintain:
		op.Expect, op.Assert, op.Live = false, f.request == 1, admissiontest.Alive(f.living...)
	}
	return op
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
			_, e := p.m.Step(f.record, p.op(i, f))
			w.tell = append(w.tell, e.Grants...)
		}
		return p.check()
	}
	op := p.op(i, f)
	next, e, err := p.mutatedStep(f.record, op)
	if err != nil {
		return err
	}
	f.next, f.living = callGet, nil
	switch {
	case e.Verdict == admission.VerdictFenced:
		p.fenced(i, f)
		return p.check()
	case f.version != p.version && e.Changed && p.mutated != mutantBlindSet:
		return p.check() // again
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

// mutatedStep is Machine.Step, watched, with the mutants that change it.
func (p *pool) mutatedStep(record []byte, op *admission.Op) ([]byte, *admission.Effect, error) {
	asleep := p.mutated == mutantWakeOnly && (op.Kind == admission.OpRelease || op.Kind == admission.OpCancel)
	if asleep {
		var r admission.Record
		if r.Decode(record) == nil {
			limit := r.Limit
			r.Limit = 0
			next, e := p.m.Step(r.Append(nil), op)
			if e.Changed && r.Decode(next) == nil {
				r.Limit = limit
				if r.Queue.Len() > 0 && r.Inflight() < int(limit) && (op.Kind == admission.OpRelease || e.Verdict == admission.VerdictGranted) {
					t := r.Queue.At(0)
					e.Grants = append(e.Grants, admission.Grant{Worker: r.Columns[slices.IndexFunc(r.Columns, func(c admission.Column) bool { return c.Seat == t.Seat })].Worker, Seq: t.Seq})
				}
				return r.Append(nil), e, nil
			}
			return next, e, nil
		}
	}
	if p.mutated == mutantOldEpochReaps {
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

// forgetEpochs makes all columns of the worker's slot older than it.
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

// fenced: the worker's column is missing, so it has been declared dead. What it has is counted anew.
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

// finishOp draws the worker's own conclusions from an operation that is stored.
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

// deliver hands a message to its worker, which looks into the record before it believes it.
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

// check is what must hold at any time: no more streams run than the limit allows, but for those of workers that were
// declared dead by mistake.
func (p *pool) check() error {
	run := 0
	for _, r := range p.requests {
		if r.now == phaseRunning || r.now == phaseStreaming {
			run++
		}
	}
	if most := max(p.first, p.raise); run > most+p.reaped {
		return fmt.Errorf("I1: %d streams run at a limit of %d, %d reaped by mistake", run, most, p.reaped)
	}
	return nil
}

// settled lets everybody act until nothing changes, checks that the record is the truth and that nobody waits in vain,
// and then ends all streams and checks that nothing is left.
func (p *pool) settled() error {
	s := p.clone().(*pool)
	s.crashes, s.losses, s.falseDeaths, s.exhaustions, s.raises = 0, 0, 0, 0, 0
	if err := s.settle(); err != nil {
		return err
	}
	if err := s.truthful(); err != nil {
		return err
	}
	for range 2 * len(s.requests) {
		for r := range s.requests {
			if q := &s.requests[r]; q.now == phaseRunning || q.now == phaseStreaming {
				if err := s.finish(q.worker, r); err != nil {
					return err
				}
				if err := s.settle(); err != nil {
					return err
				}
			}
		}
	}
	return s.drained()
}

// settle runs ticks and deliveries until nothing is left to do.
func (p *pool) settle() error {
	for range 100 {
		moved, err := p.round()
		if err != nil {
			return err
		}
		if !moved {
			return nil
		}
	}
	return errors.New("never settles")
}

func (p *pool) round() (moved bool, err error) {
	before := p.key(nil)
	for i := range p.workers {
		w := &p.workers[i]
		if w.crashed && !slices.Contains(p.dead, w.Worker) && p.seated(w.Worker) {
			p.declare(i)
		}
	}
	for _, kind := range []uint8{actStep, actSend, actDeliver, actBeat, actTend, actSync, actExpire} {
		for tries := range 100 {
			acts := p.actions(nil)
			at := slices.IndexFunc(acts, func(a action) bool { return a.kind == kind })
			if kind >= actSync && kind <= actExpire {
				at = slices.IndexFunc(acts, func(a action) bool { return a.kind == kind && int(a.who) == tries })
				if tries >= len(p.workers) {
					break
				}
				if at < 0 {
					continue
				}
			}
			if at < 0 {
				break
			}
			if err := p.do(acts[at]); err != nil {
				return false, err
			}
			for !p.quiet() {
				acts = p.actions(nil)
				at = slices.IndexFunc(acts, func(a action) bool { return a.kind == actStep || a.kind == actSend })
				if err := p.do(acts[at]); err != nil {
					return false, err
				}
			}
			if kind == actTend && tries > len(p.workers) {
				break
			}
		}
	}
	return string(before) != string(p.key(nil)), nil
}

// truthful checks that the record says what is true (I3, I8), and that no permit is free while somebody waits (I4).
func (p *pool) truthful() error {
	var r admission.Record
	if p.record != nil {
		if err := r.Decode(p.record); err != nil {
			return err
		}
	}
	alive := false
	for i := range p.workers {
		w := &p.workers[i]
		if !w.born || w.crashed {
			continue
		}
		alive = true
		run, wait := 0, 0
		for _, q := range p.requests {
			if q.worker == i {
				run += int(bit(q.now == phaseRunning))
				wait += int(bit(q.now == phaseWaiting))
			}
		}
		c := admission.Column{Worker: w.Worker}
		for _, have := range r.Columns {
			if have.Seat == w.Seat {
				c = have
			}
		}
		if want := (admission.Column{Worker: w.Worker, Inflight: uint32(run), Tickets: uint32(wait)}); c != want {
			return fmt.Errorf("I3: column %+v, the truth is %+v", c, want)
		}
		r.Columns = slices.DeleteFunc(r.Columns, func(c admission.Column) bool { return c.Seat == w.Seat })
	}
	if !alive {
		return nil // nobody is there to look after anything; the next worker will
	}
	if len(r.Columns) > 0 {
		return fmt.Errorf("I8: columns of the dead: %+v", r.Columns)
	}
	return p.waitsInVain()
}

func (p *pool) waitsInVain() error {
	var r admission.Record
	if r.Decode(p.record) != nil {
		return nil
	}
	for i := range r.Queue.Len() {
		if t := r.Queue.At(i); t.Deadline <= p.time() {
			return fmt.Errorf("I7: %+v waits at %d", t, p.time())
		} else if r.Inflight() < int(r.Limit) {
			return fmt.Errorf("I4: %+v waits, and %d of %d permits are used", t, r.Inflight(), r.Limit)
		}
	}
	return nil
}

func (p *pool) drained() error {
	alive := slices.ContainsFunc(p.workers, func(w shell) bool { return w.born && !w.crashed })
	for i, q := range p.requests {
		if q.now != phaseAhead && q.now != phaseDone && q.now != phaseCut && (q.now != phaseWaiting || p.limit > 0) {
			return fmt.Errorf("request %d is in phase %d for good", i, q.now)
		}
	}
	var r admission.Record
	if alive && p.limit > 0 && p.record != nil && (r.Decode(p.record) != nil || !r.Idle()) {
		return fmt.Errorf("I3: drained, and left: %+v", r)
	}
	return nil
}

// newPool makes a world of workers and requests; each request is worker, tenant, and 's' for a short budget.
func newPool(limit, queue int, f faults, requests ...request) *pool {
	p := &pool{poolConfig: &poolConfig{first: limit, queue: queue, m: &admission.Machine{}, w: &admissiontest.Watch{}}, limit: limit, faults: f, requests: requests}
	for _, r := range requests {
		for len(p.workers) <= r.worker {
			i := len(p.workers)
			p.workers = append(p.workers, shell{Worker: admission.Worker{Seat: uint16(i), Epoch: p.claim(i)}, born: true})
		}
	}
	return p
}

func (p *pool) with(f func(*pool)) *pool {
	f(p)
	return p
}

func poolScopes() []scope {
	a, b, c := request{worker: 0, tenant: 1}, request{worker: 1, tenant: 2}, request{worker: 2, tenant: 3}
	short := func(r request) request { r.short = true; return r }
	fair := func(p *pool) { p.fair = true }
	raise := func(to int) func(*pool) {
		return func(p *pool) { p.raise, p.raises = to, 1 }
	}
	// reuse lets the last worker take the first one's seat once that is declared dead.
	reuse := func(p *pool) {
		p.reuse = true
		last := &p.workers[len(p.workers)-1]
		last.born, last.Seat = false, p.workers[0].Seat
	}
	return []scope{
		{name: "limit 1, 2 workers, 4 tickets", states: 30611, start: func() system { return newPool(1, 4, faults{}, a, b, a, b) }},
		{name: "limit 1, 3 workers, 3 tickets", states: 5076, start: func() system { return newPool(1, 4, faults{}, a, b, c) }},
		{name: "limit 2, 3 workers, 4 tickets", start: func() system { return newPool(2, 4, faults{}, a, b, c, a) }, big: true},
		{name: "limit 1, crash, lost message", states: 137727, start: func() system { return newPool(1, 4, faults{crashes: 1, losses: 1}, a, b, a, b) }},
		{name: "limit 2, crash", states: 81795, start: func() system { return newPool(2, 4, faults{crashes: 1}, a, b, a, b) }},
		{name: "limit 1, 3 workers, crash", states: 64422, start: func() system { return newPool(1, 4, faults{crashes: 1}, a, b, c) }},
		{name: "limit 1, 2 workers, 5 tickets, crash", start: func() system { return newPool(1, 5, faults{crashes: 1}, a, b, a, b, a) }, big: true},
		{name: "limit 1, false death", states: 167571, start: func() system { return newPool(1, 4, faults{falseDeaths: 1}, a, b, a) }},
		{name: "limit 2, false death, crash", start: func() system { return newPool(2, 4, faults{falseDeaths: 1, crashes: 1}, a, b, a) }, big: true},
		{name: "limit 2, false death, crash, 2 tickets", states: 7331, start: func() system { return newPool(2, 4, faults{falseDeaths: 1, crashes: 1}, a, b) }},
		{name: "limit 1, false death, crash, 2 tickets", states: 18123, start: func() system { return newPool(1, 4, faults{falseDeaths: 1, crashes: 1}, a, b) }},
		{name: "limit 1, false death, crash, lost message", start: func() system { return newPool(1, 4, faults{falseDeaths: 1, crashes: 1, losses: 1}, a, b, a) }, big: true},
		{name: "limit 1, two false deaths, 2 tickets", states: 244431, start: func() system { return newPool(1, 4, faults{falseDeaths: 2}, a, b) }, big: true},
		{name: "limit 1, deadlines", states: 10272, start: func() system { return newPool(1, 4, faults{}, a, short(b), short(a)) }},
		{name: "limit 1, deadlines, 4 tickets", start: func() system { return newPool(1, 4, faults{}, a, short(b), short(a), b) }, big: true},
		{name: "limit 1, deadlines, crash, lost message", states: 46903, start: func() system { return newPool(1, 4, faults{crashes: 1, losses: 1}, a, short(b), short(a)) }},
		{name: "limit 1, deadlines, false death", start: func() system { return newPool(1, 4, faults{falseDeaths: 1}, a, short(b), short(b)) }, big: true},
		{name: "limit 1, a deadline, false death", states: 15682, start: func() system { return newPool(1, 4, faults{falseDeaths: 1}, a, short(b)) }},
		{name: "limit 1, swaps exhausted", states: 10603, start: func() system { return newPool(1, 4, faults{exhaustions: 2}, a, b, a) }},
		{name: "limit 1, queue 1", states: 52025, start: func() system { return newPool(1, 1, faults{crashes: 1}, a, b, a, b) }},
		{name: "limit 1, queue 0", states: 26184, start: func() system { return newPool(1, 0, faults{crashes: 1, falseDeaths: 1}, a, b, a) }},
		{name: "limit 1 raised to 2", states: 34906, start: func() system { return newPool(1, 4, faults{crashes: 1}, a, b, b).with(raise(2)) }},
		{name: "limit 0 raised to 2", states: 32605, start: func() system { return newPool(0, 4, faults{}, a, b, a, b).with(raise(2)) }},
		{name: "limit 2 lowered to 0", states: 6531, start: func() system { return newPool(2, 4, faults{}, a, a, b).with(raise(0)) }},
		{name: "limit 2 lowered to 0, 4 tickets", start: func() system { return newPool(2, 4, faults{}, a, b, a, b).with(raise(0)) }, big: true},
		{name: "fair, queue 2", states: 75105, start: func() system { return newPool(1, 2, faults{crashes: 1}, a, b, a, b).with(fair) }},
		{name: "fair, 3 workers, limit 1", states: 6576, start: func() system { return newPool(1, 4, faults{losses: 1}, a, b, c).with(fair) }},
		{name: "a seat reused", states: 4469, start: func() system { return newPool(1, 4, faults{crashes: 1}, a, b, c).with(reuse) }},
		{name: "a seat reused, its owner lives", start: func() system { return newPool(1, 4, faults{falseDeaths: 1}, a, b, c).with(reuse) }, big: true},
		{name: "a seat reused, its owner lives, 2 workers", states: 27559, start: func() system { return newPool(1, 4, faults{falseDeaths: 1}, a, a, b).with(reuse) }},
		{name: "a seat reused, its owner lives, crash", start: func() system { return newPool(1, 4, faults{falseDeaths: 1, crashes: 1}, a, a, b, c).with(reuse) }, big: true},
	}
}

func TestExplorePool(t *testing.T) { exploreScopes(t, poolScopes()) }

// TestExploreRandomPool walks at random through worlds too big for all of it.
func TestExploreRandomPool(t *testing.T) {
	var requests []request
	for i := range 8 {
		requests = append(requests, request{worker: i % 3, tenant: uint64(i%4) + 1, short: i%3 == 0})
	}
	walks := 3000
	if *exploreBig {
		walks = 20_000
	}
	exploreRandomly(t, "3 workers, 8 tickets, all faults", func() system {
		return newPool(2, 6, faults{crashes: 1, losses: 2, falseDeaths: 2, exhaustions: 2, raises: 1}, slices.Clone(requests)...).with(func(p *pool) {
			p.raise, p.fair = 3, true
		})
	}, *exploreSeed, walks)
}
