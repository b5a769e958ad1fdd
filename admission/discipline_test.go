package admission_test

import (
	"slices"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/admissiontest"
)

// coreDiscipline is the core: fair by tenant, or not.
type coreDiscipline struct {
	simScenario
	fair  bool
	m     [2]admission.Machine
	turn  int
	state []byte
	grant []int
	watch *admissiontest.Watch // nil: nobody watches
	err   error                // the first that it saw
}

func (c *coreDiscipline) op(kind admission.OpKind, id, tenant int, now float64) *admission.Effect {
	op := &admission.Op{Kind: kind, Target: admission.Target{Now: int64(now*1e9) + 1, Me: admission.Worker{Epoch: 1}, Limit: c.capacity}, Seq: uint32(id + 1), Assert: true, Queue: c.queue, Fair: c.fair, Budget: admission.Duration(c.wait * 1e9), Weight: 1}
	if c.fair {
		op.Tenant, op.Weight = uint64(tenant+1), max(c.tenants[tenant].weight, 1)
	}
	next, e := c.m[c.turn].Step(c.state, op)
	if c.watch != nil && c.err == nil {
		c.err = c.watch.Step(c.state, op, next, e)
	}
	if e.Changed {
		c.state, c.turn = next, 1-c.turn
	}
	return e
}

func (c *coreDiscipline) ask(id, tenant int, now float64) (granted, waiting bool) {
	v := c.op(admission.OpAcquire, id, tenant, now).Verdict
	return v == admission.VerdictGranted, v == admission.VerdictWaiting
}

func (c *coreDiscipline) done(id, tenant int, now float64) []int {
	c.grant = c.grant[:0]
	for _, g := range c.op(admission.OpRelease, id, tenant, now).Grants {
		c.grant = append(c.grant, int(g.Seq)-1)
	}
	return c.grant
}

func (c *coreDiscipline) expire(id, tenant int, now float64) bool {
	return c.op(admission.OpCancel, id, tenant, now).Verdict == admission.VerdictDone
}

// roundRobin grants to one tenant after the other.
type roundRobin struct {
	simScenario
	queues [][]int
	used   int
	turn   int
}

func (r *roundRobin) ask(id, tenant int, _ float64) (granted, waiting bool) {
	for len(r.queues) < len(r.tenants) {
		r.queues = append(r.queues, nil)
	}
	total := 0
	for _, q := range r.queues {
		total += len(q)
	}
	if r.used < r.capacity && total == 0 {
		r.used++
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
	r.used--
	return nil
}

func (r *roundRobin) expire(id, tenant int, _ float64) bool {
	i := slices.Index(r.queues[tenant], id)
	if i >= 0 {
		r.queues[tenant] = slices.Delete(r.queues[tenant], i, i+1)
	}
	return i >= 0
}
