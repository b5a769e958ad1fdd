package top

import (
	"cmp"
	"slices"
	"strings"

	"github.com/headgate/headgate/cmd/headgate/internal/adminapi"
)

// A State is the sum of the states of all gateways that answer. Its JSON has the fields of the admin API.
type State struct {
	adminapi.State
	Pools    []*Pool   `json:"pools"`
	Gateways []Gateway `json:"gateways"` // in the order in which they were given
}

// A Gateway is one whose state was asked for.
type Gateway struct {
	Admin   string `json:"admin"`
	Domain  string `json:"domain,omitempty"`
	Mode    string `json:"mode,omitempty"`
	Workers int    `json:"workers,omitempty"`
	Error   string `json:"error,omitempty"` // why its figures are not in the sum
}

// A Pool is the sum of a pool of several gateways.
type Pool struct {
	adminapi.Pool
	Keys   []*Key  `json:"keys"`
	Shares []Share `json:"shares,omitempty"` // where there are several gateways

	keys map[string]*Key
}

// A Key is the sum of a key of several gateways.
type Key struct {
	adminapi.Key
	Shares []Share `json:"shares,omitempty"` // where there are several gateways
}

// A Share is a gateway's own part of a sum.
type Share struct {
	Admin      string `json:"admin"`
	Limit      int    `json:"limit"`
	Source     string `json:"source"`
	Configured int    `json:"configured"`
	Inflight   int    `json:"inflight"`
	Queued     int    `json:"queued"`
	OnHold     int    `json:"on_hold"`
	Breaker    string `json:"breaker,omitempty"`

	gateway int // its place among those given
}

// A part is what one gateway has answered. nil states and errors are of one that was not asked yet.
type part struct {
	admin string
	state *adminapi.State
	err   error
}

// merge adds what gateways have answered. Those with an error are told, and add nothing.
func merge(parts []part) *State {
	sum := &State{Pools: []*Pool{}}
	pools := map[string]*Pool{}
	for i, p := range parts {
		told := Gateway{Admin: p.admin}
		switch {
		case p.err != nil:
			told.Error = p.err.Error()
		case p.state != nil:
			told.Domain, told.Mode, told.Workers = p.state.Domain, p.state.Mode, p.state.Workers
			sum.addState(p.state)
			for j := range p.state.Pools {
				sum.addPool(pools, i, p.admin, &p.state.Pools[j])
			}
		}
		sum.Gateways = append(sum.Gateways, told)
	}
	for _, pool := range sum.Pools {
		for _, key := range pool.Keys {
			sortTenants(key.Tenants)
		}
	}
	if len(parts) == 1 {
		sum.dropShares()
	}
	return sum
}

// dropShares takes away what would only repeat the sum.
func (s *State) dropShares() {
	for _, pool := range s.Pools {
		pool.Shares = nil
		for _, key := range pool.Keys {
			key.Shares = nil
		}
	}
}

func (s *State) addState(more *adminapi.State) {
	s.NowMillis = max(s.NowMillis, more.NowMillis)
	s.Domain = either(s.Domain, more.Domain)
	s.Mode = either(s.Mode, more.Mode)
	s.Workers += more.Workers
}

// either is both words where they differ.
func either(a, b string) string {
	switch {
	case a == "" || a == b || slices.Contains(strings.Split(a, ", "), b):
		return cmp.Or(a, b)
	case b == "":
		return a
	}
	return a + ", " + b
}

func (s *State) addPool(pools map[string]*Pool, gateway int, admin string, more *adminapi.Pool) {
	share := Share{Admin: admin, gateway: gateway, Limit: more.Limit, Source: more.Source, Configured: more.Configured,
		Inflight: more.Inflight, Queued: more.Queued, OnHold: more.OnHold}
	pool := pools[more.Name]
	if pool == nil {
		pool = &Pool{Pool: *more, Keys: []*Key{}, keys: map[string]*Key{}}
		pool.Outcomes = map[string]uint64{}
		pools[more.Name] = pool
		s.Pools = append(s.Pools, pool)
	} else {
		pool.Limit += more.Limit
		pool.Configured += more.Configured
		pool.Source = stronger(pool.Source, more.Source)
		pool.Inflight += more.Inflight
		pool.Queued += more.Queued
		pool.OnHold += more.OnHold
		pool.Queue = max(pool.Queue, more.Queue)
		pool.MaxWaitMillis = max(pool.MaxWaitMillis, more.MaxWaitMillis)
		pool.Breaker = pool.Breaker || more.Breaker
		pool.Holds = pool.Holds || more.Holds
		pool.Waits = addWaits(pool.Waits, more.Waits)
	}
	pool.Shares = append(pool.Shares, share)
	for outcome, n := range more.Outcomes {
		pool.Outcomes[outcome] += n
	}
	for i := range more.Keys {
		pool.addKey(gateway, admin, &more.Keys[i])
	}
	pool.KeysTotal = max(pool.KeysTotal, more.KeysTotal, len(pool.Keys))
}

func (p *Pool) addKey(gateway int, admin string, more *adminapi.Key) {
	share := Share{Admin: admin, gateway: gateway, Limit: more.Limit, Source: more.Source, Configured: more.Configured,
		Inflight: more.Inflight, Queued: more.Queued, OnHold: more.OnHold, Breaker: more.Breaker}
	key := p.keys[more.Name]
	if key == nil {
		key = &Key{Key: *more}
		key.Tenants = slices.Clone(more.Tenants)
		p.keys[more.Name] = key
		p.Keys = append(p.Keys, key)
	} else {
		key.add(more)
	}
	key.Shares = append(key.Shares, share)
}

func (k *Key) add(more *adminapi.Key) {
	k.Limit += more.Limit
	k.Configured += more.Configured
	k.Source = stronger(k.Source, more.Source)
	k.Inflight += more.Inflight
	k.Queued += more.Queued
	k.OnHold += more.OnHold
	k.OldestWaitMillis = max(k.OldestWaitMillis, more.OldestWaitMillis)
	k.Usable += more.Usable
	k.PenaltyMillis = max(k.PenaltyMillis, more.PenaltyMillis)
	k.HeadroomChangeMillis = sooner(k.HeadroomChangeMillis, more.HeadroomChangeMillis)
	k.HoldChangeMillis = sooner(k.HoldChangeMillis, more.HoldChangeMillis)
	switch {
	case breakerRank(more.Breaker) > breakerRank(k.Breaker):
		k.Breaker, k.BreakerChangeMillis = more.Breaker, more.BreakerChangeMillis
	case more.Breaker == k.Breaker:
		k.BreakerChangeMillis = sooner(k.BreakerChangeMillis, more.BreakerChangeMillis)
	}
	for _, tenant := range more.Tenants {
		same := func(t adminapi.Tenant) bool { return t.Tenant == tenant.Tenant }
		if i := slices.IndexFunc(k.Tenants, same); i >= 0 {
			k.Tenants[i].Inflight += tenant.Inflight
			k.Tenants[i].Queued += tenant.Queued
			k.Tenants[i].Weight = max(k.Tenants[i].Weight, tenant.Weight)
		} else {
			k.Tenants = append(k.Tenants, tenant)
		}
	}
	k.TenantsTotal = max(k.TenantsTotal, more.TenantsTotal, len(k.Tenants))
}

// sortTenants puts those first who run most, then those who wait most.
func sortTenants(tenants []adminapi.Tenant) {
	slices.SortStableFunc(tenants, func(a, b adminapi.Tenant) int {
		return cmp.Or(b.Inflight-a.Inflight, b.Queued-a.Queued, strings.Compare(a.Tenant, b.Tenant))
	})
}

// sooner is the lesser of two times to a change. 0 is no change.
func sooner(a, b int64) int64 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

func breakerRank(breaker string) int {
	return slices.Index([]string{adminapi.BreakerClosed, adminapi.BreakerHalfOpen, adminapi.BreakerOpen}, breaker)
}

// stronger is where a sum of two limits comes from: an override of one is one of the sum.
func stronger(a, b string) string {
	ranks := []string{adminapi.SourceConfig, adminapi.SourceFleet, adminapi.SourceOverride}
	if slices.Index(ranks, b) > slices.Index(ranks, a) {
		return b
	}
	return a
}

// addWaits adds the waits of two gateways. The percentiles of a sum can't be had from those of its parts: the greater
// one is shown, so that none looks shorter than it is.
func addWaits(a, b adminapi.Waits) adminapi.Waits {
	span := max(1, a.SlotMillis, b.SlotMillis)
	slots := map[int64]adminapi.Slot{}
	for _, slot := range slices.Concat(a.Slots, b.Slots) {
		at := slot.AgeMillis / span
		sum := slots[at]
		slots[at] = adminapi.Slot{AgeMillis: at * span, N: sum.N + slot.N,
			P50: max(sum.P50, slot.P50), P90: max(sum.P90, slot.P90), P99: max(sum.P99, slot.P99)}
	}
	sum := adminapi.Waits{SlotMillis: span, Slots: []adminapi.Slot{}}
	for _, slot := range slots {
		sum.Slots = append(sum.Slots, slot)
	}
	slices.SortFunc(sum.Slots, func(a, b adminapi.Slot) int { return cmp.Compare(a.AgeMillis, b.AgeMillis) })
	return sum
}
