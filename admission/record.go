package admission

import "errors"

// RecordVersion is the first byte of every record. A record of another version is not read but replaced.
const RecordVersion = 1

// errDamaged says that bytes are not a record of this version. The caller replaces them with an empty record.
var errDamaged = errors.New("admission: not a record of this version")

// A Record is the decoded state of one pool key.
type Record struct {
	Gen     uint32 // the directory generation this record serves; see Directory
	Retired bool   // given up by its key: nobody may acquire here until a newer generation takes it
	Name    []byte // the key's name, for display
	Limit   uint32 // the limit last asserted
	// Provisional says that no limit has been asserted since the record was lost and made anew. Limit is then what its
	// workers said they run, and grows as more of them say so.
	Provisional bool

	GrantSeq  uint64 // counts grants; orders tenants by their last one
	Forgotten uint64 // the latest LastGrant of all tenants that were dropped from Tenants
	breaker   breakerRecord
	headroom  headroomRecord

	LastMove int64 // when a permit was last granted or came free, monotonic nanoseconds; 0: never
	MeanUse  int64 // smoothed time for which a permit is in use or on hold, nanoseconds; 0: unknown

	Tenants []Tenant
	Columns []Column
	Holders []Holder
	Holds   []HoldGroup
	Queue   Queue

	bytes []byte   // Decode's copy of what Queue lies in
	sums  []uint32 // scratch of valid
}

// A Tenant is one tenant's share of a pool key. Its index in Record.Tenants is stable while anything refers to it.
type Tenant struct {
	ID        uint64 // hash of the tenant's name; 0 in a pool that isn't fair by tenant
	LastGrant uint64 // GrantSeq at its last grant, or Record.Forgotten when it came, if that was later
	Inflight  uint32 // permits granted
	Queued    uint32 // tickets waiting
	OnHold    uint32 // permits on hold that are charged to the tenant
	Weight    uint32 // >= 1; 0: a free place in the table
}

// A Column stands for one worker incarnation that has permits or tickets in the record.
type Column struct {
	Worker
	Inflight uint32 // granted to it and not yet given back
	Tickets  uint32 // of its requests waiting in the queue
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
	headBytes   = 128
	tenantBytes = 32
	columnBytes = 18
	holderBytes = 8
	holdBytes   = 14

	maxRecordTenants = 1024
	// idleTenants is how many tenants with nothing running or waiting a record remembers, for their LastGrant.
	idleTenants = 64
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
	return r.breaker.state != breakerClosed && now < r.breaker.until+int64(MaxHold) ||
		r.headroom.cut > 0 && now-r.headroom.last < int64(MaxHold)
}

// reset empties the record for op's key and generation, and keeps its buffers. The limit is op's even if op doesn't
// assert one: there is no other. A reconcile that finds no record has lost one; unless the record is then quiet for a
// while, its limit is found by what its workers run.
func (r *Record) reset(op *Op) {
	*r = Record{Gen: op.Gen, Name: append(r.Name[:0], clip(op.Name)...), Limit: op.limit(),
		Tenants: r.Tenants[:0], Columns: r.Columns[:0], Holders: r.Holders[:0], Holds: r.Holds[:0],
		Queue: r.Queue, bytes: r.bytes, sums: r.sums}
	r.Queue.load(nil)
	if r.Provisional = op.Kind == OpReconcile && op.QuietTime == 0; r.Provisional {
		r.Limit = 0
	}
}

// Decode reads a record, reusing r's buffers; r shares no memory with b afterwards. On an error r is undefined.
func (r *Record) Decode(b []byte) error {
	r.bytes = append(r.bytes[:0], b...)
	if !r.load(r.bytes) || !r.validQueue() {
		return errDamaged
	}
	return nil
}

// load is Decode without a copy and without the check of each ticket, which validQueue makes. Most steps touch one or
// two tickets of a thousand, and check those.
func (r *Record) load(b []byte) bool {
	if len(b) < headBytes || b[0] != RecordVersion || b[1] > 3 || b[3] != 0 {
		return false
	}
	r.Retired, r.Provisional = b[1]&1 != 0, b[1]&2 != 0
	name := int(b[2])
	tenants, columns := int(get16(b[4:])), int(get16(b[6:]))
	holders, holds := int(get32(b[8:])), int(get32(b[12:]))
	r.Gen, r.Limit, r.GrantSeq, r.Forgotten = get32(b[16:]), get32(b[20:]), get64(b[24:]), get64(b[32:])
	r.LastMove, r.MeanUse = int64(get64(b[40:])), int64(get64(b[48:]))
	r.breaker.load(b[56:])
	r.headroom.load(b[108:])
	rest := len(b) - headBytes - name - tenants*tenantBytes - columns*columnBytes - holders*holderBytes - holds*holdBytes
	if rest < 0 || rest%ticketBytes != 0 {
		return false
	}
	b = b[headBytes:]
	r.Name = append(r.Name[:0], b[:name]...)
	b = r.loadTenants(b[name:], tenants)
	b = r.loadColumns(b, columns)
	b = r.loadHolders(b, holders)
	b = r.loadHolds(b, holds)
	r.Queue.load(b)
	return r.valid()
}

func (r *Record) loadTenants(b []byte, n int) []byte {
	r.Tenants = sized(r.Tenants, n)
	for i := range r.Tenants {
		t := b[:tenantBytes]
		r.Tenants[i] = Tenant{ID: get64(t), LastGrant: get64(t[8:]), Inflight: get32(t[16:]), Queued: get32(t[20:]),
			OnHold: get32(t[24:]), Weight: get32(t[28:])}
		b = b[tenantBytes:]
	}
	return b
}

func (r *Record) loadColumns(b []byte, n int) []byte {
	r.Columns = sized(r.Columns, n)
	for i := range r.Columns {
		c := b[:columnBytes]
		r.Columns[i] = Column{Worker: Worker{Seat: get16(c), Epoch: get64(c[2:])},
			Inflight: get32(c[10:]), Tickets: get32(c[14:])}
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

func (r *Record) loadHolds(b []byte, n int) []byte {
	r.Holds = sized(r.Holds, n)
	for i := range r.Holds {
		h := b[:holdBytes]
		r.Holds[i] = HoldGroup{Until: int64(get64(h)), Tenant: get16(h[8:]), Count: get32(h[10:])}
		b = b[holdBytes:]
	}
	return b
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
	var h [headBytes]byte
	h[0] = RecordVersion
	if r.Retired {
		h[1] = 1
	}
	if r.Provisional {
		h[1] |= 2
	}
	h[2] = byte(len(r.Name))
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
	r.breaker.store(h[56:])
	r.headroom.store(h[108:])
	dst = append(append(dst, h[:]...), r.Name...)
	dst = r.appendTenants(dst)
	dst = r.appendColumns(dst)
	dst = r.appendHolders(dst)
	dst = r.appendHolds(dst)
	return r.Queue.append(dst)
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
