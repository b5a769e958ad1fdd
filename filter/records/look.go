package records

import "github.com/headgate/headgate/admission"

// A KeyState is what a key's record says. The one key of a pool without dimensions has one before its first request.
type KeyState struct {
	Name       string
	Configured int // its limit in the configuration
	admission.Snapshot
}

// Look calls see with the state of each key of a pool that has a record, in a stable order: that of the directory, and
// then the key other. Each record is consistent in itself. The state is valid until see returns, and see must not call
// the Records. No seat is needed, and nothing is changed. False: the store failed, and keys may be missing.
func (r *Records) Look(o *Pool, see func(*KeyState)) bool {
	var s KeyState
	return r.eachKey(o, func(k *Key) result {
		found, res := r.look(k, &s)
		if found {
			see(&s)
		}
		return res
	}) == stored
}

// LookAt reads the state of one key; false: it has no record.
func (r *Records) LookAt(o *Pool, name string, s *KeyState) bool {
	seen := false
	r.eachKey(o, func(k *Key) result {
		if k.Name == name && !seen {
			seen, _ = r.look(k, s)
		}
		return stored
	})
	return seen
}

// DefaultLimit is the limit in force of a pool's keys that have none of their own, and where it comes from.
func (r *Records) DefaultLimit(o *Pool) (limit int, from admission.Source) {
	if len(o.Key) > 0 {
		r.readDirectory(o)
		return r.defaultLimit(o)
	}
	state, _, _ := get(o.only.data)
	if limit, from, found := admission.InForce(state); found {
		return limit, from
	}
	return o.Limit, admission.FromConfig
}

// look reads a key's record.
func (r *Records) look(k *Key, s *KeyState) (found bool, res result) {
	state, _, res := get(k.data)
	s.Name, s.Configured = k.Name, k.limit
	if res != stored || state == nil {
		s.Snapshot = admission.Snapshot{Limit: k.limit, Usable: k.limit, Tenants: s.Tenants[:0]}
		return res == stored && k == k.Pool.only, res
	}
	target := r.target(k)
	return r.machine.Read(state, &target, &s.Snapshot), stored
}

// vacated is the name of a slot that no key has.
const vacated = ""

// eachKey calls f with every key of a pool that may have a record, and returns the worst of the results. The keys in
// slots are not those of KeyFor. The directory is read before the first call.
func (r *Records) eachKey(o *Pool, f func(*Key) result) result {
	if len(o.Key) == 0 {
		return f(o.only)
	}
	_, worst := r.readDirectory(o)
	if worst != stored {
		return worst
	}
	for slot := range r.directory.Len() {
		if name, place := r.directory.At(slot); name != vacated {
			k := Key{Pool: o, Name: name, limit: o.limitOf(name)}
			k.setPlace(place)
			worst = max(worst, f(&k))
		}
	}
	return max(worst, f(o.other))
}
