package admission_test

import (
	"fmt"
	"slices"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/admissiontest"
)

// otherName is the key with a fixed place, of which the directory knows nothing.
const (
	otherName = "other"
	otherSlot = 3
)

// A tune is one thing that an operator asks an admin context for, as filter/records/retune.go does it. Its worker does
// nothing else.
type tune struct {
	worker int
	key    string // "": the default of all keys
	limit  int    // none: no override
	begun  bool
}

// tuning is how far a tune has come.
type tuning struct {
	tune int                // which one
	at   int                // spread: the slot that is next
	seen admission.Override // the directory's, as was read before the records
}

// with lets operators ask for something.
func (p *places) with(tunes ...tune) *places {
	for _, t := range tunes {
		p.addWorkers(t.worker)
	}
	p.tunes = tunes
	return p
}

func (p *places) tuneActions(acts []action, i int) []action {
	for t := range p.tunes {
		if p.tunes[t].worker == i && !p.tunes[t].begun {
			return append(acts, action{actTune, uint8(i), uint8(t)})
		}
	}
	return acts
}

func (p *places) beginTune(w *placesWorker, t int) {
	p.tunes[t].begun = true
	j := &job{kind: admission.OpRetune, key: p.tunes[t].key, tuning: tuning{tune: t}}
	p.begin(w, j)
	if delete(w.known, j.key); j.key == "" {
		if j.next = callTuneDirGet; p.mutated == mutantRecordsFirst {
			j.next, j.tuning.seen = callSpreadDirGet, p.wanted(j)
		}
	} else if j.key != otherName {
		j.next = callDirGet
	}
}

// wanted is the override that a job is to set.
func (p *places) wanted(j *job) admission.Override {
	t := &p.tunes[j.tuning.tune]
	switch {
	case t.limit == none:
		return admission.Override{}
	case t.key == "":
		return admission.Override{Source: admission.FromPool, Limit: t.limit}
	}
	return admission.Override{Source: admission.FromKey, Limit: t.limit}
}

func (p *places) tuneOp(j *job, target admission.Target, own bool) admission.Op {
	target.Me, target.Expect = admission.Worker{}, false
	if target.Override = p.wanted(j); !own || target.Override.Source == admission.FromConfig {
		target.Override = j.tuning.seen
	}
	return admission.Retune(target, own)
}

// tuned goes on after a key's own override is stored. One that is taken away gives way to the directory's, which may
// have changed meanwhile.
func (p *places) tuned(w *placesWorker, j *job, changed bool) {
	set := p.wanted(j).Source == admission.FromKey
	if changed {
		p.owned[j.key] = set
	}
	delete(w.known, j.key)
	if w.job = nil; !set {
		w.job, j.next = j, callLookAgain
	}
}

// nextTuneCall makes the next host call of a tune.
func (p *places) nextTuneCall(w *placesWorker, j *job) error {
	t := &j.tuning
	switch j.next {
	case callTuneDirGet:
		j.dir = p.dir
		p.d.Decode(j.dir.b)
		p.d.SetOverride(p.wanted(j))
		j.changed, j.next = p.d.Append(nil), callTuneDirSet
	case callTuneDirSet:
		if p.dir.version != j.dir.version {
			j.next = callTuneDirGet
			return nil
		}
		p.dir = cell{j.changed, p.dir.version + 1}
		if j.changed, j.next = nil, callSpreadDirGet; p.mutated == mutantRecordsFirst {
			w.job = nil
		}
	case callSpreadDirGet:
		p.d.Decode(p.dir.b)
		if j.dir = p.dir; p.mutated != mutantRecordsFirst {
			t.seen = p.d.Override()
		}
		t.at = -1
		p.spread(j)
	case callSpreadGet:
		j.record, j.next = *p.grow(j.place.Slot), callSpreadSet
	case callSpreadSet:
		return p.spreadTo(j)
	case callLookAgain:
		p.d.Decode(p.dir.b)
		now := p.d.Override()
		switch {
		case p.mutated == mutantRecordsFirst:
			j.next = callTuneDirGet
		case now.IsSame(&t.seen) || p.mutated == mutantNoThirdLook:
			w.job = nil
		case j.key == "":
			j.next = callSpreadDirGet
		default:
			p.begin(w, j)
			if j.key == otherName {
				t.seen = now
			}
		}
	}
	return nil
}

// spread goes on to the next record of the directory that was read.
func (p *places) spread(j *job) {
	p.d.Decode(j.dir.b)
	t := &j.tuning
	for t.at++; t.at < p.d.Len(); t.at++ {
		if name, place := p.d.At(t.at); name != "" {
			j.place, j.next = place, callSpreadGet
			return
		}
	}
	if j.place, j.next = (admission.Place{Slot: otherSlot}), callSpreadGet; t.at > p.d.Len() {
		j.dir, j.place, j.record, j.next = cell{}, admission.Place{}, cell{}, callLookAgain
	}
}

// spreadTo retunes the record that was read.
func (p *places) spreadTo(j *job) error {
	c := p.grow(j.place.Slot)
	if j.record.b == nil && (p.mutated == mutantOnlyThere || j.place.Slot == otherSlot && j.tuning.seen.Source == admission.FromConfig) {
		p.spread(j)
		return nil
	}
	name := otherName
	if p.d.Decode(j.dir.b); j.place.Slot < p.d.Len() {
		name, _ = p.d.At(j.place.Slot)
	}
	op := p.tuneOp(j, admission.Target{Now: earlyTime, Gen: j.place.Gen, Name: name, Limit: 1}, false)
	next, e := p.m.Step(j.record.b, &op)
	*p.w = admissiontest.Watch{}
	if err := p.w.Step(j.record.b, &op, next, e); err != nil {
		return err
	}
	if e.Changed {
		if c.version != j.record.version {
			j.next = callSpreadGet
			return nil
		}
		*c = cell{slices.Clone(next), c.version + 1}
	}
	p.spread(j)
	return nil
}

// checkOverrides checks that all records agree with the directory, but those of keys with an override of their own, of
// which none is lost (I9).
func (p *places) checkOverrides() error {
	p.d.Decode(p.dir.b)
	wanted := p.d.Override()
	agrees := func(name string, place admission.Place, b []byte) error {
		var r admission.Record
		there := b != nil && r.Decode(b) == nil && r.Gen == place.Gen && !r.Retired
		is := admission.Override{Source: r.Source, Limit: int(r.Limit)}
		switch own := there && r.Source == admission.FromKey; {
		case own != p.owned[name]:
			return fmt.Errorf("I9: key %s has an override of its own: %v; that was stored: %v", name, own, p.owned[name])
		case there && !own && !is.IsSame(&wanted):
			return fmt.Errorf("I9: key %s has the override %v, and the default's is %v", name, is, wanted)
		}
		return nil
	}
	owned := 0
	for slot := range p.d.Len() {
		name, place := p.d.At(slot)
		if p.owned[name] {
			owned++
		}
		if slot < len(p.slots) && name != "" {
			if err := agrees(name, place, p.slots[slot].b); err != nil {
				return err
			}
		}
	}
	for _, name := range keyNames {
		if name != otherName && p.owned[name] {
			owned--
		}
	}
	if owned != 0 {
		return fmt.Errorf("I9: keys with an override of their own are not in the directory: %v", p.owned)
	}
	if wanted.Source == admission.FromConfig && len(p.slots) <= otherSlot {
		return nil
	}
	return agrees(otherName, admission.Place{}, p.grow(otherSlot).b)
}

func byDefault(worker, limit int) tune { return tune{worker: worker, limit: limit} }

func own(worker int, key string, limit int) tune { return tune{worker: worker, key: key, limit: limit} }

func tuneScopes() []scope {
	return []scope{
		{name: "a default overridden, 1 slot, 2 keys", states: 1659, start: func() system {
			return newPlaces(1, 0, 0, use(0, "a"), use(0, "b"), use(0, "a")).with(byDefault(1, 0))
		}},
		{name: "a default overridden, 2 workers", states: 28888, start: func() system {
			return newPlaces(1, 0, 0, use(0, "a"), use(1, "b")).with(byDefault(2, 0))
		}},
		{name: "two defaults", states: 15000, start: func() system { return newPlaces(1, 0, 0, use(0, "a")).with(byDefault(1, 0), byDefault(2, 1)) }},
		{name: "a default overridden and back", states: 2108, start: func() system {
			return newPlaces(1, 0, 0, use(0, "a"), use(0, "b")).with(byDefault(1, 0), byDefault(1, none))
		}},
		{name: "a default, and a key's own ends", states: 4586, start: func() system {
			return newPlaces(1, 0, 0, use(0, "a")).with(own(1, "a", 1), own(1, "a", none), byDefault(2, 0))
		}},
		{name: "a default overridden, other", states: 584, start: func() system {
			return newPlaces(1, 0, 0, use(0, otherName), use(1, otherName)).with(byDefault(2, 0))
		}},
		{name: "a key's own keeps its record", states: 37157, start: func() system {
			return newPlaces(1, 0, 0, use(0, "a"), use(0, "b"), use(1, "a")).with(own(2, "a", 0))
		}},
	}
}
