package dashboard

import (
	"fmt"
	"math"
	"time"
)

// The staged loads. Each tells one story that somebody who has never seen the page must be able to read from it.

// flooded: one tenant holds most of a model, and others wait behind the limit.
func flooded() (state, []event) {
	model := pooling("model", 17, []string{"model"},
		holding("gpt-4o", 17, tenant{Tenant: "acme", Inflight: 11, Queued: 2, Weight: 3}, tenant{Tenant: "globex", Inflight: 4, Queued: 5},
			tenant{Tenant: "initech", Inflight: 2, Queued: 4}, tenant{Tenant: "umbrella", Queued: 2}),
		holding("claude-sonnet-4", 8, tenant{Tenant: "globex", Inflight: 3}, tenant{Tenant: "hooli", Inflight: 1}),
		holding("text-embedding-3-small", 40, tenant{Tenant: "acme", Inflight: 6}, tenant{Tenant: "initech", Inflight: 3}, tenant{Tenant: "hooli", Inflight: 2}))
	model.Queue, model.MaxWaitMs, model.Fair, model.Per, model.Breaker, model.Holds = 40, 10_000, true, "attempt", true, true
	model.Keys[0].OldestWaitMs, model.Keys[2].Limit = 4210, 40
	model.Waits.Slots = waves(60, 420, 4800)
	model.Outcomes = map[string]int64{"evaluated": 18422, "admitted": 18304, "admitted_after_wait": 911, "rejected_queue_full": 62, "expired_max_wait": 31,
		"cancelled_waiting": 12, "completed": 18233, "aborted": 40}
	tenants := pooling("tenant", 20, []string{"tenant"}, holding("acme", 50, tenant{Tenant: "acme", Inflight: 17}), holding("globex", 20, tenant{Tenant: "globex", Inflight: 7}),
		holding("initech", 20, tenant{Tenant: "initech", Inflight: 5}), holding("hooli", 20, tenant{Tenant: "hooli", Inflight: 3}))
	tenants.Keys[0].Configured = 50
	tenants.Outcomes = map[string]int64{"evaluated": 18422, "admitted": 18422, "completed": 18390}
	gateway := pooling("gateway", 137, nil, holding("gateway", 137, tenant{Tenant: "acme", Inflight: 17}, tenant{Tenant: "globex", Inflight: 7}, tenant{Tenant: "initech", Inflight: 5}, tenant{Tenant: "hooli", Inflight: 3}))
	gateway.Key = []string{}
	gateway.Outcomes = map[string]int64{"evaluated": 18454, "admitted": 18454, "completed": 18421, "aborted": 1}
	gateway.Queue = 0
	return state{Domain: "default", Mode: "enforce", Workers: 3, Pools: []*poolState{model, tenants, gateway}}, floodEvents()
}

func floodEvents() []event {
	now := time.Now().UnixMilli()
	var events []event
	add := func(age int64, e event) {
		e.ID, e.AtMs, e.Pool, e.Key, e.Model = int64(len(events)+1), now-age, "model", "gpt-4o", "gpt-4o"
		if e.Kind != "limit_changed" {
			e.Method, e.Path = "POST", "/v1/chat/completions"
		}
		events = append(events, e)
	}
	add(412_000, event{Kind: "limit_changed", Before: 12, Limit: 17, Source: "override"})
	for i, wait := range []int{9120, 8430, 6610, 5980, 4400, 4100} {
		add(int64(300_000-40_000*i), event{Kind: "waited", Tenant: []string{"globex", "initech", "umbrella"}[i%3], WaitMs: wait})
	}
	add(62_000, event{Kind: "cancelled", Tenant: "initech", WaitMs: 3100})
	for i := range 7 {
		add(int64(9000-i*400), event{Kind: "refused", Tenant: "acme", Reason: "ADMISSION_REJECTED", Status: 429})
	}
	add(2600, event{Kind: "expired", Tenant: "globex", Reason: "ADMISSION_WAIT_DEADLINE_EXCEEDED", Status: 429, WaitMs: 10_000})
	add(1200, event{Kind: "waited", Tenant: "globex", WaitMs: 7800})
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
	model.Outcomes = map[string]int64{"evaluated": 9211, "admitted": 8800, "admitted_after_wait": 310, "rejected_breaker": 386, "expired_max_wait": 20,
		"completed": 8301, "aborted": 12, "provider_429": 48, "provider_failure": 461}
	now := time.Now().UnixMilli()
	at := event{Pool: "model", Key: "gpt-4o", Model: "gpt-4o", Method: "POST", Path: "/v1/chat/completions", Tenant: "acme"}
	var events []event
	for i := range 40 {
		e := at
		e.ID, e.Kind, e.AtMs, e.Reason, e.Status = int64(i+2), "refused", now-int64(9000-200*i), "BREAKER_OPEN", 503
		events = append(events, e)
	}
	opened := event{ID: 1, Kind: "breaker_opened", AtMs: now - 9100, Pool: "model", Key: "gpt-4o"}
	return state{Domain: "default", Mode: "enforce", Workers: 4, Pools: []*poolState{model}}, append([]event{opened}, events...)
}

// free: everything runs.
func free() (state, []event) {
	s, _ := flooded()
	model := s.Pools[0]
	model.Keys[0] = holding("gpt-4o", 17, tenant{Tenant: "acme", Inflight: 5, Weight: 3}, tenant{Tenant: "globex", Inflight: 4})
	model.Waits.Slots = nil
	model.Waits.Slots = []slot{}
	model.sum()
	return s, nil
}

// shared: many tenants share a pool whose limit was lowered by hand, another is closed, a third has permits on hold.
func shared() (state, []event) {
	var many []tenant
	for i := range 23 {
		many = append(many, tenant{Tenant: fmt.Sprintf("team-%02d", i), Inflight: 1 + i%3, Queued: (i * 7) % 11})
	}
	gpu := pooling("gpu", 40, []string{}, holding("gpu", 40, many...))
	gpu.Source, gpu.Configured, gpu.Queue, gpu.MaxWaitMs, gpu.Fair, gpu.Breaker = "override", 64, 500, 90_000, true, true
	gpu.Keys[0].Source, gpu.Keys[0].Configured, gpu.Keys[0].OldestWaitMs = "override", 64, 63_000
	gpu.Waits.Slots = waves(60, 9000, 71_000)
	gpu.Outcomes = map[string]int64{"evaluated": 1_204_114, "admitted": 1_190_221, "admitted_after_wait": 804_331, "expired_deadline": 9114, "completed": 1_190_110}
	model := pooling("model", 8, []string{"model"}, holding("gpt-4o", 0), holding("gpt-4o-mini", 8, tenant{Tenant: "team-01", Inflight: 5, Queued: 2}))
	model.Holds, model.Queue = true, 20
	model.Keys[0].Source, model.Keys[0].Configured = "override", 8
	model.Keys[1].OnHold, model.Keys[1].HoldChangeMs, model.Keys[1].Source, model.Keys[1].OldestWaitMs = 3, 1400, "fleet", 350
	model.Outcomes = map[string]int64{"evaluated": 5120, "admitted": 4000, "rejected_closed": 1120, "completed": 4000}
	model.sum()
	return state{Domain: "eu-west", Mode: "enforce", Workers: 16, Pools: []*poolState{gpu, model}}, nil
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
