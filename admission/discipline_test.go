package admission_test

import (
	"slices"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/admissiontest"
)

// coreDiscipline is the core: fair by tenant, or not.
type coreDiscipline struct {
	simScenario
	fair    bool
	m       [2]admission.Machine
	turn    int
	state   []byte
	granted []int                // the last ones
	watch   *admissiontest.Watch // nil: no watch
	err     error                // the first that it saw
}

func (c *coreDiscipline) target(now float64) admission.Target {
	return admission.Target{Now: int64(now*1e9) + 1, Me: admission.Worker{Epoch: 1}, Limit: c.capacity}
}

// tenant is how the core knows a tenant.
func (c *coreDiscipline) tenant(i int) (id uint64, weight uint32) {
	if !c.fair {
		return 0, 1
	}
	return uint64(i + 1), max(c.tenants[i].weight, 1)
}

func (c *coreDiscipline) step(op admission.Op) *admission.Effect {
	next, e := c.m[c.turn].Step(c.state, &op)
	if c.watch != nil && c.err == nil {
		c.err = c.watch.Step(c.state, &op, next, e)
	}
	if e.Changed {
		c.state, c.turn = next, 1-c.turn
	}
	return e
}

func (c *coreDiscipline) ask(id, tenant int, now float64) (granted, waiting bool) {
	name, weight := c.tenant(tenant)
	v := c.step(admission.Acquire(c.target(now), admission.Request{Tenant: name, Weight: weight, Seq: uint32(id + 1),
		Queue: c.queue, Fair: c.fair, Budget: admission.Duration(c.wait * 1e9)})).Verdict
	return v == admission.VerdictGranted, v == admission.VerdictWaiting
}

func (c *coreDiscipline) done(id, tenant int, now float64) []int {
	name, _ := c.tenant(tenant)
	c.granted = c.granted[:0]
	for _, g := range c.step(admission.Release(c.target(now), name, uint32(id+1), admission.Finish{})).Grants {
		c.granted = append(c.granted, int(g.Seq)-1)
	}
	return c.granted
}

func (c *coreDiscipline) expire(id, tenant int, now float64) bool {
	name, _ := c.tenant(tenant)
	return c.step(admission.Cancel(c.target(now), name, uint32(id+1))).Verdict == admission.VerdictDone
}

// roundRobin grants to one tenant after the other.
type roundRobin struct {
	simScenario
	queues   [][]int
	inflight int
	turn     int
}

func (r *roundRobin) ask(id, tenant int, _ float64) (granted, waiting bool) {
	for len(r.queues) < len(r.tenants) {
		r.queues = append(r.queues, nil)
	}
	total := 0
	for _, q := range r.queues {
		total += len(q)
	}
	if r.inflight < r.capacity && total == 0 {
		r.inflight++
		return true, false
	}
	if total >= r.queue {
		return false, false
	}
	r.queues[tenant] = append(r.queues[tenant], id)
	return false, true
}

func (r *roundRobin) done(int, int, float64) []int {
	for range r.queues {
		r.turn = (r.turn + 1) % len(r.queues)
		if q := r.queues[r.turn]; len(q) > 0 {
			r.queues[r.turn] = q[1:]
			return q[:1]
		}
	}
	r.inflight--
	return nil
}

func (r *roundRobin) expire(id, tenant int, _ float64) bool {
	i := slices.Index(r.queues[tenant], id)
	if i >= 0 {
		r.queues[tenant] = slices.Delete(r.queues[tenant], i, i+1)
	}
	return i >= 0
}
