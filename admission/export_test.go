package admission

// Push adds a ticket to a record's queue as it is, and nothing to what is counted beside it.
func (r *Record) Push(t Ticket) { r.Queue.push(&t) }

// StepsGenerally is Steps without steps in place.
func (m *Machine) StepsGenerally(state []byte, ops ...*Op) ([]byte, *Effect) {
	return m.stepGenerally(state, ops)
}

// StepsInPlace reports whether the machine would carry operations out in the record's bytes.
func (m *Machine) StepsInPlace(state []byte, ops ...*Op) bool {
	_, done, _ := m.changeInPlace(append([]byte(nil), state...), ops)
	return done
}
