package admission_test

import (
	"slices"
	"testing"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/admissiontest"
)

// newPool makes a world of requests, and of as many workers as they name.
func newPool(limit, queue int, f faults, requests ...request) *pool {
	c := &poolConfig{first: limit, queue: queue, m: &admission.Machine{}, judge: &admission.Machine{},
		w: &admissiontest.Watch{}}
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

// calm lets turns go on until they have their swap.
func calm(p *pool) { p.calm = true }

// crowded leaves acquires and cancels to later turns.
func crowded(p *pool) { p.crowd = true }

// onHold gives releases something to say: their permits stay on hold.
func onHold(p *pool) { p.hold = true }

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
		{name: "limit 1, 2 workers, 4 tickets", states: 47055, start: func() system { return newPool(1, 4, faults{}, a, b, a, b) }},
		{name: "limit 1, 3 workers, 3 tickets", states: 23667, start: func() system { return newPool(1, 4, faults{}, a, b, c) }},
		{name: "limit 2, 3 workers, 4 tickets", start: func() system { return newPool(2, 4, faults{}, a, b, c, a) }, big: true},
		{name: "limit 1, crash, lost message", states: 46419, start: func() system { return newPool(1, 4, faults{crashes: 1, losses: 1}, a, b, a, b).with(calm) }},
		{name: "limit 1, crash, lost message, lost swaps", start: func() system { return newPool(1, 4, faults{crashes: 1, losses: 1}, a, b, a, b) }, big: true},
		{name: "limit 1, crash, lost message, 3 tickets", states: 13000, start: func() system { return newPool(1, 4, faults{crashes: 1, losses: 1}, a, b, a) }},
		{name: "limit 2, crash", states: 32151, start: func() system { return newPool(2, 4, faults{crashes: 1}, a, b, a, b).with(calm) }},
		{name: "limit 2, crash, lost swaps", start: func() system { return newPool(2, 4, faults{crashes: 1}, a, b, a, b) }, big: true},
		{name: "limit 1, 3 workers, crash", states: 64422, start: func() system { return newPool(1, 4, faults{crashes: 1}, a, b, c).with(calm) }},
		{name: "limit 1, 3 workers, crash, lost swaps", start: func() system { return newPool(1, 4, faults{crashes: 1}, a, b, c) }, big: true},
		{name: "limit 1, 2 workers, 5 tickets, crash", start: func() system { return newPool(1, 5, faults{crashes: 1}, a, b, a, b, a) }, big: true},
		{name: "limit 1, false death", states: 89709, start: func() system { return newPool(1, 4, faults{falseDeaths: 1}, a, b, a).with(calm) }},
		{name: "limit 1, false death, lost swaps", start: func() system { return newPool(1, 4, faults{falseDeaths: 1}, a, b, a) }, big: true},
		{name: "limit 2, false death, crash", start: func() system { return newPool(2, 4, faults{falseDeaths: 1, crashes: 1}, a, b, a) }, big: true},
		{name: "limit 2, false death, crash, 2 tickets", states: 11299, start: func() system { return newPool(2, 4, faults{falseDeaths: 1, crashes: 1}, a, b) }},
		{name: "limit 1, false death, crash, 2 tickets", states: 25501, start: func() system { return newPool(1, 4, faults{falseDeaths: 1, crashes: 1}, a, b) }},
		{name: "limit 1, false death, crash, lost message", start: func() system { return newPool(1, 4, faults{falseDeaths: 1, crashes: 1, losses: 1}, a, b, a) }, big: true},
		{name: "limit 1, two false deaths, 2 tickets", start: func() system { return newPool(1, 4, faults{falseDeaths: 2}, a, b) }, big: true},
		{name: "limit 1, deadlines", states: 20646, start: func() system { return newPool(1, 4, faults{}, a, short(b), short(a)) }},
		{name: "limit 1, deadlines, 4 tickets", start: func() system { return newPool(1, 4, faults{}, a, short(b), short(a), b) }, big: true},
		{name: "limit 1, deadlines, crash, lost message", states: 65273, start: func() system { return newPool(1, 4, faults{crashes: 1, losses: 1}, a, short(b), short(a)) }},
		{name: "limit 1, deadlines, false death", start: func() system { return newPool(1, 4, faults{falseDeaths: 1}, a, short(b), short(b)) }, big: true},
		{name: "limit 1, a deadline, false death", states: 24258, start: func() system { return newPool(1, 4, faults{falseDeaths: 1}, a, short(b)) }},
		{name: "limit 1, queue 1", states: 57249, start: func() system { return newPool(1, 1, faults{crashes: 1}, a, b, a, b) }},
		{name: "limit 1, queue 0", states: 22724, start: func() system { return newPool(1, 0, faults{crashes: 1, falseDeaths: 1}, a, b, a) }},
		{name: "limit 1 raised to 2", states: 3416, start: func() system { return newPool(1, 4, faults{}, a, b).with(raise(2)) }},
		{name: "limit 1 raised to 2, crash", states: 34524, start: func() system { return newPool(1, 4, faults{crashes: 1}, a, b, b).with(raise(2)).with(calm) }},
		{name: "limit 0 raised to 2", states: 12002, start: func() system { return newPool(0, 4, faults{}, a, b, a, b).with(raise(2)).with(calm) }},
		{name: "limit 0 raised to 2, lost swaps", start: func() system { return newPool(0, 4, faults{}, a, b, a, b).with(raise(2)) }, big: true},
		{name: "limit 2 lowered to 0", states: 20782, start: func() system { return newPool(2, 4, faults{}, a, a, b).with(raise(0)) }},
		{name: "limit 2 lowered to 0, 4 tickets", start: func() system { return newPool(2, 4, faults{}, a, b, a, b).with(raise(0)) }, big: true},
		{name: "fair, queue 2", states: 26089, start: func() system { return newPool(1, 2, faults{crashes: 1}, a, b, a, b).with(fair).with(calm) }},
		{name: "fair, 3 workers, limit 1", states: 30993, start: func() system { return newPool(1, 4, faults{losses: 1}, a, b, c).with(fair) }},
		{name: "a seat reused", states: 8137, start: func() system { return newPool(1, 4, faults{crashes: 1}, a, b, c).with(reuseSeat) }},
		{name: "a seat reused, its owner lives", start: func() system { return newPool(1, 4, faults{falseDeaths: 1}, a, b, c).with(reuseSeat) }, big: true},
		{name: "a seat reused, its owner lives, 2 workers", states: 53403, start: func() system { return newPool(1, 4, faults{falseDeaths: 1}, a, a, b).with(reuseSeat) }},
		{name: "a seat reused, its owner lives, crash", start: func() system { return newPool(1, 4, faults{falseDeaths: 1, crashes: 1}, a, a, b, c).with(reuseSeat) }, big: true},
		{name: "holds, limit 3", states: 16883, start: func() system { return newPool(3, 4, faults{}, a, b, a, b).with(onHold) }},
		{name: "holds, limit 2, 3 workers", states: 5535, start: func() system { return newPool(2, 4, faults{}, a, b, c).with(onHold) }},
		{name: "holds, limit 3, crash", states: 4021, start: func() system { return newPool(3, 4, faults{crashes: 1}, a, b, a).with(onHold) }},
		{name: "holds, limit 2, false death", states: 4311, start: func() system { return newPool(2, 4, faults{falseDeaths: 1}, a, b).with(onHold) }},
		{name: "holds, limit 3, false death, 3 tickets", start: func() system { return newPool(3, 4, faults{falseDeaths: 1}, a, a, b).with(onHold) }, big: true},
		{name: "holds, a seat reused, its owner lives", states: 20083, start: func() system { return newPool(3, 4, faults{falseDeaths: 1}, a, a, b).with(reuseSeat).with(onHold) }},
		{name: "a crowd", states: 32913, start: func() system { return newPool(1, 4, faults{}, a, b, a, b).with(crowded) }},
		{name: "a crowd, false death", states: 10231, start: func() system { return newPool(1, 4, faults{falseDeaths: 1}, a, b).with(crowded) }},
		{name: "a crowd, queue 1, false death", start: func() system { return newPool(1, 1, faults{falseDeaths: 1}, a, b, b).with(crowded) }, big: true},
		{name: "a crowd, deadlines, crash", states: 43573, start: func() system { return newPool(1, 4, faults{crashes: 1}, a, short(b), b).with(crowded) }},
		{name: "a crowd, holds, false death", states: 48452, start: func() system { return newPool(3, 4, faults{falseDeaths: 1}, a, a, b).with(crowded).with(onHold) }},
	}
}

func TestExplorePool(t *testing.T) {
	exploreScopes(t, slices.Concat(poolScopes(), spareScopes(), overrideScopes()))
}

// TestExploreRandomPool walks at random through a world that is too big to see all of it.
func TestExploreRandomPool(t *testing.T) {
	var requests []request
	for i := range 8 {
		requests = append(requests, request{worker: i % 3, tenant: uint64(i%4) + 1, short: i%3 == 0})
	}
	walks := 2000
	if *exploreBig {
		walks = 20_000
	}
	f := faults{crashes: 1, losses: 2, falseDeaths: 2, raises: 1}
	tuned := retuned(1, 4, none, 2)
	exploreRandomly(t, "3 workers, 8 tickets, all faults", func() system {
		return newPool(2, 6, f, slices.Clone(requests)...).with(func(p *pool) { p.raise, p.fair = 3, true }).with(tuned)
	}, *exploreSeed, walks)
	f.raises = 0
	exploreRandomly(t, "3 workers, 8 tickets, a crowd, holds, all faults", func() system {
		return newPool(5, 6, f, slices.Clone(requests)...).with(crowded).with(onHold)
	}, *exploreSeed, walks)
	for i := range requests {
		requests[i].short = false // a recall takes longer than the short budget
	}
	exploreRandomly(t, "3 workers, 8 tickets, spares, all faults", func() system {
		return newPool(5, 6, f, slices.Clone(requests)...).with(sparing).with(tuned)
	}, *exploreSeed, walks)
}
