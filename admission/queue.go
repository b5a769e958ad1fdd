package admission

// ticketBytes is the size of an encoded ticket: seat 2, tenant 2, seq 4, deadline 8, budget 4.
const ticketBytes = 20

// A Queue is the waiting tickets of a record in order of arrival. They stay encoded, in three pieces: front has been
// moved out of the middle, middle is as it was loaded, back has been added. Most steps take a ticket from near the
// front or add one at the end. So a step copies a queue of a thousand once, into the new record.
type Queue struct {
	front, middle, back []byte
	spare               []byte // scratch of keep
}

// A Ticket is one waiting request.
type Ticket struct {
	Seat     uint16 // its worker
	Tenant   uint16 // index in Record.Tenants
	Seq      uint32 // its number within that worker
	Deadline int64  // when its wait ends, monotonic nanoseconds
	Budget   uint32 // how long it may wait in all, milliseconds; Deadline - Budget is when it came
}

// load makes b the queue; b must stay as it is until the next load.
func (q *Queue) load(b []byte) { q.front, q.middle, q.back = q.front[:0], b, q.back[:0] }

func (q *Queue) append(dst []byte) []byte {
	return append(append(append(dst, q.front...), q.middle...), q.back...)
}

// Len is the number of tickets.
func (q *Queue) Len() int { return (len(q.front) + len(q.middle) + len(q.back)) / ticketBytes }

// At is the i-th ticket, 0 being the oldest.
func (q *Queue) At(i int) Ticket {
	at := i * ticketBytes
	if at < len(q.front) {
		return readTicket(q.front[at:])
	}
	at -= len(q.front)
	if at < len(q.middle) {
		return readTicket(q.middle[at:])
	}
	return readTicket(q.back[at-len(q.middle):])
}

func readTicket(b []byte) Ticket {
	b = b[:ticketBytes]
	return Ticket{Seat: get16(b), Tenant: get16(b[2:]), Seq: get32(b[4:]),
		Deadline: int64(get64(b[8:])), Budget: get32(b[16:])}
}

func (q *Queue) push(t Ticket) {
	var b [ticketBytes]byte
	put16(b[:], t.Seat)
	put16(b[2:], t.Tenant)
	put32(b[4:], t.Seq)
	put64(b[8:], uint64(t.Deadline))
	put32(b[16:], t.Budget)
	q.back = append(q.back, b[:]...)
}

func (q *Queue) remove(i int) {
	at := i * ticketBytes
	switch front, middle := len(q.front), len(q.middle); {
	case at < front:
		q.front = append(q.front[:at], q.front[at+ticketBytes:]...)
	case at < front+middle:
		at -= front
		q.front = append(q.front, q.middle[:at]...)
		q.middle = q.middle[at+ticketBytes:]
	default:
		at -= front + middle
		q.back = append(q.back[:at], q.back[at+ticketBytes:]...)
	}
}

// keep removes the tickets for which f is false, in one pass.
func (q *Queue) keep(f func(Ticket) bool) {
	kept := q.spare[:0]
	for _, b := range [...][]byte{q.front, q.middle, q.back} {
		for ; len(b) > 0; b = b[ticketBytes:] {
			if f(readTicket(b)) {
				kept = append(kept, b[:ticketBytes]...)
			}
		}
	}
	q.front, q.middle, q.back, q.spare = q.front[:0], nil, kept, q.back
}

// find returns the position of a worker's ticket, or -1.
func (q *Queue) find(seat uint16, seq uint32) int {
	const others = 0xFFFF << 16 // the tenant, which stands between seat and seq
	wanted := uint64(seat) | uint64(seq)<<32
	base := 0
	for _, b := range [...][]byte{q.front, q.middle, q.back} {
		for at := 0; at < len(b); at += ticketBytes {
			if get64(b[at:])&^others == wanted {
				return (base + at) / ticketBytes
			}
		}
		base += len(b)
	}
	return -1
}

// head returns the position of a tenant's oldest ticket that hasn't expired, or -1.
func (q *Queue) head(tenant uint16, now int64) int {
	base := 0
	for _, b := range [...][]byte{q.front, q.middle, q.back} {
		for at := 0; at < len(b); at += ticketBytes {
			if get16(b[at+2:]) == tenant && int64(get64(b[at+8:])) > now {
				return (base + at) / ticketBytes
			}
		}
		base += len(b)
	}
	return -1
}
