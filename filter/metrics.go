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

// poolStats are one pool's metrics. All are defined from the start, so that a dashboard finds them at zero.
type poolStats struct {
	inflight, queued, held, keys uint32

	evaluated, admitted, admittedAfterWait            uint32
	rejectedQueueFull, rejectedClosed                 uint32
	expiredMaxWait, expiredDeadline, cancelledWaiting uint32
	reaped, storeError, casRetry                      uint32

	waitMillis, heldMillis uint32
}

// futureCounters are the counters of features to come: always there, at zero until then.
var futureCounters = []string{"rejected_breaker", "completed", "aborted", "provider_429", "provider_failure",
	"shadow_would_wait", "shadow_would_reject", "shadow_would_expire"}

func definePoolStats(pool string) poolStats {
	counter := func(name string) uint32 { return define(abi.KindCounter, pool+"."+name) }
	gauge := func(name string) uint32 { return define(abi.KindGauge, pool+"."+name) }
	for _, name := range futureCounters {
		counter(name)
	}
	return poolStats{
		inflight: gauge("inflight"), queued: gauge("queued"), held: gauge("held"), keys: gauge("keys"),
		evaluated: counter("evaluated"), admitted: counter("admitted"), admittedAfterWait: counter("admitted_after_wait"),
		rejectedQueueFull: counter("rejected_queue_full"), rejectedClosed: counter("rejected_closed"),
		expiredMaxWait: counter("expired_max_wait"), expiredDeadline: counter("expired_deadline"),
		cancelledWaiting: counter("cancelled_waiting"),
		reaped:           counter("reaped"), storeError: counter("store_error"), casRetry: counter("cas_retry"),
		waitMillis: define(abi.KindHistogram, pool+".wait_ms"), heldMillis: define(abi.KindHistogram, pool+".held_ms"),
	}
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
