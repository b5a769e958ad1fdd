package rig

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// A Span is one request as an upstream had it: from its first byte to the end of its answer, or to the moment at which
// Envoy ended it.
type Span struct {
	ID    string // of its Script
	Start Moment
	End   Moment
	Ended string // by what; "": it still runs
}

// A Moment is a point in the order of what was seen.
type Moment struct {
	Order int64
	At    time.Time
}

// A Watch notes how many requests run at an upstream at once.
type Watch struct {
	// How says what is looked at.
	How string

	spans func(testing.TB) []Span
}

// Watch begins to watch the test's upstream, before its first request: by the packets on the loopback where this
// process may read them, which only root may, or else as WatchConnections.
func (e *Env) Watch(t testing.TB) *Watch {
	t.Helper()
	w, err := watchPackets(t, e.Up.Port)
	if err != nil {
		t.Logf("the packets on the loopback can't be read: %v", err)
		w = e.WatchConnections()
	}
	t.Logf("watched: %s", w.How)
	return w
}

// sharedLag is how much later than Envoy's reset the end of a request may be noticed whose connection has others too.
// Nothing but the goroutine that reads the connection knows of the reset.
const sharedLag = 100 * time.Millisecond

// WatchConnections watches the test's upstream by the state of its sockets, and by when its handlers begin and end.
// It finds gross faults: it sees no excess that is over when the new request is read, nor one within sharedLag over
// HTTP/2.
func (e *Env) WatchConnections() *Watch {
	e.Up.watchSockets()
	return &Watch{How: "the upstream's sockets", spans: func(testing.TB) []Span {
		var spans []Span
		for _, seen := range e.Up.Requests() {
			spans = append(spans, spanOf(seen))
		}
		return spans
	}}
}

func spanOf(seen Seen) Span {
	end := seen.End
	switch {
	case !seen.gone.IsZero():
		end = seen.gone
	case seen.Ending == EndingCancelled && seen.Proto == "HTTP/2.0":
		end = end.Add(-sharedLag)
	}
	if end.Before(seen.Start) {
		end = seen.Start
	}
	by := map[Ending]string{EndingComplete: "its answer", EndingCancelled: "Envoy", EndingReset: "the upstream"}
	return Span{ID: seen.ID, Start: Moment{seen.Start.UnixNano(), seen.Start}, End: Moment{end.UnixNano(), end},
		Ended: by[seen.Ending]}
}

// Spans returns the requests so far, in the order in which they began.
func (w *Watch) Spans(t testing.TB) []Span {
	t.Helper()
	spans := w.spans(t)
	slices.SortFunc(spans, func(a, b Span) int { return cmp.Compare(a.Start.Order, b.Start.Order) })
	return spans
}

// An Excess is a time in which more requests ran than a limit allows.
type Excess struct {
	Lasted  time.Duration
	Running []Span // when most of them ran
}

func (e Excess) String() string {
	var parts []string
	for _, s := range e.Running {
		took := s.End.At.Sub(s.Start.At)
		parts = append(parts, fmt.Sprintf("%q (for %v, ended by %s)", s.ID, took, cmp.Or(s.Ended, "nothing")))
	}
	return fmt.Sprintf("%d for %v: %s", len(e.Running), e.Lasted, strings.Join(parts, ", "))
}

// Excesses returns when more requests ran than the limit.
func (w *Watch) Excesses(t testing.TB, limit int) []Excess {
	t.Helper()
	return excesses(w.Spans(t), limit)
}

// CheckLimit fails the test if more requests than the limit ran at once.
func (w *Watch) CheckLimit(t testing.TB, limit int) {
	t.Helper()
	const shown = 5
	found := w.Excesses(t, limit)
	for i, e := range found {
		if i == shown {
			t.Errorf("... and %d times more", len(found)-shown)
			return
		}
		t.Errorf("%s: the limit is %d, but there were %s", w.How, limit, e)
	}
}

// excesses returns the times in which more ran than the limit. One that isn't over ends with the last moment seen.
func excesses(spans []Span, limit int) []Excess {
	type event struct {
		Moment
		span  int
		begin bool
	}
	var events []event
	for i, s := range spans {
		events = append(events, event{s.Start, i, true})
		if s.Ended != "" {
			events = append(events, event{s.End, i, false})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.Order, b.Order) })
	var found []Excess
	running := map[int]bool{}
	var since time.Time
	for n, e := range events {
		was := len(running) > limit
		if e.begin {
			running[e.span] = true
		} else {
			delete(running, e.span)
		}
		is := len(running) > limit
		if is && !was {
			since = e.At
			found = append(found, Excess{})
		}
		if is && len(running) > len(found[len(found)-1].Running) {
			found[len(found)-1].Running = of(spans, running)
		}
		if was && !is || is && n == len(events)-1 {
			found[len(found)-1].Lasted = e.At.Sub(since)
		}
	}
	return found
}

func of(spans []Span, running map[int]bool) []Span {
	var some []Span
	for i, s := range spans {
		if running[i] {
			some = append(some, s)
		}
	}
	return some
}
