package admission

import "errors"

// RecordVersion is the first byte of every record. A record of another version is not read but replaced.
const RecordVersion = 1

// ErrDamaged says that bytes are not a record of this version. The caller replaces them with an empty record.
var ErrDamaged = errors.New("admission: not a record of this version")

// A Record is the decoded state of one pool key.
type Record struct {
	Gen     uint32 // the directory generation this record serves; see Directory
	Retired bool   // given up by its key: nobody may acquire here until a newer generation takes it
	Name    []byte // the key's name, for display
	Limit   uint32 // the limit last asserted

	GrantSeq     uint64 // counts grants; orders tenants by their last one
	LastRelease  int64  // when a permit last came free, monotonic nanoseconds; 0: never
	ReleaseEvery int64  // smoothed time between releases in nanoseconds; 0: unknown

	Tenants []Tenant
	Columns []Column
	Holders []Holder
	Holds   []Parked
	Queue   Queue
}

// A Tenant is one tenant's share of a pool key. Its index in Record.Tenants is stable while anything refers to it.
type Tenant struct {
	ID        uint64 // hash of the tenant's name; 0 in a pool that isn't fair by tenant
	Live      bool   // false: a free place in the table
	Inflight  uint32 // permits granted
	Queued    uint32 // tickets waiting
	Parked    uint32 // permits on hold that are charged to the tenant
	Weight    uint32 // >= 1
	LastGrant uint64 // GrantSeq at its last grant; 0: none remembered
}

// A Column stands for one worker incarnation that has permits or tickets in the record.
type Column struct {
	Worker
	Permits uint32 // granted to it and not yet given back
	Tickets uint32 // of its requests waiting in the queue
}

// A Holder counts the permits one worker holds for one tenant.
type Holder struct {
	Slot   uint16
	Tenant uint16 // index in Record.Tenants
	Count  uint32
}

// Parked is a number of permits kept out of use until a time.
type Parked struct {
	Until  int64  // monotonic nanoseconds
	Tenant uint16 // index of the tenant charged, or noTenant
	Count  uint32
}

const (
	noTenant = 0xFFFF

	headBytes   = 44
	tenantBytes = 33
	columnBytes = 18
	holderBytes = 8
	parkedBytes = 14

	maxRecordTenants = 1024
	// idleTenants is how many tenants with nothing running or waiting a record remembers, for their LastGrant.
	idleTenants = 64
	// MaxName is how long a key's name may be in bytes; a record stores its length in one.
	MaxName = 255
)

// Used is the number of permits granted and not yet given back.
func (r *Record) Used() int {
	n := 0
	for i := range r.Columns {
		n += int(r.Columns[i].Permits)
	}
	return n
}

// Held is the number of permits on hold.
func (r *Record) Held() int {
	n := 0
	for i := range r.Holds {
		n += int(r.Holds[i].Count)
	}
	return n
}

// Idle reports whether nothing in the record would be missed: no permit, no hold, no ticket.
func (r *Record) Idle() bool {
	return len(r.Columns) == 0 && len(r.Holds) == 0 && r.Queue.Len() == 0
}

// reset empties the record for the given generation and name, keeping its buffers.
func (r *Record) reset(gen uint32, name string) {
	*r = Record{Gen: gen, Name: append(r.Name[:0], name...), Tenants: r.Tenants[:0], Columns: r.Columns[:0],
		Holders: r.Holders[:0], Holds: r.Holds[:0], Queue: Queue{b: r.Queue.b[:0]}}
}

// Decode reads a record, reusing r's buffers; r shares no memory with b afterwards. On an error r is undefined.
func (r *Record) Decode(b []byte) error {
	if len(b) < headBytes || b[0] != RecordVersion {
		return ErrDamaged
	}
	r.Retired = b[1]&1 != 0
	name := int(b[2])
	tenants, columns := int(get16(b[4:])), int(get16(b[6:]))
	holders, holds := int(get16(b[8:])), int(get16(b[10:]))
	r.Gen, r.Limit, r.GrantSeq = get32(b[12:]), get32(b[16:]), get64(b[20:])
	r.LastRelease, r.ReleaseEvery = int64(get64(b[28:])), int64(get64(b[36:]))
	size := headBytes + name + tenants*tenantBytes + columns*columnBytes + holders*holderBytes + holds*parkedBytes
	if len(b) < size || (len(b)-size)%ticketBytes != 0 {
		return ErrDamaged
	}
	b = b[headBytes:]
	r.Name = append(r.Name[:0], b[:name]...)
	b = r.decodeTenants(b[name:], tenants)
	b = r.decodeColumns(b, columns)
	b = r.decodeHolders(b, holders)
	b = r.decodeHolds(b, holds)
	r.Queue.b = append(r.Queue.b[:0], b...)
	if !r.sound() {
		return ErrDamaged
	}
	return nil
}

// agrees checks that the sums kept beside the parts are the sums of the parts.
func (r *Record) agrees() bool {
	var inflight, queued, permits, tickets, held uint64
	for i := range r.Tenants {
		inflight += uint64(r.Tenants[i].Inflight)
		queued += uint64(r.Tenants[i].Queued)
	}
	for i := range r.Columns {
		permits += uint64(r.Columns[i].Permits)
		tickets += uint64(r.Columns[i].Tickets)
	}
	for i := range r.Holders {
		held += uint64(r.Holders[i].Count)
	}
	n := uint64(r.Queue.Len())
	return inflight == permits && permits == held && queued == n && tickets == n
}

func (r *Record) decodeTenants(b []byte, n int) []byte {
	r.Tenants = r.Tenants[:0]
	for ; n > 0; n-- {
		r.Tenants = append(r.Tenants, Tenant{ID: get64(b), Live: b[8] != 0, Inflight: get32(b[9:]), Queued: get32(b[13:]),
			Parked: get32(b[17:]), Weight: get32(b[21:]), LastGrant: get64(b[25:])})
		b = b[tenantBytes:]
	}
	return b
}

func (r *Record) decodeColumns(b []byte, n int) []byte {
	r.Columns = r.Columns[:0]
	for ; n > 0; n-- {
		r.Columns = append(r.Columns, Column{Worker: Worker{Slot: get16(b), Epoch: get64(b[2:])}, Permits: get32(b[10:]), Tickets: get32(b[14:])})
		b = b[columnBytes:]
	}
	return b
}

func (r *Record) decodeHolders(b []byte, n int) []byte {
	r.Holders = r.Holders[:0]
	for ; n > 0; n-- {
		r.Holders = append(r.Holders, Holder{Slot: get16(b), Tenant: get16(b[2:]), Count: get32(b[4:])})
		b = b[holderBytes:]
	}
	return b
}

func (r *Record) decodeHolds(b []byte, n int) []byte {
	r.Holds = r.Holds[:0]
	for ; n > 0; n-- {
		r.Holds = append(r.Holds, Parked{Until: int64(get64(b)), Tenant: get16(b[8:]), Count: get32(b[10:])})
		b = b[parkedBytes:]
	}
	return b
}

// sound checks what the rest of the package relies on, so that no bytes, however damaged, can make it index wrongly.
func (r *Record) sound() bool {
	n := len(r.Tenants)
	if n > maxRecordTenants {
		return false
	}
	for i := range r.Tenants {
		if t := &r.Tenants[i]; t.Live && t.Weight == 0 {
			return false
		}
	}
	for i := range r.Holders {
		if h := &r.Holders[i]; int(h.Tenant) >= n || h.Count == 0 || !r.Tenants[h.Tenant].Live || r.column(h.Slot) < 0 {
			return false
		}
	}
	for i := range r.Holds {
		if p := &r.Holds[i]; p.Tenant != noTenant && int(p.Tenant) >= n {
			return false
		}
	}
	return r.Queue.sound(r.Tenants) && r.agrees()
}

// Append encodes the record behind dst.
func (r *Record) Append(dst []byte) []byte {
	var h [headBytes]byte
	h[0] = RecordVersion
	if r.Retired {
		h[1] = 1
	}
	h[2] = byte(len(r.Name))
	put16(h[4:], uint16(len(r.Tenants)))
	put16(h[6:], uint16(len(r.Columns)))
	put16(h[8:], uint16(len(r.Holders)))
	put16(h[10:], uint16(len(r.Holds)))
	put32(h[12:], r.Gen)
	put32(h[16:], r.Limit)
	put64(h[20:], r.GrantSeq)
	put64(h[28:], uint64(r.LastRelease))
	put64(h[36:], uint64(r.ReleaseEvery))
	dst = append(append(dst, h[:]...), r.Name...)
	dst = r.appendTenants(dst)
	for i := range r.Columns {
		var b [columnBytes]byte
		put16(b[:], r.Columns[i].Slot)
		put64(b[2:], r.Columns[i].Epoch)
		put32(b[10:], r.Columns[i].Permits)
		put32(b[14:], r.Columns[i].Tickets)
		dst = append(dst, b[:]...)
	}
	for i := range r.Holders {
		var b [holderBytes]byte
		put16(b[:], r.Holders[i].Slot)
		put16(b[2:], r.Holders[i].Tenant)
		put32(b[4:], r.Holders[i].Count)
		dst = append(dst, b[:]...)
	}
	for i := range r.Holds {
		var b [parkedBytes]byte
		put64(b[:], uint64(r.Holds[i].Until))
		put16(b[8:], r.Holds[i].Tenant)
		put32(b[10:], r.Holds[i].Count)
		dst = append(dst, b[:]...)
	}
	return append(dst, r.Queue.b...)
}

func (r *Record) appendTenants(dst []byte) []byte {
	for i := range r.Tenants {
		t := &r.Tenants[i]
		var b [tenantBytes]byte
		put64(b[:], t.ID)
		if t.Live {
			b[8] = 1
		}
		put32(b[9:], t.Inflight)
		put32(b[13:], t.Queued)
		put32(b[17:], t.Parked)
		put32(b[21:], t.Weight)
		put64(b[25:], t.LastGrant)
		dst = append(dst, b[:]...)
	}
	return dst
}
