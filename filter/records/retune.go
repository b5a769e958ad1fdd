package records

import (
	"github.com/headgate/headgate/admission"
)

// Live limits. An override of a key's limit is in the key's record, so one swap changes it for all workers at once. The
// override of a pool's default limit is in the pool's directory, and again in the record of each key that has no limit
// of its own, neither an override nor a configured one. RetuneDefault changes the directory first and then the records,
// and begins again if the directory's override has changed meanwhile. So at rest all records agree with the directory:
//
//   - Who makes a record has read its place in the directory, and takes the override from the same reading. If the
//     override has changed since, whoever changed it has seen the place, too, comes by later, and makes the record if
//     it isn't there. If the place has changed since, its record is retired or newer, and refuses the older place.
//   - A record that is found retired or newer is passed over: its next place is read or made later than the override
//     was changed.
//   - A key whose own override ends takes the directory's, and takes it again if that has changed meanwhile.
//   - The key other has a fixed place, and nobody reads the directory for it. RetuneDefault makes its record, so it is
//     there before a request can make it without the override, or is retuned.
//   - A record that is lost is made anew under what the directory says then. A key's own override is lost with it.
//   - A new configuration may give a key a limit of its own, or take it away: AssertLimits retunes all records, too.

const (
	// MaxOverrides is how many keys of a pool can have an override of their own: such a key keeps its record.
	MaxOverrides = 256

	// retuneTries is how often a retune tries to be stored. Nobody's request waits for it, and nobody tries again in a
	// later turn.
	retuneTries = 100
)

// A Retuning is what became of a retune.
type Retuning uint8

// What can become of a retune.
const (
	Retuned    Retuning = iota
	NoSuchKey           // the key is not in the configuration, and no request has asked for it
	TooMany             // MaxOverrides keys of the pool have an override already
	NotRetuned          // the store failed, or other workers' swaps came first all the time: the caller may try again
)

// A Change is a limit before and after a retune.
type Change struct {
	Before, Limit int
	Source        admission.Source // of Limit
}

// Retune overrides a key's limit, or with set false takes its override away. The name of a pool without dimensions is
// that of its one key. No seat is needed.
func (r *Records) Retune(o *Pool, name string, limit int, set bool) (c Change, what Retuning) {
	k, what := r.keyNamed(o, name)
	if what != Retuned {
		return c, what
	}
	if set && r.countOverrides(k) >= MaxOverrides {
		return c, TooMany
	}
	before, began := 0, false
	for range retuneTries {
		override, inherited := admission.Override{Source: admission.FromKey, Limit: limit}, admission.Override{}
		if !set {
			r.readDirectory(o)
			override, inherited = r.inherits(k), r.directory.Override()
		}
		stale, res := r.retune(k, override, true, &c)
		if stale {
			res = r.relocate(k)
		}
		switch {
		case res == failed || res == full:
			return c, NotRetuned
		case stale || res == contended:
			continue
		case !began:
			before, began = c.Before, true
		}
		if c.Before = before; set || r.overrideIs(o, &inherited) {
			return c, Retuned
		}
	}
	return c, NotRetuned
}

// RetuneDefault overrides a pool's default limit, or with set false takes the override away. In a pool without
// dimensions that is its one key's limit. No seat is needed.
func (r *Records) RetuneDefault(o *Pool, limit int, set bool) (c Change, what Retuning) {
	if len(o.Key) == 0 {
		return r.Retune(o, o.Name, limit, set)
	}
	var override admission.Override
	if set {
		override = admission.Override{Source: admission.FromPool, Limit: limit}
	}
	for range retuneTries {
		cas, res := r.readDirectory(o)
		if res == stored {
			c.Before, _ = r.defaultLimit(o)
			r.directory.SetOverride(override)
			c.Limit, c.Source = r.defaultLimit(o)
			r.out = r.directory.Append(r.out[:0])
			res = r.set(&o.stats, o.directory(), r.out, cas)
		}
		switch res {
		case stored:
			return c, r.spread(o)
		case failed:
			return c, NotRetuned
		}
	}
	return c, NotRetuned
}

// spread gives the override of a pool's default limit to the records of all keys that have no limit of their own.
func (r *Records) spread(o *Pool) Retuning {
	for range retuneTries {
		var override admission.Override
		res := r.eachKey(o, func(k *Key) result {
			override = r.directory.Override()
			var c Change
			_, res := r.retune(k, r.inherits(k), false, &c)
			return res
		})
		switch {
		case res == failed:
			return NotRetuned
		case res == stored && r.overrideIs(o, &override):
			return Retuned
		}
	}
	return NotRetuned
}

// retune carries a retune out on a key's record; stale: the record is retired, or another key's.
func (r *Records) retune(k *Key, override admission.Override, own bool, c *Change) (stale bool, res result) {
	target := r.target(k)
	target.Expect, target.Ahead, target.Override = false, false, override
	for range retuneTries {
		state, cas, res := get(k.data)
		if res != stored {
			return false, res
		}
		if state == nil && k.fixed && override.Source == admission.FromConfig { // there is nothing to take away
			*c = Change{Before: k.limit, Limit: k.limit}
			return false, stored
		}
		var found bool
		if c.Before, _, found = admission.InForce(state); !found {
			c.Before = k.limit
		}
		r.retuneOp = admission.Retune(target, own)
		r.double[0] = &r.retuneOp
		next, e := r.machine.Change(state, r.double[:1])
		switch {
		case e.Verdict >= admission.VerdictStale:
			return true, stored
		case !e.Changed:
			next = state
		default:
			res = r.swap(k, next, e, cas)
		}
		if c.Limit, c.Source, _ = admission.InForce(next); res != contended {
			return false, res
		}
	}
	return false, contended
}

// keyNamed is the key that a retune names, with its place. One that only the configuration names is given one.
func (r *Records) keyNamed(o *Pool, name string) (*Key, Retuning) {
	_, configured := o.Keys[name]
	switch {
	case len(o.Key) == 0:
		if name != o.Name {
			return nil, NoSuchKey
		}
		return o.only, Retuned
	case name == otherKey:
		state, _, res := get(o.other.data)
		if res == stored && state == nil && !configured {
			return nil, NoSuchKey
		}
		return o.other, Retuned
	}
	if _, res := r.readDirectory(o); res != stored {
		return nil, NotRetuned
	}
	_, placed := r.directory.Lookup(name)
	if !configured && (!placed || name == vacated) {
		return nil, NoSuchKey
	}
	k := &Key{Pool: o, Name: name, limit: o.limitOf(name)}
	for range retuneTries {
		if r.locate(k, nil) == stored {
			return k, Retuned
		}
	}
	return nil, NotRetuned
}

// countOverrides is how many keys of a key's pool have an override of their own, not counting the key.
func (r *Records) countOverrides(k *Key) (n int) {
	r.eachKey(k.Pool, func(other *Key) result {
		if state, _, _ := get(other.data); other.data != k.data {
			if _, from, _ := admission.InForce(state); from == admission.FromKey {
				n++
			}
		}
		return stored
	})
	return n
}

// inherits is the override that a key has unless it has one of its own, by the directory that was read last.
func (r *Records) inherits(k *Key) admission.Override {
	if _, own := k.Pool.Keys[k.Name]; own || k == k.Pool.only {
		return admission.Override{}
	}
	return r.directory.Override()
}

// inheritAnew looks whether the override under which a lost record is made anew has changed since the key was placed;
// contended: it has, and the operations go by it from now on.
func (r *Records) inheritAnew(k *Key, ops []*admission.Op) result {
	if len(k.Pool.Key) == 0 {
		return stored
	}
	if _, res := r.readDirectory(k.Pool); res != stored {
		return res
	}
	now := r.inherits(k)
	if now.IsSame(&k.inherited) {
		return stored
	}
	k.inherited = now
	for _, op := range ops {
		op.Override = now
	}
	return contended
}

// overrideIs reads a pool's directory anew, and reports whether the override of the default limit is still the same.
func (r *Records) overrideIs(o *Pool, as *admission.Override) bool {
	if len(o.Key) == 0 {
		return true
	}
	_, res := r.readDirectory(o)
	is := r.directory.Override()
	return res == stored && is.IsSame(as)
}

// defaultLimit is the default limit in force in a pool with dimensions, by the directory that was read last.
func (r *Records) defaultLimit(o *Pool) (limit int, from admission.Source) {
	if override := r.directory.Override(); override.Source != admission.FromConfig {
		return override.Limit, override.Source
	}
	return o.Limit, admission.FromConfig
}
