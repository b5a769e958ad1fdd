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
	r := &m.rec
	standing := m.look(state, t, seq)
	m.effect.reset()
	m.effect.BreakerGen = r.breaker.gen
	if r.breaker.probe == (ticketID{t.Me.Seat, seq}) {
		m.effect.Probe = seq
	}
	return standing, &m.effect
}

func (m *Machine) look(state []byte, t *Target, seq uint32) Standing {
	r := &m.rec
	if !r.load(state) || r.Gen != t.Gen || r.Retired {
		return StandingUnknown
	}
	i := r.column(t.Me.Seat)
	switch {
	case i < 0 || r.Columns[i].Epoch != t.Me.Epoch:
		return StandingUnknown
	case r.Queue.find(t.Me.Seat, seq) >= 0:
		return StandingWaiting
	}
	return StandingGranted
}

// Sums reads the permits granted, the tickets waiting and the permits on hold in a record; zero in what is none.
func (m *Machine) Sums(state []byte) (inflight, queued, onHold int) {
	r := &m.rec
	if !r.load(state) {
		return 0, 0, 0
	}
	return r.Inflight(), r.Queue.Len(), r.OnHold()
}
