package admission

// A view is a record in its bytes: where its parts are. An encoded record is
//
//	head      fixed size, see Record.Append
//	name
//	tenants   Record.Tenants
//	by id     indexes of the tenants in use, by their ids
//	queue     places whose tickets have left, then the tickets
//	order     indexes of the tenants that wait, in the order of their turns
//	columns, holders, holds
//
// What changes its size most often comes last, so that little has to be moved.
type view struct {
	queue                                                  Queue
	tenants, named, waiting, idle, columns, holders, holds int
	atTenants, atByID                                      int

	inflight int // permits granted, of all columns
	column   int // the operation's worker's own; -1: it has none
}

// Where some fields of the head are.
const (
	atSource    = 3
	atLimit     = 20
	atGrantSeq  = 24
	atForgotten = 32
	atLastMove  = 40
	atMeanUse   = 48
	atBreaker   = 56
	atHeadroom  = 108
	atRecall    = 148
)

// Where the fields of a tenant are.
const (
	atTenantGrant    = 8
	atTenantInflight = 16
	atTenantQueued   = 20
	atTenantOnHold   = 24
	atTenantWeight   = 28
	atTenantFirst    = 32
)

// atColumnAhead is where a column's mark is.
const atColumnAhead = 18

// What follows has the parts of a record as arrays, not as slices: then the compiler knows their lengths and checks no
// index, which saves much of the code.
type (
	headArray   [headBytes]byte
	tenantArray [tenantBytes]byte
	columnArray [columnBytes]byte
)

// open reads where the parts of a record are; false: b is too short or too long for them, or of another version.
func (v *view) open(b []byte) bool {
	if len(b) < headBytes || b[0] != RecordVersion {
		return false
	}
	h := (*headArray)(b)
	v.tenants, v.columns = int(get16(h[4:])), int(get16(h[6:]))
	v.holders, v.holds = int(get32(h[8:])), int(get32(h[12:]))
	v.named, v.waiting, v.idle = int(get16(h[140:])), int(get16(h[142:])), int(get16(h[144:]))
	v.atTenants = headBytes + int(h[2])
	v.atByID = v.atTenants + v.tenants*tenantBytes
	v.queue = Queue{b: b, at: v.atByID + 2*v.named,
		n: int(get32(h[128:])), gone: int(get32(h[132:])), arrivals: get32(h[136:])}
	return v.atHolders()+v.holders*holderBytes+v.holds*holdBytes == len(b)
}

func (v *view) atOrder() int   { return v.queue.end() }
func (v *view) atColumns() int { return v.atOrder() + 2*v.waiting }
func (v *view) atHolders() int { return v.atColumns() + v.columns*columnBytes }

// head is the record's head.
func (v *view) head() *headArray { return (*headArray)(v.queue.b) }

// tenant is the i-th tenant.
//
//go:noinline // many bytes in many places
func (v *view) tenant(i int) *tenantArray {
	return (*tenantArray)(v.queue.b[v.atTenants+i*tenantBytes:])
}

// columnAt is the i-th column.
//
//go:noinline // many bytes in many places
func (v *view) columnAt(i int) *columnArray {
	return (*columnArray)(v.queue.b[v.atColumns()+i*columnBytes:])
}

// findColumn returns the index of a seat's column, or -1.
func (v *view) findColumn(seat uint16) int {
	for i := range v.columns {
		if get16(v.columnAt(i)[:]) == seat {
			return i
		}
	}
	return -1
}

// findHolder returns where the entry of a worker's permits for a tenant is, or -1.
func (v *view) findHolder(seat, tenant uint16) int {
	wanted := uint32(seat) | uint32(tenant)<<16
	at := v.atHolders()
	for b := v.queue.b[at:]; len(b) >= holderBytes; b = b[holderBytes:] {
		if get32(b) == wanted {
			return len(v.queue.b) - len(b)
		}
	}
	return -1
}

// findTenant returns the index of a tenant, or -1.
func (v *view) findTenant(id uint64) int {
	if at := v.placeByID(id); at < v.named {
		if i := int(get16(v.queue.b[v.atByID+2*at:])); i < v.tenants && get64(v.tenant(i)[:]) == id {
			return i
		}
	}
	return -1
}

// placeByID is how many of the tenants in use have a lower id.
func (v *view) placeByID(id uint64) int {
	from, to := 0, v.named
	for from < to {
		middle := (from + to) / 2
		i := int(get16(v.queue.b[v.atByID+2*middle:]))
		if i < v.tenants && get64(v.tenant(i)[:]) < id {
			from = middle + 1
		} else {
			to = middle
		}
	}
	return from
}

// turnOf is the turn of the tenant in those bytes.
//
//go:noinline // as tenant
func turnOf(t *tenantArray) turn {
	return turn{load: uint64(get32(t[atTenantInflight:])) + uint64(get32(t[atTenantOnHold:])),
		weight: uint64(get32(t[atTenantWeight:])), last: get64(t[atTenantGrant:]), id: get64(t[:])}
}

// waitingTenant is the tenant that has the i-th turn; -1: the record is damaged.
func (v *view) waitingTenant(i int) int {
	if t := int(get16(v.queue.b[v.atOrder()+2*i:])); t < v.tenants {
		return t
	}
	return -1
}

// placeInOrder is how many of the waiting tenants have their turns before the given one.
func (v *view) placeInOrder(of *turn) int {
	from, to := 0, v.waiting
	for from < to {
		middle := (from + to) / 2
		before := false
		if t := v.waitingTenant(middle); t >= 0 {
			u := turnOf(v.tenant(t))
			before = u.before(of)
		}
		if before {
			from = middle + 1
		} else {
			to = middle
		}
	}
	return from
}

// sumInflight is the number of permits granted.
func (v *view) sumInflight() int {
	n := 0
	for i := range v.columns {
		n += int(get32(v.columnAt(i)[10:]))
	}
	return n
}

// add32 adds to a number in the record; n may be negative.
func add32(b []byte, n int) { put32(b, uint32(int(get32(b))+n)) }
