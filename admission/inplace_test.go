package admission_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/headgate/headgate/admission"
)

// sameStep carries operations out in place, if the machine does, and in the general way, and returns how the two differ.
func sameStep(state []byte, ops ...*admission.Op) error {
	var m, g admission.Machine
	before := slices.Clone(state)
	next, e := m.Change(slices.Clone(state), ops)
	wanted, w := g.StepsGenerally(before, ops...)
	what := describe(ops[0])
	if len(ops) > 1 {
		what = fmt.Sprintf("%s and %d more", what, len(ops)-1)
	}
	switch {
	case fmt.Sprint(*e) != fmt.Sprint(*w):
		return fmt.Errorf("%s: effect %+v in place, %+v in general", what, *e, *w)
	case !bytes.Equal(next, wanted):
		return fmt.Errorf("%s on\n% x: in place\n% x, in general\n% x", what, state, next, wanted)
	}
	again, _ := m.Steps(state, ops)
	switch {
	case !bytes.Equal(state, before):
		return fmt.Errorf("%s changed its input", what)
	case !bytes.Equal(again, wanted):
		return fmt.Errorf("%s: % x without a change of its input, % x in general", what, again, wanted)
	}
	return nil
}

// A mixedLoad is requests of many tenants and workers on one record, of which some end in unusual ways.
type mixedLoad struct {
	*rand.Rand
	m       admission.Machine
	state   []byte
	now     int64
	limit   int
	tenants uint64
	shaping *admission.Shaping
	seq     uint32
	running []ran
	inPlace map[admission.OpKind]int
	marked  int // steps in place that gave a mark
	batches int // of several operations, in place
	tuned   int // steps in place under an override
}

type ran struct {
	seat   uint16
	tenant uint64
	seq    uint32
}

func (l *mixedLoad) target(seat uint16) admission.Target {
	return admission.Target{Now: l.now, Gen: 1, Name: "k", Me: admission.Worker{Seat: seat, Epoch: 1<<32 + uint64(seat)},
		Limit: l.limit, Shaping: l.shaping, Ahead: l.IntN(2) == 0}
}

func (l *mixedLoad) do(t *testing.T, ops ...*admission.Op) *admission.Effect {
	t.Helper()
	if err := sameStep(l.state, ops...); err != nil {
		t.Fatal(err)
	}
	if l.state != nil && l.m.StepsInPlace(l.state, ops...) {
		if len(ops) > 1 {
			l.batches++
		}
		for _, op := range ops {
			l.inPlace[op.Kind]++
		}
		_, e := l.m.Steps(l.state, ops)
		l.marked += int(bit(e.Ahead))
		_, from, _ := admission.InForce(l.state)
		l.tuned += int(bit(from != admission.FromConfig))
	}
	next, e := l.m.Steps(l.state, ops)
	if e.Changed {
		l.state = slices.Clone(next)
	}
	for _, g := range e.Grants {
		l.running = append(l.running, ran{g.Seat, uint64(g.Seq)%l.tenants + 1, g.Seq})
	}
	return e
}

func (l *mixedLoad) acquire(seat uint16) *admission.Op {
	l.seq++
	op := admission.Acquire(l.target(seat), admission.Request{Tenant: uint64(l.seq)%l.tenants + 1,
		Weight: uint32(1 + l.IntN(8)/7), Seq: l.seq, Queue: 600, Fair: true, Budget: admission.Duration(l.IntN(400)) * admission.Millisecond})
	return &op
}

// release gives back a permit of a worker's; nil: it has none.
func (l *mixedLoad) release(seat uint16) *admission.Op {
	var own []int
	for i, r := range l.running {
		if r.seat == seat {
			own = append(own, i)
		}
	}
	if len(own) == 0 {
		return nil
	}
	i := own[l.IntN(len(own))]
	r := l.running[i]
	l.running = slices.Delete(l.running, i, i+1)
	f := admission.Finish{Outcome: admission.OutcomeSuccess, Use: admission.Duration(l.IntN(30)) * admission.Millisecond}
	if l.IntN(150) == 0 {
		f.Outcome = admission.Outcome(l.IntN(4))
		f.Pushback = l.IntN(2) == 0
	}
	op := admission.Release(l.target(r.seat), r.tenant, r.seq, f)
	return &op
}

// turn is one worker's: one operation, or a few in one step.
func (l *mixedLoad) turn(t *testing.T) {
	l.now += int64(l.IntN(2000)) * 1000
	seat := uint16(l.IntN(3))
	switch l.IntN(300) {
	case 0:
		l.limit = 1 + l.IntN(30)
	case 7, 8:
		target := l.target(0)
		target.Me = admission.Worker{}
		if l.IntN(3) > 0 {
			target.Override = admission.Override{Source: admission.Source(1 + l.IntN(3)), Limit: 1 + l.IntN(40)}
		}
		op := admission.Retune(target, true)
		l.do(t, &op)
		return
	case 1, 2, 3, 4, 5, 6:
		op := admission.Expire(l.target(seat))
		l.do(t, &op)
		return
	}
	var ops []*admission.Op
	for range 1 + max(l.IntN(8)-4, 0) {
		op := l.release(seat)
		if op == nil || l.IntN(5) < 2 || len(l.running) < l.limit/2 {
			if op != nil { // it goes on
				l.running = append(l.running, ran{seat, op.Tenant, op.Seq})
			}
			op = l.acquire(seat)
		}
		ops = append(ops, op)
	}
	e := l.do(t, ops...)
	for i, op := range ops {
		if op.Kind == admission.OpAcquire && i < len(e.Verdicts) && e.Verdicts[i] == admission.VerdictGranted {
			l.running = append(l.running, ran{seat, op.Tenant, op.Seq})
		}
	}
}

// TestInPlace: a step in place gives the bytes and the effect of the general way, whatever the tenants, the limit and
// the ends of requests are.
func TestInPlace(t *testing.T) {
	shapings := []*admission.Shaping{nil, {},
		{Breaker: &admission.Breaker{Failures: 5, Window: admission.Second, Open: admission.Second, MaxOpen: admission.Second}},
		{Headroom: &admission.Headroom{Window: admission.Second, Min: 1}},
		{Hold: admission.Hold{Failure: 100 * admission.Millisecond}}}
	marked, tuned := 0, 0
	for _, tenants := range []uint64{1, 3, 40, 300} {
		for i, s := range shapings {
			t.Run(fmt.Sprintf("tenants=%d/shaping=%d", tenants, i), func(t *testing.T) {
				l := &mixedLoad{Rand: rand.New(rand.NewPCG(tenants, uint64(i))), now: 1000 * ms, limit: 8, tenants: tenants,
					shaping: s, inPlace: map[admission.OpKind]int{}}
				for range 4000 {
					l.turn(t)
				}
				if a, r := l.inPlace[admission.OpAcquire], l.inPlace[admission.OpRelease]; a < 50 || r < 25 {
					t.Errorf("%d acquires and %d releases in place: too few to say much", a, r)
				}
				if l.batches < 20 {
					t.Errorf("%d batches in place: too few to say much", l.batches)
				}
				marked += l.marked
				tuned += l.tuned
			})
		}
	}
	if marked < 500 {
		t.Errorf("%d steps in place found or gave a mark: too few to say much", marked)
	}
	if tuned < 5000 {
		t.Errorf("%d steps in place under an override: too few to say much", tuned)
	}
}
