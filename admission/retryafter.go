package admission

// noteRelease feeds the estimate behind retry-after: an exponentially weighted mean (1/8) of the time between releases.
// A worker reads its clock before its step, so a step may be a little older than the one before it. That counts as no
// time between them.
func (r *Record) noteRelease(now int64) {
	since := max(now-r.LastRelease, 0)
	if r.LastRelease > 0 {
		if r.ReleaseEvery == 0 {
			r.ReleaseEvery = since
		}
		r.ReleaseEvery += (since - r.ReleaseEvery) / 8
	}
	r.LastRelease = max(r.LastRelease, now)
}

// The bounds of retry-after in seconds.
const (
	minRetryAfter = 1
	maxRetryAfter = 60
)

// retryAfter estimates in whole seconds when a request that comes now would find a permit: after as many releases as
// requests wait, and one more. If the last release is longer ago than the mean, that time counts instead of the mean.
func (r *Record) retryAfter(now int64) int {
	if r.Limit == 0 {
		return maxRetryAfter
	}
	if r.breaker.state != breakerClosed {
		wait := r.breaker.until - now
		if r.Inflight()+r.OnHold() >= int(r.Limit) { // the probe will need a permit
			wait = max(wait, r.firstHoldEnd()-now)
		}
		return boundedSeconds(wait)
	}
	wait := r.ReleaseEvery
	if r.LastRelease > 0 {
		wait = max(wait, now-r.LastRelease)
	}
	wait = min(wait, maxRetryAfter*int64(Second)) * int64(1+r.Queue.Len())
	if end := r.firstHoldEnd(); end > 0 && (r.Inflight() == 0 || wait == 0) {
		wait = end - now
	}
	return boundedSeconds(wait)
}

// boundedSeconds rounds nanoseconds up to whole seconds within retry-after's bounds.
func boundedSeconds(wait int64) int {
	return int(min(max((wait+int64(Second)-1)/int64(Second), minRetryAfter), maxRetryAfter))
}
