package admission_test

import (
	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/admission"
)

const (
	second = int64(admission.Second)
	milli  = int64(admission.Millisecond)
	// shaperEpoch is a multiple of every hold's grain, so that ends are exact.
	shaperEpoch = 1000 * second
)

// A shaperPool is the configuration of the pool that a shaper steps.
type shaperPool struct {
	Limit, Queue, MinActive int
	Hold                    admission.Hold
	Breaker                 *admission.Breaker
	Headroom                *admission.Headroom
}

func (p *shaperPool) shaping() *admission.Shaping {
	return &admission.Shaping{MinActive: p.MinActive, Hold: p.Hold, Breaker: p.Breaker, Headroom: p.Headroom}
}

// A shaper steps one record at exact times.
type shaper struct {
	t       require.TestingT
	machine admission.Machine
	state   []byte
	now     int64
	pool    *shaperPool
	seq     uint32
	gens    map[uint32]uint32 // of what runs: the breaker's generation at its grant
}

func newShaper(t require.TestingT, p shaperPool) *shaper {
	return &shaper{t: t, now: shaperEpoch, pool: &p, gens: map[uint32]uint32{}}
}

func shaperWorker(slot uint16) admission.Worker {
	return admission.Worker{Seat: slot, Epoch: uint64(slot+1)<<32 | 7}
}

func (s *shaper) op(kind admission.OpKind, slot uint16, seq uint32) *admission.Op {
	return &admission.Op{Kind: kind, Target: admission.Target{Now: s.now, Gen: 1, Name: "m", Me: shaperWorker(slot), Limit: s.pool.Limit, Shaping: s.pool.shaping()}, Seq: seq, Weight: 1, Queue: s.pool.Queue}
}

// step carries an operation out. The effect is a copy.
func (s *shaper) step(op *admission.Op) admission.Effect {
	next, effect := s.machine.Step(s.state, op)
	if next != nil {
		s.state = append([]byte(nil), next...)
	}
	var r admission.Record
	require.NoError(s.t, r.Decode(s.state))
	e := *effect
	e.Grants = append([]admission.Grant(nil), e.Grants...)
	e.Expired = append([]uint32(nil), e.Expired...)
	return e
}

// acquire asks for a permit without waiting.
func (s *shaper) acquire() (seq uint32, e admission.Effect) {
	s.seq++
	e = s.step(s.op(admission.OpAcquire, 0, s.seq))
	if e.Verdict == admission.VerdictGranted {
		s.gens[s.seq] = e.BreakerGen
	}
	return s.seq, e
}

// start acquires a permit that must be there.
func (s *shaper) start() uint32 {
	seq, e := s.acquire()
	require.Equal(s.t, admission.VerdictGranted, e.Verdict)
	return seq
}

// end releases a permit; more changes the operation.
func (s *shaper) end(seq uint32, o admission.Outcome, more ...func(*admission.Op)) admission.Effect {
	op := s.op(admission.OpRelease, 0, seq)
	op.Outcome, op.BreakerGen = o, s.gens[seq]
	delete(s.gens, seq)
	for _, f := range more {
		f(op)
	}
	return s.step(op)
}

// fail lets n requests through that fail at once.
func (s *shaper) fail(n int) (e admission.Effect) {
	for range n {
		e = s.end(s.start(), admission.OutcomeFailure)
	}
	return e
}

// refused is the verdict and retry-after of a request that comes now.
func (s *shaper) refused() (admission.Verdict, int) {
	_, e := s.acquire()
	return e.Verdict, e.RetryAfter
}

func (s *shaper) requireOpen(retryAfter int) {
	v, after := s.refused()
	require.Equal(s.t, admission.VerdictOpen, v)
	require.Equal(s.t, retryAfter, after)
}
