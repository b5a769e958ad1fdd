package admission_test

import (
	"slices"
	"testing"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/admissiontest"
)

// newPool makes a world of requests, and of as many workers as they name.
func newPool(limit, queue int, f faults, requests ...request) *pool {
	c := &poolConfig{first: limit, queue: queue, m: &admission.Machine{}, w: &admissiontest.Watch{}}
	p := &pool{poolConfig: c, limit: limit, faults: f, requests: requests}
	for _, r := range requests {
		for len(p.workers) <= r.worker {
			i := len(p.workers)
			p.workers = append(p.workers, poolWorker{Worker: admission.Worker{Seat: uint16(i), Epoch: p.claim(i)}, born: true})
		}
	}
	return p
}

func (p *pool) with(f func(*pool)) *pool {
	f(p)
	return p
}

// short gives a request the short budget.
func short(r request) request { r.short = true; return r }

// reuseSeat lets the last worker take the first one's seat once that is declared dead.
func reuseSeat(p *pool) {
	p.reuse = true
	last := &p.workers[len(p.workers)-1]
	last.born, last.Seat = false, p.workers[0].Seat
}

func poolScopes() []scope {
	a, b, c := request{worker: 0, tenant: 1}, request{worker: 1, tenant: 2}, request{worker: 2, tenant: 3}
	fair := func(p *pool) { p.fair = true }
	raise := func(to int) func(*pool) {
		return func(p *pool) { p.raise, p.raises = to, 1 }
	}
	return []scope{
		{name: "limit 1, 2 workers, 4 tickets", states: 30611, start: func() system { return newPool(1, 4, faults{}, a, b, a, b) }},
		{name: "limit 1, 3 workers, 3 tickets", states: 5076, start: func() system { return newPool(1, 4, faults{}, a, b, c) }},
		{name: "limit 2, 3 workers, 4 tickets", start: func() system { return newPool(2, 4, faults{}, a, b, c, a) }, big: true},
		{name: "limit 1, crash, lost message", states: 137727, start: func() system { return newPool(1, 4, faults{crashes: 1, losses: 1}, a, b, a, b) }},
		{name: "limit 2, crash", states: 81795, start: func() system { return newPool(2, 4, faults{crashes: 1}, a, b, a, b) }},
		{name: "limit 1, 3 workers, crash", states: 64422, start: func() system { return newPool(1, 4, faults{crashes: 1}, a, b, c) }},
		{name: "limit 1, 2 workers, 5 tickets, crash", start: func() system { return newPool(1, 5, faults{crashes: 1}, a, b, a, b, a) }, big: true},
		{name: "limit 1, false death", states: 167571, start: func() system { return newPool(1, 4, faults{falseDeaths: 1}, a, b, a) }},
		{name: "limit 2, false death, crash", start: func() system { return newPool(2, 4, faults{falseDeaths: 1, crashes: 1}, a, b, a) }, big: true},
		{name: "limit 2, false death, crash, 2 tickets", states: 7331, start: func() system { return newPool(2, 4, faults{falseDeaths: 1, crashes: 1}, a, b) }},
		{name: "limit 1, false death, crash, 2 tickets", states: 18123, start: func() system { return newPool(1, 4, faults{falseDeaths: 1, crashes: 1}, a, b) }},
		{name: "limit 1, false death, crash, lost message", start: func() system { return newPool(1, 4, faults{falseDeaths: 1, crashes: 1, losses: 1}, a, b, a) }, big: true},
		{name: "limit 1, two false deaths, 2 tickets", states: 244431, start: func() system { return newPool(1, 4, faults{falseDeaths: 2}, a, b) }, big: true},
		{name: "limit 1, deadlines", states: 10272, start: func() system { return newPool(1, 4, faults{}, a, short(b), short(a)) }},
		{name: "limit 1, deadlines, 4 tickets", start: func() system { return newPool(1, 4, faults{}, a, short(b), short(a), b) }, big: true},
		{name: "limit 1, deadlines, crash, lost message", states: 46903, start: func() system { return newPool(1, 4, faults{crashes: 1, losses: 1}, a, short(b), short(a)) }},
		{name: "limit 1, deadlines, false death", start: func() system { return newPool(1, 4, faults{falseDeaths: 1}, a, short(b), short(b)) }, big: true},
		{name: "limit 1, a deadline, false death", states: 15682, start: func() system { return newPool(1, 4, faults{falseDeaths: 1}, a, short(b)) }},
		{name: "limit 1, swaps exhausted", states: 10603, start: func() system { return newPool(1, 4, faults{exhaustions: 2}, a, b, a) }},
		{name: "limit 1, queue 1", states: 52025, start: func() system { return newPool(1, 1, faults{crashes: 1}, a, b, a, b) }},
		{name: "limit 1, queue 0", states: 26184, start: func() system { return newPool(1, 0, faults{crashes: 1, falseDeaths: 1}, a, b, a) }},
		{name: "limit 1 raised to 2", states: 34906, start: func() system { return newPool(1, 4, faults{crashes: 1}, a, b, b).with(raise(2)) }},
		{name: "limit 0 raised to 2", states: 32605, start: func() system { return newPool(0, 4, faults{}, a, b, a, b).with(raise(2)) }},
		{name: "limit 2 lowered to 0", states: 6531, start: func() system { return newPool(2, 4, faults{}, a, a, b).with(raise(0)) }},
		{name: "limit 2 lowered to 0, 4 tickets", start: func() system { return newPool(2, 4, faults{}, a, b, a, b).with(raise(0)) }, big: true},
		{name: "fair, queue 2", states: 75105, start: func() system { return newPool(1, 2, faults{crashes: 1}, a, b, a, b).with(fair) }},
		{name: "fair, 3 workers, limit 1", states: 6576, start: func() system { return newPool(1, 4, faults{losses: 1}, a, b, c).with(fair) }},
		{name: "a seat reused", states: 4469, start: func() system { return newPool(1, 4, faults{crashes: 1}, a, b, c).with(reuseSeat) }},
		{name: "a seat reused, its owner lives", start: func() system { return newPool(1, 4, faults{falseDeaths: 1}, a, b, c).with(reuseSeat) }, big: true},
		{name: "a seat reused, its owner lives, 2 workers", states: 27559, start: func() system { return newPool(1, 4, faults{falseDeaths: 1}, a, a, b).with(reuseSeat) }},
		{name: "a seat reused, its owner lives, crash", start: func() system { return newPool(1, 4, faults{falseDeaths: 1, crashes: 1}, a, a, b, c).with(reuseSeat) }, big: true},
	}
}

func TestExplorePool(t *testing.T) { exploreScopes(t, poolScopes()) }

// TestExploreRandomPool walks at random through a world that is too big to see all of it.
func TestExploreRandomPool(t *testing.T) {
	var requests []request
	for i := range 8 {
		requests = append(requests, request{worker: i % 3, tenant: uint64(i%4) + 1, short: i%3 == 0})
	}
	walks := 3000
	if *exploreBig {
		walks = 20_000
	}
	f := faults{crashes: 1, losses: 2, falseDeaths: 2, exhaustions: 2, raises: 1}
	exploreRandomly(t, "3 workers, 8 tickets, all faults", func() system {
		return newPool(2, 6, f, slices.Clone(requests)...).with(func(p *pool) { p.raise, p.fair = 3, true })
	}, *exploreSeed, walks)
}
