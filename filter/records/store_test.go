package records

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/config"
)

// aContext is a plugin context that has no host: it may not touch the store.
func aContext() (*Records, *Key) {
	cfg := &config.Config{Domain: "default", MaxKeys: 8, Lease: 5 * admission.Second}
	r := New(cfg, nil)
	o := r.AddPool(&config.Pool{Name: "model", Key: []config.Dimension{config.DimensionModel}, Limit: 4}, Stats{})
	return r, o.KeyFor("a")
}

// The truth is what requests have and wait for. Before the journal is stored, the permits of requests that ended are
// in it.
func TestTruth(t *testing.T) {
	r, k := aContext()
	k.add(1, 5)
	k.add(2, 1)
	k.waiting.push(&Ticket{Key: k, Tenant: 1, Weight: 5, Seq: 3, Since: 100 * millisecond, Due: 350 * millisecond})
	k.waiting.push(&Ticket{Key: k, Tenant: 9, Weight: 2, Seq: 4, Since: 100 * millisecond, Due: 200 * millisecond})
	k.probe = 7
	k.journal = []admission.Op{
		admission.Release(admission.Target{}, 2, 1, admission.Finish{}),
		admission.Release(admission.Target{}, 1, 6, admission.Finish{}),
		admission.Report(admission.Target{}, 7, admission.OutcomeSuccess), // holds no permit
		admission.Release(admission.Target{}, 8, 2, admission.Finish{}),
		admission.Cancel(admission.Target{}, 2, 5),
	}
	waiting := []admission.Ticket{
		{Tenant: 0, Seq: 3, Deadline: 350 * millisecond, Budget: 250},
		{Tenant: 2, Seq: 4, Deadline: 200 * millisecond, Budget: 100},
	}
	one, two := admission.TenantInflight{Tenant: 1, Weight: 5, Inflight: 1}, admission.TenantInflight{Tenant: 2, Weight: 1, Inflight: 1}
	nine := admission.TenantInflight{Tenant: 9, Weight: 2}
	require.Equal(t, admission.Truth{Inflight: []admission.TenantInflight{one, two, nine}, Waiting: waiting, Probe: 7}, r.truth(k, false))

	one.Inflight = 2 // one that runs, one released; the weight stays
	two.Inflight = 3 // one that runs, one released, one cancelled
	eight := admission.TenantInflight{Tenant: 8, Weight: 1, Inflight: 1}
	require.Equal(t, admission.Truth{Inflight: []admission.TenantInflight{one, two, nine, eight}, Waiting: waiting, Probe: 7}, r.truth(k, true))

	require.Len(t, k.shares, 2, "the truth is a copy")
}

func kinds(ops []*admission.Op) (k []admission.OpKind) {
	for _, op := range ops {
		k = append(k, op.Kind)
	}
	return k
}

// The journal goes before the operation in hand. After a false death a reconcile goes before both, and one at the end
// has nothing to add.
func TestJournalAndReconcileGoFirst(t *testing.T) {
	r, k := aContext()
	k.setPlace(admission.Place{Slot: 2, Gen: 6})
	k.journal = []admission.Op{
		admission.Release(admission.Target{}, 1, 3, admission.Finish{}), admission.Cancel(admission.Target{}, 1, 4)}
	acquire := []admission.Op{admission.Acquire(r.target(k), admission.Request{Tenant: 1, Seq: 5})}
	require.False(t, acquire[0].Expect, "the context has nothing here")
	r.collect(k, acquire)
	require.Equal(t, []admission.OpKind{admission.OpRelease, admission.OpCancel, admission.OpAcquire}, kinds(r.ops))
	for _, op := range r.ops[:2] {
		require.True(t, op.Expect, "the column has to be there")
		require.Equal(t, uint32(6), op.Gen)
	}

	r.seat.me = admission.Worker{Seat: 1, Epoch: 9 << 32}
	for range 2 { // it may be fenced again
		r.rejoin(k)
		require.Equal(t, []admission.OpKind{admission.OpReconcile, admission.OpRelease, admission.OpCancel, admission.OpAcquire}, kinds(r.ops))
		require.Equal(t, uint32(2), r.ops[0].Inflight[0].Inflight, "what the journal gives back was there before")
		for _, op := range r.ops {
			require.Equal(t, r.seat.me, op.Me)
		}
	}

	r.collect(k, []admission.Op{admission.Reconcile(r.target(k), r.truth(k, false))})
	r.rejoin(k)
	require.Equal(t, []admission.OpKind{admission.OpReconcile, admission.OpRelease, admission.OpCancel}, kinds(r.ops))
}
