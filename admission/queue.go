package admission

// ticketBytes is the size of an encoded ticket: seat 2, tenant 2, seq 4, deadline 8, budget 4, arrival 4.
const ticketBytes = 24

// A Queue is the waiting tickets of a record in order of arrival. They stay encoded, as they are in the record's bytes:
// first the places whose tickets have left, cleared, and then one place for each ticket. So the oldest ticket leaves
// without moving the others.
type Queue struct {
	b        []byte
	at       int    // where the first place is in b; other parts of a record may lie before and behind
	gone     int    // places whose tickets have left
	n        int    // tickets
	arrivals uint32 // the next ticket's number in the order of arrival
}

// A Ticket is one waiting request.
type Ticket struct {
	Seat     uint16 // its worker
	Tenant   uint16 // index in Record.Tenants
	Seq      uint32 // its number within that worker
	Deadline int64  // when its wait ends, monotonic nanoseconds
	Budget   uint32 // how long it may wait in all, milliseconds; Deadline - Budget is when it came
	arrival  uint32 // its number in the order of arrival; the queue sets it
}

// load makes a copy of b the queue.
func (q *Queue) load(b []byte, gone, n int, arrivals uint32) {
	*q = Queue{b: append(q.b[:0], b...), gone: gone, n: n, arrivals: arrivals}
}

// bytes is the queue as it is encoded.
func (q *Queue) bytes() []byte { return q.b[q.at:q.end()] }

// place is where the i-th ticket is in b.
func (q *Queue) place(i int) int { return q.at + (q.gone+i)*ticketBytes }

// end is where the queue ends in b.
func (q *Queue) end() int { return q.place(q.n) }

// Len is the number of tickets.
func (q *Queue) Len() int { return q.n }

// At is the i-th ticket, 0 being the oldest.
func (q *Queue) At(i int) Ticket { return readTicket(q.b[q.place(i):]) }

func readTicket(b []byte) Ticket {
	b = b[:ticketBytes]
	return Ticket{Seat: get16(b), Tenant: get16(b[2:]), Seq: get32(b[4:]),
		Deadline: int64(get64(b[8:])), Budget: get32(b[16:]), arrival: get32(b[20:])}
}

// push adds a ticket at the end. Places whose tickets have left are given up once they are more than the others.
func (q *Queue) push(t *Ticket) {
	if q.gone > q.n {
		q.b = cut(q.b, q.at, q.gone*ticketBytes)
		q.gone = 0
	}
	at := q.end()
	q.b = gap(q.b, at, ticketBytes)
	b := q.b[at : at+ticketBytes]
	put16(b, t.Seat)
	put16(b[2:], t.Tenant)
	put32(b[4:], t.Seq)
	put64(b[8:], uint64(t.Deadline))
	put32(b[16:], t.Budget)
	put32(b[20:], q.arrivals)
	q.arrivals++
	q.n++
}

// remove takes the i-th ticket out, and moves those before it or those behind it, whichever are fewer.
func (q *Queue) remove(i int) {
	first, at := q.place(0), q.place(i)
	q.n--
	if 2*i <= q.n {
		copy(q.b[first+ticketBytes:], q.b[first:at])
		clear(q.b[first : first+ticketBytes])
		q.gone++
	} else {
		q.b = cut(q.b, at, ticketBytes)
	}
	if q.n == 0 {
		q.b = cut(q.b, q.at, q.gone*ticketBytes)
		q.gone = 0
	}
}

// keep removes the tickets for which f is false, in one pass. Nothing may lie behind the queue.
func (q *Queue) keep(f func(Ticket) bool) {
	to := q.at
	n := 0
	for i := range q.n {
		from := q.place(i)
		if f(readTicket(q.b[from:])) {
			copy(q.b[to:], q.b[from:from+ticketBytes])
			to += ticketBytes
			n++
		}
	}
	if n == q.n {
		copy(q.b[q.place(0):], q.b[q.at:to]) // back to where they were
		clear(q.b[q.at:q.place(0)])
		return
	}
	q.b, q.n, q.gone = q.b[:to], n, 0
}

// find returns the position of a worker's ticket, or -1.
func (q *Queue) find(seat uint16, seq uint32) int {
	const others = 0xFFFF << 16 // the tenant, which stands between seat and seq
	wanted := uint64(seat) | uint64(seq)<<32
	for i, b := 0, q.b[q.place(0):q.end()]; len(b) >= ticketBytes; i, b = i+1, b[ticketBytes:] {
		if get64(b)&^others == wanted {
			return i
		}
	}
	return -1
}

// head returns the position of a tenant's oldest ticket that hasn't expired, or -1.
func (q *Queue) head(tenant uint16, now int64) int {
	for i, b := 0, q.b[q.place(0):q.end()]; len(b) >= ticketBytes; i, b = i+1, b[ticketBytes:] {
		if get16(b[2:]) == tenant && int64(get64(b[8:])) > now {
			return i
		}
	}
	return -1
}

// next returns the position of a tenant's oldest ticket from position i on, or -1.
func (q *Queue) next(tenant uint16, i int) int {
	for b := q.b[q.place(i):q.end()]; len(b) >= ticketBytes; i, b = i+1, b[ticketBytes:] {
		if get16(b[2:]) == tenant {
			return i
		}
	}
	return -1
}

// arrived returns the position of the ticket with a number in the order of arrival, or -1.
func (q *Queue) arrived(number uint32) int {
	from, to := 0, q.n
	for from < to {
		middle := (from + to) / 2
		switch d := int32(q.arrivalOf(middle) - number); { // the numbers wrap round
		case d == 0:
			return middle
		case d < 0:
			from = middle + 1
		default:
			to = middle
		}
	}
	return -1
}

func (q *Queue) arrivalOf(i int) uint32 { return get32(q.b[q.place(i)+20:]) }

// cut takes n bytes out of b.
//
//go:noinline // many bytes in many places
func cut(b []byte, at, n int) []byte { return append(b[:at], b[at+n:]...) }

// gap makes room for n bytes in b, whatever they hold.
//
//go:noinline // as cut
func gap(b []byte, at, n int) []byte {
	length := len(b)
	b = extend(b, n)
	copy(b[at+n:], b[at:length])
	return b
}
