package records

import "github.com/headgate/headgate/filter/abi"

// sumMost is up to how many keys Sum adds records up. Beyond that it would hold up the worker's requests, and takes the
// gauges.
const sumMost = 1024

// LookFrom is Look for the keys from a place in their order on, of which 0 is the first, and for most keys at most. It
// returns the place to go on with; -1: that was the last key.
func (r *Records) LookFrom(o *Pool, from, most int, see func(*KeyState)) (next int) {
	var s KeyState
	if len(o.Key) == 0 {
		if most == 0 {
			return 0
		}
		if found, _ := r.look(o.only, &s); found && from == 0 {
			see(&s)
		}
		return -1
	}
	r.readDirectory(o)
	n := r.directory.Len()
	for slot := from; slot <= n; slot++ {
		k := o.other
		if slot < n {
			name, place := r.directory.At(slot)
			k = &Key{Pool: o, Name: name, limit: o.limitOf(name)}
			k.setPlace(place)
		}
		if k.Name == vacated {
			continue
		}
		if found, _ := r.look(k, &s); !found {
			continue
		}
		if most == 0 {
			return slot
		}
		most--
		see(&s)
	}
	return -1
}

// A Sum is what all keys of a pool have together.
type Sum struct{ Inflight, Queued, OnHold, Keys int }

// Sum adds up what all keys of a pool have.
func (r *Records) Sum(o *Pool) (s Sum) {
	byRecord := true
	if len(o.Key) > 0 {
		r.readDirectory(o)
		byRecord = r.directory.Len() <= sumMost
	}
	r.eachKey(o, func(k *Key) result {
		if k == o.other || byRecord {
			state, _, _ := abi.GetShared(k.data)
			if state == nil && k != o.only {
				return stored
			}
			inflight, queued, onHold := r.machine.Sums(state)
			s.Inflight, s.Queued, s.OnHold = s.Inflight+inflight, s.Queued+queued, s.OnHold+onHold
		}
		s.Keys++
		return stored
	})
	if !byRecord {
		s.Inflight, s.Queued = int(abi.Metric(o.stats.Inflight)), int(abi.Metric(o.stats.Queued))
		s.OnHold = int(abi.Metric(o.stats.OnHold))
	}
	return s
}
