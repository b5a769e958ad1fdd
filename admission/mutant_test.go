package admission_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/admission"
)

// A check that can't fail proves nothing. Each mutant is a fault that a programmer could make. The checks must catch
// it, and each invariant has a mutant that its own check catches.

type poolMutation struct {
	name    string
	mutant  poolMutant
	pool    *pool
	because string // what the check has to say
}

func poolMutants() []poolMutation {
	a, b := request{worker: 0, tenant: 1}, request{worker: 1, tenant: 2}
	world := func(f faults, requests ...request) *pool { return newPool(1, 4, f, requests...) }
	other := request{worker: 0, tenant: 3}
	says := func(f faults, requests ...request) *pool { return newPool(3, 4, f, requests...).with(onHold) }
	falseDeath := faults{falseDeaths: 1}
	spares := func(f faults, queue int, requests ...request) *pool {
		return newPool(5, queue, f, requests...).with(sparing).with(calm)
	}
	crowd := func(n int) []request { return append([]request{a}, together(n, b)...) }
	return []poolMutation{
		{"ticks don't look for grants", mutantNoScan, world(faults{losses: 1}, a, b), "I3:"},
		{"ticks don't look for grants, and the sender crashes", mutantNoScan, world(faults{crashes: 1}, a, b), "I3:"},
		{"a granted ticket is cancelled and forgotten", mutantCancelForgotten, world(faults{}, a, b), "I3:"},
		{"a release wakes instead of handing over", mutantWakeOnly, world(faults{}, a, b, b), "I4:"},
		{"no worker reaps", mutantNoReaper, world(faults{crashes: 1}, a, b), "I8:"},
		{"no worker counts anew", mutantNoReassert, world(falseDeath, a, b), "I3:"},
		{"set without compare", mutantBlindSet, world(faults{}, a, b), "I1:"},
		{"released at response headers", mutantEarlyRelease, world(faults{}, a, b), "I1:"},
		{"a worker that was declared dead goes on as before", mutantQuietRevival, world(falseDeath, a, b), "I3:"},
		{"records are swept once for each death", mutantSweepOnce, world(faults{falseDeaths: 1, crashes: 1}, a, b), "I8:"},
		{"told before stored", mutantTellFirst, world(faults{crashes: 1}, a, b, a), "I1:"},
		{"a message is believed", mutantTrustMessage, world(falseDeath, a, b, a).with(calm), "I3:"},
		{"an expired waiter goes on", mutantGrantExpired, world(faults{}, a, short(b)), "I1:"},
		{"no worker ends waits", mutantNoExpire, world(faults{}, a, short(b)), "I7:"},
		{"an old incarnation takes its seat back", mutantOldEpochReaps, world(falseDeath, a, a, b).with(reuseSeat), "I3:"},
		{"a turn without a swap lets pass", mutantLetPass, world(faults{}, a, b), "I1:"},
		{"a turn without a swap forgets a release", mutantForgetRelease, says(faults{}, a, b), "I7b:"},
		{"the journal is carried out twice", mutantJournalTwice, says(faults{}, a, a), "I3:"},
		{"the journal goes after the reconcile", mutantJournalLast, says(faults{}, a, other, b), "I7b:"},
		{"a fenced batch carries its journal without the reconcile", mutantNoRejoin, says(falseDeath, a, b), "I7b:"},
		{"an acquire overtakes one that is undecided", mutantOvertake, world(faults{}, a, b, b, b), "I5:"},
		{"recalls are not sent", mutantNoRecall, spares(faults{}, 4, crowd(5)...), "I4:"},
		{"recalls are not listened to", mutantIgnoreRecall, spares(faults{}, 4, crowd(5)...), "I4:"},
		{"a spare is kept after a reconcile", mutantSpareAfterSync, spares(faults{}, 4, crowd(5)...), "I1:"},
		{"a release makes two spares", mutantSpareTwice, spares(faults{}, 4, a, a), "I1:"},
		{"spares don't age, and a recall is lost", mutantNoAging, spares(faults{losses: 1}, 4, crowd(5)...), "I3:"},
		{"spares don't age, and the sender of a recall dies", mutantNoAging, spares(faults{crashes: 1}, 4, crowd(5)...), "I3:"},
		{"a grant on its way is taken for a spare", mutantGrantIsSpare, spares(faults{}, 4, append(crowd(4), a)...), "I1:"},
		{"a request is refused in a recall", mutantRefuseInRecall, spares(faults{}, 0, crowd(5)...), "I4:"},
		{"a worker that was declared dead keeps its spares", mutantSpareAfterDeath, spares(falseDeath, 4, a, b), "I1:"},
		{"a spare goes to another tenant", mutantAnyTenant, spares(faults{}, 4, a, other), "I3:"},
	}
}

func TestPoolMutants(t *testing.T) {
	for _, mt := range poolMutants() {
		t.Run(mt.name, func(t *testing.T) {
			mt.pool.mutated = mutantNone
			if x := explore(mt.pool.clone(), 1_000_000); x.err != nil {
				t.Fatalf("without the mutant: %v\n%s", x.err, replay(mt.pool, x.trace))
			}
			mt.pool.mutated = mt.mutant
			requireCaught(t, explore(mt.pool.clone(), 1_000_000), mt.because)
		})
	}
}

type placesMutation struct {
	name    string
	mutant  placesMutant
	places  *places
	because string // what the check has to say
}

func placesMutants() []placesMutation {
	inTurn := func() *places { return newPlaces(1, 0, 0, use(0, "a"), use(1, "b"), use(1, "a")) }
	andBack := newPlaces(1, 0, 0, use(0, "a"), use(1, "b"), use(1, "a"), use(0, "a"))
	toClosed, back := tune{worker: 2}, tune{worker: 1, key: "a", limit: none}
	tuned := func(tunes ...tune) *places { return newPlaces(1, 0, 0, use(0, "a")).with(tunes...) }
	threeWorkers := newPlaces(1, 0, 0, use(0, "a"), use(1, "b"), use(2, "a"))
	return []placesMutation{
		{"a record in use is retired", mutantRetireBusy, inTurn(), "I10:"},
		{"a slot changes hands under the same generation", mutantNoGenerations, inTurn(), "never comes to rest"},
		{"a slot changes hands without its record being retired", mutantNoRetire, inTurn(), "I10:"},
		{"set of the directory without compare", mutantBlindDirectory, inTurn(), "I10:"},
		{"retiring leaves no trace", mutantRetireForgetful, andBack, "I10:"},
		{"a place found stale is used again", mutantNoSecondLook, inTurn(), "never comes to rest"},
		{"the directory is compared with one read later", mutantStaleDirectory, threeWorkers, "I10:"},
		{"the override of a default goes into the records first", mutantRecordsFirst, tuned(toClosed), "I9:"},
		{"an override is spread, and the directory has changed", mutantNoThirdLook, tuned(tune{worker: 1, key: "a"}, back, toClosed), "I9:"},
		{"records that are not there are not made", mutantOnlyThere, tuned(toClosed), "I9:"},
		{"a record is made without the override of the default", mutantNotInherited, tuned(toClosed), "I9:"},
		{"a record with an override of its key's own is retired", mutantDropOwn, inTurn().with(tune{worker: 2, key: "a"}), "I9:"},
	}
}

func TestPlacesMutants(t *testing.T) {
	for _, mt := range placesMutants() {
		t.Run(mt.name, func(t *testing.T) {
			if x := explore(mt.places.clone(), 1_000_000); x.err != nil {
				t.Fatalf("without the mutant: %v\n%s", x.err, replay(mt.places, x.trace))
			}
			mt.places.mutated = mt.mutant
			requireCaught(t, explore(mt.places.clone(), 1_000_000), mt.because)
		})
	}
}

// requireCaught checks that an exploration found what it should.
func requireCaught(t *testing.T, x exploration, because string) {
	t.Helper()
	if x.err == nil || !strings.Contains(x.err.Error(), because) || strings.Contains(x.err.Error(), "more than") {
		t.Fatalf("not caught in %d states: %v", x.states, x.err)
	}
	t.Logf("after %d actions: %v", len(x.trace), x.err)
}

// changed returns a record with something changed.
func changed(state []byte, f func(*admission.Record)) []byte {
	var r admission.Record
	if r.Decode(state) != nil {
		return state
	}
	f(&r)
	return r.Append(nil)
}

// byModel is the because of mutants that the comparison with the model catches.
const byModel = ""

type stepMutation struct {
	name    string
	because string // what the watch has to say; byModel: the model catches it
	mutant  mutant
}

// stepMutants are faults in the core itself.
var stepMutants = []stepMutation{
	{"the limit is ignored", "I1:", func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		m := *op
		m.Limit++
		next, e := step(changed(state, func(r *admission.Record) { r.Limit++ }), &m)
		return changed(next, func(r *admission.Record) { r.Limit = max(r.Limit, 1) - 1 }), e
	}},
	{"no dispatch after a release", "I4:", func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		if op.Kind != admission.OpRelease {
			return step(state, op)
		}
		limit := uint32(0)
		next, e := step(changed(state, func(r *admission.Record) { limit, r.Limit = r.Limit, 0 }), op)
		return changed(next, func(r *admission.Record) { r.Limit = limit }), e
	}},
	{"no tenant's last grant is remembered", byModel, func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		return step(changed(state, func(r *admission.Record) {
			for i := range r.Tenants {
				r.Tenants[i].LastGrant = 0
			}
		}), op)
	}},
	{"weights are ignored", "I5:", func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		weights := map[uint64]uint32{op.Tenant: op.Weight}
		for _, s := range op.Inflight {
			weights[s.Tenant] = s.Weight
		}
		next, e := step(changed(state, func(r *admission.Record) {
			for i := range r.Tenants {
				if t := &r.Tenants[i]; t.Weight != 0 {
					weights[t.ID], t.Weight = t.Weight, 1
				}
			}
		}), op)
		return changed(next, func(r *admission.Record) {
			for i := range r.Tenants {
				if t := &r.Tenants[i]; t.Weight != 0 {
					t.Weight = weights[t.ID]
				}
			}
		}), e
	}},
	{"an expired ticket is granted", "I7:", func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		m := *op
		if op.Kind == admission.OpRelease {
			m.Now -= int64(admission.Minute)
		}
		return step(state, &m)
	}},
	{"tickets of others expire too", "I2:", func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		next, e := step(state, op)
		if op.Kind != admission.OpRelease || !e.Changed || e.Queued == 0 {
			return next, e
		}
		var r admission.Record
		if r.Decode(next) != nil {
			return next, e
		}
		last := r.Queue.At(r.Queue.Len() - 1)
		worker := admission.Worker{}
		for _, c := range r.Columns {
			if c.Seat == last.Seat {
				worker = c.Worker
			}
		}
		delta := e.QueuedDelta - 1
		var other admission.Machine
		cancel := admission.Cancel(admission.Target{Now: op.Now, Gen: op.Gen, Me: worker}, 0, last.Seq)
		next, _ = other.Step(next, &cancel)
		e.Queued, e.QueuedDelta = e.Queued-1, delta
		return next, e
	}},
	{"a release is counted twice", byModel, func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		next, e := step(state, op)
		if op.Kind != admission.OpRelease || !e.Changed || len(e.Grants) > 0 {
			return next, e
		}
		var other admission.Machine
		again, f := other.Step(next, op)
		if f.Verdict != admission.VerdictDone || !f.Changed {
			return next, e
		}
		e.Inflight, e.InflightDelta = f.Inflight, e.InflightDelta+f.InflightDelta
		return again, e
	}},
	{"first come, first served over all tenants", byModel, func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		m := *op
		m.Tenant = 0
		return step(state, &m)
	}},
	{"a tenant may fill the queue", byModel, func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		m := *op
		m.Fair = false
		return step(state, &m)
	}},
	{"a reload starts fresh counts", "I9:", func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		if op.Assert && op.Kind == admission.OpMaintain {
			state = nil
		}
		return step(state, op)
	}},
	{"a fence that lets pass", byModel, func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		m := *op
		m.Expect = false
		return step(state, &m)
	}},
	{"half a record is written", "I11:", func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		next, e := step(state, op)
		if e.Changed && e.Queued > 0 {
			next = next[:len(next)-1]
		}
		return next, e
	}},
	{"the queue's bound is ignored", byModel, func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		m := *op
		m.Queue += 2
		return step(state, &m)
	}},
}

// mark sets or clears the mark of a worker's column.
func mark(state []byte, w admission.Worker, ahead bool) []byte {
	return changed(state, func(r *admission.Record) {
		for i := range r.Columns {
			if r.Columns[i].Worker == w {
				r.Columns[i].Ahead = ahead
			}
		}
	})
}

// spareMutants are faults of the core in who may keep spares.
var spareMutants = []stepMutation{
	{"spares may be kept where it isn't calm", "I4:", func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		next, e := step(state, op)
		if e.Changed && op.Ahead && len(e.Recalls) == 0 {
			next, e.Ahead = mark(next, op.Me, true), e.Inflight > 0
		}
		return next, e
	}},
	{"a mark survives a reconcile", "I4:", func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		m := *op
		m.Ahead = m.Ahead || m.Kind == admission.OpReconcile
		return step(state, &m)
	}},
	{"a recall tells nobody", "I4:", func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		next, e := step(state, op)
		e.Recalls = e.Recalls[:0]
		return next, e
	}},
	{"marks stay while a ticket waits", "I4:", func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		next, e := step(state, op)
		for _, w := range e.Recalls {
			next = mark(next, w, true)
		}
		e.Recalls = e.Recalls[:0]
		return next, e
	}},
	{"a request is refused in a recall", "I4:", func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		next, e := step(state, op)
		if e.Verdict == admission.VerdictRecalling {
			e.Verdict, e.RetryAfter = admission.VerdictFull, 1
		}
		return next, e
	}},
	{"a recall never ends", byModel, func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		next, e := step(state, op)
		if e.Changed {
			next = changed(next, func(r *admission.Record) { r.RecallUntil = max(r.RecallUntil, op.Now) })
		}
		return next, e
	}},
}

func TestEveryInvariantHasAMutant(t *testing.T) {
	has := map[string]bool{}
	for _, m := range poolMutants() {
		has[m.because] = true
	}
	for _, m := range placesMutants() {
		has[m.because] = true
	}
	for _, m := range stepMutants {
		has[m.because] = true
	}
	for range overtakingMutants {
		has["I6:"] = true
	}
	names := []string{"I7b:"}
	for i := 1; i <= 11; i++ {
		names = append(names, sprintf("I%d:", i))
	}
	for _, name := range names {
		if !has[name] {
			t.Errorf("no mutant breaks %s", name)
		}
	}
}

// A catcher keeps the first failure of a run and ends the run.
type catcher struct{ why string }

func (*catcher) Helper() {}

func (c *catcher) Fatalf(format string, args ...any) {
	if c.why == "" {
		c.why = sprintf(format, args...)
	}
	panic(c.why)
}

func TestStepMutants(t *testing.T) {
	for _, mt := range slices.Concat(stepMutants, spareMutants, overrideMutants) {
		t.Run(mt.name, func(t *testing.T) {
			runs, why := 0, ""
			for seed := range 3000 {
				runs++
				if why = playMutant(mt.mutant, seed); why != "" && strings.Contains(why, mt.because) {
					break
				}
				why = ""
			}
			if why == "" {
				t.Fatalf("not caught in %d runs, or not because of %q", runs, mt.because)
			}
			t.Logf("after %d runs: %s", runs, why)
		})
	}
}

// playMutant makes one random run and returns what caught the mutant, or nothing.
func playMutant(m mutant, seed int) (why string) {
	c := &catcher{}
	defer func() {
		_ = recover() // rapid may or may not have done so
		why = c.why
	}()
	rapid.Custom(func(t *rapid.T) int {
		g := newRig(c)
		g.mutant = m
		play(t, g)
		return 0
	}).Example(seed)
	return ""
}
