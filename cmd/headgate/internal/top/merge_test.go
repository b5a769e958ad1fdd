package top

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/cmd/headgate/internal/adminapi"
)

func TestSumsOfGateways(t *testing.T) {
	one := &adminapi.State{NowMillis: 5, Domain: "d", Mode: "enforce", Workers: 2, Pools: []adminapi.Pool{{
		Name: "p", Limit: 8, Configured: 8, Source: "config", Inflight: 3, Outcomes: map[string]uint64{"admitted": 5},
		Waits: adminapi.Waits{SlotMillis: 10_000, Slots: []adminapi.Slot{{AgeMillis: 3, N: 2, P50: 10, P90: 20, P99: 90}}},
		Keys: []adminapi.Key{{Name: "k", Limit: 8, Usable: 8, Source: "config", Configured: 8, Inflight: 3, Breaker: "closed",
			OldestWaitMillis: 7, Tenants: []adminapi.Tenant{{Tenant: "a", Inflight: 3}}}}}}}
	two := &adminapi.State{NowMillis: 4, Domain: "d", Mode: "shadow", Workers: 1, Pools: []adminapi.Pool{{
		Name: "p", Limit: 4, Configured: 8, Source: "override", Inflight: 4, Outcomes: map[string]uint64{"admitted": 1, "reaped": 2},
		Waits: adminapi.Waits{SlotMillis: 10_000, Slots: []adminapi.Slot{{AgeMillis: 9_000, N: 1, P50: 40, P90: 41, P99: 42}}},
		Keys: []adminapi.Key{{Name: "k", Limit: 4, Usable: 2, Source: "override", Configured: 8, Inflight: 4, Queued: 1,
			Breaker: "open", BreakerChangeMillis: 500, OldestWaitMillis: 9, HoldChangeMillis: 3,
			Tenants: []adminapi.Tenant{{Tenant: "b", Inflight: 3, Queued: 1}, {Tenant: "a", Inflight: 1}}}, {Name: "l"}}},
		{Name: "q"}}}
	sum := merge([]part{{"http://one", one, nil}, {"http://away", one, errors.New("gone")}, {"http://two", two, nil}})
	require.Equal(t, []Gateway{{Admin: "http://one", Domain: "d", Mode: "enforce", Workers: 2}, {Admin: "http://away", Error: "gone"},
		{Admin: "http://two", Domain: "d", Mode: "shadow", Workers: 1}}, sum.Gateways)
	require.Equal(t, "enforce, shadow", sum.Mode)
	require.Equal(t, "d", sum.Domain)
	require.Equal(t, 3, sum.Workers)
	require.EqualValues(t, 5, sum.NowMillis)
	require.Len(t, sum.Pools, 2)
	p := sum.Pools[0]
	require.Equal(t, []int{12, 16, 7}, []int{p.Limit, p.Configured, p.Inflight})
	require.Equal(t, "override", p.Source)
	require.Equal(t, map[string]uint64{"admitted": 6, "reaped": 2}, p.Outcomes)
	require.Equal(t, []adminapi.Slot{{AgeMillis: 0, N: 3, P50: 40, P90: 41, P99: 90}}, p.Waits.Slots)
	require.Len(t, p.Keys, 2)
	k := p.Keys[0]
	require.Equal(t, adminapi.Key{Name: "k", Limit: 12, Usable: 10, Source: "override", Configured: 16, Inflight: 7, Queued: 1,
		Breaker: "open", BreakerChangeMillis: 500, OldestWaitMillis: 9, HoldChangeMillis: 3, TenantsTotal: 2,
		Tenants: []adminapi.Tenant{{Tenant: "a", Inflight: 4}, {Tenant: "b", Inflight: 3, Queued: 1}}}, k.Key)
	require.Equal(t, []Share{
		{Admin: "http://one", Limit: 8, Source: "config", Configured: 8, Inflight: 3, Breaker: "closed"},
		{Admin: "http://two", Limit: 4, Source: "override", Configured: 8, Inflight: 4, Queued: 1, Breaker: "open", gateway: 2},
	}, k.Shares)
	require.Equal(t, 3, one.Pools[0].Keys[0].Tenants[0].Inflight, "what was summed is unchanged")
}

// A gateway that starts anew counts its events from the beginning.
func TestEventsAreKeptOverAStart(t *testing.T) {
	g := &gateway{}
	event := func(id int64) adminapi.Event { return adminapi.Event{ID: id} }
	take := func(last int64, events ...adminapi.Event) {
		g.take(answer{state: &adminapi.State{}, events: &adminapi.Events{Last: last, Events: events}}, g.since)
	}
	take(2, event(1), event(2))
	take(3, event(3))
	require.Len(t, g.events, 3)
	take(1, event(1))
	require.Equal(t, []adminapi.Event{event(1)}, g.events)
	for id := int64(2); id < 2*keptEvents; id++ {
		take(id, event(id))
	}
	require.Len(t, g.events, keptEvents)
	require.EqualValues(t, 2*keptEvents-1, g.events[keptEvents-1].ID)
}
