package records

import (
	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/filter/abi"
)

// beatsPerLease is how often in a lease a worker beats: four beats may be late before it is declared dead.
const beatsPerLease = 5

// A seat is a plugin context's part in the domain's worker table.
type seat struct {
	me        admission.Worker // Epoch 0: none
	beat      int64            // when the lease was last renewed
	nextDeath int64            // when the next worker will be dead if it doesn't beat; 0: none
	ticket    uint32           // the last ticket number given out

	table     admission.WorkerTable
	live      admission.WorkerTable // the table as a reaping operation reads it
	dead      []admission.Worker
	swept     []admission.Worker // dead workers whose records have been seen to
	nextSweep int64              // when the dead workers' records are seen to again

	complained int64 // when a line that requests can provoke was last logged
}

// nextTicket is a new ticket number; 0 is no ticket.
func (s *seat) nextTicket() uint32 {
	if s.ticket++; s.ticket == 0 {
		s.ticket = 1
	}
	return s.ticket
}

// ensureSeat makes sure that this context has a living seat before it touches a record of a pool.
//
//go:noinline // as stopWaiting
func (r *Records) ensureSeat(o *Pool) result {
	if r.seatLasts() {
		return stored
	}
	return r.renew(o)
}

// seatLasts reports whether the context has a seat that need not be renewed yet, and nobody is to be declared dead.
func (r *Records) seatLasts() bool {
	s := &r.seat
	return s.me.Epoch != 0 && r.now-s.beat < 2*r.beatInterval && (s.nextDeath == 0 || r.now < s.nextDeath)
}

// renew beats, or claims a seat if there is none or another worker has it. The swaps lost count in a pool's statistics.
func (r *Records) renew(o *Pool) result {
	s := &r.seat
	for range maxSwaps {
		cas, res := r.readTable(&s.table)
		if res != stored {
			return res
		}
		full := s.table.Full()
		me, ok := s.me, true
		if !s.table.Beat(me, r.now, r.cfg.Lease) {
			me, ok = s.table.Retake(me, random(), r.now, r.cfg.Lease)
		}
		if !ok {
			if s.mayComplain(r.now) {
				abi.Log(abi.LogError, "no seat left in the worker table of domain "+r.cfg.Domain)
			}
			return failed
		}
		switch res = r.storeTable(o, cas); res {
		case stored:
			late := s.me.Epoch != 0 && r.now-s.beat > int64(r.cfg.Lease)/2
			s.beat = r.now
			r.waker.WakeBy(s.beat + r.beatInterval) // to beat again, or to leave: see KeepSeat
			displaced := me != s.me && (s.me.Epoch != 0 || full)
			if me != s.me {
				r.takeSeat(me)
			}
			r.sweep(displaced)
			if late && s.nextDeath > 0 { // the others may have been kept by the same: see WorkerTable.Beat
				s.nextDeath = max(s.nextDeath, r.now+r.beatInterval)
			}
			return stored
		case failed:
			return failed
		}
	}
	return contended
}

// takeSeat begins to use a new seat: grants for it arrive in its mailbox, and what was counted under an old one is
// counted anew.
func (r *Records) takeSeat(me admission.Worker) {
	r.seat.me = me
	r.mailbox.open(r.cfg.Domain, me.Seat)
	r.each(func(k *Key) {
		if k.involved() { // also with spares only: its column of before has to go
			r.mark(k, r.now+dirtyRetry)
		}
		r.forfeit(k)
	})
}

// sweep takes back what dead workers hold:
//
//   - as soon as one is seen to have died;
//   - again each lease as long as one is there, since a dying worker may have written last after it was swept;
//   - when a seat was displaced whose dead worker can't be seen any more: this context's own former one, or in a full
//     table another worker's.
func (r *Records) sweep(displaced bool) {
	s := &r.seat
	s.nextDeath = s.table.NextDeath(s.me)
	s.dead = s.table.AppendDead(s.dead[:0])
	fresh := displaced || len(s.dead) > 0 && r.now >= s.nextSweep
	for _, w := range s.dead {
		fresh = fresh || !contains(s.swept, w)
	}
	s.swept = append(s.swept[:0], s.dead...)
	if fresh {
		s.nextSweep = r.now + int64(r.cfg.Lease)
		r.maintainAll(maintainReap)
	}
}

// contains is slices.Contains, which would link package iter into the module.
func contains(workers []admission.Worker, w admission.Worker) bool {
	for i := range workers {
		if workers[i] == w {
			return true
		}
	}
	return false
}

// mayComplain bounds how often a line is logged that requests can provoke.
func (s *seat) mayComplain(now int64) bool {
	if s.complained > 0 && now-s.complained < int64(admission.Minute) {
		return false
	}
	s.complained = now
	return true
}

// leave gives the seat up, once nothing is held or waited for.
func (r *Records) leave() {
	s := &r.seat
	if !r.Seated() { // as in a stage of which no pool is
		return
	}
	for range maxSwaps {
		cas, res := r.readTable(&s.table)
		if res != stored {
			return
		}
		if r.gaugesSuspect && s.table.Alone(s.me) {
			r.recount(cas)
		}
		s.table.Leave(s.me)
		switch r.storeTable(r.pools[0], cas) {
		case stored:
			s.me = admission.Worker{}
			return
		case failed:
			return // the next tick, or the lease
		}
	}
}

func (r *Records) tableKey() string { return Prefix + r.cfg.Domain + "/workers" }

func (r *Records) readTable(t *admission.WorkerTable) (cas uint32, res result) {
	b, cas, res := get(r.tableKey())
	t.Decode(b)
	return cas, res
}

func (r *Records) storeTable(o *Pool, cas uint32) result {
	r.out = r.seat.table.Append(r.out[:0])
	return r.set(&o.stats, r.tableKey(), r.out, cas)
}

// random is a random number: two VMs can start in the same nanosecond, so a time would not tell them apart.
func random() uint64 {
	var b [8]byte
	abi.Random(b[:])
	return abi.Uint64(b[:])
}
