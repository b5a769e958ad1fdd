package records

import (
	"strconv"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/config"
)

// Stats are the ids of the metrics that this package keeps for a pool.
type Stats struct {
	Inflight, Queued, OnHold, Keys uint32 // gauges

	Reaped, StoreError, CASRetry, Contended uint32 // counters
	BreakerOpened, BreakerClosed            uint32 // likewise
}

// A Pool is one configured pool in one plugin context.
type Pool struct {
	*config.Pool
	stats Stats

	prefix    string // of its shared data keys
	maxKeys   int
	keys      map[string]*Key
	known     []*Key           // the same, in the order in which they came
	only      *Key             // the one key of a pool without dimensions
	other     *Key             // the key that all keys beyond max_keys share
	clockHand int              // the slot at which the search for an idle one goes on
	recent    [cacheSlots]*Key // the last key with each cacheSlot
}

// A Key is one pool key as one plugin context knows it: where its record is, and the truth about the context's
// requests.
type Key struct {
	Pool *Pool
	Name string

	limit     int
	fixed     bool            // its record's place never changes
	forgotten bool            // KeyFor returns another one for its name
	placed    bool            // place is known
	place     admission.Place // in the pool's directory
	data      string          // shared data key of the record

	inherited admission.Override // which the record is made under, as was read with its place

	shares   []share        // what the context's requests have, by tenant
	permits  int            // that they have
	spares   int            // permits counted for this context that no request has
	waiting  ticketList     // oldest first
	deciding ticketList     // whose acquire is left to a later turn, oldest first
	queued   int            // tickets in the record's queue, as it was last seen
	probe    uint32         // the ticket of the request that is the breaker's probe, if it runs here; 0: none
	journal  []admission.Op // what requests' ends say and the record doesn't yet, oldest first

	ahead bool   // the record lets this context keep spares, as was last seen; then it is in Records.aheadKeys
	moved bool   // a spare was kept or taken since the spares were last looked at
	asked int64  // when a request last asked for a permit; 0: never
	gen   uint32 // of the breaker, as was last seen
	uses  int    // permits kept since the record was last told
	used  int64  // for how long their requests had them, together

	outrun int64 // until then a turn tries once: an earlier one lost its swaps to other workers

	dirty   bool  // in Records.dirty
	suspect bool  // its record may differ from the truth
	timed   bool  // in Records.timed
	next    int64 // when time alone may free something in the record next; 0: never
}

// otherKey is the name of the key that all keys beyond max_keys share.
const otherKey = "other"

// Prefix starts every shared data key and queue name: other plugins may share the same space. It carries the version of
// what is stored.
const Prefix = "headgate/3/"

func newPool(cfg *config.Config, c *config.Pool, stats Stats) *Pool {
	o := &Pool{Pool: c, stats: stats, maxKeys: cfg.MaxKeys, keys: map[string]*Key{}}
	o.prefix = Prefix + cfg.Domain + "/" + c.Name + "/"
	o.other = &Key{Pool: o, Name: otherKey, limit: o.limitOf(otherKey), data: o.prefix + "other", fixed: true}
	o.only = &Key{Pool: o, Name: c.Name, limit: c.Limit, data: o.prefix + "only", fixed: true}
	return o
}

// limitOf is the configured limit of a key.
func (o *Pool) limitOf(name string) int {
	if limit, ok := o.Keys[name]; ok {
		return limit
	}
	return o.Limit
}

// directory is the shared data key of the pool's directory.
func (o *Pool) directory() string { return o.prefix + "directory" }

// data is the shared data key of the record in a slot.
func (o *Pool) data(slot int) string { return o.prefix + strconv.Itoa(slot) }

// spareKeys is how many keys a context remembers beyond those that can have records.
const spareKeys = 64

// KeyFor returns the pool's key for a name, and adds it if need be. name may be a view of memory that is about to
// change.
func (o *Pool) KeyFor(name string) *Key {
	if len(o.Key) == 0 {
		return o.only
	}
	recent := &o.recent[cacheSlot(name)]
	if k := *recent; k != nil && k.Name == name {
		return k
	}
	if k, ok := o.keys[name]; ok {
		*recent = k
		return k
	}
	if name == otherKey {
		return o.other
	}
	if len(o.keys) > o.maxKeys+len(o.Keys)+spareKeys {
		o.forgetUnused()
	}
	k := &Key{Pool: o, Name: string(append([]byte(nil), name...))}
	k.limit = o.limitOf(k.Name)
	o.keys[k.Name] = k
	o.known = append(o.known, k)
	return k
}

// cacheSlots is how many keys are found without the map's hashing.
const cacheSlots = 16

// cacheSlot is a quick hash of a name: two names that are in use at once seldom have the same.
func cacheSlot(name string) int {
	n := len(name)
	if n == 0 {
		return 0
	}
	return (n + 3*int(name[0]) + 5*int(name[n-1])) % cacheSlots
}

// forgetUnused drops what is known of keys that no request here uses or asks for.
func (o *Pool) forgetUnused() {
	clear(o.recent[:])
	used := o.known[:0]
	for _, k := range o.known {
		if k.inUse() || k.deciding.n > 0 {
			used = append(used, k)
		} else {
			delete(o.keys, k.Name)
			k.forgotten = true
		}
	}
	clear(o.known[len(used):])
	o.known = used
}

// involved reports whether the record should have a column of this context's once the journal is stored.
func (k *Key) involved() bool { return k.busy() || k.spares > 0 }

// busy is involved but for spares.
func (k *Key) busy() bool { return k.permits > 0 || k.waiting.n > 0 }

// contended reports whether what a request brings is left to the next turn that a tick begins: this context has just
// lost its swaps to other workers. What comes until then goes together in one swap.
func (r *Records) contended(k *Key) bool { return r.now < k.outrun }

// inUse reports whether a request here, or the end of one, depends on the key's record.
func (k *Key) inUse() bool { return k.involved() || len(k.journal) > 0 || k.dirty }

// tenantIn returns the index of a tenant's entry in a list, which it adds if need be, and sets the weight; 0: it is not
// known, and stays what it is.
//
//go:noinline // as push
func tenantIn(list *[]admission.TenantInflight, id uint64, weight uint32) int {
	for i := range *list {
		if t := &(*list)[i]; t.Tenant == id {
			if weight > 0 {
				t.Weight = weight
			}
			return i
		}
	}
	*list = append(*list, admission.TenantInflight{Tenant: id, Weight: max(weight, 1)})
	return len(*list) - 1
}

// add counts a permit that a request here has.
func (k *Key) add(tenant uint64, weight uint32) {
	k.shareOf(tenant, weight).Inflight++
	k.permits++
}

// remove counts a permit that a request here has no more.
func (k *Key) remove(tenant uint64) {
	for i := range k.shares {
		if s := &k.shares[i]; s.Tenant == tenant && s.Inflight > 0 {
			s.Inflight--
			k.permits--
			if s.Inflight+s.spares == 0 && len(k.shares) > 1 {
				k.shares = append(k.shares[:i], k.shares[i+1:]...)
			}
			return
		}
	}
}

// forgetIdle removes the tenants that have no permit: those whose requests only waited.
func (k *Key) forgetIdle() {
	kept := k.shares[:0]
	for _, s := range k.shares {
		if s.Inflight+s.spares > 0 {
			kept = append(kept, s)
		}
	}
	k.shares = kept
}

// setPlace notes where the key's record is.
func (k *Key) setPlace(place admission.Place) {
	k.place, k.placed = place, true
	k.data = k.Pool.data(place.Slot)
}

// incomparable makes a struct that begins with it one that can't be compared, so that no code is made for it that
// nobody calls: some hundred bytes of module for each.
type incomparable [0]func()
