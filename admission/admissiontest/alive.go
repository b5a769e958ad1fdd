package admissiontest

import "github.com/headgate/headgate/admission"

// Alive returns a worker table in which the given workers are alive, and no others.
func Alive(living ...admission.Worker) *admission.WorkerTable {
	b := (&admission.WorkerTable{}).Append(nil)
	var seats [admission.MaxWorkers]uint64
	last := -1
	for _, w := range living {
		seats[w.Seat] = w.Epoch
		last = max(last, int(w.Seat))
	}
	for _, epoch := range seats[:last+1] {
		var s [24]byte
		for i := range 8 {
			s[i] = byte(epoch >> (8 * i))
		}
		s[16] = 1
		b = append(b, s[:]...)
	}
	t := &admission.WorkerTable{}
	t.Decode(b)
	return t
}
