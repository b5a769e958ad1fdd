package admission_test

import (
	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/admission"
)

const (
	second = int64(admission.Second)
	// shaperStart is a multiple of the grain of holds, so that their ends are exact.
	shaperStart = 1000 * second
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

// A shaper steps one record of a pool with holds, a breaker or headroom, at exact times.
type shaper struct {
	t       require.TestingT
	machine admission.Machine
	state   []byte
	now     int64
	pool    *shaperPool
	seq     uint32
	gens    map[uint32]uint32 // the breaker's generation at the grant of each request that runs
}

func newShaper(t require.TestingT, p shaperPool) *shaper {
	return &shaper{t: t, now: shaperStart, pool: &p, gens: map[uint32]uint32{}}
}

func shaperWorker(seat uint16) admission.Worker {
	return admission.Worker{Seat: seat, Epoch: uint64(seat+1)<<32 | 7}
}

func (s *shaper) target(seat uint16) admission.Target {
	return admission.Target{Now: s.now, Gen: 1, Name: "m", Me: shaperWorker(seat), Limit: s.pool.Limit,
		Shaping: s.pool.shaping()}
}

// step carries an operation out. The effect is a copy.
func (s *shaper) step(op admission.Op) admission.Effect {
	next, effect := s.machine.Step(s.state, &op)
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

// ask asks for a permit for a worker's ticket, which waits for budget.
func (s *shaper) ask(seat uint16, seq uint32, budget admission.Duration) admission.Effect {
	return s.step(admission.Acquire(s.target(seat),
		admission.Request{Weight: 1, Seq: seq, Queue: s.pool.Queue, Budget: budget}))
}

// maintain lets time do what it does.
func (s *shaper) maintain() admission.Effect {
	return s.step(admission.Maintain(s.target(0), false, nil))
}

// acquire asks for a permit without waiting.
func (s *shaper) acquire() (seq uint32, e admission.Effect) {
	s.seq++
	e = s.ask(0, s.seq, 0)
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

// end releases a permit whose request ended so.
func (s *shaper) end(seq uint32, o admission.Outcome) admission.Effect {
	return s.finish(seq, admission.Finish{Outcome: o})
}

// finish is end with more to say than the outcome.
func (s *shaper) finish(seq uint32, f admission.Finish) admission.Effect {
	f.BreakerGen = s.gens[seq]
	delete(s.gens, seq)
	return s.step(admission.Release(s.target(0), 0, seq, f))
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
