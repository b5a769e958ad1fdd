package filter

import "github.com/headgate/headgate/admission"

// A key is one pool key as one plugin context knows it: where its record is, and the truth about this context's streams.
type key struct {
	pool  *pool
	name  string
	limit int

	fixed  bool            // its record's place never changes
	placed bool            // place is known
	place  admission.Place // in the pool's directory
	data   string          // shared data key of the record

	running []admission.Share // permits held by this context's streams, by tenant
	permits int               // their sum
	queue   []*stream         // waiting, oldest first
	dirty   bool              // in plugin.dirty
	probe   uint32            // the ticket of the stream here that is the breaker's probe; 0: none
	timed   bool              // in plugin.timed
	next    int64             // when time alone may free something in the record next; 0: never
}

// involved reports whether the record should have a column of this context's.
func (k *key) involved() bool { return k.permits > 0 || len(k.queue) > 0 }

// share returns the entry for a tenant, made if need be.
func (k *key) share(tenant uint64, weight uint32) int {
	for i := range k.running {
		if k.running[i].Tenant == tenant {
			k.running[i].Weight = weight
			return i
		}
	}
	k.running = append(k.running, admission.Share{Tenant: tenant, Weight: weight})
	return len(k.running) - 1
}

// take and drop keep the truth about running streams.
func (k *key) take(tenant uint64, weight uint32) {
	k.running[k.share(tenant, weight)].Count++
	k.permits++
}

func (k *key) drop(tenant uint64) {
	for i := range k.running {
		if s := &k.running[i]; s.Tenant == tenant && s.Count > 0 {
			s.Count--
			k.permits--
			if s.Count == 0 && len(k.running) > 1 {
				k.running = append(k.running[:i], k.running[i+1:]...)
			}
			return
		}
	}
}

// tidy forgets the tenants of which nothing runs: those that only waited.
func (k *key) tidy() {
	kept := k.running[:0]
	for _, s := range k.running {
		if s.Count > 0 {
			kept = append(kept, s)
		}
	}
	k.running = kept
}

// key returns the pool's key for a name, known or not. name may be a view of memory that is about to change.
func (o *pool) key(name string, maxKeys int) *key {
	if len(o.Key) == 0 {
		return o.only
	}
	recent := &o.recent[resemblance(name)]
	if k := *recent; k != nil && k.name == name {
		return k
	}
	if k, ok := o.keys[name]; ok {
		*recent = k
		return k
	}
	if name == o.other.name {
		return o.other
	}
	if len(o.keys) > maxKeys+len(o.Keys)+spareKeys {
		o.forget()
	}
	k := &key{pool: o, name: string(append([]byte(nil), name...)), limit: o.Limit}
	if limit, ok := o.Keys[k.name]; ok {
		k.limit = limit
	}
	o.keys[k.name] = k
	o.known = append(o.known, k)
	return k
}

// recentKeys is how many keys are found without the map's hashing.
const recentKeys = 16

func resemblance(name string) int {
	n := len(name)
	if n == 0 {
		return 0
	}
	return (n + 3*int(name[0]) + 5*int(name[n-1])) % recentKeys
}

// spareKeys is how many keys a context remembers beyond those that can have records.
const spareKeys = 64

// forget drops what is known of keys that no stream here uses.
func (o *pool) forget() {
	clear(o.recent[:])
	used := o.known[:0]
	for _, k := range o.known {
		if k.involved() || k.dirty {
			used = append(used, k)
		} else {
			delete(o.keys, k.name)
		}
	}
	clear(o.known[len(used):])
	o.known = used
}
