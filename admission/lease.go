package admission

// MaxWorkers is how many worker incarnations a domain can have at once. An Envoy worker has one for each plugin
// instance that has streams: one or two, and more for a while after configuration changes.
const MaxWorkers = 256

const (
	tableVersion = 1
	seatBytes    = 24
)

// A WorkerTable is the decoded list of a domain's workers. A worker takes a seat before it touches any record, beats
// while it holds or waits for anything, and leaves when it has nothing. One that stops beating is dead after the lease
// it declared; its permits and tickets are then anybody's to take back. A dead worker keeps its seat until another
// needs the place, so that everyone sees that it died; should it live after all, its next beat says so.
type WorkerTable struct{ seats []seat }

type seat struct {
	epoch uint64 // 0: nobody
	beat  int64  // monotonic nanoseconds
	lease int64  // nanoseconds
}

func (s *seat) dead(now int64) bool { return now-s.beat > s.lease }

// Decode reads a table, reusing its memory. Bytes of another version are an empty table.
func (t *WorkerTable) Decode(b []byte) {
	t.seats = t.seats[:0]
	if len(b) == 0 || b[0] != tableVersion {
		return
	}
	for b = b[1:]; len(b) >= seatBytes && len(t.seats) < MaxWorkers; b = b[seatBytes:] {
		t.seats = append(t.seats, seat{epoch: get64(b), beat: int64(get64(b[8:])), lease: int64(get64(b[16:]))})
	}
}

// Append encodes the table behind dst.
func (t *WorkerTable) Append(dst []byte) []byte {
	dst = append(dst, tableVersion)
	for i := range t.seats {
		var b [seatBytes]byte
		put64(b[:], t.seats[i].epoch)
		put64(b[8:], uint64(t.seats[i].beat))
		put64(b[16:], uint64(t.seats[i].lease))
		dst = append(dst, b[:]...)
	}
	return dst
}

// Claim seats a new incarnation: in a free place, else in a new one, else in that of whoever is dead longest. False:
// all places are taken by living workers.
func (t *WorkerTable) Claim(epoch uint64, now int64, lease Duration) (Worker, bool) {
	at, longest := -1, int64(0)
	for i := range t.seats {
		s := &t.seats[i]
		if s.epoch == 0 {
			at = i
			break
		}
		if over := now - s.beat - s.lease; len(t.seats) == MaxWorkers && over > longest {
			at, longest = i, over
		}
	}
	if at < 0 {
		if len(t.seats) == MaxWorkers {
			return Worker{}, false
		}
		at = len(t.seats)
		t.seats = append(t.seats, seat{})
	}
	t.seats[at] = seat{epoch: epoch, beat: now, lease: int64(lease)}
	return Worker{Slot: uint16(at), Epoch: epoch}, true
}

// Beat renews a worker's lease; false if its seat is no longer its own, so that it has to claim a new one.
func (t *WorkerTable) Beat(w Worker, now int64, lease Duration) bool {
	if !t.seated(w) {
		return false
	}
	t.seats[w.Slot].beat, t.seats[w.Slot].lease = now, int64(lease)
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

// Alive reports whether a worker has its seat and beats.
func (t *WorkerTable) Alive(w Worker, now int64) bool {
	return t.seated(w) && !t.seats[w.Slot].dead(now)
}

// AppendDead appends the workers that have stopped beating.
func (t *WorkerTable) AppendDead(dst []Worker, now int64) []Worker {
	for i := range t.seats {
		if s := &t.seats[i]; s.epoch != 0 && s.dead(now) {
			dst = append(dst, Worker{Slot: uint16(i), Epoch: s.epoch})
		}
	}
	return dst
}

// NextDeath is when the first of the others will be dead if it beats no more; 0: there are no others alive.
func (t *WorkerTable) NextDeath(me Worker, now int64) int64 {
	next := int64(0)
	for i := range t.seats {
		s := &t.seats[i]
		if s.epoch == 0 || s.epoch == me.Epoch || s.dead(now) {
			continue
		}
		if end := s.beat + s.lease + 1; next == 0 || end < next {
			next = end
		}
	}
	return next
}
