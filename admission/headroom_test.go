package admission_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/admission"
)

func headroomPool(limit int, h admission.Headroom) shaperPool {
	return shaperPool{Limit: limit, Headroom: &h}
}

// push is a provider's 429.
func (s *shaper) push() admission.Effect {
	return s.finish(s.start(), admission.Finish{Outcome: admission.OutcomeFailure, Pushback: true})
}

// together lets n requests run at once. All end the same way.
func (s *shaper) together(n int, o admission.Outcome) {
	var seqs []uint32
	for range n {
		seqs = append(seqs, s.start())
	}
	for _, seq := range seqs {
		s.end(seq, o)
	}
}

// inForce is how many requests fit at once. It changes nothing that counts.
func (s *shaper) inForce() (n int) {
	s.t.(interface{ Helper() }).Helper()
	var seqs []uint32
	for {
		seq, e := s.acquire()
		if e.Verdict != admission.VerdictGranted {
			break
		}
		seqs, n = append(seqs, seq), n+1
	}
	for _, seq := range seqs {
		s.end(seq, admission.OutcomeNone)
	}
	return n
}

func TestHeadroomStepToTheNanosecond(t *testing.T) {
	s := newShaper(t, headroomPool(3, admission.Headroom{Window: 4 * admission.Second, Min: 1}))
	require.Equal(t, 3, s.inForce())
	require.Equal(t, s.now+4*second, s.push().NextChange)
	require.Equal(t, 2, s.inForce())
	s.now += 4*second - 1
	require.Equal(t, 2, s.inForce())
	require.Equal(t, s.now+4*second, s.push().NextChange, "each 429 begins the window anew")
	s.now += 4*second - 1
	require.Equal(t, 2, s.inForce(), "and takes no second permit")
	s.now++
	require.Equal(t, 3, s.inForce())
	require.Zero(t, s.maintain().NextChange)
	for o := admission.OutcomeNone; o <= admission.OutcomeFailure; o++ {
		s.together(3, o)
		require.Equal(t, 3, s.inForce(), "no pushback")
	}
}

func TestHeadroomWakesTheWaiterAtTheWindowsEnd(t *testing.T) {
	p := headroomPool(2, admission.Headroom{Window: 4 * admission.Second, Min: 1})
	p.Queue = 1
	s := newShaper(t, p)
	s.start()
	s.push()
	e := s.ask(1, 99, admission.Minute)
	require.Equal(t, admission.VerdictWaiting, e.Verdict)
	s.now = e.NextChange - 1
	require.Empty(t, s.maintain().Grants)
	s.now++
	require.Equal(t, []admission.Grant{{Worker: shaperWorker(1), Seq: 99}}, s.maintain().Grants)
}

func TestHeadroomMinimum(t *testing.T) {
	for limit := 1; limit <= 5; limit++ {
		for least := 1; least <= limit; least++ {
			s := newShaper(t, headroomPool(limit, admission.Headroom{Window: admission.Minute, Min: least}))
			s.push()
			require.Equal(t, max(limit-1, least), s.inForce())
			s = newShaper(t, headroomPool(limit, admission.Headroom{AIMD: true, Window: admission.Minute, Min: least}))
			for range 30 {
				s.push()
				s.now += second
			}
			require.Equal(t, least, s.inForce())
		}
	}
}

func TestHeadroomAIMDByTheNumbers(t *testing.T) {
	s := newShaper(t, headroomPool(100, admission.Headroom{AIMD: true, Window: 10 * admission.Second, Min: 5}))
	for _, want := range []int{80, 64, 52, 42, 34, 28, 23, 19, 16, 13, 11, 9, 8, 7, 6, 5, 5} {
		s.push()
		require.Equal(t, want, s.inForce(), "a fifth less, and one at least")
		s.now += second - 1
		s.push()
		require.Equal(t, want, s.inForce(), "within a second it is the same signal")
		s.now++
	}
	s.now += 9*second - 1 // a window after the last that counted
	s.together(5, admission.OutcomeSuccess)
	require.Equal(t, 5, s.inForce())
	s.now++
	s.together(2, admission.OutcomeSuccess)
	require.Equal(t, 5, s.inForce(), "two of five are too few")
	s.together(3, admission.OutcomeSuccess)
	require.Equal(t, 6, s.inForce(), "three of five are half")
	s.together(6, admission.OutcomeFailure)
	s.now += second - 1
	s.together(6, admission.OutcomeSuccess)
	require.Equal(t, 6, s.inForce(), "one a second")
	for want := 7; want <= 100; want++ {
		s.now += second
		s.together(want-1, admission.OutcomeSuccess)
		require.Equal(t, want, s.inForce())
	}
	s.now += second
	s.together(100, admission.OutcomeSuccess)
	require.Equal(t, 100, s.inForce())
}

func TestHeadroomAcrossConfigurations(t *testing.T) {
	s := newShaper(t, headroomPool(10, admission.Headroom{AIMD: true, Window: admission.Hour, Min: 1}))
	for range 20 {
		s.push()
		s.now += second
	}
	require.Equal(t, 1, s.inForce())
	limit := func(n int) {
		s.pool.Limit = n
		s.step(admission.Maintain(s.target(0), true, nil))
	}
	limit(12)
	require.Equal(t, 3, s.inForce(), "the cut stays what it was")
	limit(2)
	require.Equal(t, 1, s.inForce(), "never below the minimum")
	limit(10)
	s.pool.Headroom = &admission.Headroom{Window: admission.Second, Min: 2}
	require.Equal(t, 10, s.inForce(), "a step's window is over")
	s.push()
	s.pool.Headroom = nil
	require.Equal(t, 10, s.inForce(), "without headroom nothing is cut off")
}

// Whatever happens, the limit in force is within [min, limit], and only a 429 lowers it.
func TestHeadroomStaysWithinItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 30).Draw(t, "limit")
		h := admission.Headroom{AIMD: rapid.Bool().Draw(t, "aimd"), Window: drawDuration(t, "window", 1, 500, 3000),
			Min: rapid.IntRange(1, limit).Draw(t, "min")}
		s := newShaper(t, headroomPool(limit, h))
		last := limit
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			pushed := false
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				s.push()
				pushed = true
			case 1:
				s.now += int64(drawDuration(t, "time", 1, 300, 1000, 60_000))
			default:
				o := admission.Outcome(rapid.IntRange(0, int(admission.OutcomeFailure)).Draw(t, "outcome"))
				s.together(rapid.IntRange(1, last).Draw(t, "together"), o)
			}
			n := s.inForce()
			require.LessOrEqual(t, n, limit)
			require.GreaterOrEqual(t, n, h.Min)
			require.True(t, n >= last || pushed, "lowered without a 429")
			last = n
		}
	})
}
