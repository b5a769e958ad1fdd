package admission_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/admissiontest"
)

const ms = int64(admission.Millisecond)

// A mutant is a deliberate fault put around a step: it may change what goes in, and the record before and after.
type mutant func(op *admission.Op, step func(state []byte, op *admission.Op) ([]byte, *admission.Effect), state []byte) ([]byte, *admission.Effect)

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
}

type rigStream struct {
	seq      uint32
	tenant   uint64
	deadline int64
}

func newRig(t errorer) *rig { return &rig{t: t, gen: 1, now: 1000 * ms} }

// add seats one more worker.
func (g *rig) add() *rigWorker {
	g.claims++
	slot := 0
	for slices.ContainsFunc(g.workers, func(w *rigWorker) bool { return int(w.Seat) == slot }) {
		slot++
	}
	w := &rigWorker{Worker: admission.Worker{Seat: uint16(slot), Epoch: g.claims<<32 | 7}, alive: true}
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

func (g *rig) op(kind admission.OpKind, w *rigWorker) *admission.Op {
	op := &admission.Op{Kind: kind, Target: admission.Target{Now: g.now, Gen: g.gen, Name: "k", Limit: g.limit}}
	if w != nil {
		op.Me, op.Expect = w.Worker, len(w.running)+len(w.waiting) > 0
	}
	return op
}

// do carries op out on the core and the model and compares.
func (g *rig) do(op *admission.Op) *admission.Effect {
	g.t.Helper()
	asked := *op
	step := g.machine.Step
	state := slices.Clone(g.state)
	var next []byte
	var e *admission.Effect
	if g.mutant != nil {
		next, e = g.mutant(op, step, state)
	} else {
		next, e = step(state, op)
	}
	if !slices.Equal(state, g.state) {
		g.t.Fatalf("%s: the step changed its input", describe(&asked))
	}
	if err := g.watch.Step(state, &asked, next, e); err != nil {
		g.t.Fatalf("%s: %v", describe(&asked), err)
	}
	want := g.model.step(&asked, func(w admission.Worker) bool { return asked.Live.Alive(w) })
	if e.Verdict != want.verdict {
		g.t.Fatalf("%s: verdict %d, model %d", describe(&asked), e.Verdict, want.verdict)
	}
	if e.Verdict < admission.VerdictStale {
		if !slices.Equal(e.Grants, want.grants) || !slices.Equal(e.Expired, want.expired) || !slices.Equal(e.Unseen, want.unseen) {
			g.t.Fatalf("%s: grants %v expired %v unseen %v, model %+v", describe(&asked), e.Grants, e.Expired, e.Unseen, want)
		}
	}
	if e.Changed {
		g.state = slices.Clone(next)
	}
	g.last = *e
	g.last.Grants, g.last.Expired, g.last.Unseen = slices.Clone(e.Grants), slices.Clone(e.Expired), slices.Clone(e.Unseen)
	if err := g.model.differs(g.state); err != nil && g.state != nil {
		g.t.Fatalf("%s: %v", describe(&asked), err)
	}
	return e
}

// sync is what a fenced worker does, and what its tick does.
func (g *rig) sync(w *rigWorker) {
	g.t.Helper()
	op := g.op(admission.OpReconcile, w)
	index := func(tenant uint64) uint16 {
		i := slices.IndexFunc(op.Inflight, func(s admission.TenantInflight) bool { return s.Tenant == tenant })
		if i < 0 {
			i = len(op.Inflight)
			op.Inflight = append(op.Inflight, admission.TenantInflight{Tenant: tenant, Weight: g.weightOf(tenant)})
		}
		return uint16(i)
	}
	for _, s := range w.running {
		op.Inflight[index(s.tenant)].Inflight++
	}
	for _, s := range w.waiting {
		op.Waiting = append(op.Waiting, admission.Ticket{Seq: s.seq, Tenant: index(s.tenant), Deadline: s.deadline})
	}
	e := g.do(op)
	if e.Verdict != admission.VerdictDone {
		g.t.Fatalf("sync: verdict %d", e.Verdict)
	}
	for _, seq := range e.Unseen {
		w.granted(seq)
	}
}

// granted moves a stream from waiting to running.
func (w *rigWorker) granted(seq uint32) {
	if i := slices.IndexFunc(w.waiting, func(s rigStream) bool { return s.seq == seq }); i >= 0 {
		w.running = append(w.running, w.waiting[i])
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
	for {
		op := g.op(admission.OpAcquire, w)
		op.Assert, op.Queue, op.Fair, op.Budget = true, g.queue, g.fair, budget
		op.Tenant, op.Weight, op.Seq = tenant, g.weightOf(tenant), w.seq
		e := g.do(op)
		s := rigStream{w.seq, tenant, op.Now + int64(max(budget, 1))}
		switch e.Verdict {
		case admission.VerdictFenced:
			g.sync(w)
			continue
		case admission.VerdictGranted:
			w.running = append(w.running, s)
		case admission.VerdictWaiting:
			w.waiting = append(w.waiting, s)
		case admission.VerdictFull, admission.VerdictClosed:
			if e.RetryAfter < 1 || e.RetryAfter > 60 {
				g.t.Fatalf("retry after %d s", e.RetryAfter)
			}
		default:
			g.t.Fatalf("acquire: verdict %d", e.Verdict)
		}
		return e.Verdict
	}
}

// release ends the i-th running stream.
func (g *rig) release(w *rigWorker, i int, hold admission.Duration, charge bool, minActive int) {
	g.t.Helper()
	s := w.running[i]
	op := g.op(admission.OpRelease, w)
	op.Tenant, op.Seq, op.Outcome = s.tenant, s.seq, admission.OutcomeFailure
	op.Shaping = &admission.Shaping{MinActive: minActive, Hold: admission.Hold{Failure: hold}}
	if charge {
		op.Outcome, op.Shaping.Hold = admission.OutcomeSuccess, admission.Hold{Success: hold}
	}
	w.running = slices.Delete(w.running, i, i+1)
	if e := g.do(op); e.Verdict == admission.VerdictFenced {
		g.sync(w)
	}
}

func (g *rig) cancel(w *rigWorker, i int) {
	g.t.Helper()
	s := w.waiting[i]
	op := g.op(admission.OpCancel, w)
	op.Tenant, op.Seq = s.tenant, s.seq
	w.waiting = slices.Delete(w.waiting, i, i+1)
	if e := g.do(op); e.Verdict == admission.VerdictFenced {
		g.sync(w)
	}
}

// expire ends the waits of w that are over.
func (g *rig) expire(w *rigWorker) {
	g.t.Helper()
	e := g.do(g.op(admission.OpExpire, w))
	if e.Verdict == admission.VerdictFenced {
		g.sync(w)
		return
	}
	over := slices.Clone(e.Expired)
	w.waiting = slices.DeleteFunc(w.waiting, func(s rigStream) bool { return slices.Contains(over, s.seq) })
	for _, s := range slices.Clone(w.waiting) {
		if s.deadline <= g.now {
			w.granted(s.seq)
		}
	}
}

// tend is any worker's, or nobody's, look after the record.
func (g *rig) tend(w *rigWorker, assert bool) {
	g.t.Helper()
	op := g.op(admission.OpMaintain, w)
	op.Expect, op.Assert, op.Live = false, assert, g.table()
	g.do(op)
}

// look asks what has become of the i-th waiter, as a message makes its worker do.
func (g *rig) look(w *rigWorker, i int) {
	g.t.Helper()
	s := w.waiting[i]
	op := g.op(admission.OpReconcile, w)
	op.Seq = s.seq
	waits := slices.ContainsFunc(g.model.queue, func(t modelTicket) bool { return t.worker == w.Worker && t.seq == s.seq })
	switch standing, _ := g.machine.Look(g.state, &op.Target, op.Seq); {
	case !g.model.columns()[w.Worker] && standing != admission.StandingUnknown, g.model.columns()[w.Worker] && waits != (standing == admission.StandingWaiting):
		g.t.Fatalf("look: standing %d", standing)
	case standing == admission.StandingGranted:
		w.granted(s.seq)
	case standing == admission.StandingUnknown:
		g.sync(w)
	}
}

// drain ends everything and checks that nothing is left (I3).
func (g *rig) drain() {
	g.t.Helper()
	g.limit = max(g.limit, 1)
	g.tend(nil, true)
	for round := 0; ; round++ {
		busy := false
		for _, w := range g.workers {
			g.expire(w)
			g.sync(w)
			for len(w.running) > 0 {
				g.release(w, 0, 0, false, 0)
			}
			busy = busy || len(w.waiting) > 0
		}
		if !busy {
			break
		}
		g.now += ms // for holds; that nobody waits while a permit is free, the watch sees to
		if round > 1000 {
			g.t.Fatalf("a waiter is stuck")
		}
	}
	g.tend(nil, false)
	g.now += int64(11 * admission.Minute)
	g.tend(nil, false)
	var r admission.Record
	if g.state != nil && (r.Decode(g.state) != nil || !r.Idle() || r.Inflight() != 0 || r.OnHold() != 0) {
		g.t.Fatalf("drained, and left: %+v", r)
	}
}

// play runs random actions against the core and the model.
func play(t *rapid.T, g *rig) {
	g.limit, g.queue = rapid.IntRange(0, 4).Draw(t, "limit"), rapid.IntRange(0, 6).Draw(t, "queue")
	g.fair = rapid.Bool().Draw(t, "fair")
	for range rapid.IntRange(1, 3).Draw(t, "workers") {
		g.add()
	}
	pick := func() *rigWorker { return rapid.SampledFrom(g.workers).Draw(t, "worker") }
	index := func(n int) int {
		if n == 0 {
			t.Skip()
		}
		return rapid.IntRange(0, n-1).Draw(t, "index")
	}
	arrive := func(t *rapid.T) {
		g.arrive(pick(), rapid.Uint64Range(1, 4).Draw(t, "tenant"), admission.Duration(rapid.Int64Range(0, 50).Draw(t, "budget"))*admission.Millisecond)
	}
	release := func(t *rapid.T) {
		w := pick()
		g.release(w, index(len(w.running)), 0, false, 0)
	}
	t.Repeat(map[string]func(*rapid.T){
		"arrive": arrive, "arrive again": arrive, "release": release, "release again": release,
		"release and hold": func(t *rapid.T) {
			w := pick()
			i := index(len(w.running))
			g.release(w, i, admission.Duration(rapid.Int64Range(1, 40).Draw(t, "hold"))*admission.Millisecond,
				rapid.Bool().Draw(t, "charge"), rapid.IntRange(0, 2).Draw(t, "min active"))
		},
		"cancel": func(*rapid.T) {
			w := pick()
			g.cancel(w, index(len(w.waiting)))
		},
		"message": func(*rapid.T) {
			w := pick()
			g.look(w, index(len(w.waiting)))
		},
		"tick": func(*rapid.T) {
			w := pick()
			g.expire(w)
			g.sync(w)
		},
		"advance": func(t *rapid.T) { g.now += rapid.Int64Range(0, 20).Draw(t, "ms") * ms },
		"late clock": func(t *rapid.T) { // a step by a worker that read the clock earlier
			back := rapid.Int64Range(1, 5).Draw(t, "ms") * ms
			g.now -= back
			arrive(t)
			g.now += back
		},
		"die": func(*rapid.T) { // for good; its place in the table goes to another
			i := index(len(g.workers))
			g.workers = slices.Delete(g.workers, i, i+1)
			if rapid.Bool().Draw(t, "reap first") {
				g.tend(nil, false)
			}
			g.add()
		},
		"false death": func(*rapid.T) {
			w := pick()
			w.alive = false
			g.tend(nil, false)
			w.alive = true
		},
		"revive": func(*rapid.T) { // and the worker finds out: a new incarnation in the same slot
			w := pick()
			g.claims++
			w.Epoch = g.claims<<32 | 9
			g.sync(w)
		},
		"lost record": func(*rapid.T) { // the store has been cleared; everybody counts anew
			g.state, g.model = nil, model{}
		},
		"lost release": func(*rapid.T) { // no free swap
			w := pick()
			i := index(len(w.running))
			w.running = slices.Delete(w.running, i, i+1)
		},
		"lost cancel": func(*rapid.T) {
			w := pick()
			i := index(len(w.waiting))
			w.waiting = slices.Delete(w.waiting, i, i+1)
		},
		"limit": func(t *rapid.T) {
			g.limit = rapid.IntRange(0, 5).Draw(t, "limit")
			g.tend(nil, true)
		},
		"reload": func(t *rapid.T) { // another incarnation with another configuration, in the same process
			if len(g.workers) > 4 {
				t.Skip()
			}
			g.limit, g.queue = rapid.IntRange(0, 4).Draw(t, "limit"), rapid.IntRange(0, 6).Draw(t, "queue")
			g.add()
		},
		"retire": func(t *rapid.T) {
			if e := g.do(g.op(admission.OpRetire, nil)); e.Verdict != admission.VerdictBusy {
				if e := g.do(g.op(admission.OpReconcile, g.workers[0])); e.Verdict != admission.VerdictStale {
					t.Fatalf("retired, and verdict %d", e.Verdict)
				}
				g.gen++
			}
		},
		"": func(t *rapid.T) {
			if err := g.model.differs(g.state); err != nil {
				t.Fatal(err)
			}
		},
	})
	g.drain()
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { play(t, newRig(t)) })
}
