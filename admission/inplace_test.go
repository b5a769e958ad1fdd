package admission_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/headgate/headgate/admission"
)

// sameStep carries an operation out in place, if the machine does, and in the general way, and returns how the two
// differ.
func sameStep(state []byte, op *admission.Op) error {
	var m, g admission.Machine
	before := slices.Clone(state)
	next, e := m.Step(state, op)
	wanted, w := g.StepGenerally(before, op)
	switch {
	case !bytes.Equal(state, before):
		return fmt.Errorf("%s changed its input", describe(op))
	case fmt.Sprint(*e) != fmt.Sprint(*w):
		return fmt.Errorf("%s: effect %+v in place, %+v in general", describe(op), *e, *w)
	case !bytes.Equal(next, wanted):
		return fmt.Errorf("%s on\n% x: in place\n% x, in general\n% x", describe(op), state, next, wanted)
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

func (l *mixedLoad) do(t *testing.T, op admission.Op) *admission.Effect {
	t.Helper()
	if err := sameStep(l.state, &op); err != nil {
		t.Fatal(err)
	}
	if l.state != nil && l.m.StepsInPlace(l.state, &op) {
		l.inPlace[op.Kind]++
		_, e := l.m.Step(l.state, &op)
		l.marked += int(bit(e.Ahead))
		_, from, _ := admission.InForce(l.state)
		l.tuned += int(bit(from != admission.FromConfig))
	}
	next, e := l.m.Step(l.state, &op)
	if e.Changed {
		l.state = slices.Clone(next)
	}
	for _, g := range e.Grants {
		l.running = append(l.running, ran{g.Seat, uint64(g.Seq)%l.tenants + 1, g.Seq})
	}
	return e
}

func (l *mixedLoad) acquire(t *testing.T) {
	l.seq++
	op := admission.Acquire(l.target(uint16(l.IntN(3))), admission.Request{Tenant: uint64(l.seq)%l.tenants + 1,
		Weight: uint32(1 + l.IntN(8)/7), Seq: l.seq, Queue: 600, Fair: true, Budget: admission.Duration(l.IntN(400)) * admission.Millisecond})
	seat := op.Me.Seat
	if e := l.do(t, op); e.Verdict == admission.VerdictGranted {
		l.running = append(l.running, ran{seat, op.Tenant, op.Seq})
	}
}

func (l *mixedLoad) release(t *testing.T) {
	if len(l.running) == 0 {
		return
	}
	i := l.IntN(len(l.running))
	r := l.running[i]
	l.running = slices.Delete(l.running, i, i+1)
	f := admission.Finish{Outcome: admission.OutcomeSuccess, Use: admission.Duration(l.IntN(30)) * admission.Millisecond}
	if l.IntN(150) == 0 {
		f.Outcome = admission.Outcome(l.IntN(4))
		f.Pushback = l.IntN(2) == 0
	}
	l.do(t, admission.Release(l.target(r.seat), r.tenant, r.seq, f))
}

func (l *mixedLoad) turn(t *testing.T) {
	l.now += int64(l.IntN(2000)) * 1000
	switch l.IntN(300) {
	case 0:
		l.limit = 1 + l.IntN(30)
	case 7, 8:
		target := l.target(0)
		target.Me = admission.Worker{}
		if l.IntN(3) > 0 {
			target.Override = admission.Override{Source: admission.Source(1 + l.IntN(3)), Limit: 1 + l.IntN(40)}
		}
		l.do(t, admission.Retune(target, true))
		return
	case 1, 2, 3, 4, 5, 6:
		l.do(t, admission.Expire(l.target(uint16(l.IntN(3)))))
		return
	}
	if l.IntN(2) == 0 || len(l.running) < l.limit/2 {
		l.acquire(t)
	} else {
		l.release(t)
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
