package dashboard

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Whoever looks at a scene adds figures up, and finds those that contradict each other.
func TestScenesAddUp(t *testing.T) {
	t.Parallel()
	for _, scene := range scenes {
		s, events := scene.load()
		wrong := contradictions(s, events)
		require.Empty(t, wrong, scene.name)
	}
}

// What it looks for is found.
func TestScenesThatContradictThemselvesAreFound(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*state, []event){
		"flooded: model: on_hold":               func(s *state, _ []event) { s.Pools[0].Keys[0].OnHold = 2 },
		"flooded: model: evaluated":             func(s *state, _ []event) { s.Pools[0].Outcomes["evaluated"]++ },
		"flooded: model: running":               func(s *state, _ []event) { s.Pools[0].Outcomes["completed"]++ },
		"flooded: model gpt-4o: tenants":        func(s *state, _ []event) { s.Pools[0].Keys[0].Tenants[0].Inflight++ },
		"flooded: model gpt-4o: oldest wait":    func(s *state, _ []event) { s.Pools[0].Keys[0].OldestWaitMs = 10_001 },
		"flooded: model gpt-4o: refused":        func(s *state, _ []event) { s.Pools[0].Queue = 40 },
		"flooded: gateway: passed on":           func(s *state, _ []event) { s.Pools[2].Inflight-- },
		"flooded: waited":                       func(_ *state, e []event) { e[1].WaitMs *= 2 },
		"flooded: limit_changed":                func(_ *state, e []event) { e[0].Source = "config" },
		"broken: model gpt-4o: waits too short": func(s *state, _ []event) { s.Pools[0].Keys[0].OldestWaitMs = 1500 },
		"broken: model gpt-4o: no failure":      func(s *state, _ []event) { s.Pools[0].Outcomes["provider_failure"] = 0 },
		"broken: model mistral-large: waits":    func(s *state, _ []event) { s.Pools[0].Keys[2].Queued, s.Pools[0].Keys[2].OldestWaitMs = 1, 4 },
	} {
		for _, scene := range scenes[:2] {
			s, events := scene.load()
			if len(name) > len(scene.name) && name[:len(scene.name)] == scene.name {
				spoil(&s, events)
				require.Contains(t, fmt.Sprint(contradictions(s, events)), name[len(scene.name)+2:])
			}
		}
	}
}

// contradictions are what does not fit in a state and its events. They follow docs/metrics.md and docs/admin.md.
func contradictions(s state, events []event) (wrong []string) {
	check := func(fits bool, format string, args ...any) {
		if !fits {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	for i, p := range s.Pools {
		poolFits(p, check)
		for _, k := range p.Keys {
			keyFits(p, k, events, check)
		}
		if i > 0 && s.Pools[i-1].Outcomes["admitted"] == p.Outcomes["evaluated"] {
			check(s.Pools[i-1].Inflight == p.Inflight+p.Queued, "%s: passed on", p.Name)
		}
	}
	eventsFit(s, events, check)
	return wrong
}

func poolFits(p *poolState, check func(bool, string, ...any)) {
	sums := *p
	sums.sum()
	check(p.Inflight == sums.Inflight && p.Queued == sums.Queued && p.KeysTotal == sums.KeysTotal, "%s: sums", p.Name)
	check(p.OnHold == sums.OnHold, "%s: on_hold", p.Name)
	o := p.Outcomes
	check(o["evaluated"] == o["admitted"]+o["rejected_queue_full"]+o["rejected_closed"]+o["rejected_breaker"]+o["expired_max_wait"]+o["expired_deadline"]+
		o["cancelled_waiting"]+int64(p.Queued), "%s: evaluated", p.Name)
	check(o["admitted"]-o["completed"]-o["aborted"]-o["reaped"] == int64(p.Inflight), "%s: running", p.Name)
	check(o["provider_429"]+o["provider_failure"] <= o["completed"]+o["aborted"], "%s: failures", p.Name)
	waited := 0
	for _, slot := range p.Waits.Slots {
		waited += slot.N
		check(slot.P50 <= slot.P90 && slot.P90 <= slot.P99 && slot.P99 <= p.MaxWaitMs, "%s: waits", p.Name)
	}
	check(int64(waited) <= o["admitted_after_wait"] && o["admitted_after_wait"] <= o["admitted"], "%s: admitted after a wait", p.Name)
}

func keyFits(p *poolState, k *keyState, events []event, check func(bool, string, ...any)) {
	at := p.Name + " " + k.Key
	inflight, queued := 0, 0
	for _, t := range k.Tenants {
		inflight += t.Inflight
		queued += t.Queued
	}
	check(inflight == k.Inflight && queued == k.Queued || len(k.Tenants) == 0, "%s: tenants", at)
	check(p.Fair || len(p.Key) == 1 && p.Key[0] == "tenant" || len(k.Tenants) == 0, "%s: tenants of a pool that is not fair", at)
	check((k.Queued > 0) == (k.OldestWaitMs > 0) && k.OldestWaitMs <= p.MaxWaitMs, "%s: oldest wait", at)
	check(k.Queued <= p.Queue && (k.Queued == 0 || k.Breaker != "closed" || k.Inflight+k.OnHold >= k.Usable), "%s: waits", at)
	check((k.OnHold > 0) == (k.HoldChangeMs > 0) && (p.Holds || k.OnHold == 0), "%s: holds", at)
	check(k.Source != "config" || k.Limit == k.Configured, "%s: limit", at)
	failed := p.Outcomes["provider_429"] + p.Outcomes["provider_failure"]
	check(k.Breaker == "closed" && k.Usable == k.Limit || p.Breaker && failed > 0 && p.Outcomes["provider_failure"] > 0, "%s: no failure", at)
	for _, e := range events {
		if e.Pool != p.Name || e.Key != k.Key {
			continue
		}
		age := int(time.Now().UnixMilli() - e.AtMs)
		switch e.Kind {
		case "breaker_opened": // nobody begins to wait at an open breaker
			check(k.Breaker == "open" && (k.Queued == 0 || k.OldestWaitMs >= age-500), "%s: waits too short", at)
		case "limit_changed":
			check(e.Source == k.Source && e.Limit == k.Limit, "%s: limit_changed", at)
		case "refused":
			share := slices.ContainsFunc(k.Tenants, func(t tenant) bool { return t.Tenant == e.Tenant && t.Queued >= p.Queue-k.Queued })
			check(e.Reason != "ADMISSION_REJECTED" || k.Limit == 0 || k.Queued >= p.Queue || share, "%s: refused", at)
			check(e.Reason != "BREAKER_OPEN" || k.Breaker == "open", "%s: refused", at)
		}
	}
}

func eventsFit(s state, events []event, check func(bool, string, ...any)) {
	now, last := time.Now().UnixMilli(), event{}
	refused := map[string]int64{}
	for _, e := range events {
		check(e.ID > last.ID && e.AtMs >= last.AtMs && e.AtMs <= now, "%s: order", e.Kind)
		last = e
		p := s.Pools[slices.IndexFunc(s.Pools, func(p *poolState) bool { return p.Name == e.Pool })]
		check(slices.ContainsFunc(p.Keys, func(k *keyState) bool { return k.Key == e.Key }), "%s: of no key", e.Kind)
		switch e.Kind {
		case "waited": // one of those that the figures of its ten seconds are of; they may be off by an eighth
			check(slices.ContainsFunc(p.Waits.Slots, func(w slot) bool {
				age := int(now - e.AtMs)
				return age >= w.AgeMs && age < w.AgeMs+p.Waits.SlotMs && e.WaitMs <= w.P99*9/8
			}), "waited %d ms", e.WaitMs)
		case "refused":
			refused[e.Pool]++
			o := p.Outcomes
			check(refused[e.Pool] <= o["rejected_queue_full"]+o["rejected_closed"]+o["rejected_breaker"], "%s: refused", e.Pool)
		}
	}
}
