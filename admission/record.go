package admission

import "errors"

// RecordVersion is the first byte of every record. A record of another version is not read but replaced.
const RecordVersion = 3

// errDamaged says that bytes are not a record of this version. The caller replaces them with an empty record.
var errDamaged = errors.New("admission: not a record of this version")

// A Record is the decoded state of one pool key.
type Record struct {
	Gen     uint32 // the directory generation this record serves; see Directory
	Retired bool   // given up by its key: nobody may acquire here until a newer generation takes it
	Name    []byte // the key's name, for display
	Limit   uint32 // the limit last asserted, or the override
	Source  Source // where it comes from
	// Provisional says that no limit has been asserted since the record was lost and made anew. Limit is then what its
	// workers said they run, and grows as more of them say so.
	Provisional bool

	GrantSeq  uint64 // counts grants; orders tenants by their last one
	Forgotten uint64 // the latest LastGrant of all tenants that were dropped from Tenants
	breaker   breakerRecord
	headroom  headroomRecord

	LastMove int64 // when a permit was last granted or came free, monotonic nanoseconds; 0: never
	MeanUse  int64 // smoothed time for which a permit is in use or on hold, nanoseconds; 0: unknown

	RecallUntil int64 // until then spares may still come back by a recall, monotonic nanoseconds; 0: none was made

	Tenants []Tenant
	Columns []Column
	Holders []Holder
	Holds   []HoldGroup
	Queue   Queue

	byID  []uint16 // indexes of Tenants by their ids; free places are left out
	order []uint16 // indexes of the tenants that wait, in the order of their turns

	view view     // scratch of load
	sums []uint32 // scratch of valid
}

// A Tenant is one tenant's share of a pool key. Its index in Record.Tenants is stable while anything refers to it.
type Tenant struct {
	ID        uint64 // hash of the tenant's name; 0 in a pool that isn't fair by tenant
	LastGrant uint64 // GrantSeq at its last grant, or Record.Forgotten when it came, if that was later
	Inflight  uint32 // permits granted
	Queued    uint32 // tickets waiting
	OnHold    uint32 // permits on hold that are charged to the tenant
	Weight    uint32 // >= 1; 0: a free place in the table
	First     uint32 // the arrival of its oldest ticket; 0 if none waits
}

// A Column stands for one worker incarnation that has permits or tickets in the record.
type Column struct {
	Worker
	Inflight uint32 // granted to it and not yet given back
	Tickets  uint32 // of its requests waiting in the queue
	Ahead    bool   // some of Inflight may be spare: no request has them
}

// A Holder counts the permits that one worker's requests hold for one tenant.
type Holder struct {
	Seat     uint16
	Tenant   uint16 // index in Record.Tenants
	Inflight uint32
}

// A HoldGroup is a number of permits that stay on hold until the same time.
type HoldGroup struct {
	Until  int64  // monotonic nanoseconds
	Tenant uint16 // index of the tenant charged, or NoTenant
	Count  uint32
}

// NoTenant is the tenant of a hold that nobody is charged for.
const NoTenant = 0xFFFF

const (
	headBytes   = 156
	tenantBytes = 36
	orderBytes  = 2 // of a tenant's place in one of the two orders
	columnBytes = 19
	holderBytes = 8
	holdBytes   = 14

	maxRecordTenants = 1024
	// idleTenants is how many tenants with nothing running or waiting a record remembers at least, for their LastGrant.
	// It forgets the others once there are maxIdleTenants.
	idleTenants    = 64
	maxIdleTenants = 128
	// MaxName is how long a key's name may be in bytes; a record stores its length in one.
	MaxName = 255
)

// Inflight is the number of permits granted and not yet given back.
func (r *Record) Inflight() int {
	n := 0
	for i := range r.Columns {
		n += int(r.Columns[i].Inflight)
	}
	return n
}

// OnHold is the number of permits on hold.
func (r *Record) OnHold() int {
	n := 0
	for i := range r.Holds {
		n += int(r.Holds[i].Count)
	}
	return n
}

// Idle reports whether nobody has anything in the record: no permit, no hold, no ticket.
func (r *Record) Idle() bool {
	return len(r.Columns) == 0 && len(r.Holds) == 0 && r.Queue.Len() == 0
}

// remembers reports whether the record knows something about its provider that must not be forgotten yet: that the
// breaker is open, that the limit was lowered not long ago.
func (r *Record) remembers(now int64) bool {
	return r.breaker.state != BreakerClosed && now < r.breaker.until+int64(MaxHold) ||
		r.headroom.cut > 0 && now-r.headroom.last < int64(MaxHold)
}

// reset empties the record for op's key and generation, and keeps its buffers. The limit is op's even if op doesn't
// assert one, and so is the override: there is no other. A reconcile that finds no record has lost one; unless the
// record is then quiet for a while, its limit is found by what its workers run.
func (r *Record) reset(op *Op) {
	*r = Record{Gen: op.Gen, Name: append(r.Name[:0], clip(op.Name)...), Limit: op.limit(),
		Tenants: r.Tenants[:0], Columns: r.Columns[:0], Holders: r.Holders[:0], Holds: r.Holds[:0],
		Queue: r.Queue, byID: r.byID[:0], order: r.order[:0], sums: r.sums}
	r.Queue.load(nil, 0, 0, 0)
	if r.Provisional = op.Kind == OpReconcile && op.QuietTime == 0; r.Provisional {
		r.Limit = 0
	} else {
		r.tune(op)
	}
}

// Decode reads a record, reusing r's buffers; r shares no memory with b afterwards. On an error r is undefined.
func (r *Record) Decode(b []byte) error {
	if !r.load(b) || !r.validQueue() {
		return errDamaged
	}
	return nil
}

// load is Decode without the check of each ticket, which validQueue makes. Most steps touch one or two tickets of a
// thousand, and check those.
func (r *Record) load(b []byte) bool {
	v := &r.view
	if !v.open(b) {
		return false
	}
	h := v.head()
	if h[1] > 3 || h[atSource] > byte(FromFleet) || get16(h[146:]) != 0 {
		return false
	}
	r.Retired, r.Provisional, r.Source = h[1]&1 != 0, h[1]&2 != 0, Source(h[atSource])
	r.Gen, r.Limit, r.GrantSeq, r.Forgotten = get32(h[16:]), get32(h[20:]), get64(h[24:]), get64(h[32:])
	r.LastMove, r.MeanUse = int64(get64(h[40:])), int64(get64(h[48:]))
	r.breaker.load((*breakerArray)(h[atBreaker:]))
	r.headroom.load((*headroomArray)(h[atHeadroom:]))
	r.RecallUntil = int64(get64(h[atRecall:]))
	r.Name = append(r.Name[:0], b[headBytes:v.atTenants]...)
	r.loadTenants(b[v.atTenants:], v.tenants)
	r.byID = loadIndexes(r.byID, b[v.atByID:], v.named)
	r.Queue.load(v.queue.bytes(), v.queue.gone, v.queue.n, v.queue.arrivals)
	r.order = loadIndexes(r.order, b[v.atOrder():], v.waiting)
	b = r.loadColumns(b[v.atColumns():], v.columns)
	b = r.loadHolders(b, v.holders)
	r.loadHolds(b, v.holds)
	return v.idle == r.countIdle() && r.valid()
}

// loadIndexes reads n indexes of tenants.
func loadIndexes(list []uint16, b []byte, n int) []uint16 {
	list = sized(list, n)
	for i := range list {
		list[i] = get16(b[2*i:])
	}
	return list
}

func (r *Record) loadTenants(b []byte, n int) {
	r.Tenants = sized(r.Tenants, n)
	for i := range r.Tenants {
		t := b[:tenantBytes]
		r.Tenants[i] = Tenant{ID: get64(t), LastGrant: get64(t[8:]), Inflight: get32(t[16:]), Queued: get32(t[20:]),
			OnHold: get32(t[24:]), Weight: get32(t[28:]), First: get32(t[32:])}
		b = b[tenantBytes:]
	}
}

func (r *Record) loadColumns(b []byte, n int) []byte {
	r.Columns = sized(r.Columns, n)
	for i := range r.Columns {
		c := b[:columnBytes]
		r.Columns[i] = Column{Worker: Worker{Seat: get16(c), Epoch: get64(c[2:])},
			Inflight: get32(c[10:]), Tickets: get32(c[14:]), Ahead: c[atColumnAhead] != 0}
		b = b[columnBytes:]
	}
	return b
}

func (r *Record) loadHolders(b []byte, n int) []byte {
	r.Holders = sized(r.Holders, n)
	for i := range r.Holders {
		h := b[:holderBytes]
		r.Holders[i] = Holder{Seat: get16(h), Tenant: get16(h[2:]), Inflight: get32(h[4:])}
		b = b[holderBytes:]
	}
	return b
}

func (r *Record) loadHolds(b []byte, n int) {
	r.Holds = sized(r.Holds, n)
	for i := range r.Holds {
		h := b[:holdBytes]
		r.Holds[i] = HoldGroup{Until: int64(get64(h)), Tenant: get16(h[8:]), Count: get32(h[10:])}
		b = b[holdBytes:]
	}
}

// sized returns s with n elements, whatever they hold.
func sized[T any](s []T, n int) []T {
	if cap(s) < n {
		s = make([]T, n, n+n/2)
	}
	return s[:n]
}

// Append encodes the record behind dst.
func (r *Record) Append(dst []byte) []byte {
	r.byID, r.order = r.reorder(r.byID, byID), r.reorder(r.order, byTurn)
	var h [headBytes]byte
	h[0] = RecordVersion
	if r.Retired {
		h[1] = 1
	}
	if r.Provisional {
		h[1] |= 2
	}
	h[2], h[atSource] = byte(len(r.Name)), byte(r.Source)
	put16(h[4:], uint16(len(r.Tenants)))
	put16(h[6:], uint16(len(r.Columns)))
	put32(h[8:], uint32(len(r.Holders)))
	put32(h[12:], uint32(len(r.Holds)))
	put32(h[16:], r.Gen)
	put32(h[20:], r.Limit)
	put64(h[24:], r.GrantSeq)
	put64(h[32:], r.Forgotten)
	put64(h[40:], uint64(r.LastMove))
	put64(h[48:], uint64(r.MeanUse))
	r.breaker.store((*breakerArray)(h[atBreaker:]))
	r.headroom.store((*headroomArray)(h[atHeadroom:]))
	put32(h[128:], uint32(r.Queue.n))
	put32(h[132:], uint32(r.Queue.gone))
	put32(h[136:], r.Queue.arrivals)
	put16(h[140:], uint16(len(r.byID)))
	put16(h[142:], uint16(len(r.order)))
	put16(h[144:], uint16(r.countIdle()))
	put64(h[atRecall:], uint64(r.RecallUntil))
	dst = append(append(dst, h[:]...), r.Name...)
	dst = r.appendTenants(dst)
	dst = appendIndexes(dst, r.byID)
	dst = append(dst, r.Queue.bytes()...)
	dst = appendIndexes(dst, r.order)
	dst = r.appendColumns(dst)
	dst = r.appendHolders(dst)
	return r.appendHolds(dst)
}

func appendIndexes(dst []byte, list []uint16) []byte {
	at := len(dst)
	dst = extend(dst, 2*len(list))
	for i, index := range list {
		put16(dst[at+2*i:], index)
	}
	return dst
}

func (r *Record) appendTenants(dst []byte) []byte {
	at := len(dst)
	dst = extend(dst, len(r.Tenants)*tenantBytes)
	for i := range r.Tenants {
		t, b := &r.Tenants[i], dst[at:at+tenantBytes]
		put64(b, t.ID)
		put64(b[8:], t.LastGrant)
		put32(b[16:], t.Inflight)
		put32(b[20:], t.Queued)
		put32(b[24:], t.OnHold)
		put32(b[28:], t.Weight)
		put32(b[32:], t.First)
		at += tenantBytes
	}
	return dst
}

func (r *Record) appendColumns(dst []byte) []byte {
	at := len(dst)
	dst = extend(dst, len(r.Columns)*columnBytes)
	for i := range r.Columns {
		c, b := &r.Columns[i], dst[at:at+columnBytes]
		put16(b, c.Seat)
		put64(b[2:], c.Epoch)
		put32(b[10:], c.Inflight)
		put32(b[14:], c.Tickets)
		if b[atColumnAhead] = 0; c.Ahead {
			b[atColumnAhead] = 1
		}
		at += columnBytes
	}
	return dst
}

func (r *Record) appendHolders(dst []byte) []byte {
	at := len(dst)
	dst = extend(dst, len(r.Holders)*holderBytes)
	for i := range r.Holders {
		h, b := &r.Holders[i], dst[at:at+holderBytes]
		put16(b, h.Seat)
		put16(b[2:], h.Tenant)
		put32(b[4:], h.Inflight)
		at += holderBytes
	}
	return dst
}

func (r *Record) appendHolds(dst []byte) []byte {
	at := len(dst)
	dst = extend(dst, len(r.Holds)*holdBytes)
	for i := range r.Holds {
		h, b := &r.Holds[i], dst[at:at+holdBytes]
		put64(b, uint64(h.Until))
		put16(b[8:], h.Tenant)
		put32(b[10:], h.Count)
		at += holdBytes
	}
	return dst
}
