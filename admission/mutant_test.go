package admission_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/admission"
)

// A check that can't fail proves nothing. Each mutant is a fault that somebody could have made; the checks must catch it,
// and each invariant is what some mutant breaks.

type poolMutation struct {
	name    string
	mutant  poolMutant
	pool    *pool
	because string // what the check has to say
}

func poolMutants() []poolMutation {
	a, b := request{worker: 0, tenant: 1}, request{worker: 1, tenant: 2}
	short := func(r request) request { r.short = true; return r }
	reuse := func(p *pool) {
		p.reuse = true
		last := &p.workers[len(p.workers)-1]
		last.born, last.Seat = false, p.workers[0].Seat
	}
	return []poolMutation{
		{"ticks don't look for grants", mutantNoScan, newPool(1, 4, faults{losses: 1}, a, b), "I3"},
		{"ticks don't look for grants, and the sender crashes", mutantNoScan, newPool(1, 4, faults{crashes: 1}, a, b), "I3"},
		{"a granted ticket is cancelled and forgotten", mutantCancelForgotten, newPool(1, 4, faults{}, a, b), "I3"},
		{"a release wakes instead of handing over", mutantWakeOnly, newPool(1, 4, faults{}, a, b, b), "I4"},
		{"nobody reaps", mutantNoReaper, newPool(1, 4, faults{crashes: 1}, a, b), "I8"},
		{"nobody counts anew", mutantNoReassert, newPool(1, 4, faults{falseDeaths: 1}, a, b), "I3"},
		{"set without compare", mutantBlindSet, newPool(1, 4, faults{}, a, b), "I1"},
		{"released at response headers", mutantEarlyRelease, newPool(1, 4, faults{}, a, b), "I1"},
		{"who was declared dead goes on as before", mutantQuietRevival, newPool(1, 4, faults{falseDeaths: 1}, a, b), "I3"},
		{"records are swept once for each death", mutantSweepOnce, newPool(1, 4, faults{falseDeaths: 1, crashes: 1}, a, b), "I8"},
		{"told before stored", mutantTellFirst, newPool(1, 4, faults{crashes: 1}, a, b, a), ""},
		{"a message is believed", mutantTrustMessage, newPool(1, 4, faults{falseDeaths: 1}, a, b, a), ""},
		{"an expired waiter goes on", mutantGrantExpired, newPool(1, 4, faults{}, a, short(b)), "I1"},
		{"nobody ends waits", mutantNoExpire, newPool(1, 4, faults{}, a, short(b)), "I7"},
		{"an old incarnation takes its slot back", mutantOldEpochReaps, newPool(1, 4, faults{falseDeaths: 1}, a, a, b).with(reuse), ""},
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
			x := explore(mt.pool.clone(), 1_000_000)
			if x.err == nil || !strings.Contains(x.err.Error(), mt.because) || strings.Contains(x.err.Error(), "more than") {
				t.Fatalf("not caught in %d states: %v\n%s", x.states, x.err, replay(mt.pool, x.trace))
			}
			t.Logf("after %d actions: %v", len(x.trace), x.err)
		})
	}
}

func TestPlacesMutants(t *testing.T) {
	use := func(worker int, key string) use { return use{worker: worker, key: key} }
	for _, mt := range []struct {
		name   string
		mutant placesMutant
		places *places
	}{
		{"a record in use is retired", mutantRetireBusy, newPlaces(1, 0, 0, use(0, "a"), use(1, "b"), use(1, "a"))},
		{"a slot changes hands under the same generation", mutantNoGenerations, newPlaces(1, 0, 0, use(0, "a"), use(1, "b"), use(1, "a"))},
		{"a slot changes hands without its record being retired", mutantNoRetire, newPlaces(1, 0, 0, use(0, "a"), use(1, "b"), use(1, "a"))},
		{"the directory is set without compare", mutantBlindDirectory, newPlaces(1, 0, 0, use(0, "a"), use(1, "b"), use(1, "a"))},
		{"retiring leaves no trace", mutantRetireForgetful, newPlaces(1, 0, 0, use(0, "a"), use(1, "b"), use(1, "a"), use(0, "a"))},
		{"a place found stale is used again", mutantNoSecondLook, newPlaces(1, 0, 0, use(0, "a"), use(1, "b"), use(1, "a"))},
		{"the directory is compared with one read later", mutantStaleDirectory, newPlaces(1, 0, 0, use(0, "a"), use(1, "b"), use(2, "a"))},
	} {
		t.Run(mt.name, func(t *testing.T) {
			if x := explore(mt.places.clone(), 1_000_000); x.err != nil {
				t.Fatalf("without the mutant: %v\n%s", x.err, replay(mt.places, x.trace))
			}
			mt.places.mutated = mt.mutant
			x := explore(mt.places.clone(), 1_000_000)
			if x.err == nil || strings.Contains(x.err.Error(), "more than") {
				t.Fatalf("not caught in %d states: %v", x.states, x.err)
			}
			t.Logf("after %d actions: %v", len(x.trace), x.err)
		})
	}
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

// stepMutants are faults in the core itself.
var stepMutants = []struct {
	name      string
	invariant string // which of the checks has to say so; "model": the reference model
	mutant    mutant
}{
	{"the limit is ignored", "I1", func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		m := *op
		m.Limit++
		next, e := step(changed(state, func(r *admission.Record) { r.Limit++ }), &m)
		return changed(next, func(r *admission.Record) { r.Limit = max(r.Limit, 1) - 1 }), e
	}},
	{"no dispatch after a release", "I4", func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		if op.Kind != admission.OpRelease {
			return step(state, op)
		}
		limit := uint32(0)
		next, e := step(changed(state, func(r *admission.Record) { limit, r.Limit = r.Limit, 0 }), op)
		return changed(next, func(r *admission.Record) { r.Limit = limit }), e
	}},
	{"who was granted last is forgotten", "model", func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		return step(changed(state, func(r *admission.Record) {
			for i := range r.Tenants {
				r.Tenants[i].LastGrant = 0
			}
		}), op)
	}},
	{"weights are ignored", "I5", func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
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
	{"an expired ticket is granted", "I7", func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		m := *op
		if op.Kind == admission.OpRelease {
			m.Now -= int64(admission.Minute)
		}
		return step(state, &m)
	}},
	{"tickets of others expire too", "I2", func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
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
	{"a release is counted twice", "model", func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
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
	{"first come, first served whoever it is", "model", func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		m := *op
		m.Tenant = 0
		return step(state, &m)
	}},
	{"the queue is shared by who comes first", "model", func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		m := *op
		m.Fair = false
		return step(state, &m)
	}},
	{"a reload starts fresh counts", "I9", func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		if op.Assert && op.Kind == admission.OpMaintain {
			state = nil
		}
		return step(state, op)
	}},
	{"a fence that lets pass", "model", func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		m := *op
		m.Expect = false
		return step(state, &m)
	}},
	{"half a record is written", "I11", func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		next, e := step(state, op)
		if e.Changed && e.Queued > 0 {
			next = next[:len(next)-1]
		}
		return next, e
	}},
	{"the queue's bound is ignored", "model", func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		m := *op
		m.Queue += 2
		return step(state, &m)
	}},
}

// TestEveryInvariantHasAMutant.
func TestEveryInvariantHasAMutant(t *testing.T) {
	has := map[string]bool{"I6": true, "I10": true} // TestLastGrantMutant, TestPlacesMutants
	for _, m := range poolMutants() {
		has[m.because] = true
	}
	for _, m := range stepMutants {
		has[m.invariant] = true
	}
	for i := 1; i <= 11; i++ {
		if name := sprintf("I%d", i); !has[name] {
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
	for _, mt := range stepMutants {
		t.Run(mt.name, func(t *testing.T) {
			runs, why := 0, ""
			for seed := range 3000 {
				runs++
				if why = playMutant(mt.mutant, seed); why != "" && (mt.invariant == "model" || strings.Contains(why, mt.invariant+":")) {
					break
				}
				why = ""
			}
			if why == "" {
				t.Fatalf("not caught by %s in %d runs", mt.invariant, runs)
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
