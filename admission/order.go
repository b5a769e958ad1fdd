package admission

// A turn is when a tenant is granted a permit, compared with other tenants.
type turn struct {
	load   uint64 // its permits, in use and on hold
	weight uint64
	last   uint64 // GrantSeq at its last grant
	id     uint64
}

func (t *Tenant) turn() turn {
	return turn{load: uint64(t.Inflight) + uint64(t.OnHold), weight: uint64(t.Weight), last: t.LastGrant, id: t.ID}
}

// before is the dispatch rule: t is granted before u. Inflight per weight is compared crosswise, so that nothing is
// divided or rounded.
func (t *turn) before(u *turn) bool {
	a, b := t.load*u.weight, u.load*t.weight
	switch {
	case a != b:
		return a < b
	case t.last != u.last:
		return t.last < u.last
	}
	return t.id < u.id
}

// A tenantOrder is one of the two orders of tenants that a record keeps, so that a step in its bytes need not look at
// all tenants.
type tenantOrder uint8

const (
	byID   tenantOrder = iota // of those in use
	byTurn                    // of those that wait
)

// has reports whether a tenant is in the order.
func (o tenantOrder) has(t *Tenant) bool {
	if o == byID {
		return t.Weight != 0
	}
	return t.Queued > 0
}

func (o tenantOrder) less(t, u *Tenant) bool {
	if o == byID {
		return t.ID < u.ID
	}
	a, b := t.turn(), u.turn()
	return a.before(&b)
}

// reorder brings an order up to date. It is nearly right already, since a step touches few tenants.
func (r *Record) reorder(list []uint16, o tenantOrder) []uint16 {
	listed := r.scratch()
	kept := list[:0]
	for _, i := range list {
		if int(i) < len(r.Tenants) && listed[i] == 0 && o.has(&r.Tenants[i]) {
			listed[i] = 1
			kept = append(kept, i)
		}
	}
	for i := range r.Tenants {
		if listed[i] == 0 && o.has(&r.Tenants[i]) {
			kept = append(kept, uint16(i))
		}
	}
	for n := 1; n < len(kept); n++ {
		r.insertLast(kept[:n+1], o)
	}
	return kept
}

// insertLast moves the last one of a list to its place among the others, which are in order.
func (r *Record) insertLast(list []uint16, o tenantOrder) {
	last := len(list) - 1
	moved := list[last]
	t := &r.Tenants[moved]
	if !o.less(t, &r.Tenants[list[last-1]]) {
		return
	}
	from, to := 0, last-1
	for from < to {
		if middle := (from + to) / 2; o.less(t, &r.Tenants[list[middle]]) {
			to = middle
		} else {
			from = middle + 1
		}
	}
	copy(list[from+1:], list[from:last])
	list[from] = moved
}

// validOrder checks that an order has each tenant that belongs to it, in order.
func (r *Record) validOrder(list []uint16, o tenantOrder) bool {
	for i, at := range list {
		if int(at) >= len(r.Tenants) || !o.has(&r.Tenants[at]) ||
			i > 0 && !o.less(&r.Tenants[list[i-1]], &r.Tenants[at]) {
			return false
		}
	}
	n := 0
	for i := range r.Tenants {
		if o.has(&r.Tenants[i]) {
			n++
		}
	}
	return n == len(list)
}

// countIdle is the number of tenants that the record only remembers.
func (r *Record) countIdle() int {
	n := 0
	for i := range r.Tenants {
		if r.Tenants[i].idle() {
			n++
		}
	}
	return n
}
