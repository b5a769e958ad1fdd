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
// while it holds or waits for anything, and leaves when it has nothing.
//
// One that stops beating for the lease it declared is declared dead, by whoever changes the table next: a word in the
// table, not a matter of whose clock is read when. Its permits and tickets are then anybody's to take back. A dead
// worker's seat stays its own until another needs the place, so that everyone sees that it died. Should it live after
// all, its next beat is refused, and it comes back as a new incarnation that counts anew what it holds.
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

// Claim seats a new incarnation: in a free place, else in a new one, else in that of whoever is dead longest; the
// caller then tends all records, since nobody will see any more that the former one died. False: all places are taken
// by living workers. The epoch is the number of the claim, which orders the incarnations of a slot, and 32 bits of the
// given random number, in case the count is lost.
func (t *WorkerTable) Claim(random uint64, now int64, lease Duration) (Worker, bool) {
	t.bury(now)
	at, ok := t.place()
	if !ok {
		return Worker{}, false
	}
	return t.take(at, random, now, lease), true
}

// place finds a place for a new incarnation, making it if need be.
func (t *WorkerTable) place() (at int, ok bool) {
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

// Reclaim gives a worker that was declared dead by mistake its seat back under a new epoch, so that its first step on a
// record takes what its former incarnation left there; a new one as Claim does if somebody else has it.
func (t *WorkerTable) Reclaim(w Worker, random uint64, now int64, lease Duration) (Worker, bool) {
	if !t.seated(w) {
		return t.Claim(random, now, lease)
	}
	t.bury(now)
	return t.take(int(w.Slot), random, now, lease), true
}

func (t *WorkerTable) take(at int, random uint64, now int64, lease Duration) Worker {
	if t.claims++; t.claims == 0 {
		t.claims = 1
	}
	w := Worker{Slot: uint16(at), Epoch: uint64(t.claims)<<32 | random&0xFFFFFFFF}
	t.seats[at] = seat{epoch: w.Epoch, beat: now, lease: max(int64(lease), 1)}
	return w
}

// newer says whether epoch a was claimed after epoch b.
func newer(a, b uint64) bool { return int32(uint32(a>>32)-uint32(b>>32)) > 0 }

// bury declares dead who has not beaten for its lease.
func (t *WorkerTable) bury(now int64) {
	for i := range t.seats {
		if s := &t.seats[i]; s.epoch != 0 && now >= s.end() {
			s.lease = 0
		}
	}
}

// Beat renews a worker's lease, and declares others dead whose lease is over; false if the worker itself has been
// declared dead, or its seat is another's: it has to reclaim one.
func (t *WorkerTable) Beat(w Worker, now int64, lease Duration) bool {
	if !t.Alive(w) {
		return false
	}
	s := &t.seats[w.Slot]
	s.beat, s.lease = now, max(int64(lease), 1)
	t.bury(now)
	return true
}

// Leave gives a worker's seat up.
func (t *WorkerTable) Leave(w Worker) {
	if t.seated(w) {
		t.seats[w.Slot] = seat{}
	}
	for n := len(t.seats); n > 0 && t.seats[n-1].epoch == 0; n-- {
		t.seats = t.seats[:n-1]
	}
}

func (t *WorkerTable) seated(w Worker) bool {
	return w.Epoch != 0 && int(w.Slot) < len(t.seats) && t.seats[w.Slot].epoch == w.Epoch
}

// Alive reports whether a worker has its seat and has not been declared dead.
func (t *WorkerTable) Alive(w Worker) bool { return t.seated(w) && !t.seats[w.Slot].dead() }

// AppendDead appends the workers that have been declared dead.
func (t *WorkerTable) AppendDead(dst []Worker, _ int64) []Worker {
	for i := range t.seats {
		if s := &t.seats[i]; s.dead() {
			dst = append(dst, Worker{Slot: uint16(i), Epoch: s.epoch})
		}
	}
	return dst
}

// NextDeath is when the first of the others may be declared dead if it beats no more; 0: there are no others alive.
func (t *WorkerTable) NextDeath(me Worker, _ int64) int64 {
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

// Full reports whether all seats are taken, by the living or the dead.
func (t *WorkerTable) Full() bool {
	for i := range t.seats {
		if t.seats[i].epoch == 0 {
			return false
		}
	}
	return len(t.seats) == MaxWorkers
}
