package filter

import "github.com/headgate/headgate/filter/abi"

// globalStats are the metrics that belong to no pool.
type globalStats struct{ ungoverned, ambiguous, badDeadline, rejected uint32 }

func defineGlobalStats() globalStats {
	return globalStats{
		ungoverned:  define(abi.KindCounter, "ungoverned"),
		ambiguous:   define(abi.KindCounter, "ambiguous_identity"),
		badDeadline: define(abi.KindCounter, "bad_deadline"),
		rejected:    define(abi.KindCounter, "config_rejected"),
	}
}

// poolStats are one pool's metrics.
type poolStats struct {
	inflight, queued, held, keys uint32

	evaluated, admitted, admittedAfterWait                uint32
	rejectedQueueFull, rejectedClosed, rejectedBreaker    uint32
	expiredMaxWait, expiredDeadline, cancelledWaiting     uint32
	completed, aborted, provider429, providerFailure      uint32
	reaped, storeError, casRetry                          uint32
	shadowWouldWait, shadowWouldReject, shadowWouldExpire uint32

	waitMillis, heldMillis uint32
}

// definePoolStats defines all of a pool's metrics at once, so that a dashboard finds them at zero.
func definePoolStats(pool string) poolStats {
	var s poolStats
	for _, m := range [...]struct {
		kind abi.MetricKind
		name string
		id   *uint32
	}{
		{abi.KindGauge, "inflight", &s.inflight},
		{abi.KindGauge, "queued", &s.queued},
		{abi.KindGauge, "on_hold", &s.held},
		{abi.KindGauge, "keys", &s.keys},
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
		{abi.KindCounter, "reaped", &s.reaped},
		{abi.KindCounter, "store_error", &s.storeError},
		{abi.KindCounter, "cas_retry", &s.casRetry},
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

// define defines a metric; Envoy shows it under wasmcustom.
func define(kind abi.MetricKind, name string) uint32 {
	id, s := abi.DefineMetric(kind, "headgate."+name)
	if s != abi.StatusOK {
		abi.Log(abi.LogWarn, "metric headgate."+name+" could not be defined")
	}
	return id
}

// move changes a gauge by what one step changed in a record. The steps of all workers add up, and a worker raises a gauge
// before it stores the step and lowers it after, so that no reader ever sees it below zero.
func move(gauge uint32, delta int) {
	if delta != 0 {
		abi.Increment(gauge, int64(delta))
	}
}
