package admission

// A Standing is what a record says of one ticket.
type Standing uint8

// The standings.
const (
	StandingWaiting Standing = iota // it is in the queue
	StandingGranted                 // it is not, and its worker's column is there: it has been granted
	StandingUnknown                 // the worker's column is missing, or the record is another key's: reconcile
)

// Look reads what a record says of a ticket that a worker waits for, and changes nothing. Only the target's Gen and Me
// are used. The effect has BreakerGen and Probe only.
func (m *Machine) Look(state []byte, t *Target, seq uint32) (Standing, *Effect) {
	e, v := &m.effect, &m.view
	e.reset()
	if !v.open(state) {
		return StandingUnknown, e
	}
	h := v.head()
	if get32(h[16:]) != t.Gen || h[1]&1 != 0 {
		return StandingUnknown, e
	}
	e.BreakerGen = get32(h[atBreaker+4:])
	if get16(h[atBreaker+16:]) == t.Me.Seat && get32(h[atBreaker+20:]) == seq {
		e.Probe = seq
	}
	i := v.findColumn(t.Me.Seat)
	switch {
	case i < 0 || get64(v.columnAt(i)[2:]) != t.Me.Epoch:
		return StandingUnknown, e
	case v.queue.find(t.Me.Seat, seq) >= 0:
		return StandingWaiting, e
	}
	return StandingGranted, e
}

// Sums reads the permits granted, the tickets waiting and the permits on hold in a record; zero in what is none.
func (m *Machine) Sums(state []byte) (inflight, queued, onHold int) {
	r := &m.rec
	if !r.load(state) {
		return 0, 0, 0
	}
	return r.Inflight(), r.Queue.Len(), r.OnHold()
}
