package filter

import (
	"strconv"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/filter/abi"
)

// evictionTries is how many slots are looked at for an idle one before a new key shares the pool's other key.
const evictionTries = 16

// resolve returns the key whose record is to be used for k: k itself, or the pool's shared one if there is no place left.
func (p *plugin) resolve(k *key) *key {
	if !k.fixed {
		k = k.pool.key(k.name, p.cfg.MaxKeys) // it may have been forgotten while the request waited elsewhere
	}
	if k.fixed || k.placed || p.locate(k, nil) {
		return k
	}
	return k.pool.other
}

// relocate finds a key's place anew after its record turned out to be retired or another key's.
func (p *plugin) relocate(k *key) bool {
	if k.fixed {
		return false
	}
	old := k.place
	k.placed = false
	return p.locate(k, &old)
}

// locate finds a key's place in the pool's directory, or gives it one. refused is the place that was found unusable.
func (p *plugin) locate(k *key, refused *admission.Place) bool {
	o := k.pool
	name := o.prefix + "directory"
	for range maxSwaps {
		cas := p.readDirectory(name)
		place, found := p.dir.Lookup(k.name)
		if found && (refused == nil || place != *refused) {
			k.settle(place)
			return true
		}
		before := p.dir.Len()
		if place, found = p.assign(k, place, found); !found {
			return false
		}
		added := p.dir.Len() - before
		move(o.stats.keys, added)
		p.out = p.dir.Append(p.out[:0])
		if abi.SetShared(name, p.out, cas) == abi.StatusOK {
			k.settle(place)
			return true
		}
		move(o.stats.keys, -added)
	}
	return false
}

func (p *plugin) readDirectory(name string) (cas uint32) {
	b, cas, s := abi.GetShared(name)
	if s != abi.StatusOK {
		b, cas = nil, abi.CreateIfAbsent
	}
	p.dir.Decode(b)
	return cas
}

// assign changes the decoded directory so that it gives k a place; false if there is none to give. A key that has its
// entry but found the record retired renews it; a key that streams here depend on gets a place in any case.
func (p *plugin) assign(k *key, place admission.Place, listed bool) (admission.Place, bool) {
	o := k.pool
	if listed {
		if p.retire(o, place) {
			return p.dir.Assign(place.Slot, k.name), true
		}
		p.dir.Vacate(place.Slot)
	}
	if _, configured := o.Keys[k.name]; configured || listed || k.involved() || p.dir.Strangers(o.Pool) < p.cfg.MaxKeys {
		return p.dir.Add(k.name), true
	}
	for range min(evictionTries, p.dir.Len()) {
		o.hand = (o.hand + 1) % p.dir.Len()
		name, place := p.dir.At(o.hand)
		if _, configured := o.Keys[name]; !configured && p.retire(o, place) {
			return p.dir.Assign(place.Slot, k.name), true
		}
	}
	return admission.Place{}, false
}

// retire gives up the record in a slot if it is idle, so that the slot can change hands.
func (p *plugin) retire(o *pool, place admission.Place) bool {
	data := o.data(place.Slot)
	op := &p.retireOp
	*op = admission.Op{Kind: admission.OpRetire, Now: p.now, Gen: place.Gen}
	for range maxSwaps {
		state, cas, s := abi.GetShared(data)
		if s != abi.StatusOK {
			state, cas = nil, abi.CreateIfAbsent
		}
		next, e := p.machine.Step(state, op)
		p.dir.Newest(e.Gen)
		if e.Verdict != admission.VerdictDone {
			return false
		}
		if !e.Changed || abi.SetShared(data, next, cas) == abi.StatusOK {
			p.lower(&o.stats, e) // holds that were over
			return true
		}
	}
	return false
}

func (o *pool) data(slot int) string { return o.prefix + strconv.Itoa(slot) }

func (k *key) settle(place admission.Place) {
	k.place, k.placed = place, true
	k.data = k.pool.data(place.Slot)
}

// eachRecord calls f with a key for every record the pool has, none of them registered with the pool.
func (p *plugin) eachRecord(o *pool, f func(*key)) {
	f(o.only)
	if len(o.Key) == 0 {
		return
	}
	f(o.other)
	p.readDirectory(o.prefix + "directory")
	for slot := range p.dir.Len() {
		name, place := p.dir.At(slot)
		k := key{pool: o, name: name, limit: o.Limit}
		if limit, ok := o.Keys[name]; ok {
			k.limit = limit
		}
		k.settle(place)
		f(&k)
	}
}

// tend asserts the configured limits, if so asked, and takes back what dead workers hold, in all records of all pools.
func (p *plugin) tend(assert bool) {
	for _, o := range p.pools {
		p.eachRecord(o, func(k *key) { p.tendRecord(k, assert) })
	}
}

func (p *plugin) tendRecord(k *key, assert bool) {
	for range maxSwaps {
		op := p.prepare(&p.tendOp, admission.OpTend, k)
		op.Expect = false
		op.Assert, op.Live = assert, &p.live
		e, stored := p.try(k, op, &p.live)
		if e == nil || stored || e.Verdict >= admission.VerdictStale {
			return
		}
	}
}
