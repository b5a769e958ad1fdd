package admission_test

import (
	"errors"
	"fmt"
	"slices"

	"github.com/headgate/headgate/admission"
)

// check is what must hold at any time: no more streams run than the limit allows. Those of workers that were declared
// dead by mistake may come on top.
func (p *pool) check() error {
	run := 0
	for _, r := range p.requests {
		if r.now == phaseRunning || r.now == phaseStreaming {
			run++
		}
	}
	most := max(p.first, p.raise)
	for i := range p.poolConfig.retunes {
		most = max(most, p.poolConfig.retunes[i].Limit)
	}
	if run > most+p.reaped {
		return fmt.Errorf("I1: %d streams run at a limit of %d, %d reaped by mistake", run, most, p.reaped)
	}
	if err := p.checkOverride(); err != nil {
		return err
	}
	return p.checkSpares()
}

// checkAtRest lets all workers act until nothing changes. Then the record must say the truth, and no ticket may wait
// while a permit is free. Then it ends all streams, and nothing may be left.
func (p *pool) checkAtRest() error {
	s := p.clone().(*pool)
	s.faults = faults{}
	if err := s.comeToRest(); err != nil {
		return err
	}
	if err := s.checkTruth(); err != nil {
		return err
	}
	if err := s.checkSaid(); err != nil {
		return err
	}
	for range 2 * len(s.requests) {
		for r := range s.requests {
			if q := &s.requests[r]; q.now == phaseRunning || q.now == phaseStreaming {
				s.finish(q.worker, r)
				if err := s.comeToRest(); err != nil {
					return err
				}
			}
		}
	}
	return s.checkDrained()
}

// comeToRest runs ticks and deliveries until nothing is left to do.
func (p *pool) comeToRest() error {
	for range 100 {
		moved, err := p.round()
		if err != nil {
			return err
		}
		if !moved {
			return nil
		}
	}
	return errors.New("never comes to rest")
}

// round lets the dead be declared dead, and then each worker do what it has to do.
func (p *pool) round() (moved bool, err error) {
	before := p.key(nil)
	for i := range p.workers {
		w := &p.workers[i]
		if w.crashed && !slices.Contains(p.dead, w.Worker) && p.seated(w.Worker) {
			p.declare(i)
		}
	}
	for _, kind := range []uint8{actStep, actSend, actDeliver, actBeat, actMaintain, actAssert} {
		most := 100
		if kind == actMaintain {
			most = len(p.workers) + 2 // with a mutant it may never be done
		}
		for range most {
			if found, err := p.doFirst(func(a action) bool { return a.kind == kind }); err != nil {
				return false, err
			} else if !found {
				break
			}
		}
	}
	for _, kind := range []uint8{actReconcile, actDrop, actAge, actDecide, actExpire} {
		for i := range p.workers {
			fits := func(a action) bool { return a.kind == kind && int(a.who) == i && (kind != actAge || a.what == 1) }
			if _, err := p.doFirst(fits); err != nil {
				return false, err
			}
		}
	}
	if string(before) == string(p.key(nil)) {
		if _, err := p.doFirst(func(a action) bool { return a.kind == actWait }); err != nil {
			return false, err
		}
	}
	return string(before) != string(p.key(nil)), nil
}

// doFirst does the first action that fits, and all that it begins; false: there is none.
func (p *pool) doFirst(fits func(action) bool) (found bool, err error) {
	acts := p.actions(nil)
	at := slices.IndexFunc(acts, fits)
	if at < 0 {
		return false, nil
	}
	if err := p.do(acts[at]); err != nil {
		return true, err
	}
	for !p.quiet() {
		acts = p.actions(nil)
		at = slices.IndexFunc(acts, func(a action) bool { return a.kind == actStep || a.kind == actSend })
		if err := p.do(acts[at]); err != nil {
			return true, err
		}
	}
	return true, nil
}

// checkTruth checks that the record says what is true (I3, I8), and that no permit is free while a ticket waits (I4).
func (p *pool) checkTruth() error {
	var r admission.Record
	if p.record != nil {
		if err := r.Decode(p.record); err != nil {
			return err
		}
	}
	alive := false
	for i := range p.workers {
		w := &p.workers[i]
		if !w.born || w.crashed {
			continue
		}
		alive = true
		if len(w.journal) > 0 {
			return fmt.Errorf("I7b: the journal of worker %d is never stored", i)
		}
		run, wait := 0, 0
		for _, q := range p.requests {
			if q.worker == i {
				run += int(bit(q.now == phaseRunning))
				wait += int(bit(q.now == phaseWaiting))
			}
		}
		c := admission.Column{Worker: w.Worker}
		for _, have := range r.Columns {
			if have.Seat == w.Seat {
				c = have
				c.Ahead = false // a mark costs nothing where there is no spare
			}
		}
		if want := (admission.Column{Worker: w.Worker, Inflight: uint32(run), Tickets: uint32(wait)}); c != want {
			return fmt.Errorf("I3: column %+v, the truth is %+v", c, want)
		}
		r.Columns = slices.DeleteFunc(r.Columns, func(c admission.Column) bool { return c.Seat == w.Seat })
	}
	if !alive {
		return nil // no worker is there to maintain anything; the next one will
	}
	if len(r.Columns) > 0 {
		return fmt.Errorf("I8: columns of the dead: %+v", r.Columns)
	}
	return p.checkWaiters()
}

// checkWaiters checks that no ticket waits longer than its budget (I7), or while a permit is free (I4).
func (p *pool) checkWaiters() error {
	var r admission.Record
	if r.Decode(p.record) != nil {
		return nil
	}
	for i := range r.Queue.Len() {
		if t := r.Queue.At(i); t.Deadline <= p.time() {
			return fmt.Errorf("I7: %+v waits at %d", t, p.time())
		} else if r.Inflight()+r.OnHold() < int(r.Limit) {
			return fmt.Errorf("I4: %+v waits, and %d of %d permits are inflight, %d on hold", t, r.Inflight(), r.Limit, r.OnHold())
		}
	}
	return nil
}

// checkSaid checks that what releases said has arrived (I7b): as many permits are on hold as requests ran to their end.
// A worker that crashed may have kept it to itself.
func (p *pool) checkSaid() error {
	if !p.hold {
		return nil
	}
	least, most := 0, 0
	for _, q := range p.requests {
		most += int(bit(q.said))
		least += int(bit(q.said && !p.workers[q.worker].crashed))
	}
	var r admission.Record
	if p.record != nil {
		if err := r.Decode(p.record); err != nil {
			return err
		}
	}
	least = min(least, int(r.Limit))
	if n := r.OnHold(); n < least || n > most {
		return fmt.Errorf("I7b: %d permits on hold, and %d to %d releases said so", n, least, most)
	}
	return nil
}

// checkOrder checks that a worker's requests wait in the order in which they came to it (I5).
func (p *pool) checkOrder(i int) error {
	var r admission.Record
	if r.Decode(p.record) != nil {
		return nil
	}
	last := uint32(0)
	for k := range r.Queue.Len() {
		if t := r.Queue.At(k); t.Seat == p.workers[i].Seat {
			if t.Seq < last {
				return fmt.Errorf("I5: request %d of worker %d waits behind request %d", t.Seq-1, i, last-1)
			}
			last = t.Seq
		}
	}
	return nil
}

// checkDrained checks that all requests came to an end, and that nothing is left in the record (I3). A request may wait
// for good where no permit is left: the limit is 0, or all are on hold.
func (p *pool) checkDrained() error {
	var r admission.Record
	read := p.record != nil && r.Decode(p.record) == nil
	starved := p.isClosed() || p.hold && r.OnHold() >= int(r.Limit)
	waiting := 0
	for i, q := range p.requests {
		waiting += int(bit(q.now == phaseWaiting))
		if q.now != phaseAhead && q.now != phaseDone && q.now != phaseCut && (q.now != phaseWaiting || !starved) {
			return fmt.Errorf("request %d is in phase %s for good", i, phaseNames[q.now])
		}
	}
	alive := slices.ContainsFunc(p.workers, func(w poolWorker) bool { return w.born && !w.crashed })
	if !alive || p.record == nil || p.isClosed() {
		return nil
	}
	if !read || r.Inflight() > 0 || r.Queue.Len() != waiting || !p.hold && !r.Idle() {
		return fmt.Errorf("I3: drained, and left: %+v", r)
	}
	return nil
}
