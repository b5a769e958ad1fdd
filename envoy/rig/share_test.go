package rig

import (
	"testing"
	"time"
)

func record(id, key string, start, end int) *Seen {
	at := func(ms int) time.Time { return time.Unix(0, 0).Add(time.Duration(ms) * time.Millisecond) }
	s := &Seen{ID: id, Key: key, Start: at(start)}
	if end > 0 {
		s.End, s.Ending = at(end), EndingComplete
	}
	return s
}

func TestAverageIsOverTheWindowAlone(t *testing.T) {
	u := &Upstream{seen: []*Seen{record("1", "a", 0, 20), record("2", "a", 15, 0), record("3", "b", 10, 20),
		record("4", "a", 30, 40)}}
	if got := u.Average("a", time.UnixMilli(10), time.UnixMilli(20)); got != 1.5 {
		t.Errorf("a ran %v times on average, want 1.5", got)
	}
}

func TestPeakUntilCountsARequestUntilItsClientLeft(t *testing.T) {
	u := &Upstream{seen: []*Seen{record("1", "", 0, 20), record("2", "", 5, 20), record("3", "", 15, 0),
		record("4", "", 20, 30)}}
	for want, left := range map[int]map[string]time.Time{
		3: nil,
		2: {"2": time.UnixMilli(10)},
		1: {"1": time.UnixMilli(4), "2": time.UnixMilli(10), "3": time.UnixMilli(16)},
	} {
		if got := u.PeakUntil(left); got != want {
			t.Errorf("the peak is %d with %v, want %d", got, left, want)
		}
	}
}
