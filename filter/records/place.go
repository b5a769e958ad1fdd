package records

import (
	"github.com/headgate/headgate/admission"
)

// evictionTries is how many slots are looked at for an idle one before a new key shares the pool's other key.
const evictionTries = 16

// place makes sure that a key has a place.
func (r *Records) place(k *Key) result {
	if k.fixed || k.placed {
		return stored
	}
	return r.locate(k, nil)
}

// relocate finds a key's place anew after its record turned out to be retired or another key's.
func (r *Records) relocate(k *Key) result {
	if k.fixed {
		return failed
	}
	old := k.place
	k.placed = false
	return r.locate(k, &old)
}

// locate finds a key's place in the pool's directory, or gives it one. refused is the place that was found unusable.
func (r *Records) locate(k *Key, refused *admission.Place) result {
	o := k.Pool
	for range maxSwaps {
		cas, res := r.readDirectory(o)
		if res != stored {
			return res
		}
		place, found := r.directory.Lookup(k.Name)
		if found && (refused == nil || place != *refused) {
			k.setPlace(place)
			k.inherited = r.inherits(k)
			return stored
		}
		before := r.directory.Len()
		if place, res = r.assign(k, place, found); res != stored {
			return res
		}
		added := r.directory.Len() - before
		addGauge(o.stats.Keys, added)
		r.out = r.directory.Append(r.out[:0])
		switch res = r.set(&o.stats, o.directory(), r.out, cas); res {
		case stored:
			k.setPlace(place)
			k.inherited = r.inherits(k)
			return stored
		case failed:
			addGauge(o.stats.Keys, -added)
			return failed
		}
		addGauge(o.stats.Keys, -added)
	}
	return contended
}

func (r *Records) readDirectory(o *Pool) (cas uint32, res result) {
	b, cas, res := get(o.directory())
	r.directory.Decode(b)
	return cas, res
}

// assign changes the decoded directory so that it gives k a place. A key that has its entry but found the record
// retired renews it; a key that requests here depend on gets a place in any case.
func (r *Records) assign(k *Key, place admission.Place, listed bool) (admission.Place, result) {
	o, d := k.Pool, &r.directory
	if listed {
		switch r.retire(o, place) {
		case stored:
			return d.Assign(place.Slot, k.Name), stored
		case contended:
			return place, contended
		case failed:
			return place, failed
		}
		d.Vacate(place.Slot)
	}
	if _, configured := o.Keys[k.Name]; configured || listed || k.inUse() || d.CountUnconfigured(o.Keys) < o.maxKeys {
		return d.Add(k.Name), stored
	}
	for range min(evictionTries, d.Len()) {
		o.clockHand = (o.clockHand + 1) % d.Len()
		name, place := d.At(o.clockHand)
		if _, configured := o.Keys[name]; !configured && r.retire(o, place) == stored {
			return d.Assign(place.Slot, k.Name), stored
		}
	}
	return place, full
}

// retire gives up the record in a slot if it is idle, so that the slot can change hands; full if it is in use.
func (r *Records) retire(o *Pool, place admission.Place) result {
	data := o.data(place.Slot)
	r.retireOp = admission.Retire(r.now, place.Gen)
	for range maxSwaps {
		state, cas, res := get(data)
		if res != stored {
			return res
		}
		next, e := r.machine.Step(state, &r.retireOp)
		r.directory.RaiseGen(e.Gen)
		if e.Verdict != admission.VerdictDone {
			return full
		}
		if !e.Changed {
			return stored
		}
		switch res = r.set(&o.stats, data, next, cas); res {
		case stored:
			r.lower(&o.stats, e) // holds that were over
			return stored
		case failed:
			return failed
		}
	}
	return contended
}

// eachRecord calls f with a key for every record that the pool has. The keys in slots are not those of KeyFor.
func (r *Records) eachRecord(o *Pool, f func(*Key)) {
	if len(o.Key) == 0 {
		f(o.only)
		return
	}
	r.readDirectory(o)
	f(o.only)
	f(o.other)
	for slot := range r.directory.Len() {
		name, place := r.directory.At(slot)
		k := Key{Pool: o, Name: name, limit: o.limitOf(name)}
		k.setPlace(place)
		f(&k)
	}
}
