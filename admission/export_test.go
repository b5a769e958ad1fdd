package admission

// Push adds a ticket to a record's queue as it is, and nothing to what is counted beside it.
func (r *Record) Push(t Ticket) { r.Queue.push(&t) }

// StepGenerally is Step without steps in place.
func (m *Machine) StepGenerally(state []byte, op *Op) ([]byte, *Effect) {
	return m.stepGenerally(state, []*Op{op})
}

// StepsInPlace reports whether the machine would carry an operation out in the record's bytes.
func (m *Machine) StepsInPlace(state []byte, op *Op) bool {
	_, done := m.stepInPlace(append([]byte(nil), state...), op)
	return done
}
