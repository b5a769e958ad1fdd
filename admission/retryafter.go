package admission

// noteMove notes that a permit was granted or came free. A worker reads its clock before its step, so a step may be a
// little older than the one before it.
func (r *Record) noteMove(now int64) { r.LastMove = max(r.LastMove, now) }

// longestUse is the longest use of a permit that the mean counts in full. What is longer makes no difference to an
// answer of a minute at most.
const longestUse = 24 * int64(Hour)

// noteUse feeds the mean of how long a permit is in use: its request runs, and the permit is then on hold.
func (r *Record) noteUse(d Duration) { r.MeanUse = meanUse(r.MeanUse, d) }

// meanUse is the mean after one more use.
func meanUse(mean int64, d Duration) int64 {
	use := min(int64(d), longestUse)
	switch {
	case use <= 0: // not told
		return mean
	case mean == 0:
		return use
	}
	return mean + (use-mean)/8
}

// The bounds of retry-after in seconds.
const (
	minRetryAfter = 1
	maxRetryAfter = 60
)

// retryAfter estimates in whole seconds when a request that comes now would find a permit: once as many have come free
// as requests wait, and one more.
func (m *Machine) retryAfter() int {
	r, now := &m.rec, m.op.Now
	if r.Limit == 0 {
		return maxRetryAfter
	}
	if r.breaker.state != BreakerClosed {
		wait := r.breaker.until - now
		if wait <= 0 { // the probe runs, and is a request as any other
			wait = r.MeanUse
		}
		if r.Inflight()+r.OnHold() >= int(r.Limit) { // the probe will need a permit
			wait = max(wait, r.firstHoldEnd()-now)
		}
		return boundedSeconds(wait)
	}
	limit := r.inForce(m.op.Shaping)
	needed := r.Queue.Len() + 1 - (limit - r.Inflight() - r.OnHold())
	later := 0
	if n := r.OnHold(); r.Inflight() == 0 && needed > n { // the others get theirs from those that the holds' ends start
		needed, later = n, needed-n
	}
	return boundedSeconds(r.untilFree(now, needed) + r.MeanUse/int64(max(limit, 1))*int64(later))
}

// untilFree is the shortest time in which the given number of permits is likely to come free, and a minute at most.
// Permits on hold come free at their end. Those of running requests come at a rate: as many in the mean time of a use
// as run. All of them run since the last movement at least, so if that is longer ago than the mean, it counts instead.
func (r *Record) untilFree(now int64, needed int) int64 {
	const most = maxRetryAfter * int64(Second)
	if needed <= 0 {
		return 0
	}
	every := int64(0) // between two running requests' ends
	if n := int64(r.Inflight()); n > 0 {
		if every = max(r.MeanUse, now-r.LastMove) / n; every <= 0 {
			return 0 // nothing is known yet
		}
	}
	short, long := int64(0), most
	for long-short > int64(Millisecond) {
		middle := (short + long) / 2
		came := r.holdsEnding(now + middle)
		if every > 0 {
			came += int(middle / every)
		}
		if came >= needed {
			long = middle
		} else {
			short = middle
		}
	}
	return short // what is lost to the search is made up by the rounding
}

// boundedSeconds rounds nanoseconds up to whole seconds within retry-after's bounds.
func boundedSeconds(wait int64) int {
	return int(min(max((wait+int64(Second)-1)/int64(Second), minRetryAfter), maxRetryAfter))
}
