package filter

import (
	"github.com/headgate/headgate/filter/abi"
	"github.com/headgate/headgate/filter/records"
)

// Counters are handed over to the host together, and not one by one as they count: see abi.HandOver. Gauges are not.
// All workers share a gauge, so one worker's pending changes could put it below zero.
const (
	handOverDelay    = 100 * millisecond // how old a count may get
	handOverRequests = 64                // how many requests may end before their counts are handed over
)

// Owes implements abi.Debtor.
func (s *stream) Owes() { s.plugin.Owes() }

// Owes implements abi.Debtor: it asks for a tick, at whose end the counts are handed over.
func (p *plugin) Owes() {
	p.readClock()
	p.WakeBy(p.turn.now + handOverDelay)
}

// countEnded hands the counts over if many requests have ended since that was last done. Another one has, and all of it
// is counted.
func (p *plugin) countEnded() {
	if p.ended++; p.ended >= handOverRequests {
		p.handOverCounts()
	}
}

func (p *plugin) handOverCounts() {
	p.ended = 0
	abi.HandOver()
}

// globalStats are the ids of the metrics that belong to no pool.
type globalStats struct{ ungoverned, ambiguous, badDeadline, rejected uint32 }

func defineGlobalStats() globalStats {
	return globalStats{
		ungoverned:  define(abi.KindCounter, "ungoverned"),
		ambiguous:   define(abi.KindCounter, "ambiguous_identity"),
		badDeadline: define(abi.KindCounter, "bad_deadline"),
		rejected:    define(abi.KindCounter, "config_rejected"),
	}
}

// poolStats are the ids of one pool's metrics.
type poolStats struct {
	records.Stats

	evaluated, admitted, admittedAfterWait                uint32
	rejectedQueueFull, rejectedClosed, rejectedBreaker    uint32
	expiredMaxWait, expiredDeadline, cancelledWaiting     uint32
	completed, aborted, provider429, providerFailure      uint32
	shadowWouldWait, shadowWouldReject, shadowWouldExpire uint32

	waitMillis, heldMillis uint32
}

// definePoolStats defines all metrics of a pool at once, so that a dashboard shows them from the start, at zero.
func definePoolStats(pool string) poolStats {
	var s poolStats
	for _, m := range [...]struct {
		kind abi.MetricKind
		name string
		id   *uint32
	}{
		{abi.KindGauge, "inflight", &s.Inflight},
		{abi.KindGauge, "queued", &s.Queued},
		{abi.KindGauge, "on_hold", &s.OnHold},
		{abi.KindGauge, "keys", &s.Keys},
		{abi.KindCounter, "evaluated", &s.evaluated},
		{abi.KindCounter, "admitted", &s.admitted},
		{abi.KindCounter, "admitted_after_wait", &s.admittedAfterWait},
		{abi.KindCounter, "rejected_queue_full", &s.rejectedQueueFull},
		{abi.KindCounter, "rejected_closed", &s.rejectedClosed},
		{abi.KindCounter, "rejected_breaker", &s.rejectedBreaker},
		{abi.KindCounter, "expired_max_wait", &s.expiredMaxWait},
		{abi.KindCounter, "expired_deadline", &s.expiredDeadline},
		{abi.KindCounter, "cancelled_waiting", &s.cancelledWaiting},
		{abi.KindCounter, "completed", &s.completed},
		{abi.KindCounter, "aborted", &s.aborted},
		{abi.KindCounter, "breaker_opened", &s.BreakerOpened},
		{abi.KindCounter, "breaker_closed", &s.BreakerClosed},
		{abi.KindCounter, "reaped", &s.Reaped},
		{abi.KindCounter, "store_error", &s.StoreError},
		{abi.KindCounter, "cas_retry", &s.CASRetry},
		{abi.KindCounter, "contended", &s.Contended},
		{abi.KindCounter, "provider_429", &s.provider429},
		{abi.KindCounter, "provider_failure", &s.providerFailure},
		{abi.KindCounter, "shadow_would_wait", &s.shadowWouldWait},
		{abi.KindCounter, "shadow_would_reject", &s.shadowWouldReject},
		{abi.KindCounter, "shadow_would_expire", &s.shadowWouldExpire},
		{abi.KindHistogram, "wait_ms", &s.waitMillis},
		{abi.KindHistogram, "held_ms", &s.heldMillis},
	} {
		*m.id = define(m.kind, pool+"."+m.name)
	}
	return s
}

// define defines a metric and returns its id. Envoy shows it under wasmcustom.
func define(kind abi.MetricKind, name string) uint32 {
	id, s := abi.DefineMetric(kind, "headgate."+name)
	if s != abi.StatusOK {
		abi.Log(abi.LogWarn, "metric headgate."+name+" could not be defined")
	}
	return id
}
