package admission_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/admission"
)

func breakerPool(b admission.Breaker) shaperPool {
	return shaperPool{Limit: 10, Breaker: &b}
}

// breaker opens after so many failures within 10 s, each time for the same time.
func breaker(failures int, open admission.Duration) admission.Breaker {
	return admission.Breaker{Failures: failures, Window: 10 * admission.Second, Open: open, MaxOpen: open}
}

func TestBreakerOpensAndHalfOpensToTheNanosecond(t *testing.T) {
	b := breaker(3, 2500*admission.Millisecond)
	b.MaxOpen = admission.Minute
	s := newShaper(t, breakerPool(b))
	require.Zero(t, s.fail(2).NextChange)
	e := s.fail(1)
	require.Equal(t, s.now+2500*ms, e.NextChange, "the caller is told when time alone changes something")
	s.requireOpen(3)
	s.now += 500 * ms
	s.requireOpen(2)
	s.now += 2*second - 1
	s.requireOpen(1)
	s.now++
	probe, e := s.acquire()
	require.Equal(t, admission.VerdictGranted, e.Verdict)
	require.Equal(t, probe, e.Probe)
	require.Zero(t, e.NextChange, "half open, it waits for no time")
	s.requireOpen(1)
	s.end(probe, admission.OutcomeSuccess)
	for range 10 {
		s.start()
	}
	v, _ := s.refused()
	require.Equal(t, admission.VerdictFull, v)
}

// An open breaker whose time is over waits for a request. If its steps named a time to wake at, ticks would never end.
func TestBreakerThatIsOverdueNeedsNoTime(t *testing.T) {
	s := newShaper(t, breakerPool(breaker(1, admission.Second)))
	s.fail(1)
	s.now += second
	require.Zero(t, s.maintain().NextChange)
	s.start()
}

func TestBreakerOpenTimes(t *testing.T) {
	for _, c := range []struct {
		open, most admission.Duration
		want       []admission.Duration
	}{
		{admission.Second, admission.Second, []admission.Duration{1, 1, 1}},
		{admission.Second, 5 * admission.Second, []admission.Duration{1, 2, 4, 5, 5}},
		{10 * admission.Second, 120 * admission.Second, []admission.Duration{10, 20, 40, 80, 120, 120}},
		{24 * admission.Hour, 24 * admission.Hour, []admission.Duration{86400, 86400}},
		{16 * admission.Hour, 24 * admission.Hour, []admission.Duration{57600, 86400}},
	} {
		b := breaker(1, c.open)
		b.MaxOpen = c.most
		s := newShaper(t, breakerPool(b))
		for range 2 { // a success begins anew
			for _, want := range c.want {
				e := s.fail(1)
				require.Equal(t, s.now+int64(want*admission.Second), e.NextChange)
				s.now = e.NextChange
			}
			s.end(s.start(), admission.OutcomeSuccess)
		}
	}
	b := breaker(1, admission.Millisecond)
	b.MaxOpen = 24 * admission.Hour
	s := newShaper(t, breakerPool(b))
	for range 300 { // however often: no count wraps
		s.now = s.fail(1).NextChange
	}
	require.Equal(t, s.now+24*3600*second, s.fail(1).NextChange)
}

func TestPenalties(t *testing.T) {
	b := breaker(1000, admission.Second)
	b.Penalty, b.MaxPenalty = 2*admission.Second, admission.Minute
	p := breakerPool(b)
	p.Hold = admission.Hold{Failure: 5 * admission.Minute, Success: 200 * admission.Millisecond}
	s := newShaper(t, p)
	onHold := func(seconds int64, e admission.Effect) {
		t.Helper()
		require.Equal(t, 1, e.OnHold)
		require.Equal(t, s.now+seconds*second+200*ms, e.NextChange)
		s.now = e.NextChange
	}
	for range 2 {
		for _, want := range []int64{2, 4, 8, 16, 32, 60, 60} {
			onHold(want, s.fail(1))
		}
		onHold(0, s.end(s.start(), admission.OutcomeSuccess))
	}
	for range 300 {
		s.now = s.fail(1).NextChange
	}
	onHold(60, s.fail(1))
	e := s.finish(s.start(), admission.Finish{Outcome: admission.OutcomeFailure, RetryAfter: 10 * admission.Minute})
	require.Equal(t, s.now+600*second, e.NextChange, "the cap of every hold")
}

// A failure counts for the window, less what had passed of its tenth when it came. The first failure begins the tenths.
func TestBreakerWindowToTheNanosecond(t *testing.T) {
	const part = second
	for _, c := range []struct {
		at    []int64 // failures
		alive int     // that count with the last
	}{
		{[]int64{0, 10*part - 1}, 2},
		{[]int64{0, 10 * part}, 1},
		{[]int64{0, part - 1, 10*part - 1}, 3},
		{[]int64{0, part - 1, 10 * part}, 1},
		{[]int64{0, part, 10*part - 1}, 3},
		{[]int64{0, part, 10 * part}, 2},
		{[]int64{0, 3*part - 1, 12*part - 1}, 2},
		{[]int64{0, 3*part - 1, 12 * part}, 1},
		{[]int64{0, 3 * part, 13*part - 1}, 2},
		{[]int64{0, 3 * part, 13 * part}, 1},
		{[]int64{0, 100 * part, 110*part - 1}, 2},
		{[]int64{0, 9*part + 1, 18 * part, 19*part - 1}, 3},
		{[]int64{0, 9*part + 1, 18 * part, 19 * part}, 2},
		{[]int64{0, 2 * part, 4 * part, 6 * part, 8 * part, 10 * part, 12 * part}, 5},
	} {
		for _, failures := range []int{c.alive, c.alive + 1} {
			b := breaker(1000, admission.Second)
			s := newShaper(t, breakerPool(b))
			begun := s.now
			for i, at := range c.at {
				s.now = begun + at
				if i == len(c.at)-1 {
					s.pool.Breaker.Failures = failures
				}
				s.fail(1)
				if i < len(c.at)-1 { // so many in a row would open it, too
					s.end(s.start(), admission.OutcomeSuccess)
				}
			}
			v, _ := s.refused()
			require.Equal(t, failures == c.alive, v == admission.VerdictOpen,
				"%v: %d count, %d open it", c.at, c.alive, failures)
		}
	}
}

// A request that began in an earlier state of the breaker says nothing about the present one.
func TestResultsOfAnEarlierStateSayNothing(t *testing.T) {
	s := newShaper(t, breakerPool(breaker(1, admission.Second)))
	var old []uint32
	for range 6 {
		old = append(old, s.start())
	}
	s.fail(1)
	s.end(old[0], admission.OutcomeSuccess)
	s.end(old[1], admission.OutcomeFailure)
	s.requireOpen(1)
	s.now += second
	probe := s.start()
	s.end(old[2], admission.OutcomeSuccess)
	s.end(old[3], admission.OutcomeFailure)
	s.requireOpen(1)
	s.end(probe, admission.OutcomeSuccess)
	s.end(old[4], admission.OutcomeFailure)
	s.end(s.start(), admission.OutcomeSuccess)
	s.end(s.start(), admission.OutcomeFailure)
	s.end(old[5], admission.OutcomeSuccess)
	s.requireOpen(1)
}

// A thousand failures, the most a configuration can ask for, are counted one by one.
func TestBreakerOfAThousandFailures(t *testing.T) {
	b := breaker(1000, admission.Second)
	b.Window = 24 * admission.Hour
	s := newShaper(t, breakerPool(b))
	s.fail(999)
	s.now += 20 * 3600 * second
	s.end(s.start(), admission.OutcomeSuccess)
	s.fail(1)
	s.requireOpen(1)
}

func TestBreakerThatIsTakenAwayAndComesBack(t *testing.T) {
	b := breaker(1, admission.Hour)
	s := newShaper(t, breakerPool(b))
	s.fail(1)
	s.requireOpen(60)
	s.pool.Breaker, s.pool.Limit = nil, 10
	for range 10 {
		s.start()
	}
	v, _ := s.refused()
	require.Equal(t, admission.VerdictFull, v, "without a breaker nobody is refused for it")
	s.pool.Breaker = &b
	for seq := range s.gens {
		s.end(seq, admission.OutcomeSuccess)
	}
	s.fail(1)
	s.requireOpen(60)
}

// An idle record isn't given up while its breaker is open, a permit is on hold, or its limit is lowered.
func TestOpenBreakerAndLoweredLimitAreNotRetired(t *testing.T) {
	b := breaker(1, admission.Second)
	retire := func(s *shaper) admission.Verdict {
		return s.step(admission.Retire(s.now, 1)).Verdict
	}
	s := newShaper(t, breakerPool(b))
	s.fail(1)
	require.Equal(t, admission.VerdictBusy, retire(s))
	s.now += second - 1
	require.Equal(t, admission.VerdictBusy, retire(s))
	s.now += 10 * 60 * second // and ten minutes longer, in which its next probe is still to come
	require.Equal(t, admission.VerdictBusy, retire(s))
	s.now++
	require.Equal(t, admission.VerdictDone, retire(s))

	p := shaperPool{Limit: 10, Hold: admission.Hold{Success: admission.Second}}
	s = newShaper(t, p)
	s.end(s.start(), admission.OutcomeSuccess)
	require.Equal(t, admission.VerdictBusy, retire(s))
	s.now += second
	e := s.step(admission.Retire(s.now, 1))
	require.Equal(t, admission.VerdictDone, e.Verdict)
	require.Equal(t, -1, e.OnHoldDelta, "the hold that was over ends in this step, and is to be counted")

	s = newShaper(t, shaperPool{Limit: 10, Headroom: &admission.Headroom{Window: admission.Second, Min: 1}})
	s.push()
	require.Equal(t, admission.VerdictBusy, retire(s))
}
