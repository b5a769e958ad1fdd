package dashboard

import (
	"cmp"
	"fmt"
	"math"
	"time"
)

// The staged loads. Each tells one story that somebody who has never seen the page must be able to read from it.

// flooded: one tenant holds most of a model, and others wait behind the limit.
func flooded() (state, []event) {
	model := pooling("model", 17, []string{"model"},
		holding("gpt-4o", 17, tenant{Tenant: "acme", Inflight: 11, Queued: 5, Weight: 3}, tenant{Tenant: "globex", Inflight: 4, Queued: 4},
			tenant{Tenant: "initech", Inflight: 2, Queued: 2}, tenant{Tenant: "umbrella", Queued: 2}),
		holding("claude-sonnet-4", 8, tenant{Tenant: "globex", Inflight: 3}, tenant{Tenant: "hooli", Inflight: 1}),
		holding("text-embedding-3-small", 40, tenant{Tenant: "acme", Inflight: 6}, tenant{Tenant: "initech", Inflight: 3}, tenant{Tenant: "hooli", Inflight: 2}))
	model.Queue, model.MaxWaitMs, model.Fair, model.Breaker = 18, 10_000, true, true
	model.Keys[0].OldestWaitMs = 4210
	model.Keys[2].Source, model.Keys[2].Configured = "override", 17
	model.Waits.Slots = waves(60, 420, 9200)
	model.Outcomes = map[string]int64{"evaluated": 18422, "admitted": 18304, "admitted_after_wait": 4911, "rejected_queue_full": 62, "expired_max_wait": 31,
		"cancelled_waiting": 12, "completed": 18232, "aborted": 40}
	tenants := pooling("tenant", 20, []string{"tenant"}, holding("acme", 50, tenant{Tenant: "acme", Inflight: 17}), holding("globex", 20, tenant{Tenant: "globex", Inflight: 7}),
		holding("initech", 20, tenant{Tenant: "initech", Inflight: 5}), holding("hooli", 20, tenant{Tenant: "hooli", Inflight: 3}))
	tenants.Outcomes = map[string]int64{"evaluated": 18304, "admitted": 18304, "completed": 18232, "aborted": 40}
	gateway := pooling("gateway", 137, []string{}, holding("gateway", 137, tenant{Tenant: "acme", Inflight: 17}, tenant{Tenant: "globex", Inflight: 7},
		tenant{Tenant: "initech", Inflight: 5}, tenant{Tenant: "hooli", Inflight: 3}))
	gateway.Fair, gateway.Queue = true, 0
	gateway.Outcomes = map[string]int64{"evaluated": 18304, "admitted": 18304, "completed": 18232, "aborted": 40}
	return state{Domain: "default", Mode: "enforce", Workers: 3, Pools: []*poolState{model, tenants, gateway}}, floodEvents(model.Waits.Slots)
}

func floodEvents(slots []slot) []event {
	now := time.Now().UnixMilli()
	var events []event
	add := func(age int64, e event) {
		e.ID, e.AtMs, e.Pool, e.Key = int64(len(events)+1), now-age, "model", cmp.Or(e.Key, "gpt-4o")
		if e.Kind != "limit_changed" {
			e.Model, e.Method, e.Path = "gpt-4o", "POST", "/v1/chat/completions"
		}
		events = append(events, e)
	}
	add(412_000, event{Kind: "limit_changed", Key: "text-embedding-3-small", Before: 17, Limit: 40, Source: "override"})
	for i, s := range []slot{slots[30], slots[24], slots[18], slots[11], slots[7]} {
		add(int64(s.AgeMs+4000), event{Kind: "waited", Tenant: []string{"globex", "initech", "umbrella"}[i%3], WaitMs: s.P99})
	}
	add(62_000, event{Kind: "cancelled", Tenant: "initech", WaitMs: 3100})
	for i := range 7 {
		add(int64(9000-i*400), event{Kind: "refused", Tenant: "acme", Reason: "ADMISSION_REJECTED", Status: 429})
	}
	add(2600, event{Kind: "expired", Tenant: "globex", Reason: "ADMISSION_WAIT_DEADLINE_EXCEEDED", Status: 429, WaitMs: 10_000})
	add(1200, event{Kind: "waited", Tenant: "globex", WaitMs: slots[0].P99})
	add(900, event{Kind: "refused", Tenant: "acme", Reason: "ADMISSION_REJECTED", Status: 429})
	return events
}

// broken: the provider fails; its breaker is open, and another model is pushed back.
func broken() (state, []event) {
	model := pooling("model", 8, []string{"model"},
		holding("gpt-4o", 8, tenant{Tenant: "acme", Queued: 3}, tenant{Tenant: "globex", Queued: 2}),
		holding("claude-sonnet-4", 8, tenant{Tenant: "globex", Inflight: 3, Queued: 1}, tenant{Tenant: "hooli", Inflight: 2, Queued: 2}),
		holding("mistral-large", 8, tenant{Tenant: "initech", Inflight: 2}))
	model.Queue, model.Fair, model.Per, model.Breaker, model.Holds = 64, true, "attempt", true, true
	model.Keys[0].Breaker, model.Keys[0].BreakerChangeMs, model.Keys[0].OldestWaitMs = "open", 12_000, 3900
	model.Keys[1].Usable, model.Keys[1].HeadroomChangeMs, model.Keys[1].OldestWaitMs, model.Keys[1].PenaltyMs = 5, 8400, 1300, 2100
	model.Keys[2].OnHold, model.Keys[2].HoldChangeMs = 2, 400
	model.Waits.Slots = waves(30, 300, 2400)
	model.Outcomes = map[string]int64{"evaluated": 9214, "admitted": 8800, "admitted_after_wait": 1310, "rejected_breaker": 386, "expired_max_wait": 20,
		"completed": 8781, "aborted": 12, "provider_429": 48, "provider_failure": 461}
	model.sum()
	now := time.Now().UnixMilli()
	at := event{Pool: "model", Key: "gpt-4o", Model: "gpt-4o", Method: "POST", Path: "/v1/chat/completions", Tenant: "acme"}
	events := []event{{ID: 1, Kind: "breaker_opened", AtMs: now - 2100, Pool: "model", Key: "gpt-4o"}}
	for i := range 40 {
		e := at
		e.ID, e.Kind, e.AtMs, e.Reason, e.Status = int64(i+2), "refused", now-int64(2050-50*i), "BREAKER_OPEN", 503
		events = append(events, e)
	}
	return state{Domain: "default", Mode: "enforce", Workers: 4, Pools: []*poolState{model}}, events
}

// free: everything runs.
func free() (state, []event) {
	s, _ := flooded()
	model, tenants, gateway := s.Pools[0], s.Pools[1], s.Pools[2]
	model.Keys[0] = holding("gpt-4o", 17, tenant{Tenant: "acme", Inflight: 5, Weight: 3}, tenant{Tenant: "globex", Inflight: 4}, tenant{Tenant: "initech", Inflight: 2})
	tenants.Keys[0] = holding("acme", 50, tenant{Tenant: "acme", Inflight: 11})
	gateway.Keys[0] = holding("gateway", 137, tenant{Tenant: "acme", Inflight: 11}, tenant{Tenant: "globex", Inflight: 7},
		tenant{Tenant: "initech", Inflight: 5}, tenant{Tenant: "hooli", Inflight: 3})
	model.Waits.Slots = []slot{}
	for _, p := range s.Pools {
		p.Outcomes["completed"] += 6
		p.sum()
	}
	model.Outcomes["evaluated"] -= 13
	return s, nil
}

// shared: many tenants share a pool whose limit was lowered by hand, a model is shut, a third has permits on hold.
func shared() (state, []event) {
	var many []tenant
	for i := range 23 {
		many = append(many, tenant{Tenant: fmt.Sprintf("team-%02d", i), Inflight: 1 + i%3, Queued: (i * 7) % 11})
	}
	gpu := pooling("gpu", 40, []string{}, holding("gpu", 40, many...))
	gpu.Source, gpu.Configured, gpu.Queue, gpu.MaxWaitMs, gpu.Fair, gpu.Breaker = "override", 64, 500, 90_000, true, true
	gpu.Keys[0].Source, gpu.Keys[0].Configured, gpu.Keys[0].OldestWaitMs = "override", 64, 63_000
	gpu.Waits.Slots = waves(60, 9000, 71_000)
	gpu.Outcomes = map[string]int64{"evaluated": 1_199_445, "admitted": 1_190_221, "admitted_after_wait": 804_331, "expired_deadline": 9114, "completed": 1_190_176}
	model := pooling("model", 8, []string{"model"}, holding("gpt-4o", 0), holding("gpt-4o-mini", 8, tenant{Tenant: "team-01", Inflight: 5, Queued: 2}))
	model.Holds, model.Queue, model.Fair = true, 20, true
	model.Keys[0].Source, model.Keys[0].Configured = "override", 8
	model.Keys[1].OnHold, model.Keys[1].HoldChangeMs, model.Keys[1].Source, model.Keys[1].OldestWaitMs = 3, 1400, "fleet", 350
	model.Keys[1].Configured = 24
	model.Outcomes = map[string]int64{"evaluated": 5122, "admitted": 4000, "rejected_closed": 1120, "completed": 3995}
	model.sum()
	now := time.Now().UnixMilli()
	events := []event{{ID: 1, AtMs: now - 200_000, Kind: "limit_changed", Pool: "gpu", Key: "gpu", Before: 64, Limit: 40, Source: "override"},
		{ID: 2, AtMs: now - 95_000, Kind: "limit_changed", Pool: "model", Key: "gpt-4o", Before: 8, Source: "override"}}
	for i := range 12 {
		events = append(events, event{ID: int64(i + 3), AtMs: now - int64(9000-700*i), Kind: "refused", Pool: "model", Key: "gpt-4o", Model: "gpt-4o", Tenant: "team-03",
			Method: "POST", Path: "/v1/chat/completions", Reason: "ADMISSION_REJECTED", Status: 429})
	}
	return state{Domain: "eu-west", Mode: "enforce", Workers: 16, Pools: []*poolState{gpu, model}}, events
}

// waves is ten minutes of waits that rise and fall between two values and rise towards the end.
func waves(n, low, high int) []slot {
	var slots []slot
	for i := range n {
		if i%13 == 9 {
			continue
		}
		level := (1 + math.Sin(float64(i)/4+1.4)) / 2 * math.Exp(-float64(i)/40)
		p99 := low + int(float64(high-low)*level)
		slots = append(slots, slot{AgeMs: 10_000 * i, N: 20 + i, P50: p99 / 6, P90: p99 * 6 / 10, P99: p99})
	}
	return slots
}

// crowded: a pool with 2,000 keys, of which some are busy.
func crowded(keys, busy int) state {
	pool := pooling("tenant", 20, []string{"tenant"})
	for i := range keys {
		name := fmt.Sprintf("tenant-%04d", i)
		k := holding(name, 20)
		if i%(keys/busy) == 7 {
			k = holding(name, 20, tenant{Tenant: name, Inflight: 1 + i%20, Queued: i % 3})
		}
		pool.Keys = append(pool.Keys, k)
	}
	pool.sum()
	return state{Domain: "default", Mode: "enforce", Workers: 2, Pools: []*poolState{pool}}
}
