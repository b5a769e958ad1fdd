package rig

import (
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Outcomes are the counters of which each evaluated request moves exactly one.
var Outcomes = []string{"admitted", "rejected_queue_full", "rejected_closed", "rejected_breaker", "expired_max_wait",
	"expired_deadline",
	"cancelled_waiting"}

const headgatePrefix = "wasmcustom.headgate."

// Counts are the stats of one pool, or those of the whole filter, by their short names.
type Counts map[string]int64

// countsAge is longer than a worker takes to tell Envoy what it has counted: 100 ms, says docs/metrics.md.
const countsAge = 120 * time.Millisecond

// AwaitCounts reads until two readings, one after the other by more than a worker may take to tell of its counts, are
// the same, and returns the last one. Where traffic goes on they may never be, so it reads for a second at most.
func AwaitCounts[T comparable, M ~map[string]T](read func() M) M {
	counts := read()
	Poll(time.Second, func() bool {
		time.Sleep(countsAge)
		before := counts
		counts = read()
		return maps.Equal(before, counts)
	})
	return counts
}

// Pool reads the stats of the pool that the test's Config calls so. Whatever has been counted before is in them.
func (e *Env) Pool(t testing.TB, pool string) Counts {
	t.Helper()
	return AwaitCounts(func() Counts { return e.poolNow(t, pool) })
}

// poolNow reads the stats of a pool as Envoy has them: the gauges are those of now, the counters may be older.
func (e *Env) poolNow(t testing.TB, pool string) Counts {
	t.Helper()
	return e.counts(t, headgatePrefix+e.PoolName(pool)+".")
}

// FilterCounts reads the stats that belong to no pool. They are common to all tests of an Envoy: compare two readings.
func (e *Env) FilterCounts(t testing.TB) Counts {
	t.Helper()
	all := AwaitCounts(func() Counts { return e.counts(t, headgatePrefix) })
	own := Counts{}
	for name, n := range all {
		if !strings.Contains(name, ".") {
			own[name] = n
		}
	}
	return own
}

func (e *Env) counts(t testing.TB, prefix string) Counts {
	t.Helper()
	stats, err := e.AdminStats(regexp.QuoteMeta(prefix))
	if err != nil {
		t.Fatalf("read the stats: %v", err)
	}
	counts := Counts{}
	for name, value := range stats {
		if n, isNumber := value.(int64); isNumber && strings.HasPrefix(name, prefix) {
			counts[strings.TrimPrefix(name, prefix)] = n
		}
	}
	return counts
}

// Gauge reads a gauge of a pool as it is now.
func (e *Env) Gauge(t testing.TB, pool, gauge string) int64 {
	t.Helper()
	return e.poolNow(t, pool)[gauge]
}

// AwaitGauge waits until a gauge of a pool has the value.
func (e *Env) AwaitGauge(t testing.TB, pool, gauge string, want int64) {
	t.Helper()
	e.AwaitGaugeWithin(t, Patience, pool, gauge, want)
}

// AwaitGaugeWithin is AwaitGauge with a bound of its own.
func (e *Env) AwaitGaugeWithin(t testing.TB, timeout time.Duration, pool, gauge string, want int64) {
	t.Helper()
	var got int64
	if !Poll(timeout, func() bool {
		got = e.Gauge(t, pool, gauge)
		return got == want
	}) {
		t.Fatalf("%s.%s is %d after %v, want %d", pool, gauge, got, timeout, want)
	}
}

// CheckCounts compares some of a pool's stats.
func (e *Env) CheckCounts(t testing.TB, pool string, want Counts) {
	t.Helper()
	got := e.Pool(t, pool)
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s.%s is %d, want %d", pool, name, got[name], n)
		}
	}
}

// CheckIdentity checks that each evaluated request of a drained pool has exactly one outcome and no gauge is negative.
func (e *Env) CheckIdentity(t testing.TB, pool string) {
	t.Helper()
	if problem := e.Pool(t, pool).identity(); problem != "" {
		t.Errorf("%s: %s", pool, problem)
	}
}

// identity says what is wrong with the counts of a drained pool, "" if nothing.
func (c Counts) identity() string {
	sum, parts := int64(0), []string{}
	for _, outcome := range Outcomes {
		sum += c[outcome]
		if c[outcome] != 0 {
			parts = append(parts, fmt.Sprintf("%s %d", outcome, c[outcome]))
		}
	}
	if c["evaluated"] != sum {
		return fmt.Sprintf("evaluated %d is not the sum %d of %s", c["evaluated"], sum, strings.Join(parts, ", "))
	}
	for _, gauge := range []string{"inflight", "queued", "on_hold", "keys"} {
		if c[gauge] < 0 {
			return fmt.Sprintf("gauge %s is %d", gauge, c[gauge])
		}
	}
	return ""
}
