package records

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/config"
)

// keyedPool is a pool keyed by model, with two configured keys.
func keyedPool(maxKeys int) *Pool {
	c := &config.Pool{Name: "model", Key: []config.Dimension{config.DimensionModel}, Limit: 4,
		Keys: map[string]int{"big": 9, "closed": 0}}
	return newPool(&config.Config{Domain: "default", MaxKeys: maxKeys}, c, Stats{})
}

func TestKeyForFindsOneKeyForAName(t *testing.T) {
	o := keyedPool(8)
	a := o.KeyFor("a")
	require.Same(t, a, o.KeyFor("a"), "from the cache")
	clear(o.recent[:])
	require.Same(t, a, o.KeyFor("a"), "from the map")
	require.NotSame(t, a, o.KeyFor("b"))
	require.Same(t, o.other, o.KeyFor("other"), "the shared key is one of its own")
	require.NotContains(t, o.keys, "other")
	require.Equal(t, []*Key{a, o.KeyFor("b")}, o.known, "in the order in which they came")
}

func TestKeyForTakesTheConfiguredLimit(t *testing.T) {
	o := keyedPool(8)
	for name, limit := range map[string]int{"big": 9, "closed": 0, "a": 4, "": 4, "other": 4} {
		require.Equal(t, limit, o.KeyFor(name).limit, name)
	}
}

// A name may be a view of memory that changes: the key has its own copy.
func TestKeyForCopiesTheName(t *testing.T) {
	o := keyedPool(8)
	view := []byte("model-a")
	k := o.KeyFor(unsafe.String(&view[0], len(view)))
	copy(view, "model-b")
	require.Equal(t, "model-a", k.Name)
	require.Same(t, k, o.KeyFor("model-a"))
}

func TestPoolWithoutDimensionsHasOneKey(t *testing.T) {
	o := newPool(&config.Config{Domain: "d", MaxKeys: 8}, &config.Pool{Name: "all", Limit: 3}, Stats{})
	require.Same(t, o.only, o.KeyFor("x"))
	require.Same(t, o.only, o.KeyFor("other"))
	require.Equal(t, "all", o.only.Name)
	require.Equal(t, 3, o.only.limit)
	require.True(t, o.only.fixed)
	require.Equal(t, "headgate/3/d/all/only", o.only.data)
	require.Equal(t, "headgate/3/d/all/other", o.other.data)
	require.Empty(t, o.known)
}

// Two names with the same cache slot are two keys, whichever was asked for last.
func TestNamesThatShareACacheSlot(t *testing.T) {
	o := keyedPool(100)
	bySlot := map[int][]string{}
	for i := range 40 {
		name := fmt.Sprint("model-", i)
		slot := cacheSlot(name)
		require.GreaterOrEqual(t, slot, 0)
		require.Less(t, slot, cacheSlots)
		bySlot[slot] = append(bySlot[slot], name)
	}
	shared := 0
	for _, names := range bySlot {
		for range 2 {
			for _, name := range names {
				require.Equal(t, name, o.KeyFor(name).Name)
			}
		}
		shared += len(names) - 1
	}
	require.Positive(t, shared, "40 names have 16 slots")
	require.Len(t, o.known, 40)
	require.Zero(t, cacheSlot(""))
}

// What no request here uses is forgotten once more keys are known than can have records.
func TestUnusedKeysAreForgotten(t *testing.T) {
	o := keyedPool(8)
	granted, waiting, dirty, unused := o.KeyFor("granted"), o.KeyFor("waiting"), o.KeyFor("dirty"), o.KeyFor("unused")
	ended := o.KeyFor("ended")
	ended.journal = []admission.Op{{}}
	granted.add(1, 1)
	waiting.waiting.push(&Ticket{Key: waiting})
	dirty.dirty = true
	most := o.maxKeys + len(o.Keys) + spareKeys
	for i := range 3 * most {
		o.KeyFor(fmt.Sprint("flood", i))
		require.LessOrEqual(t, len(o.keys), most+1)
		require.Len(t, o.known, len(o.keys))
	}
	require.Same(t, granted, o.KeyFor("granted"))
	require.Same(t, waiting, o.KeyFor("waiting"))
	require.Same(t, dirty, o.KeyFor("dirty"), "its record has still to be reconciled")
	require.Same(t, ended, o.KeyFor("ended"), "its journal has still to be stored")
	require.NotSame(t, unused, o.KeyFor("unused"))
}

// A forgotten key must not be found in the cache either: its record's place may be another key's by now.
func TestForgottenKeysLeaveTheCache(t *testing.T) {
	o := keyedPool(8)
	k := o.KeyFor("a")
	k.setPlace(admission.Place{Slot: 3, Gen: 7})
	require.Equal(t, "headgate/3/default/model/3", k.data)
	o.forgetUnused()
	require.Empty(t, o.keys)
	require.Empty(t, o.known)
	again := o.KeyFor("a")
	require.NotSame(t, k, again)
	require.False(t, again.placed)
}

func TestPermitsAreCountedByTenant(t *testing.T) {
	k := keyedPool(8).KeyFor("a")
	require.False(t, k.involved())
	k.add(1, 5)
	k.add(2, 1)
	k.add(1, 6) // the weight last seen is in force
	one := share{TenantInflight: admission.TenantInflight{Tenant: 1, Weight: 6, Inflight: 2}}
	two := share{TenantInflight: admission.TenantInflight{Tenant: 2, Weight: 1, Inflight: 1}}
	require.Equal(t, []share{one, two}, k.shares)
	require.Equal(t, 3, k.permits)
	k.remove(3) // a tenant that has none
	require.Equal(t, 3, k.permits)
	k.remove(2)
	require.Equal(t, []share{one}, k.shares, "a tenant without permits is dropped")
	k.remove(2)
	k.remove(1)
	require.True(t, k.involved())
	k.remove(1)
	k.remove(1)
	require.Zero(t, k.permits)
	require.False(t, k.involved())
	require.Len(t, k.shares, 1, "the last entry stays for the next request")
	k.forgetIdle()
	require.Empty(t, k.shares)
}

// A tenant without a permit is in the truth while it waits, and not in what is remembered.
func TestTenantsWithoutPermitsAreForgotten(t *testing.T) {
	k := keyedPool(8).KeyFor("a")
	k.add(1, 1)
	k.add(2, 1)
	k.shareOf(2, 1).spares = 1
	k.shareOf(7, 3)
	require.Equal(t, uint32(4), k.shareOf(7, 4).Weight, "the same share")
	k.remove(2)
	k.forgetIdle()
	require.Len(t, k.shares, 2, "one has a permit, one a spare")
}

func TestTenantInFindsATenantOrAddsIt(t *testing.T) {
	list := []admission.TenantInflight{{Tenant: 1, Weight: 1}}
	require.Equal(t, 1, tenantIn(&list, 7, 3))
	require.Equal(t, 1, tenantIn(&list, 7, 4), "the same entry")
	require.Equal(t, uint32(4), list[1].Weight)
	require.Equal(t, 1, tenantIn(&list, 7, 0))
	require.Equal(t, uint32(4), list[1].Weight, "a weight that is not known")
}

func TestAnyDue(t *testing.T) {
	k := keyedPool(8).KeyFor("a")
	require.False(t, k.anyDue(100))
	k.waiting.push(&Ticket{Due: 300})
	k.waiting.push(&Ticket{Due: 200})
	require.False(t, k.anyDue(199))
	require.True(t, k.anyDue(200))
}

// Tickets leave a list from its ends and its middle, and come back.
func TestTicketList(t *testing.T) {
	var l ticketList
	tickets := make([]Ticket, 4)
	for i := range tickets {
		tickets[i].Seq = uint32(i)
		l.push(&tickets[i])
	}
	requireOrder := func(want ...uint32) {
		t.Helper()
		var forwards, backwards []uint32
		for w := l.first; w != nil; w = w.next {
			forwards = append(forwards, w.Seq)
		}
		for w := l.last; w != nil; w = w.prev {
			backwards = append([]uint32{w.Seq}, backwards...)
		}
		require.Equal(t, want, forwards)
		require.Equal(t, want, backwards)
		require.Equal(t, len(want), l.n)
	}
	requireOrder(0, 1, 2, 3)
	l.remove(&tickets[1])
	requireOrder(0, 2, 3)
	l.remove(&tickets[3])
	l.remove(&tickets[0])
	requireOrder(2)
	l.push(&tickets[1])
	requireOrder(2, 1)
	l.remove(&tickets[2])
	l.remove(&tickets[1])
	require.Nil(t, l.first)
	require.Nil(t, l.last)
	require.Zero(t, l.n)
}
