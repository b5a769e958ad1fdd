package rig

import (
	"cmp"
	"slices"
	"time"
)

// Average is how many requests with this key ran at the upstream between two moments, on average over the time.
func (u *Upstream) Average(key string, from, to time.Time) float64 {
	ran := time.Duration(0)
	for _, seen := range u.Requests() {
		if seen.Key == key {
			ran += seen.overlap(from, to)
		}
	}
	return float64(ran) / float64(to.Sub(from))
}

func (s Seen) overlap(from, to time.Time) time.Duration {
	if s.Start.After(from) {
		from = s.Start
	}
	if s.Ending != EndingNone && s.End.Before(to) {
		to = s.End
	}
	return max(0, to.Sub(from))
}

// PeakUntil is Peak, computed from the records, where a request whose client left counts until then; left is by id.
// Envoy ends a filter's stream before it closes the upstream's connection, so that for some 0.1 ms a permit that is
// handed to another worker and the request that gave it back can both be seen here.
func (u *Upstream) PeakUntil(left map[string]time.Time) int {
	type event struct {
		at   time.Time
		step int
	}
	var events []event
	for _, seen := range u.Requests() {
		end, ended := seen.End, seen.Ending != EndingNone
		if at, ok := left[seen.ID]; ok && (!ended || at.Before(end)) {
			end, ended = at, true
		}
		if ended && end.Before(seen.Start) {
			continue
		}
		events = append(events, event{seen.Start, 1})
		if ended {
			events = append(events, event{end, -1})
		}
	}
	slices.SortFunc(events, func(a, b event) int { return cmp.Or(a.at.Compare(b.at), a.step-b.step) })
	running, peak := 0, 0
	for _, e := range events {
		running += e.step
		peak = max(peak, running)
	}
	return peak
}
