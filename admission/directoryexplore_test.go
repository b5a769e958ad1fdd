package admission_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/admissiontest"
)

// check: no two streams of a key at once, and no two records in use for one key.
func (p *places) check() error {
	run := map[string]int{}
	for _, u := range p.uses {
		if u.now == phaseRunning {
			if run[u.key]++; run[u.key] > 1+p.reaped[u.key] {
				return fmt.Errorf("I1: %d streams of key %s at a limit of 1", run[u.key], u.key)
			}
		}
	}
	used := map[string]int{}
	for i, s := range p.slots {
		var r admission.Record
		if s.b == nil {
			continue
		}
		if err := r.Decode(s.b); err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
		if r.Inflight() > 0 {
			if used[string(r.Name)]++; used[string(r.Name)] > 1 {
				return fmt.Errorf("I9: two records in use for key %s", r.Name)
			}
		}
	}
	return nil
}

// settled ends everything and checks that nothing is left, and that the directory is in order.
func (p *places) settled() error {
	s := p.clone().(*places)
	s.crashes, s.reaps = 0, 0
	for range 200 {
		acts := s.actions(nil)
		at := slices.IndexFunc(acts, func(a action) bool { return a.kind == actRepair || a.kind == actGoOn || a.kind == actReap })
		if at < 0 {
			if at = slices.IndexFunc(acts, func(a action) bool { return a.kind == actEnd }); at < 0 {
				break
			}
		}
		if err := s.do(acts[at]); err != nil {
			return err
		}
	}
	if !s.quiet() {
		return errors.New("never settles")
	}
	for i, c := range s.slots {
		var r admission.Record
		if c.b == nil || r.Decode(c.b) == nil && r.Idle() {
			continue
		}
		if slices.ContainsFunc(s.workers, func(w tenantOfSlots) bool { return !w.crashed }) {
			return fmt.Errorf("I3: drained, and left in record %d: %+v", i, r)
		}
	}
	s.d.Decode(s.dir.b)
	if s.d.Len() > s.maxKeys+p.spare() {
		return fmt.Errorf("I10: %d slots for %d keys", s.d.Len(), s.maxKeys)
	}
	return nil
}

// spare is how many slots more than max_keys there may be: those of keys that streams depend on after a false death.
func (p *places) spare() int {
	n := 0
	for _, r := range p.reaped {
		n += r
	}
	return n
}

func newPlaces(maxKeys, crashes, reaps int, uses ...use) *places {
	p := &places{placesConfig: &placesConfig{maxKeys: maxKeys, m: &admission.Machine{}, w: &admissiontest.Watch{}, d: &admission.Directory{}},
		uses: uses, crashes: crashes, reaps: reaps, reaped: map[string]int{}}
	for _, u := range uses {
		for len(p.workers) <= u.worker {
			p.claims++
			p.workers = append(p.workers, tenantOfSlots{Worker: admission.Worker{Seat: uint16(len(p.workers)), Epoch: p.claims << 32},
				known: map[string]admission.Place{}, dirty: map[string]bool{}})
		}
	}
	return p
}

func placesScopes() []scope {
	use := func(worker int, key string) use { return use{worker: worker, key: key} }
	return []scope{
		{name: "1 slot, 2 keys, 2 workers", states: 3415, start: func() system { return newPlaces(1, 0, 0, use(0, "a"), use(0, "b"), use(1, "a"), use(1, "b")) }},
		{name: "1 slot, 2 keys, 3 workers", states: 84735, start: func() system { return newPlaces(1, 0, 0, use(0, "a"), use(1, "b"), use(2, "a")) }},
		{name: "2 slots, 3 keys, 2 workers", states: 12141, start: func() system {
			return newPlaces(2, 0, 0, use(0, "a"), use(0, "b"), use(1, "c"), use(1, "a"))
		}},
		{name: "1 slot, 2 keys, crash", states: 1860, start: func() system { return newPlaces(1, 1, 0, use(0, "a"), use(0, "b"), use(1, "a")) }},
		{name: "1 slot, 2 keys, false death", states: 22590, start: func() system { return newPlaces(1, 0, 1, use(0, "a"), use(1, "b"), use(1, "a")) }},
		{name: "2 slots, 3 keys, 3 workers, crash", states: 3079238, start: func() system {
			return newPlaces(2, 1, 0, use(0, "a"), use(1, "b"), use(2, "c"), use(2, "a"))
		}, big: true},
	}
}

func TestExplorePlaces(t *testing.T) { exploreScopes(t, placesScopes()) }

// TestExploreRandomPlaces walks at random through a bigger world of keys.
func TestExploreRandomPlaces(t *testing.T) {
	walks := 2000
	if *exploreBig {
		walks = 20_000
	}
	exploreRandomly(t, "2 slots, 3 keys, 3 workers, all faults", func() system {
		var uses []use
		for i := range 9 {
			uses = append(uses, use{worker: i / 3, key: keyNames[i*2%3]})
		}
		return newPlaces(2, 1, 1, uses...)
	}, *exploreSeed, walks)
}
