package admission_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/admissiontest"
)

// check is what must hold at any time: no two streams of a key run at once, and no two records are in use for one key.
func (p *places) check() error {
	run := map[string]int{}
	for _, u := range p.uses {
		if u.now == phaseRunning {
			if run[u.key]++; run[u.key] > 1+p.reaped[u.key] {
				return fmt.Errorf("I1: %d streams of key %s at a limit of 1", run[u.key], u.key)
			}
		}
	}
	inUse := map[string]int{} // records, by key
	for i, s := range p.slots {
		var r admission.Record
		if s.b == nil {
			continue
		}
		if err := r.Decode(s.b); err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
		if r.Inflight() > 0 {
			if inUse[string(r.Name)]++; inUse[string(r.Name)] > 1 {
				return fmt.Errorf("I9: two records in use for key %s", r.Name)
			}
		}
	}
	return nil
}

// checkAtRest ends everything. Then nothing may be left (I3), and the directory may not have more slots than it should
// (I10).
func (p *places) checkAtRest() error {
	s := p.clone().(*places)
	s.crashes, s.falseDeaths = 0, 0
	for i := range s.tunes {
		s.tunes[i].begun = true
	}
	for range 200 {
		acts := s.actions(nil)
		at := slices.IndexFunc(acts, func(a action) bool {
			return a.kind == actRepair || a.kind == actCall || a.kind == actReap
		})
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
		return errors.New("never comes to rest")
	}
	for i, c := range s.slots {
		var r admission.Record
		if c.b == nil || r.Decode(c.b) == nil && r.Idle() {
			continue
		}
		if slices.ContainsFunc(s.workers, func(w placesWorker) bool { return !w.crashed }) {
			return fmt.Errorf("I3: drained, and left in record %d: %+v", i, r)
		}
	}
	if err := s.checkOverrides(); err != nil {
		return err
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

func newPlaces(maxKeys, crashes, falseDeaths int, uses ...keyUse) *places {
	c := &placesConfig{maxKeys: maxKeys, m: &admission.Machine{}, w: &admissiontest.Watch{}, d: &admission.Directory{}}
	p := &places{placesConfig: c, uses: uses, crashes: crashes, falseDeaths: falseDeaths, reaped: map[string]int{}, owned: map[string]bool{}}
	for _, u := range uses {
		p.addWorkers(u.worker)
	}
	return p
}

// addWorkers makes sure that there is a worker of that number.
func (p *places) addWorkers(last int) {
	for len(p.workers) <= last {
		p.claims++
		w := admission.Worker{Seat: uint16(len(p.workers)), Epoch: p.claims << 32}
		p.workers = append(p.workers, placesWorker{Worker: w, known: map[string]admission.Place{}, dirty: map[string]bool{},
			inherit: map[string]admission.Override{}})
	}
}

func placesScopes() []scope {
	return []scope{
		{name: "1 slot, 2 keys, 2 workers", states: 3415, start: func() system { return newPlaces(1, 0, 0, use(0, "a"), use(0, "b"), use(1, "a"), use(1, "b")) }},
		{name: "1 slot, 2 keys, 3 workers", states: 84735, start: func() system { return newPlaces(1, 0, 0, use(0, "a"), use(1, "b"), use(2, "a")) }},
		{name: "2 slots, 3 keys, 2 workers", states: 12141, start: func() system {
			return newPlaces(2, 0, 0, use(0, "a"), use(0, "b"), use(1, "c"), use(1, "a"))
		}},
		{name: "1 slot, 2 keys, crash", states: 1700, start: func() system { return newPlaces(1, 1, 0, use(0, "a"), use(0, "b"), use(1, "a")) }},
		{name: "1 slot, 2 keys, false death", states: 22234, start: func() system { return newPlaces(1, 0, 1, use(0, "a"), use(1, "b"), use(1, "a")) }},
		{name: "2 slots, 3 keys, 3 workers, crash", states: 2752925, start: func() system {
			return newPlaces(2, 1, 0, use(0, "a"), use(1, "b"), use(2, "c"), use(2, "a"))
		}, big: true},
	}
}

func TestExplorePlaces(t *testing.T) { exploreScopes(t, append(placesScopes(), tuneScopes()...)) }

// TestExploreRandomPlaces walks at random through a bigger world of keys.
func TestExploreRandomPlaces(t *testing.T) {
	walks := 2000
	if *exploreBig {
		walks = 20_000
	}
	exploreRandomly(t, "2 slots, 3 keys, 3 workers, all faults", func() system {
		var uses []keyUse
		for i := range 9 {
			uses = append(uses, use(i/3, keyNames[i*2%3]))
		}
		return newPlaces(2, 1, 1, uses...)
	}, *exploreSeed, walks)
	exploreRandomly(t, "2 slots, 3 keys, 2 workers, 2 operators, false death", func() system {
		var uses []keyUse
		for i := range 8 {
			uses = append(uses, use(i/4, keyNames[i*3%4]))
		}
		return newPlaces(2, 0, 1, uses...).with(byDefault(2, 0), own(3, "a", 1), own(2, "b", 0), byDefault(3, 1),
			own(2, "a", none), byDefault(2, none), own(3, otherName, 1), own(3, otherName, none))
	}, *exploreSeed, walks)
}
