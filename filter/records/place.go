package records

import (
	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/filter/abi"
)

// evictionTries is how many slots are looked at for an idle one before a new key shares the pool's other key.
const evictionTries = 16

// resolve returns the key whose record is to be used for k: k itself, or the pool's other key if there is no slot left.
func (r *Records) resolve(k *Key) *Key {
	if !k.fixed {
		k = k.Pool.KeyFor(k.Name) // it may have been forgotten while the request waited elsewhere
	}
	if k.fixed || k.placed || r.locate(k, nil) {
		return k
	}
	return k.Pool.other
}

// relocate finds a key's place anew after its record turned out to be retired or another key's.
func (r *Records) relocate(k *Key) bool {
	if k.fixed {
		return false
	}
	old := k.place
	k.placed = false
	return r.locate(k, &old)
}

// locate finds a key's place in the pool's directory, or gives it one. refused is the place that was found unusable.
func (r *Records) locate(k *Key, refused *admission.Place) bool {
	o := k.Pool
	for range maxSwaps {
		cas := r.readDirectory(o)
		place, found := r.directory.Lookup(k.Name)
		if found && (refused == nil || place != *refused) {
			k.setPlace(place)
			return true
		}
		before := r.directory.Len()
		if place, found = r.assign(k, place, found); !found {
			return false
		}
		added := r.directory.Len() - before
		addGauge(o.stats.Keys, added)
		r.out = r.directory.Append(r.out[:0])
		if abi.SetShared(o.directory(), r.out, cas) == abi.StatusOK {
			k.setPlace(place)
			return true
		}
		addGauge(o.stats.Keys, -added)
	}
	return false
}

func (r *Records) readDirectory(o *Pool) (cas uint32) {
	b, cas, s := abi.GetShared(o.directory())
	if s != abi.StatusOK {
		b, cas = nil, abi.CreateIfAbsent
	}
	r.directory.Decode(b)
	return cas
}

// assign changes the decoded directory so that it gives k a place; false if there is none to give. A key that has its
// entry but found the record retired renews it; a key that requests here depend on gets a place in any case.
func (r *Records) assign(k *Key, place admission.Place, listed bool) (admission.Place, bool) {
	o, d := k.Pool, &r.directory
	if listed {
		if r.retire(o, place) {
			return d.Assign(place.Slot, k.Name), true
		}
		d.Vacate(place.Slot)
	}
	if _, configured := o.Keys[k.Name]; configured || listed || k.involved() || d.CountUnconfigured(o.Keys) < o.maxKeys {
		return d.Add(k.Name), true
	}
	for range min(evictionTries, d.Len()) {
		o.clockHand = (o.clockHand + 1) % d.Len()
		name, place := d.At(o.clockHand)
		if _, configured := o.Keys[name]; !configured && r.retire(o, place) {
			return d.Assign(place.Slot, k.Name), true
		}
	}
	return admission.Place{}, false
}

// retire gives up the record in a slot if it is idle, so that the slot can change hands.
func (r *Records) retire(o *Pool, place admission.Place) bool {
	data := o.data(place.Slot)
	r.retireOp = admission.Retire(r.now, place.Gen)
	for range maxSwaps {
		state, cas, s := abi.GetShared(data)
		if s != abi.StatusOK {
			state, cas = nil, abi.CreateIfAbsent
		}
		next, e := r.machine.Step(state, &r.retireOp)
		r.directory.RaiseGen(e.Gen)
		if e.Verdict != admission.VerdictDone {
			return false
		}
		if !e.Changed || abi.SetShared(data, next, cas) == abi.StatusOK {
			r.lower(&o.stats, e) // holds that were over
			return true
		}
	}
	return false
}

// eachRecord calls f with a key for every record that the pool has. The keys in slots are not those of KeyFor.
func (r *Records) eachRecord(o *Pool, f func(*Key)) {
	f(o.only)
	if len(o.Key) == 0 {
		return
	}
	f(o.other)
	r.readDirectory(o)
	for slot := range r.directory.Len() {
		name, place := r.directory.At(slot)
		k := Key{Pool: o, Name: name, limit: o.limitOf(name)}
		k.setPlace(place)
		f(&k)
	}
}
