package dashboard

import (
	"cmp"
	"slices"
)

// The answers of the admin API, as far as the page reads them.
type state struct {
	NowMs   int64        `json:"now_ms"`
	Domain  string       `json:"domain"`
	Mode    string       `json:"mode"`
	Workers int          `json:"workers"`
	Next    string       `json:"next,omitempty"`
	Pools   []*poolState `json:"pools"`
}

type poolState struct {
	Name       string           `json:"name"`
	Limit      int              `json:"limit"`
	Source     string           `json:"source"`
	Configured int              `json:"configured"`
	Key        []string         `json:"key"`
	Per        string           `json:"per"`
	Queue      int              `json:"queue"`
	MaxWaitMs  int              `json:"max_wait_ms"`
	Fair       bool             `json:"fair"`
	Holds      bool             `json:"holds"`
	Breaker    bool             `json:"breaker"`
	Inflight   int              `json:"inflight"`
	Queued     int              `json:"queued"`
	OnHold     int              `json:"on_hold"`
	KeysTotal  int              `json:"keys_total"`
	Outcomes   map[string]int64 `json:"outcomes"`
	Waits      waits            `json:"waits"`
	Keys       []*keyState      `json:"keys,omitempty"`
}

type waits struct {
	SlotMs int    `json:"slot_ms"`
	Slots  []slot `json:"slots"`
}

type slot struct {
	AgeMs int `json:"age_ms"`
	N     int `json:"n"`
	P50   int `json:"p50_ms"`
	P90   int `json:"p90_ms"`
	P99   int `json:"p99_ms"`
}

type keyState struct {
	Key              string   `json:"key"`
	Limit            int      `json:"limit"`
	Source           string   `json:"source"`
	Configured       int      `json:"configured"`
	Inflight         int      `json:"inflight"`
	Queued           int      `json:"queued"`
	OnHold           int      `json:"on_hold"`
	OldestWaitMs     int      `json:"oldest_wait_ms"`
	Breaker          string   `json:"breaker"`
	BreakerChangeMs  int      `json:"breaker_change_ms"`
	Usable           int      `json:"usable"`
	HeadroomChangeMs int      `json:"headroom_change_ms"`
	PenaltyMs        int      `json:"penalty_ms"`
	HoldChangeMs     int      `json:"hold_change_ms"`
	Tenants          []tenant `json:"tenants"`
	TenantsTotal     int      `json:"tenants_total"`
}

type tenant struct {
	Tenant   string `json:"tenant"`
	Inflight int    `json:"inflight"`
	Queued   int    `json:"queued"`
	Weight   int    `json:"weight"`
}

type event struct {
	ID       int64  `json:"id"`
	AtMs     int64  `json:"at_ms"`
	Kind     string `json:"kind"`
	Pool     string `json:"pool,omitempty"`
	Key      string `json:"key,omitempty"`
	Tenant   string `json:"tenant,omitempty"`
	Model    string `json:"model,omitempty"`
	Method   string `json:"method,omitempty"`
	Path     string `json:"path,omitempty"`
	Reason   string `json:"reason,omitempty"`
	WaitMs   int    `json:"wait_ms,omitempty"`
	Duration int    `json:"duration_ms,omitempty"`
	Whole    *bool  `json:"whole,omitempty"`
	Status   int    `json:"status,omitempty"`
	Limit    int    `json:"limit"`
	Before   int    `json:"before"`
	Source   string `json:"source,omitempty"`
}

// holding makes a key's state of its limit and its tenants: running and waiting are their sums.
func holding(key string, limit int, tenants ...tenant) *keyState {
	k := &keyState{
		Key: key, Limit: limit, Source: "config", Configured: limit, Breaker: "closed", Usable: limit,
		Tenants: append([]tenant{}, tenants...), TenantsTotal: len(tenants),
	}
	for i := range k.Tenants {
		t := &k.Tenants[i]
		t.Weight = cmp.Or(t.Weight, 1)
		k.Inflight += t.Inflight
		k.Queued += t.Queued
	}
	slices.SortFunc(k.Tenants, func(a, b tenant) int {
		return cmp.Or(b.Inflight-a.Inflight, b.Queued-a.Queued)
	})
	return k
}

// pooling makes a pool's state of its keys. Without dimensions it has one key, which has the pool's name and limit.
func pooling(name string, limit int, dimensions []string, keys ...*keyState) *poolState {
	p := &poolState{
		Name: name, Limit: limit, Source: "config", Configured: limit, Key: dimensions, Per: "request",
		Queue: 64, MaxWaitMs: 5000, Waits: waits{SlotMs: 10_000, Slots: []slot{}}, Keys: keys,
		Outcomes: map[string]int64{"evaluated": 0, "admitted": 0},
	}
	p.sum()
	return p
}

func (p *poolState) sum() {
	p.Inflight, p.Queued, p.OnHold, p.KeysTotal = 0, 0, 0, len(p.Keys)
	for _, k := range p.Keys {
		p.Inflight += k.Inflight
		p.Queued += k.Queued
		p.OnHold += k.OnHold
	}
}
