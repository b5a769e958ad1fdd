package clustersim

import (
	"fmt"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/fleet"
	"github.com/headgate/headgate/cluster"
)

// A checker watches a world from outside.
type checker struct {
	world *World
	debts []int64 // per key: how much above the limit is accounted for
	holds []fleet.Time
	limit []int64    // that was last in force
	sure  fleet.Time // from then on the ledger has all that replicas have been granted
	Worst int64      // the highest sum above the limit that was accounted for
}

// inUse is what the replicas that have a lease may use of a key.
func (c *checker) inUse(k int) (total int64) {
	for _, r := range c.world.replicas {
		if one := r.records[k]; one.isLeased() {
			total += int64(one.mayUse())
		}
	}
	return total
}

// limitOf is the limit in force: the one set by hand, else the highest that a replica's configuration still has.
func (c *checker) limitOf(int) int64 {
	w := c.world
	if w.override >= 0 {
		return w.override
	}
	limit := w.limit
	for _, r := range w.replicas {
		limit = max(limit, r.limit)
	}
	return limit
}

// check is called after each step.
func (c *checker) check() {
	w := c.world
	if c.debts == nil {
		n := w.plan.Keys
		c.debts, c.limit, c.holds = make([]int64, n), make([]int64, n), make([]fleet.Time, n)
		for k := range c.limit {
			c.limit[k] = c.limitOf(k)
		}
	}
	for k := range c.debts {
		c.checkLedger(k)
		limit := c.limitOf(k)
		if limit < c.limit[k] { // what was granted before may go on; in learning, or while a replica is cut off, for a lease
			c.debts[k] += c.limit[k] - limit
			c.hold(k, 3*w.plan.Lease)
		}
		c.limit[k] = limit
		above := max(0, c.inUse(k)-limit)
		if above > c.debts[k] {
			w.fail("replicas may use %d of %s, limit %d, debt %d: %s", c.inUse(k), keyName(k), limit, c.debts[k], c.who(k))
		}
		c.Worst = max(c.Worst, above)
		if w.now >= c.holds[k] {
			c.debts[k] = min(c.debts[k], above)
		}
	}
}

// checkLedger checks that the ledger counts what a replica with a lease may use, as long as Redis has lost nothing.
func (c *checker) checkLedger(k int) {
	w := c.world
	if w.now < c.sure {
		return
	}
	e := w.ledger.Keys[cluster.Key{Pool: keyName(k)}]
	for _, r := range w.replicas {
		one := r.records[k]
		if !one.isLeased() || one.unsure || one.mayUse() == 0 {
			continue
		}
		if e == nil || e.Holders[r.name] == nil || e.Holders[r.name].Ends <= w.redisNow() {
			w.fail("%s has a lease of %s, and the ledger has none: %s", r.name, keyName(k), c.who(k))
		} else if int64(one.mayUse()) > e.Holders[r.name].Grant {
			w.fail("the ledger counts less of %s than %s may use: %s", keyName(k), r.name, c.who(k))
		}
	}
}

// started is called when a request has got a permit.
func (c *checker) started(r *record) {
	allowed := r.share.Limit
	if r.replica.clock() >= r.share.Until {
		allowed = r.share.After
	}
	if r.used > allowed {
		c.world.fail("%s runs %d, its share is %d", r.replica.name, r.used, allowed)
	}
}

// lostAll is called when Redis has lost something.
func (c *checker) lostAll() { c.sure = c.world.now + 3*c.world.plan.Lease }

// hold keeps a debt for as long as calls and leases of before may come up.
func (c *checker) hold(k int, span fleet.Duration) { c.holds[k] = max(c.holds[k], c.world.now+span) }

// who describes all replicas, for an error.
func (c *checker) who(k int) string {
	text := ""
	for _, r := range c.world.replicas {
		one := r.records[k]
		grant := int64(-1)
		if e := c.world.ledger.Keys[cluster.Key{Pool: keyName(k)}]; e != nil && e.Holders[r.name] != nil {
			grant = e.Holders[r.name].Grant
		}
		text += fmt.Sprintf("%s(leased %t, share %d, used %d, in the ledger %d) ", r.name, one.isLeased(), one.inForce(),
			one.used, grant)
	}
	return text
}

// grants is what the ledger counts for each key.
func (c *checker) grants() map[cluster.Key]map[string]int64 {
	grants := map[cluster.Key]map[string]int64{}
	for key, e := range c.world.ledger.Keys {
		grants[key] = map[string]int64{}
		for name, h := range e.Holders {
			grants[key][name] = h.Grant
		}
	}
	return grants
}

// served is called after a call was carried out: grants above the limit are kept ones.
func (c *checker) served(call *cluster.LeaseCall, before map[cluster.Key]map[string]int64) {
	w := c.world
	for _, ask := range call.Pools {
		e := w.ledger.Keys[ask.Key]
		total := int64(0)
		for _, h := range e.Holders {
			total += h.Grant
		}
		if total != e.Granted {
			w.fail("the ledger counts %d of %s and has %d", e.Granted, ask.Pool, total)
		}
		had, got := before[ask.Key][call.Replica], int64(0)
		if h := e.Holders[call.Replica]; h != nil {
			got = h.Grant
		}
		if total > e.Limit && got > max(had, ask.Keep) {
			w.fail("%s gets %d of %s, had %d, keeps %d, and all have %d of %d", call.Replica, got, ask.Pool, had, ask.Keep,
				total, e.Limit)
		}
	}
}

// lostWrites is called when a failover puts an old ledger in the place of the newest one.
func (c *checker) lostWrites(newest, old *cluster.Ledger) {
	c.lostAll()
	if c.debts == nil {
		return
	}
	for k := range c.debts {
		key := cluster.Key{Pool: keyName(k)}
		for _, r := range c.world.replicas {
			had, has := cluster.Holder{}, cluster.Holder{}
			if e := newest.Keys[key]; e != nil && e.Holders[r.name] != nil {
				had = *e.Holders[r.name]
			}
			if e := old.Keys[key]; e != nil && e.Holders[r.name] != nil {
				has = *e.Holders[r.name]
			}
			if had.Ends > has.Ends { // a replica that is cut off now has its lease for longer than is known
				has.Grant = 0
			}
			c.debts[k] += max(0, had.Grant-has.Grant)
		}
		c.hold(k, 3*c.world.plan.Lease)
	}
}

// settled is called after a quiet time: what is wanted is in use, in fair shares, and nothing is above the limit.
func (c *checker) settled() error {
	w := c.world
	for k := range w.plan.Keys {
		var claims []cluster.Claim
		wanted, used := int64(0), int64(0)
		for _, r := range w.replicas {
			one := r.records[k]
			claims = append(claims, cluster.Claim{Number: int64(r.number + 1), Wants: int64(one.wants)})
			wanted += int64(one.wants)
			used += int64(one.mayUse())
			if !one.isLeased() {
				return fmt.Errorf("seed %d: %s has no lease after a quiet time", w.plan.Seed, r.name)
			}
		}
		limit := c.limitOf(k)
		if used > limit {
			return fmt.Errorf("seed %d: after a quiet time replicas may use %d of %d: %s", w.plan.Seed, used, limit,
				c.who(k))
		}
		// A permit may be on its way from one replica to another, where they take turns.
		if want := min(limit, wanted); used < want-1 {
			return fmt.Errorf("seed %d: after a quiet time replicas may use %d of %d, wanted %d: %s", w.plan.Seed, used, limit,
				wanted, c.who(k))
		}
		d := cluster.Divide(limit, claims, len(claims), 0, 0)
		for _, r := range w.replicas {
			one := r.records[k]
			fair := min(d.Level, int64(one.wants))
			if got := int64(one.mayUse()); got < fair-1 {
				return fmt.Errorf("seed %d: after a quiet time %s has %d of %s, its share is %d: %s", w.plan.Seed, r.name, got,
					keyName(k), fair, c.who(k))
			}
		}
	}
	return nil
}

// Traffic is how many calls and bytes a second all replicas and the service have sent, since the beginning.
func (w *World) Traffic() (calls, bytes float64) {
	seconds := float64(w.now) / float64(admission.Second)
	return float64(w.calls) / seconds, float64(w.bytes) / seconds
}
