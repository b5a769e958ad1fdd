package admission

// MaxWorkers is how many worker incarnations a domain can have at once. An Envoy worker has one for each plugin
// instance that has streams: one or two, and more for a while after configuration changes.
const MaxWorkers = 256

const (
	tableVersion   = 1
	tableHeadBytes = 5
	seatBytes      = 24
)

// A WorkerTable is the decoded list of a domain's workers. A worker takes a seat before it touches any record, beats
// while it has permits or tickets, and leaves when it has none.
//
// A worker that does not beat for the lease it declared is declared dead by the next one that changes the table. Death
// is a word in the table: it does not depend on who reads which clock when. Any worker may then take back the permits
// and tickets of the dead one. A dead worker keeps its seat until another needs it, so that everyone sees that it died.
// If it lives after all, its next beat is refused; it comes back as a new incarnation and counts anew what it runs.
type WorkerTable struct {
	claims uint32 // how many seats were ever taken
	seats  []seat
}

type seat struct {
	epoch uint64 // 0: nobody
	beat  int64  // monotonic nanoseconds
	lease int64  // nanoseconds; 0: declared dead
}

func (s *seat) dead() bool { return s.epoch != 0 && s.lease == 0 }

// end is when the seat's worker may be declared dead.
func (s *seat) end() int64 { return s.beat + s.lease + 1 }

// Decode reads a table, reusing its memory. Bytes of another version are an empty table.
func (t *WorkerTable) Decode(b []byte) {
	t.claims, t.seats = 0, t.seats[:0]
	if len(b) < tableHeadBytes || b[0] != tableVersion {
		return
	}
	t.claims = get32(b[1:])
	for b = b[tableHeadBytes:]; len(b) >= seatBytes && len(t.seats) < MaxWorkers; b = b[seatBytes:] {
		t.seats = append(t.seats, seat{epoch: get64(b), beat: int64(get64(b[8:])), lease: int64(get64(b[16:]))})
	}
}

// Append encodes the table behind dst.
func (t *WorkerTable) Append(dst []byte) []byte {
	var head [tableHeadBytes]byte
	head[0] = tableVersion
	put32(head[1:], t.claims)
	dst = append(dst, head[:]...)
	for i := range t.seats {
		var b [seatBytes]byte
		put64(b[:], t.seats[i].epoch)
		put64(b[8:], uint64(t.seats[i].beat))
		put64(b[16:], uint64(t.seats[i].lease))
		dst = append(dst, b[:]...)
	}
	return dst
}

// Claim seats a new incarnation: in a free seat, else in a new one, else in the seat of the worker that has been dead
// longest. In the last case the caller maintains all records, since nobody can see any more that the former worker
// died. False: living workers have all seats.
//
// The epoch is the number of the claim, which orders the incarnations of a seat, and 32 bits of the given random
// number, in case the count is lost.
func (t *WorkerTable) Claim(random uint64, now int64, lease Duration) (Worker, bool) {
	t.expireLeases(now)
	at, ok := t.freeSeat()
	if !ok {
		return Worker{}, false
	}
	return t.sitDown(at, random, now, lease), true
}

// freeSeat finds a seat for a new incarnation, and adds one if need be.
func (t *WorkerTable) freeSeat() (at int, ok bool) {
	for i := range t.seats {
		if t.seats[i].epoch == 0 {
			return i, true
		}
	}
	if n := len(t.seats); n < MaxWorkers {
		t.seats = append(t.seats, seat{})
		return n, true
	}
	for i := range t.seats {
		if s := &t.seats[i]; s.dead() && (!ok || s.beat < t.seats[at].beat) {
			at, ok = i, true
		}
	}
	return at, ok
}

// Retake gives a worker that was declared dead by mistake its seat back under a new epoch, so that its first step on a
// record takes over what its former incarnation left there. If another worker has the seat, it is a Claim.
func (t *WorkerTable) Retake(w Worker, random uint64, now int64, lease Duration) (Worker, bool) {
	if !t.seated(w) {
		return t.Claim(random, now, lease)
	}
	t.expireLeases(now)
	return t.sitDown(int(w.Seat), random, now, lease), true
}

func (t *WorkerTable) sitDown(at int, random uint64, now int64, lease Duration) Worker {
	if t.claims++; t.claims == 0 {
		t.claims = 1
	}
	w := Worker{Seat: uint16(at), Epoch: uint64(t.claims)<<32 | random&0xFFFFFFFF}
	t.seats[at] = seat{epoch: w.Epoch, beat: now, lease: max(int64(lease), 1)}
	return w
}

// newer reports whether epoch a was claimed after epoch b. The count of claims may wrap round.
func newer(a, b uint64) bool { return int32(uint32(a>>32)-uint32(b>>32)) > 0 }

// expireLeases declares the workers dead that have not beaten for their lease.
func (t *WorkerTable) expireLeases(now int64) {
	for i := range t.seats {
		if s := &t.seats[i]; s.epoch != 0 && now >= s.end() {
			s.lease = 0
		}
	}
}

// Beat renews a worker's lease, and declares others dead whose lease is over; false if the worker itself has been
// declared dead, or its seat is another's: it has to retake one.
//
// A worker whose own beat is late by half a lease declares nobody dead with it: whatever kept it, such as a process
// that was stopped, may have kept the others. They have until its next beat to show that they live.
func (t *WorkerTable) Beat(w Worker, now int64, lease Duration) bool {
	if !t.Alive(w) {
		return false
	}
	s := &t.seats[w.Seat]
	late := now-s.beat > s.lease/2
	s.beat, s.lease = now, max(int64(lease), 1)
	if !late {
		t.expireLeases(now)
	}
	return true
}

// Leave gives a worker's seat up.
func (t *WorkerTable) Leave(w Worker) {
	if t.seated(w) {
		t.seats[w.Seat] = seat{}
	}
	for n := len(t.seats); n > 0 && t.seats[n-1].epoch == 0; n-- {
		t.seats = t.seats[:n-1]
	}
}

func (t *WorkerTable) seated(w Worker) bool {
	return w.Epoch != 0 && int(w.Seat) < len(t.seats) && t.seats[w.Seat].epoch == w.Epoch
}

// Alive reports whether a worker has its seat and has not been declared dead.
func (t *WorkerTable) Alive(w Worker) bool { return t.seated(w) && !t.seats[w.Seat].dead() }

// AppendDead appends the workers that have been declared dead.
func (t *WorkerTable) AppendDead(dst []Worker) []Worker {
	for i := range t.seats {
		if s := &t.seats[i]; s.dead() {
			dst = append(dst, Worker{Seat: uint16(i), Epoch: s.epoch})
		}
	}
	return dst
}

// NextDeath is when the first of the other workers may be declared dead if none beats again; 0: no other is alive.
func (t *WorkerTable) NextDeath(me Worker) int64 {
	next := int64(0)
	for i := range t.seats {
		s := &t.seats[i]
		if s.epoch == 0 || s.epoch == me.Epoch || s.dead() {
			continue
		}
		if end := s.end(); next == 0 || end < next {
			next = end
		}
	}
	return next
}

// Alone reports whether a worker is the only one that has a seat and is alive.
func (t *WorkerTable) Alone(w Worker) bool {
	for i := range t.seats {
		if s := &t.seats[i]; s.epoch != 0 && s.epoch != w.Epoch && !s.dead() {
			return false
		}
	}
	return t.Alive(w)
}

// Full reports whether every seat is taken, by a living worker or a dead one.
func (t *WorkerTable) Full() bool {
	for i := range t.seats {
		if t.seats[i].epoch == 0 {
			return false
		}
	}
	return len(t.seats) == MaxWorkers
}
