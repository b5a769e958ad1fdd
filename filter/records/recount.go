package records

import "github.com/headgate/headgate/filter/abi"

// recount puts the gauges right after something may have parted them from the records: a VM that died between changing
// one and the other, a record that was lost.
//
// The gauges follow the changes of all workers, so they can be compared with the records only while no worker changes
// any: when this worker is about to leave and is the only one. cas is the worker table's, as this worker has seen
// itself alone in it.
func (r *Records) recount(cas uint32) {
	for _, o := range r.pools {
		var inflight, queued, onHold int
		r.eachRecord(o, func(k *Key) {
			if state, _, s := abi.GetShared(k.data); s == abi.StatusOK {
				i, q, h := r.machine.Sums(state)
				inflight, queued, onHold = inflight+i, queued+q, onHold+h
			}
		})
		inflight -= int(abi.Metric(o.stats.Inflight))
		queued -= int(abi.Metric(o.stats.Queued))
		onHold -= int(abi.Metric(o.stats.OnHold))
		if now, res := r.readTable(&r.seat.live); res != stored || now != cas {
			return // another worker has come meanwhile
		}
		addGauge(o.stats.Inflight, inflight)
		addGauge(o.stats.Queued, queued)
		addGauge(o.stats.OnHold, onHold)
	}
	r.gaugesSuspect = false
}
