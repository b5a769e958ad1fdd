package admission_test

import (
	"errors"
	"fmt"
	"slices"

	"github.com/headgate/headgate/admission"
)

// check is what must hold at any time: no more streams run than the limit allows, but for those of workers that were
// declared dead by mistake.
func (p *pool) check() error {
	run := 0
	for _, r := range p.requests {
		if r.now == phaseRunning || r.now == phaseStreaming {
			run++
		}
	}
	if most := max(p.first, p.raise); run > most+p.reaped {
		return fmt.Errorf("I1: %d streams run at a limit of %d, %d reaped by mistake", run, most, p.reaped)
	}
	return nil
}

// settled lets everybody act until nothing changes, checks that the record is the truth and that nobody waits in vain,
// and then ends all streams and checks that nothing is left.
func (p *pool) settled() error {
	s := p.clone().(*pool)
	s.crashes, s.losses, s.falseDeaths, s.exhaustions, s.raises = 0, 0, 0, 0, 0
	if err := s.settle(); err != nil {
		return err
	}
	if err := s.truthful(); err != nil {
		return err
	}
	for range 2 * len(s.requests) {
		for r := range s.requests {
			if q := &s.requests[r]; q.now == phaseRunning || q.now == phaseStreaming {
				if err := s.finish(q.worker, r); err != nil {
					return err
				}
				if err := s.settle(); err != nil {
					return err
				}
			}
		}
	}
	return s.drained()
}

// settle runs ticks and deliveries until nothing is left to do.
func (p *pool) settle() error {
	for range 100 {
		moved, err := p.round()
		if err != nil {
			return err
		}
		if !moved {
			return nil
		}
	}
	return errors.New("never settles")
}

func (p *pool) round() (moved bool, err error) {
	before := p.key(nil)
	for i := range p.workers {
		w := &p.workers[i]
		if w.crashed && !slices.Contains(p.dead, w.Worker) && p.seated(w.Worker) {
			p.declare(i)
		}
	}
	for _, kind := range []uint8{actStep, actSend, actDeliver, actBeat, actTend, actSync, actExpire} {
		for tries := range 100 {
			acts := p.actions(nil)
			at := slices.IndexFunc(acts, func(a action) bool { return a.kind == kind })
			if kind >= actSync && kind <= actExpire {
				at = slices.IndexFunc(acts, func(a action) bool { return a.kind == kind && int(a.who) == tries })
				if tries >= len(p.workers) {
					break
				}
				if at < 0 {
					continue
				}
			}
			if at < 0 {
				break
			}
			if err := p.do(acts[at]); err != nil {
				return false, err
			}
			for !p.quiet() {
				acts = p.actions(nil)
				at = slices.IndexFunc(acts, func(a action) bool { return a.kind == actStep || a.kind == actSend })
				if err := p.do(acts[at]); err != nil {
					return false, err
				}
			}
			if kind == actTend && tries > len(p.workers) {
				break
			}
		}
	}
	return string(before) != string(p.key(nil)), nil
}

// truthful checks that the record says what is true (I3, I8), and that no permit is free while somebody waits (I4).
func (p *pool) truthful() error {
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
			}
		}
		if want := (admission.Column{Worker: w.Worker, Inflight: uint32(run), Tickets: uint32(wait)}); c != want {
			return fmt.Errorf("I3: column %+v, the truth is %+v", c, want)
		}
		r.Columns = slices.DeleteFunc(r.Columns, func(c admission.Column) bool { return c.Seat == w.Seat })
	}
	if !alive {
		return nil // nobody is there to look after anything; the next worker will
	}
	if len(r.Columns) > 0 {
		return fmt.Errorf("I8: columns of the dead: %+v", r.Columns)
	}
	return p.waitsInVain()
}

func (p *pool) waitsInVain() error {
	var r admission.Record
	if r.Decode(p.record) != nil {
		return nil
	}
	for i := range r.Queue.Len() {
		if t := r.Queue.At(i); t.Deadline <= p.time() {
			return fmt.Errorf("I7: %+v waits at %d", t, p.time())
		} else if r.Inflight() < int(r.Limit) {
			return fmt.Errorf("I4: %+v waits, and %d of %d permits are used", t, r.Inflight(), r.Limit)
		}
	}
	return nil
}

func (p *pool) drained() error {
	alive := slices.ContainsFunc(p.workers, func(w shell) bool { return w.born && !w.crashed })
	for i, q := range p.requests {
		if q.now != phaseAhead && q.now != phaseDone && q.now != phaseCut && (q.now != phaseWaiting || p.limit > 0) {
			return fmt.Errorf("request %d is in phase %d for good", i, q.now)
		}
	}
	var r admission.Record
	if alive && p.limit > 0 && p.record != nil && (r.Decode(p.record) != nil || !r.Idle()) {
		return fmt.Errorf("I3: drained, and left: %+v", r)
	}
	return nil
}
