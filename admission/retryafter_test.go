package admission_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/admission"
)

// A clerk serves a pool key as its worker does: it knows since when each permit is in use.
type clerk struct {
	*shaper
	since   map[uint32]int64
	waiting int
}

func newClerk(t *testing.T, p shaperPool) *clerk {
	return &clerk{shaper: newShaper(t, p), since: map[uint32]int64{}}
}

func (c *clerk) pass(d admission.Duration) { c.now += int64(d) }

// come is one request that would wait for an hour.
func (c *clerk) come() (seq uint32, e admission.Effect) {
	c.seq++
	e = c.ask(0, c.seq, admission.Hour)
	switch e.Verdict {
	case admission.VerdictGranted:
		c.gens[c.seq], c.since[c.seq] = e.BreakerGen, c.now
	case admission.VerdictWaiting:
		c.waiting++
	}
	return c.seq, e
}

// fill lets n requests come, of which all have a place.
func (c *clerk) fill(n int) {
	for range n {
		_, e := c.come()
		require.LessOrEqual(c.t, e.Verdict, admission.VerdictWaiting)
	}
}

// leave ends the request that has run longest, and returns how many were granted for it.
func (c *clerk) leave(o admission.Outcome) (granted int) {
	oldest := uint32(0)
	for seq, at := range c.since {
		if oldest == 0 || at < c.since[oldest] || at == c.since[oldest] && seq < oldest {
			oldest = seq
		}
	}
	use := admission.Duration(c.now - c.since[oldest])
	delete(c.since, oldest)
	e := c.finish(oldest, admission.Finish{Outcome: o, Use: use})
	for _, g := range e.Grants {
		c.since[g.Seq], c.gens[g.Seq] = c.now, e.BreakerGen
		c.waiting--
	}
	return len(e.Grants)
}

// serve runs all that is there to its end, one after the other has had its time, and what waits then.
func (c *clerk) serve(each admission.Duration) {
	for len(c.since) > 0 {
		next := int64(1) << 62
		for _, at := range c.since {
			next = min(next, at+int64(each))
		}
		c.now = max(c.now, next)
		c.leave(admission.OutcomeSuccess)
	}
}

// refusedFor is the retry-after of a request that is refused now.
func (c *clerk) refusedFor() int {
	_, e := c.come()
	require.Greater(c.t, e.Verdict, admission.VerdictWaiting, "it should be refused")
	return e.RetryAfter
}

// A burst after a pause is told the same as one before it: time in which nothing ran says nothing.
func TestFinding_A3_RetryAfterOfABurstAfterAPause(t *testing.T) {
	c := newClerk(t, shaperPool{Limit: 2, Queue: 3})
	c.fill(5)
	require.Equal(t, 1, c.refusedFor(), "nothing is known yet")
	c.serve(admission.Second)
	for range 3 {
		c.pass(45 * admission.Second)
		c.fill(5)
		require.Equal(t, 2, c.refusedFor(), "four are ahead of whom two run, for a second each")
		c.serve(admission.Second)
	}
}

func TestFinding_A3_RetryAfterOfLongStreams(t *testing.T) {
	c := newClerk(t, shaperPool{Limit: 4})
	c.fill(4)
	c.pass(10 * admission.Second)
	require.Equal(t, 3, c.refusedFor(), "four run for 10 s, and none has left")
	c.pass(30 * admission.Minute)
	require.Equal(t, 60, c.refusedFor())
	c.pass(30 * admission.Minute)
	c.leave(admission.OutcomeSuccess)
	c.fill(1)
	require.Equal(t, 60, c.refusedFor(), "an hour each")
}

func TestFinding_A3_RetryAfterOfAPoolThatCoolsDown(t *testing.T) {
	c := newClerk(t, shaperPool{Limit: 2, Queue: 1, Hold: admission.Hold{Success: 8 * admission.Second}})
	c.fill(2)
	c.pass(2 * admission.Second)
	c.leave(admission.OutcomeSuccess)
	c.pass(3 * admission.Second)
	c.leave(admission.OutcomeSuccess)
	c.fill(1)
	require.Equal(t, 8, c.refusedFor(), "the first hold's end is the waiter's")
	c.pass(2 * admission.Second)
	require.Equal(t, 6, c.refusedFor())
}

// A permit that one request keeps for hours takes nothing from what is known of the other.
func TestFinding_A3_RetryAfterBesideAStream(t *testing.T) {
	c := newClerk(t, shaperPool{Limit: 2, Hold: admission.Hold{Success: 4 * admission.Second}})
	c.fill(1)
	c.pass(admission.Hour)
	for range 20 {
		c.fill(1)
		seq := c.seq
		c.pass(admission.Second)
		use := admission.Duration(c.now - c.since[seq])
		delete(c.since, seq)
		c.finish(seq, admission.Finish{Outcome: admission.OutcomeSuccess, Use: use})
		require.Equal(t, 4, c.refusedFor(), "until the hold's end")
		c.pass(4 * admission.Second)
	}
}

func TestFinding_A3_RetryAfterOfAHalfOpenBreaker(t *testing.T) {
	c := newClerk(t, shaperPool{Limit: 2, Breaker: &admission.Breaker{Failures: 1, Window: 30 * admission.Second,
		Open: 10 * admission.Second, MaxOpen: admission.Minute}})
	c.fill(1)
	c.pass(3 * admission.Second)
	c.leave(admission.OutcomeFailure)
	require.Equal(t, 10, c.refusedFor(), "it is open")
	c.pass(10 * admission.Second)
	c.fill(1)
	require.Equal(t, 3, c.refusedFor(), "a request took 3 s, and the probe is one")
}

// Twice as many requests as fit, one after the other: each that is refused is told the time after which it would have
// had a permit, to the second.
func TestFinding_A3_RetryAfterUnderLoad(t *testing.T) {
	const each = 7 * admission.Second
	c := newClerk(t, shaperPool{Limit: 4, Queue: 6})
	end := c.now + int64(5*admission.Minute)
	for n := 0; c.now < end; n++ {
		c.pass(875 * admission.Millisecond)
		for len(c.since) > 0 && c.oldest()+int64(each) <= c.now {
			c.leave(admission.OutcomeSuccess)
		}
		if _, e := c.come(); e.Verdict > admission.VerdictWaiting && n > 60 {
			// Seven permits have to come free, four in each 7 s: 12.25 s.
			require.InDelta(t, 13, e.RetryAfter, 1.5)
		}
	}
}

func (c *clerk) oldest() int64 {
	at := int64(1) << 62
	for _, since := range c.since {
		at = min(at, since)
	}
	return at
}
