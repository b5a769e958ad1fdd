package admission_test

import (
	"slices"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/admissiontest"
)

const ms = int64(admission.Millisecond)

// stepper is Machine.Step.
type stepper = func(state []byte, op *admission.Op) ([]byte, *admission.Effect)

// A mutant is a deliberate fault put around a step: it may change what goes in, and the record before and after.
type mutant func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect)

// A rig is one record, the model beside it, and the workers that use it.
type rig struct {
	t       errorer
	machine admission.Machine
	watch   admissiontest.Watch
	model   model
	mutant  mutant
	state   []byte
	last    admission.Effect
	now     int64
	gen     uint32
	claims  uint64
	limit   int
	queue   int
	fair    bool
	sparing bool               // workers keep spares
	inherit admission.Override // of the pool's default limit
	workers []*rigWorker
	weights map[uint64]uint32 // nil: weightOf
}

type errorer interface {
	Fatalf(format string, args ...any)
	Helper()
}

// A rigWorker is a worker's own truth.
type rigWorker struct {
	admission.Worker
	alive   bool // by the worker table
	seq     uint32
	running []rigStream
	waiting []rigStream

	ahead    bool     // may keep spares
	spares   []uint64 // by tenant
	recalled bool     // is to give them back
}

type rigStream struct {
	seq      uint32
	tenant   uint64
	deadline int64
	since    int64 // when it was granted, or began to wait
}

func newRig(t errorer) *rig { return &rig{t: t, gen: 1, now: 1000 * ms} }

// add seats one more worker.
func (g *rig) add() *rigWorker {
	g.claims++
	seat := 0
	for slices.ContainsFunc(g.workers, func(w *rigWorker) bool { return int(w.Seat) == seat }) {
		seat++
	}
	w := &rigWorker{Worker: admission.Worker{Seat: uint16(seat), Epoch: g.claims<<32 | 7}, alive: true}
	g.workers = append(g.workers, w)
	return w
}

func (g *rig) table() *admission.WorkerTable {
	var living []admission.Worker
	for _, w := range g.workers {
		if w.alive {
			living = append(living, w.Worker)
		}
	}
	return admissiontest.Alive(living...)
}

// target is where a worker carries out an operation; nil: no worker in particular.
func (g *rig) target(w *rigWorker) admission.Target {
	t := admission.Target{Now: g.now, Gen: g.gen, Name: "k", Limit: g.limit, Override: g.inherit}
	if w != nil {
		t.Me, t.Expect, t.Ahead = w.Worker, len(w.running)+len(w.waiting)+len(w.spares) > 0, g.sparing
	}
	return t
}

// do carries an operation out on the core and the model and compares.
func (g *rig) do(asked admission.Op) *admission.Effect {
	g.t.Helper()
	op := asked
	step := g.machine.Step
	state := slices.Clone(g.state)
	var next []byte
	var e *admission.Effect
	if g.mutant != nil {
		next, e = g.mutant(&op, step, state)
	} else {
		next, e = step(state, &op)
	}
	if !slices.Equal(state, g.state) {
		g.t.Fatalf("%s: the step changed its input", describe(&asked))
	}
	if err := sameStep(g.state, &asked); err != nil {
		g.t.Fatalf("%v", err)
	}
	if err := g.watch.Step(state, &asked, next, e); err != nil {
		g.t.Fatalf("%s: %v", describe(&asked), err)
	}
	want := g.model.step(&asked, func(w admission.Worker) bool { return asked.Live.Alive(w) })
	if e.Verdict != want.verdict {
		g.t.Fatalf("%s: verdict %d, model %d", describe(&asked), e.Verdict, want.verdict)
	}
	if e.Verdict < admission.VerdictStale && !(slices.Equal(e.Grants, want.grants) &&
		slices.Equal(e.Expired, want.expired) && slices.Equal(e.Unseen, want.unseen) && sameWorkers(e.Recalls, want.recalls)) {
		g.t.Fatalf("%s: grants %v expired %v unseen %v, model %+v", describe(&asked), e.Grants, e.Expired, e.Unseen, want)
	}
	if e.Changed {
		g.state = slices.Clone(next)
	}
	g.last = *e
	g.last.Grants, g.last.Expired, g.last.Unseen = slices.Clone(e.Grants), slices.Clone(e.Expired), slices.Clone(e.Unseen)
	g.note(&asked, e)
	if err := g.model.differs(g.state); err != nil && g.state != nil {
		g.t.Fatalf("%s: %v", describe(&asked), err)
	}
	return e
}

// reconcile is what a fenced worker does, and what its tick does.
func (g *rig) reconcile(w *rigWorker) {
	g.t.Helper()
	var truth admission.Truth
	index := func(tenant uint64) uint16 {
		i := slices.IndexFunc(truth.Inflight, func(s admission.TenantInflight) bool { return s.Tenant == tenant })
		if i < 0 {
			i = len(truth.Inflight)
			truth.Inflight = append(truth.Inflight, admission.TenantInflight{Tenant: tenant, Weight: g.weightOf(tenant)})
		}
		return uint16(i)
	}
	for _, s := range w.running {
		truth.Inflight[index(s.tenant)].Inflight++
	}
	for _, s := range w.waiting {
		truth.Waiting = append(truth.Waiting, admission.Ticket{Seq: s.seq, Tenant: index(s.tenant), Deadline: s.deadline})
	}
	target := g.target(w)
	target.Ahead = false
	e := g.do(admission.Reconcile(target, truth))
	if e.Verdict != admission.VerdictDone {
		g.t.Fatalf("reconcile: verdict %d", e.Verdict)
	}
	for _, seq := range e.Unseen {
		w.granted(seq, g.now)
	}
}

// granted moves a stream from waiting to running.
func (w *rigWorker) granted(seq uint32, now int64) {
	if i := slices.IndexFunc(w.waiting, func(s rigStream) bool { return s.seq == seq }); i >= 0 {
		w.running = append(w.running, w.waiting[i])
		w.running[len(w.running)-1].since = now
		w.waiting = slices.Delete(w.waiting, i, i+1)
	}
}

func (g *rig) weightOf(tenant uint64) uint32 {
	if g.weights != nil {
		return max(g.weights[tenant], 1)
	}
	return uint32(tenant%3) + 1
}

// arrive is one request of a tenant.
func (g *rig) arrive(w *rigWorker, tenant uint64, budget admission.Duration) admission.Verdict {
	g.t.Helper()
	if !g.fair {
		tenant = 0
	}
	w.seq++
	if w.take(rigStream{w.seq, tenant, g.now + int64(max(budget, 1)), g.now}) {
		return admission.VerdictGranted
	}
	for {
		e := g.do(admission.Acquire(g.target(w), admission.Request{Tenant: tenant, Weight: g.weightOf(tenant), Seq: w.seq,
			Queue: g.queue, Fair: g.fair, Budget: budget}))
		s := rigStream{w.seq, tenant, g.now + int64(max(budget, 1)), g.now}
		switch e.Verdict {
		case admission.VerdictFenced:
			g.reconcile(w)
			continue
		case admission.VerdictGranted:
			w.running = append(w.running, s)
		case admission.VerdictWaiting:
			w.waiting = append(w.waiting, s)
		case admission.VerdictFull, admission.VerdictClosed:
			if e.RetryAfter < 1 || e.RetryAfter > 60 {
				g.t.Fatalf("retry after %d s", e.RetryAfter)
			}
		case admission.VerdictRecalling: // it goes elsewhere
		default:
			g.t.Fatalf("acquire: verdict %d", e.Verdict)
		}
		return e.Verdict
	}
}

// release ends the i-th running stream.
func (g *rig) release(w *rigWorker, i int, hold admission.Duration, charge bool, minActive int) {
	g.t.Helper()
	if hold == 0 && w.keep(i) {
		return
	}
	s, target := w.running[i], g.target(w)
	outcome := admission.OutcomeFailure
	target.Shaping = &admission.Shaping{MinActive: minActive, Hold: admission.Hold{Failure: hold}}
	if charge {
		outcome, target.Shaping.Hold = admission.OutcomeSuccess, admission.Hold{Success: hold}
	}
	w.running = slices.Delete(w.running, i, i+1)
	e := g.do(admission.Release(target, s.tenant, s.seq, admission.Finish{Outcome: outcome,
		Use: admission.Duration(g.now - s.since)}))
	if e.Verdict == admission.VerdictFenced {
		g.reconcile(w)
	}
}

func (g *rig) cancel(w *rigWorker, i int) {
	g.t.Helper()
	s, target := w.waiting[i], g.target(w)
	w.waiting = slices.Delete(w.waiting, i, i+1)
	if e := g.do(admission.Cancel(target, s.tenant, s.seq)); e.Verdict == admission.VerdictFenced {
		g.reconcile(w)
	}
}

// expire ends the waits of w that are over.
func (g *rig) expire(w *rigWorker) {
	g.t.Helper()
	e := g.do(admission.Expire(g.target(w)))
	if e.Verdict == admission.VerdictFenced {
		g.reconcile(w)
		return
	}
	over := slices.Clone(e.Expired)
	w.waiting = slices.DeleteFunc(w.waiting, func(s rigStream) bool { return slices.Contains(over, s.seq) })
	for _, s := range slices.Clone(w.waiting) {
		if s.deadline <= g.now {
			w.granted(s.seq, g.now)
		}
	}
}

// maintain is what a worker's tick does to the record; nil: no worker in particular.
func (g *rig) maintain(w *rigWorker, assert bool) {
	g.t.Helper()
	target := g.target(w)
	target.Expect = false
	g.do(admission.Maintain(target, assert, g.table()))
}

// override gives the key an override of its own.
func (g *rig) override(limit int) {
	g.t.Helper()
	target := g.target(nil)
	target.Override = admission.Override{Source: admission.FromKey, Limit: limit}
	g.do(admission.Retune(target, true))
}

// inheritFrom changes the override of the pool's default limit.
func (g *rig) inheritFrom(o admission.Override) {
	g.t.Helper()
	g.inherit = o
	g.do(admission.Retune(g.target(nil), false))
}

// forgetOverrides takes all overrides away, or the key's own only.
func (g *rig) forgetOverrides(all bool) {
	g.t.Helper()
	if all {
		g.inherit = admission.Override{}
	}
	g.do(admission.Retune(g.target(nil), true))
}

// look asks what has become of the i-th waiter, as a message makes its worker do.
func (g *rig) look(w *rigWorker, i int) {
	g.t.Helper()
	s, target := w.waiting[i], g.target(w)
	listed, waits := g.model.columns()[w.Worker], g.model.waits(w.Worker, s.seq)
	switch standing, _ := g.machine.Look(g.state, &target, s.seq); {
	case !listed && standing != admission.StandingUnknown, listed && waits != (standing == admission.StandingWaiting):
		g.t.Fatalf("look: standing %d", standing)
	case standing == admission.StandingGranted:
		w.granted(s.seq, g.now)
	case standing == admission.StandingUnknown:
		g.reconcile(w)
	}
}

// drain ends everything and checks that nothing is left (I3).
func (g *rig) drain() {
	g.t.Helper()
	g.limit = max(g.limit, 1)
	g.forgetOverrides(true)
	g.maintain(nil, true)
	for round := 0; ; round++ {
		busy := false
		for _, w := range g.workers {
			g.expire(w)
			g.reconcile(w)
			for len(w.running) > 0 {
				g.release(w, 0, 0, false, 0)
			}
			g.reconcile(w)
			busy = busy || len(w.waiting)+len(w.running) > 0
		}
		if !busy {
			break
		}
		g.now += ms // for holds; the watch checks that no ticket waits while a permit is free
		if round > 1000 {
			g.t.Fatalf("a waiter is stuck")
		}
	}
	g.maintain(nil, false)
	g.now += int64(11 * admission.Minute)
	g.maintain(nil, false)
	var r admission.Record
	if g.state != nil && (r.Decode(g.state) != nil || !r.Idle() || r.Inflight() != 0 || r.OnHold() != 0) {
		g.t.Fatalf("drained, and left: %+v", r)
	}
}
