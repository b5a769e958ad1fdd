package admission_test

import (
	"slices"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/admissiontest"
)

func (p *places) quiet() bool {
	return !slices.ContainsFunc(p.workers, func(w placesWorker) bool { return w.job != nil })
}

func (p *places) actions(acts []action) []action {
	for i := range p.workers {
		w := &p.workers[i]
		who := uint8(i)
		if w.crashed {
			if p.hasColumn(w.Worker) {
				acts = append(acts, action{actReap, who, 0})
			}
			continue
		}
		if p.crashes > 0 {
			acts = append(acts, action{actHalt, who, 0})
		}
		if p.falseDeaths > 0 {
			acts = append(acts, action{actReap, who, 0})
		}
		if w.job != nil {
			acts = append(acts, action{actCall, who, 0})
			continue
		}
		for u := range p.uses {
			if p.uses[u].worker != i {
				continue
			}
			switch p.uses[u].now {
			case phaseAhead:
				if u == 0 || p.uses[u-1].worker != i || p.uses[u-1].now != phaseAhead {
					acts = append(acts, action{actUse, who, uint8(u)})
				}
			case phaseRunning:
				acts = append(acts, action{actEnd, who, uint8(u)})
			}
		}
		acts = p.tuneActions(acts, i)
		for k, name := range keyNames {
			if w.dirty[name] {
				acts = append(acts, action{actRepair, who, uint8(k)})
			}
		}
	}
	return acts
}

func (p *places) hasColumn(w admission.Worker) bool {
	for _, s := range p.slots {
		var r admission.Record
		if r.Decode(s.b) == nil && slices.ContainsFunc(r.Columns, func(c admission.Column) bool { return c.Worker == w }) {
			return true
		}
	}
	return false
}

func (p *places) do(a action) error {
	w := &p.workers[a.who]
	switch a.kind {
	case actUse:
		p.uses[a.what].now = phaseAsking
		p.begin(w, &job{kind: admission.OpAcquire, use: int(a.what), key: p.uses[a.what].key})
	case actEnd:
		p.uses[a.what].now = phaseDone
		p.begin(w, &job{kind: admission.OpRelease, use: int(a.what), key: p.uses[a.what].key})
	case actTune:
		p.beginTune(w, int(a.what))
	case actRepair:
		delete(w.dirty, keyNames[a.what])
		p.begin(w, &job{kind: admission.OpReconcile, key: keyNames[a.what]})
	case actCall:
		if err := p.nextCall(int(a.who)); err != nil {
			return err
		}
	case actHalt:
		p.crashes--
		w.crashed, w.job = true, nil
		for u := range p.uses {
			if p.uses[u].worker == int(a.who) && p.uses[u].now != phaseDone {
				p.uses[u].now = phaseCut
			}
		}
	case actReap:
		if err := p.reap(int(a.who)); err != nil {
			return err
		}
	}
	return p.check()
}

func (p *places) begin(w *placesWorker, j *job) {
	j.next = callDirGet
	if place, ok := w.known[j.key]; ok {
		p.toRecord(j, place)
	} else if j.key == otherName {
		p.toRecord(j, admission.Place{Slot: otherSlot})
	}
	w.job = j
}

func (p *places) toRecord(j *job, place admission.Place) {
	j.next, j.place = callRecordGet, place
}

// reap takes a worker's columns out of all records at once. A worker that lives counts anew under a new epoch.
func (p *places) reap(i int) error {
	w := &p.workers[i]
	var living []admission.Worker
	for k := range p.workers {
		if k != i && !p.workers[k].crashed {
			living = append(living, p.workers[k].Worker)
		}
	}
	p.d.Decode(p.dir.b)
	for slot := range p.d.Len() {
		_, place := p.d.At(slot)
		if slot >= len(p.slots) || p.slots[slot].b == nil {
			continue
		}
		target := admission.Target{Now: earlyTime, Gen: place.Gen, Name: "maintained"}
		op := admission.Maintain(target, false, admissiontest.Alive(living...))
		next, e := p.m.Step(p.slots[slot].b, &op)
		if e.Changed {
			if e.Reaped > 0 && !w.crashed {
				var r admission.Record
				_ = r.Decode(next)
				p.reaped[string(r.Name)] += e.Reaped
			}
			p.slots[slot] = cell{slices.Clone(next), p.slots[slot].version + 1}
		}
	}
	if !w.crashed {
		p.falseDeaths--
		p.claims++
		w.Epoch = p.claims << 32
		for _, u := range p.uses {
			if u.worker == i && u.now == phaseRunning {
				w.dirty[u.key] = true
			}
		}
	}
	return nil
}

// inflight is how many streams of a key a worker runs.
func (p *places) inflight(i int, key string) (n uint32) {
	for _, u := range p.uses {
		if u.worker == i && u.key == key && u.now == phaseRunning {
			n++
		}
	}
	return n
}

func (p *places) involved(i int, key string) bool {
	return p.inflight(i, key) > 0
}

// nextCall makes the next host call.
func (p *places) nextCall(i int) error {
	w := &p.workers[i]
	j := w.job
	switch j.next {
	case callDirGet:
		j.dir = p.dir
		p.locate(i, w, j)
	case callRetireGet:
		p.retire(i, w, j)
	case callRetireSet:
		if c := p.grow(j.victim.Slot); c.version != j.record.version {
			j.next = callRetireGet
		} else {
			p.slots[j.victim.Slot] = cell{p.retired(j), c.version + 1}
			p.assign(w, j)
		}
	case callDirSet:
		if p.dir.version != j.dir.version && p.mutated != mutantBlindDirectory {
			j.next = callDirGet
			return nil
		}
		p.dir = cell{j.changed, p.dir.version + 1}
		p.takePlace(w, j)
	case callRecordGet:
		j.dir, j.victim, j.tries, j.listed, j.refused = cell{}, admission.Place{}, 0, false, nil
		j.record = *p.grow(j.place.Slot)
		j.next = callRecordSet
	case callRecordSet:
		return p.act(i, w, j)
	default:
		return p.nextTuneCall(w, j)
	}
	return nil
}

func (p *places) grow(slot int) *cell {
	for len(p.slots) <= slot {
		p.slots = append(p.slots, cell{})
	}
	return &p.slots[slot]
}

// locate is what the filter does to find a key's place, up to its next host call.
func (p *places) locate(i int, w *placesWorker, j *job) {
	p.d.Decode(j.dir.b)
	place, found := p.d.Lookup(j.key)
	if j.tuning.seen = p.d.Override(); j.kind == admission.OpRetune && !found {
		w.job = nil // there is no such key
		return
	}
	if found && (j.refused == nil || place != *j.refused || p.mutated == mutantNoSecondLook) {
		p.know(w, j, place)
		return
	}
	j.tries, j.listed = 0, found
	switch {
	case found:
		j.victim, j.next = place, callRetireGet
	case p.involved(i, j.key) || j.kind != admission.OpAcquire || p.d.CountUnconfigured(nil) < p.maxKeys:
		p.d.Add(j.key)
		j.changed, j.next = p.d.Append(nil), callDirSet
	default:
		p.tryNext(w, j)
	}
}

// tryNext looks at the next slot for an idle record. If there is none, the request shares the other key, and so leaves
// this world.
func (p *places) tryNext(w *placesWorker, j *job) {
	p.d.Decode(j.dir.b)
	if j.tries == p.d.Len() {
		p.uses[j.use].now = phaseDone
		w.job = nil
		return
	}
	_, place := p.d.At(j.tries)
	j.tries++
	j.victim, j.next = place, callRetireGet
	if p.mutated == mutantNoRetire {
		p.assign(w, j)
	}
}

func (p *places) retireOp(j *job) *admission.Op {
	op := admission.Retire(earlyTime, j.victim.Gen)
	return &op
}

// retired is what a job makes of the record that it retires.
func (p *places) retired(j *job) []byte {
	if p.mutated == mutantDropOwn {
		j.record.b = changed(j.record.b, func(r *admission.Record) { r.Source = admission.FromConfig })
	}
	if p.mutated == mutantRetireBusy {
		var r admission.Record
		if r.Decode(j.record.b) == nil && !r.Idle() {
			next, _ := p.m.Step(nil, p.retireOp(j))
			return slices.Clone(next)
		}
	}
	next, _ := p.m.Step(j.record.b, p.retireOp(j))
	if p.mutated == mutantRetireForgetful {
		return nil
	}
	return slices.Clone(next)
}

func (p *places) retire(i int, w *placesWorker, j *job) {
	j.record = *p.grow(j.victim.Slot)
	if p.mutated == mutantDropOwn {
		j.record.b = changed(j.record.b, func(r *admission.Record) { r.Source = admission.FromConfig })
	}
	_, e := p.m.Step(j.record.b, p.retireOp(j))
	verdict, changed := e.Verdict, e.Changed
	if p.mutated == mutantRetireBusy && verdict == admission.VerdictBusy {
		verdict, changed = admission.VerdictDone, true
	}
	switch {
	case verdict == admission.VerdictDone && changed:
		j.next = callRetireSet
	case verdict == admission.VerdictDone:
		p.assign(w, j)
	case j.listed:
		p.d.Decode(j.dir.b)
		p.d.RaiseGen(e.Gen)
		p.d.Vacate(j.victim.Slot)
		p.d.Add(j.key)
		j.changed, j.next = p.d.Append(nil), callDirSet
	default:
		p.tryNext(w, j)
	}
}

// assign gives the slot to the job's key, in the directory that was read before the record was retired.
func (p *places) assign(w *placesWorker, j *job) {
	if p.mutated == mutantStaleDirectory {
		j.dir = p.dir
	}
	p.d.Decode(j.dir.b)
	p.d.RaiseGen(j.victim.Gen)
	p.d.Assign(j.victim.Slot, j.key)
	j.changed, j.next = p.d.Append(nil), callDirSet
	if p.mutated == mutantNoGenerations {
		for k := range 4 { // the gen field of the slot's entry and the count before it stay what they were
			j.changed[1+k] = j.dir.b[1+k]
		}
		at := 10 // the directory's head
		for range j.victim.Slot {
			at += 5 + int(j.changed[at+4])
		}
		copy(j.changed[at:at+4], []byte{byte(j.victim.Gen), byte(j.victim.Gen >> 8), 0, 0})
	}
}

func (p *places) takePlace(w *placesWorker, j *job) {
	p.d.Decode(j.changed)
	place, _ := p.d.Lookup(j.key)
	p.know(w, j, place)
}

// know notes a key's place, and what its record is made under, by the directory that is decoded.
func (p *places) know(w *placesWorker, j *job, place admission.Place) {
	if w.known[j.key], j.changed = place, nil; p.mutated != mutantNotInherited {
		w.inherit[j.key] = p.d.Override()
	}
	p.toRecord(j, place)
}

// op makes a job's operation.
func (p *places) op(i int, w *placesWorker, j *job) admission.Op {
	seq := uint32(j.use + 1)
	target := admission.Target{Now: earlyTime, Gen: j.place.Gen, Name: j.key, Me: w.Worker, Limit: 1,
		Override: w.inherit[j.key], Expect: p.involved(i, j.key)}
	switch j.kind {
	case admission.OpRetune:
		return p.tuneOp(j, target, true)
	case admission.OpRelease:
		target.Expect = true
		return admission.Release(target, 0, seq, admission.Finish{})
	case admission.OpReconcile:
		inflight := []admission.TenantInflight{{Weight: 1, Inflight: p.inflight(i, j.key)}}
		return admission.Reconcile(target, admission.Truth{Inflight: inflight})
	}
	return admission.Acquire(target, admission.Request{Seq: seq, Weight: 1})
}

// act carries the job's operation out on the record that was read.
func (p *places) act(i int, w *placesWorker, j *job) error {
	op := p.op(i, w, j)
	next, e := p.m.Step(j.record.b, &op)
	*p.w = admissiontest.Watch{}
	if p.mutated == 0 {
		if err := p.w.Step(j.record.b, &op, next, e); err != nil {
			return err
		}
	}
	c := &p.slots[j.place.Slot]
	switch {
	case e.Verdict == admission.VerdictStale:
		refused := w.known[j.key]
		delete(w.known, j.key)
		j.refused, j.next = &refused, callDirGet
		return nil
	case e.Verdict == admission.VerdictFenced:
		if j.kind == admission.OpAcquire {
			w.job = &job{kind: admission.OpReconcile, key: j.key, then: j}
		} else {
			w.job = &job{kind: admission.OpReconcile, key: j.key}
		}
		p.begin(w, w.job)
		return nil
	case e.Changed && c.version != j.record.version:
		j.next = callRecordGet
		return nil
	case e.Changed:
		*c = cell{slices.Clone(next), c.version + 1}
	}
	if j.kind == admission.OpRetune {
		p.tuned(w, j, e.Changed)
		return nil
	}
	w.job = j.then
	if w.job != nil {
		p.begin(w, w.job)
	}
	if j.kind == admission.OpAcquire {
		if p.uses[j.use].now = phaseDone; e.Verdict == admission.VerdictGranted {
			p.uses[j.use].now = phaseRunning
		}
	}
	return nil
}
