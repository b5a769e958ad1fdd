package filter

import "github.com/headgate/headgate/filter/abi"

// recount puts the gauges right after something may have parted them from the records: a VM that died between changing
// one and the other, a record that was lost. The gauges follow the changes of all workers, so they can be compared with
// the records only while nobody changes any: when this worker is about to leave and is the only one. cas is the worker
// table's, as this worker has seen itself alone in it.
func (p *plugin) recount(cas uint32) {
	for _, o := range p.pools {
		var used, queued, held int
		p.eachRecord(o, func(k *key) {
			if state, _, s := abi.GetShared(k.data); s == abi.StatusOK {
				u, q, h := p.machine.Sums(state)
				used, queued, held = used+u, queued+q, held+h
			}
		})
		used -= int(abi.Metric(o.stats.inflight))
		queued -= int(abi.Metric(o.stats.queued))
		held -= int(abi.Metric(o.stats.held))
		if p.readTable(&p.live) != cas {
			return // somebody has come meanwhile
		}
		move(o.stats.inflight, used)
		move(o.stats.queued, queued)
		move(o.stats.held, held)
	}
	p.doubt = false
}
