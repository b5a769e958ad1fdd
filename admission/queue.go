package admission

// ticketBytes is the size of an encoded ticket: slot 2, tenant 2, seq 4, deadline 8, budget 4.
const ticketBytes = 20

// A Queue is the waiting tickets of a record in order of arrival, kept encoded: most operations touch one of them, and a
// queue of a thousand is copied faster than it is decoded.
type Queue struct{ b []byte }

// A Ticket is one waiting request.
type Ticket struct {
	Slot     uint16 // its worker
	Tenant   uint16 // index in Record.Tenants
	Seq      uint32 // its number within that worker
	Deadline int64  // when its wait ends, monotonic nanoseconds
	Budget   uint32 // how long it may wait in all, milliseconds; Deadline - Budget is when it came
}

// Len is the number of tickets.
func (q *Queue) Len() int { return len(q.b) / ticketBytes }

// At is the i-th ticket, 0 being the oldest.
func (q *Queue) At(i int) Ticket {
	b := q.b[i*ticketBytes:]
	return Ticket{Slot: get16(b), Tenant: get16(b[2:]), Seq: get32(b[4:]), Deadline: int64(get64(b[8:])), Budget: get32(b[16:])}
}

func (q *Queue) push(t Ticket) {
	var b [ticketBytes]byte
	put16(b[:], t.Slot)
	put16(b[2:], t.Tenant)
	put32(b[4:], t.Seq)
	put64(b[8:], uint64(t.Deadline))
	put32(b[16:], t.Budget)
	q.b = append(q.b, b[:]...)
}

func (q *Queue) remove(i int) {
	at := i * ticketBytes
	q.b = append(q.b[:at], q.b[at+ticketBytes:]...)
}

// find returns the position of a worker's ticket, or -1.
func (q *Queue) find(slot uint16, seq uint32) int { return q.findFrom(0, slot, seq) }

// findFrom is find that looks at the given position first and wraps round: who looks for tickets in order of arrival
// and starts each time behind the last one found reads the queue once.
func (q *Queue) findFrom(start int, slot uint16, seq uint32) int {
	n := q.Len()
	for i := range n {
		at := start + i
		if at >= n {
			at -= n
		}
		if b := q.b[at*ticketBytes:]; get32(b[4:]) == seq && get16(b) == slot {
			return at
		}
	}
	return -1
}

// head returns the position of a tenant's oldest ticket that hasn't expired, or -1.
func (q *Queue) head(tenant uint16, now int64) int {
	for at := 0; at < len(q.b); at += ticketBytes {
		if get16(q.b[at+2:]) == tenant && int64(get64(q.b[at+8:])) > now {
			return at / ticketBytes
		}
	}
	return -1
}

func (q *Queue) sound(tenants []Tenant) bool {
	for at := 0; at < len(q.b); at += ticketBytes {
		if t := int(get16(q.b[at+2:])); t >= len(tenants) || !tenants[t].Live {
			return false
		}
	}
	return true
}
