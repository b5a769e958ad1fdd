package filter

import "github.com/headgate/headgate/filter/admin"

// configureAdmin makes the context one of the stage admin. It decides no requests, so it asserts no limits and has no
// seat.
func (p *plugin) configureAdmin() {
	pools := make([]*admin.Pool, len(p.pools))
	for i, o := range p.pools {
		pools[i] = &admin.Pool{Pool: o.Pool, Counters: o.stats.outcomes()}
	}
	p.admin = admin.New(p.cfg, p.records, p, p.id, pools)
}

// Now implements admin.Context.
func (p *plugin) Now() int64 {
	p.begin()
	return p.turn.now
}

// tickAdmin is a tick in the stage admin.
func (p *plugin) tickAdmin() {
	p.begin()
	p.timer.ring()
	p.admin.OnTick(p.turn.now)
	p.handOverCounts()
	p.timer.rearm(p.turn.now)
}

// outcomes are the ids of the counters that the state tells, in the order of their names there.
func (s *poolStats) outcomes() [len(admin.Outcomes)]uint32 {
	return [...]uint32{s.evaluated, s.admitted, s.admittedAfterWait, s.rejectedQueueFull, s.rejectedClosed,
		s.rejectedBreaker, s.expiredMaxWait, s.expiredDeadline, s.cancelledWaiting, s.completed, s.aborted, s.Reaped,
		s.StoreError, s.provider429, s.providerFailure, s.shadowWouldWait, s.shadowWouldReject, s.shadowWouldExpire}
}
