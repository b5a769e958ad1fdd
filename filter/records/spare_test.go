package records

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/admission"
)

// aSharedKey is a key with a tenant that has permits and spares, and one that has spares only.
func aSharedKey() (*Records, *Key) {
	r, k := aContext()
	k.shares, k.permits = nil, 0
	k.waiting = ticketList{}
	k.add(1, 5)
	k.shareOf(1, 5).spares, k.shareOf(1, 5).least = 4, 1
	k.shareOf(2, 1).spares, k.shareOf(2, 1).least = 3, 3
	k.spares, r.spares = 7, 7
	return r, k
}

func inflightOf(t admission.Truth) map[uint64]uint32 {
	m := map[uint64]uint32{}
	for _, i := range t.Inflight {
		m[i.Tenant] += i.Inflight
	}
	return m
}

// A reconcile that ages leaves those spares here that were needed lately; any other leaves none.
func TestAReconcileSettlesSpares(t *testing.T) {
	r, k := aSharedKey()
	r.plan(k, true)
	require.Equal(t, map[uint64]uint32{1: 4, 2: 0}, inflightOf(r.truth(k, false)))
	require.Equal(t, 7, k.spares, "nothing is stored yet")
	r.settle(k)
	require.Equal(t, 3, k.spares)
	require.Equal(t, 3, r.spares)
	require.Equal(t, uint32(3), k.find(1).least, "from now on")

	r.plan(k, false)
	require.Equal(t, map[uint64]uint32{1: 1}, inflightOf(r.truth(k, false)))
	r.settle(k)
	require.Zero(t, k.spares+r.spares)
	require.Nil(t, k.spareOf(1))
}

// What was used here is told with spares that go back, or when it is much; and once.
func TestLocalUsesAreTold(t *testing.T) {
	r, k := aSharedKey()
	k.uses, k.used = 4, 40
	r.plan(k, false)
	truth := r.truth(k, false)
	require.Equal(t, 4, truth.Uses)
	require.Equal(t, admission.Duration(10), truth.Use)
	r.settle(k)
	require.Zero(t, r.truth(k, false).Uses)

	k.uses, k.used = usesMost-1, 100
	require.Zero(t, r.truth(k, false).Uses, "a reconcile that says nothing else stores nothing")
	r.settle(k)
	k.uses++
	require.Equal(t, usesMost, r.truth(k, false).Uses)
}

// Nothing is taken or kept while something of the context's is under way in the record.
func TestSparesNeedASettledKey(t *testing.T) {
	r, k := aSharedKey()
	p, f := &Permit{Key: k, Tenant: 1, Seq: 9}, &admission.Finish{Outcome: admission.OutcomeSuccess}
	require.False(t, r.mayKeep(p, f), "its column has no mark")
	r.noteAhead(k, true)
	k.asked = r.now
	require.Equal(t, r.now > 0, r.mayKeep(p, f))
	r.now, k.asked = 1000*millisecond, 950*millisecond
	require.True(t, r.mayKeep(p, f))
	require.NotNil(t, k.spareOf(2))
	require.Nil(t, k.spareOf(3), "another tenant")
	for what, set := range map[string]func(on bool){
		"a journal":  func(on bool) { k.journal = make([]admission.Op, map[bool]int{true: 1}[on]) },
		"a ticket":   func(on bool) { k.waiting.n = map[bool]int{true: 1}[on] },
		"an acquire": func(on bool) { k.deciding.n = map[bool]int{true: 1}[on] },
		"a mark":     func(on bool) { k.dirty = on },
	} {
		set(true)
		require.False(t, r.mayKeep(p, f), what)
		require.Nil(t, k.spareOf(2), what)
		set(false)
	}
	k.probe = 9
	require.False(t, r.mayKeep(p, f), "the breaker's probe")
	k.probe = 0
	require.False(t, r.mayKeep(p, &admission.Finish{Outcome: admission.OutcomeFailure}))
	require.False(t, r.mayKeep(p, &admission.Finish{Outcome: admission.OutcomeSuccess, Pushback: true}))
	require.True(t, r.mayKeep(p, &admission.Finish{Outcome: admission.OutcomeCancel}))
	k.asked = 900 * millisecond
	require.False(t, r.mayKeep(p, f), "the key is cold")
	r.forfeit(k)
	require.Empty(t, r.aheadKeys)
	require.Zero(t, r.spares)
}
