package admission_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/headgate/headgate/admission"
)

// TestTenantTableIsBounded: tenants beyond the table share one entry. No permit is lost by that, under whichever entry
// it is counted when it is given back or counted anew.
func TestTenantTableIsBounded(t *testing.T) {
	const tenants = 1500
	c := &crowd{t: t, inflight: map[uint64]uint32{}}
	for tenant := range uint64(tenants) {
		c.acquire(tenant + 1)
	}
	if r := c.record(); len(r.Tenants) != 1024 || r.Inflight() != tenants || r.Tenants[1023].Inflight != tenants-1023 {
		t.Fatalf("%d tenants, %d inflight", len(r.Tenants), r.Inflight())
	}
	// Early tenants leave, so that there is room; late ones get entries of their own while they are counted as shared.
	for tenant := range uint64(200) {
		c.release(tenant + 1)
	}
	for tenant := uint64(1400); tenant <= 1500; tenant++ {
		c.acquire(tenant)
	}
	c.requireInflight(tenants - 200 + 101)
	truth := c.truth()
	c.reconcile(truth)
	c.requireInflight(tenants - 200 + 101)
	c.reconcile(truth)
	for _, s := range truth.Inflight {
		for range s.Inflight {
			c.release(s.Tenant)
		}
	}
	c.reconcile(admission.Truth{})
	r := c.record()
	if r.Inflight() != 0 || !r.Idle() || len(r.Tenants) > 1024 {
		t.Fatalf("%d inflight, %d tenants in the end", r.Inflight(), len(r.Tenants))
	}
	idle := 0
	for _, tenant := range r.Tenants {
		if tenant.Weight > 0 {
			idle++
		}
	}
	if idle > 128 {
		t.Fatalf("%d idle tenants are remembered", idle)
	}
}

// A crowd is one worker's requests of many tenants, in one fair pool.
type crowd struct {
	t        *testing.T
	machine  admission.Machine
	state    []byte
	seq      uint32
	inflight map[uint64]uint32 // by tenant
}

func (c *crowd) target(expect bool) admission.Target {
	return admission.Target{Now: 1000 * ms, Me: admission.Worker{Seat: 3, Epoch: 1 << 32}, Limit: 4000, Expect: expect}
}

func (c *crowd) step(op admission.Op) *admission.Effect {
	next, e := c.machine.Step(c.state, &op)
	if e.Changed {
		c.state = slices.Clone(next)
	}
	return e
}

func (c *crowd) acquire(tenant uint64) {
	c.t.Helper()
	c.seq++
	e := c.step(admission.Acquire(c.target(c.seq > 1),
		admission.Request{Tenant: tenant, Weight: 1, Seq: c.seq, Queue: 10, Fair: true}))
	if e.Verdict != admission.VerdictGranted {
		c.t.Fatalf("tenant %d: %+v", tenant, e)
	}
	c.inflight[tenant]++
}

func (c *crowd) release(tenant uint64) {
	c.step(admission.Release(c.target(true), tenant, 0, admission.Finish{}))
	c.inflight[tenant]--
}

func (c *crowd) reconcile(truth admission.Truth) { c.step(admission.Reconcile(c.target(false), truth)) }

// truth is what runs, by tenant.
func (c *crowd) truth() (truth admission.Truth) {
	for _, tenant := range slices.Sorted(maps.Keys(c.inflight)) {
		if n := c.inflight[tenant]; n > 0 {
			truth.Inflight = append(truth.Inflight, admission.TenantInflight{Tenant: tenant, Weight: 1, Inflight: n})
		}
	}
	return truth
}

func (c *crowd) record() *admission.Record {
	c.t.Helper()
	var r admission.Record
	if err := r.Decode(c.state); err != nil {
		c.t.Fatal(err)
	}
	return &r
}

func (c *crowd) requireInflight(want int) {
	c.t.Helper()
	if n := c.record().Inflight(); n != want {
		c.t.Fatalf("%d inflight, want %d", n, want)
	}
}
