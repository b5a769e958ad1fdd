package admission_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/admissiontest"
)

// places is a small world around a directory: workers that use keys of which there are more than slots, one host call at
// a time, as filter/place.go does. Each key has a limit of 1, so two streams of one key at once mean that two records
// were in use for it.
type places struct {
	*placesConfig
	dir     cell
	slots   []cell
	workers []tenantOfSlots
	uses    []use
	crashes int
	reaps   int
	claims  uint64
	reaped  map[string]int // permits taken from living workers, by key
}

type placesConfig struct {
	maxKeys int
	mutated placesMutant
	m       *admission.Machine
	w       *admissiontest.Watch
	d       *admission.Directory
}

type placesMutant uint8

const (
	mutantRetireBusy      placesMutant = iota + 1 // a record is retired although it is in use
	mutantNoGenerations                           // a slot's next key has it under the same generation
	mutantNoRetire                                // a slot changes hands without its record being retired
	mutantBlindDirectory                          // the directory is set without compare
	mutantNoSecondLook                            // a key goes on with a place that was found stale
	mutantStaleDirectory                          // the directory is read again behind the retired record
	mutantRetireForgetful                         // retiring leaves no trace
)

// A cell is one value of shared data.
type cell struct {
	b       []byte
	version uint32
}

// A use is one stream of one key.
type use struct {
	worker int
	key    string
	now    phase
}

// A tenantOfSlots is a worker.
type tenantOfSlots struct {
	admission.Worker
	crashed bool
	known   map[string]admission.Place
	dirty   map[string]bool
	job     *job
}

// A job is a worker's operation on a key: first the place, then the record.
type job struct {
	kind    admission.OpKind
	use     int
	key     string
	then    *job // what a sync in the middle goes back to
	next    placeCall
	refused *admission.Place
	dir     cell // as it was read
	changed []byte
	victim  admission.Place // whose record is being retired
	place   admission.Place // of the key's own record
	tries   int
	listed  bool
	record  cell // as it was read
}

type placeCall uint8

const (
	callDirGet placeCall = iota
	callRetireGet
	callRetireSet
	callDirSet
	callRecordGet
	callRecordSet
)

const (
	actUse uint8 = iota
	actEnd
	actGoOn
	actHalt
	actReap
	actRepair
)

var placeActs = [...]string{"use", "end", "go on", "crash", "reap", "repair"}

var placeCalls = [...]string{"get directory", "get to retire", "set retired", "set directory", "get record", "set record"}

func (p *places) label(a action) string {
	return fmt.Sprintf("%s worker %d use %d", placeActs[a.kind], a.who, a.what)
}

func (p *places) String() string {
	p.d.Decode(p.dir.b)
	s := "directory"
	for i := range p.d.Len() {
		name, place := p.d.At(i)
		s += fmt.Sprintf(" %d:%s/%d", i, name, place.Gen)
	}
	for i, c := range p.slots {
		var r admission.Record
		if r.Decode(c.b) == nil {
			s += fmt.Sprintf("; record %d %s/%d retired %v used %d", i, r.Name, r.Gen, r.Retired, r.Inflight())
		}
	}
	for _, u := range p.uses {
		s += fmt.Sprintf("; %s %s", u.key, phaseNames[u.now])
	}
	for _, w := range p.workers {
		s += fmt.Sprintf("; worker %v %v", w.known, w.dirty)
		if j := w.job; j != nil {
			s += fmt.Sprintf(" %s %s: %s", kindNames[j.kind], j.key, placeCalls[j.next])
		}
	}
	return s
}

func (p *places) clone() system {
	c := *p
	c.slots, c.workers, c.uses = slices.Clone(p.slots), slices.Clone(p.workers), slices.Clone(p.uses)
	c.reaped = cloneMap(p.reaped)
	for i := range c.workers {
		w := &c.workers[i]
		w.known, w.dirty, w.job = cloneMap(w.known), cloneMap(w.dirty), w.job.clone()
	}
	return &c
}

func cloneMap[K comparable, V any](m map[K]V) map[K]V {
	c := make(map[K]V, len(m))
	for k, v := range m {
		c[k] = v
	}
	return c
}

func (j *job) clone() *job {
	if j == nil {
		return nil
	}
	c := *j
	c.then = j.then.clone()
	return &c
}

// key tells states apart by the order of their generations, not by how often slots have changed hands.
func (p *places) key(b []byte) []byte {
	ranks := p.generations()
	rank := func(gen uint32) uint64 { return uint64(slices.Index(ranks, gen)) }
	place := func(at admission.Place) { b = put(b, uint64(at.Slot), rank(at.Gen)) }
	directory := func(d []byte) {
		b = put(b, rank(countOf(d)))
		p.d.Decode(d)
		for i := range p.d.Len() {
			name, at := p.d.At(i)
			b = append(put(b, rank(at.Gen)), name...)
		}
		b = put(b, 99)
	}
	directory(p.dir.b)
	for _, s := range p.slots {
		if b = put(b, uint64(len(s.b))); s.b != nil {
			b = put(b, rank(binary.LittleEndian.Uint32(s.b[16:])))
			b = append(append(b, s.b[:16]...), s.b[20:]...)
		}
	}
	b = put(b, uint64(p.crashes), uint64(p.reaps), p.claims)
	for _, u := range p.uses {
		b = put(b, uint64(u.now))
	}
	for i := range p.workers {
		w := &p.workers[i]
		b = put(b, w.Epoch, bit(w.crashed))
		for _, k := range keyNames {
			at, ok := w.known[k]
			place(at)
			b = put(b, bit(ok), bit(w.dirty[k]), uint64(p.reaped[k]))
		}
		for j := w.job; j != nil; j = j.then {
			b = append(put(b, 1, uint64(j.kind), uint64(j.use), uint64(j.next), uint64(j.tries), bit(j.listed)), j.key...)
			place(j.victim)
			place(j.place)
			if j.refused != nil {
				place(*j.refused)
			}
			b = put(b, bit(j.dir.version == p.dir.version), bit(p.current(j)))
			directory(j.dir.b)
			directory(j.changed)
		}
		b = put(b, 0)
	}
	return b
}

// current says whether what a job has read of a record is still what is stored.
func (p *places) current(j *job) bool {
	slot := j.victim.Slot
	if j.next == callRecordSet {
		slot = j.place.Slot
	}
	return slot < len(p.slots) && p.slots[slot].version == j.record.version
}

// countOf is a directory's generation count.
func countOf(d []byte) uint32 {
	if len(d) < 5 {
		return 0
	}
	return binary.LittleEndian.Uint32(d[1:])
}

// generations are all those that anything refers to, in order.
func (p *places) generations() []uint32 {
	gens := []uint32{0}
	directory := func(d []byte) {
		gens = append(gens, countOf(d))
		p.d.Decode(d)
		for i := range p.d.Len() {
			_, at := p.d.At(i)
			gens = append(gens, at.Gen)
		}
	}
	directory(p.dir.b)
	for _, s := range p.slots {
		if s.b != nil {
			gens = append(gens, binary.LittleEndian.Uint32(s.b[16:]))
		}
	}
	for i := range p.workers {
		for _, at := range p.workers[i].known {
			gens = append(gens, at.Gen)
		}
		for j := p.workers[i].job; j != nil; j = j.then {
			gens = append(gens, j.victim.Gen, j.place.Gen)
			if j.refused != nil {
				gens = append(gens, j.refused.Gen)
			}
			directory(j.dir.b)
			directory(j.changed)
		}
	}
	slices.Sort(gens)
	return slices.Compact(gens)
}

var keyNames = []string{"a", "b", "c"}

func (p *places) quiet() bool {
	return !slices.ContainsFunc(p.workers, func(w tenantOfSlots) bool { return w.job != nil })
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
		if p.reaps > 0 {
			acts = append(acts, action{actReap, who, 0})
		}
		if w.job != nil {
			acts = append(acts, action{actGoOn, who, 0})
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
	case actRepair:
		delete(w.dirty, keyNames[a.what])
		p.begin(w, &job{kind: admission.OpReconcile, key: keyNames[a.what]})
	case actGoOn:
		if err := p.goOn(int(a.who)); err != nil {
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

func (p *places) begin(w *tenantOfSlots, j *job) {
	j.next = callDirGet
	if place, ok := w.known[j.key]; ok {
		p.toRecord(j, place)
	}
	w.job = j
}

func (p *places) toRecord(j *job, place admission.Place) {
	j.next, j.place = callRecordGet, place
}

// reap takes a worker's columns out of all records at once; should it live, it counts anew under a new epoch.
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
		op := &admission.Op{Kind: admission.OpMaintain, Target: admission.Target{Now: earlyTime, Gen: place.Gen, Name: "tended"}, Live: admissiontest.Alive(living...)}
		next, e := p.m.Step(p.slots[slot].b, op)
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
		p.reaps--
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

func (p *places) involved(i int, key string) bool {
	return slices.ContainsFunc(p.uses, func(u use) bool { return u.worker == i && u.key == key && u.now == phaseRunning })
}

// goOn makes the next host call.
func (p *places) goOn(i int) error {
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
		p.settle(w, j)
	case callRecordGet:
		j.dir, j.victim, j.tries, j.listed, j.refused = cell{}, admission.Place{}, 0, false, nil
		j.record = *p.grow(j.place.Slot)
		j.next = callRecordSet
	case callRecordSet:
		return p.act(i, w, j)
	}
	return nil
}

func (p *places) grow(slot int) *cell {
	for len(p.slots) <= slot {
		p.slots = append(p.slots, cell{})
	}
	return &p.slots[slot]
}

// locate is the filter's, up to its next host call.
func (p *places) locate(i int, w *tenantOfSlots, j *job) {
	p.d.Decode(j.dir.b)
	place, found := p.d.Lookup(j.key)
	if found && (j.refused == nil || place != *j.refused || p.mutated == mutantNoSecondLook) {
		w.known[j.key], j.changed = place, nil
		p.toRecord(j, place)
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

// tryNext looks at the next slot for an idle record; the request shares the other key if there is none.
func (p *places) tryNext(w *tenantOfSlots, j *job) {
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
	return &admission.Op{Kind: admission.OpRetire, Target: admission.Target{Now: earlyTime, Gen: j.victim.Gen}}
}

// retired is what a job makes of the record that it retires.
func (p *places) retired(j *job) []byte {
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

func (p *places) retire(i int, w *tenantOfSlots, j *job) {
	j.record = *p.grow(j.victim.Slot)
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
func (p *places) assign(w *tenantOfSlots, j *job) {
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
		at := 5
		for range j.victim.Slot {
			at += 5 + int(j.changed[at+4])
		}
		copy(j.changed[at:at+4], []byte{byte(j.victim.Gen), byte(j.victim.Gen >> 8), 0, 0})
	}
}

func (p *places) settle(w *tenantOfSlots, j *job) {
	p.d.Decode(j.changed)
	place, _ := p.d.Lookup(j.key)
	w.known[j.key], j.changed = place, nil
	p.toRecord(j, place)
}

// act carries the job's operation out on the record that was read.
func (p *places) act(i int, w *tenantOfSlots, j *job) error {
	slot, gen := j.place.Slot, j.place.Gen
	op := &admission.Op{Kind: j.kind, Target: admission.Target{Now: earlyTime, Gen: gen, Name: j.key, Me: w.Worker, Limit: 1, Expect: p.involved(i, j.key)}, Seq: uint32(j.use + 1), Weight: 1}
	switch j.kind {
	case admission.OpAcquire:
		op.Assert = true
	case admission.OpRelease:
		op.Expect = true
	case admission.OpReconcile:
		n := uint32(0)
		for _, u := range p.uses {
			if u.worker == i && u.key == j.key && u.now == phaseRunning {
				n++
			}
		}
		op.Inflight = []admission.TenantInflight{{Weight: 1, Inflight: n}}
	}
	next, e := p.m.Step(j.record.b, op)
	*p.w = admissiontest.Watch{}
	if p.mutated == 0 {
		if err := p.w.Step(j.record.b, op, next, e); err != nil {
			return err
		}
	}
	c := &p.slots[slot]
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

// check: no two streams of a key at once, and no two records in use for one key.
func (p *places) check() error {
	run := map[string]int{}
	for _, u := range p.uses {
		if u.now == phaseRunning {
			if run[u.key]++; run[u.key] > 1+p.reaped[u.key] {
				return fmt.Errorf("I1: %d streams of key %s at a limit of 1", run[u.key], u.key)
			}
		}
	}
	used := map[string]int{}
	for i, s := range p.slots {
		var r admission.Record
		if s.b == nil {
			continue
		}
		if err := r.Decode(s.b); err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
		if r.Inflight() > 0 {
			if used[string(r.Name)]++; used[string(r.Name)] > 1 {
				return fmt.Errorf("I9: two records in use for key %s", r.Name)
			}
		}
	}
	return nil
}

// settled ends everything and checks that nothing is left, and that the directory is in order.
func (p *places) settled() error {
	s := p.clone().(*places)
	s.crashes, s.reaps = 0, 0
	for range 200 {
		acts := s.actions(nil)
		at := slices.IndexFunc(acts, func(a action) bool { return a.kind == actRepair || a.kind == actGoOn || a.kind == actReap })
		if at < 0 {
			if at = slices.IndexFunc(acts, func(a action) bool { return a.kind == actEnd }); at < 0 {
				break
			}
		}
		if err := s.do(acts[at]); err != nil {
			return err
		}
	}
	if !s.quiet() {
		return errors.New("never settles")
	}
	for i, c := range s.slots {
		var r admission.Record
		if c.b == nil || r.Decode(c.b) == nil && r.Idle() {
			continue
		}
		if slices.ContainsFunc(s.workers, func(w tenantOfSlots) bool { return !w.crashed }) {
			return fmt.Errorf("I3: drained, and left in record %d: %+v", i, r)
		}
	}
	s.d.Decode(s.dir.b)
	if s.d.Len() > s.maxKeys+p.spare() {
		return fmt.Errorf("I10: %d slots for %d keys", s.d.Len(), s.maxKeys)
	}
	return nil
}

// spare is how many slots more than max_keys there may be: those of keys that streams depend on after a false death.
func (p *places) spare() int {
	n := 0
	for _, r := range p.reaped {
		n += r
	}
	return n
}

func newPlaces(maxKeys, crashes, reaps int, uses ...use) *places {
	p := &places{placesConfig: &placesConfig{maxKeys: maxKeys, m: &admission.Machine{}, w: &admissiontest.Watch{}, d: &admission.Directory{}},
		uses: uses, crashes: crashes, reaps: reaps, reaped: map[string]int{}}
	for _, u := range uses {
		for len(p.workers) <= u.worker {
			p.claims++
			p.workers = append(p.workers, tenantOfSlots{Worker: admission.Worker{Seat: uint16(len(p.workers)), Epoch: p.claims << 32},
				known: map[string]admission.Place{}, dirty: map[string]bool{}})
		}
	}
	return p
}

func placesScopes() []scope {
	use := func(worker int, key string) use { return use{worker: worker, key: key} }
	return []scope{
		{name: "1 slot, 2 keys, 2 workers", states: 3415, start: func() system { return newPlaces(1, 0, 0, use(0, "a"), use(0, "b"), use(1, "a"), use(1, "b")) }},
		{name: "1 slot, 2 keys, 3 workers", states: 84735, start: func() system { return newPlaces(1, 0, 0, use(0, "a"), use(1, "b"), use(2, "a")) }},
		{name: "2 slots, 3 keys, 2 workers", states: 12141, start: func() system {
			return newPlaces(2, 0, 0, use(0, "a"), use(0, "b"), use(1, "c"), use(1, "a"))
		}},
		{name: "1 slot, 2 keys, crash", states: 1860, start: func() system { return newPlaces(1, 1, 0, use(0, "a"), use(0, "b"), use(1, "a")) }},
		{name: "1 slot, 2 keys, false death", states: 22590, start: func() system { return newPlaces(1, 0, 1, use(0, "a"), use(1, "b"), use(1, "a")) }},
		{name: "2 slots, 3 keys, 3 workers, crash", states: 3079238, start: func() system {
			return newPlaces(2, 1, 0, use(0, "a"), use(1, "b"), use(2, "c"), use(2, "a"))
		}, big: true},
	}
}

func TestExplorePlaces(t *testing.T) { exploreScopes(t, placesScopes()) }

// TestExploreRandomPlaces walks at random through a bigger world of keys.
func TestExploreRandomPlaces(t *testing.T) {
	walks := 2000
	if *exploreBig {
		walks = 20_000
	}
	exploreRandomly(t, "2 slots, 3 keys, 3 workers, all faults", func() system {
		var uses []use
		for i := range 9 {
			uses = append(uses, use{worker: i / 3, key: keyNames[i*2%3]})
		}
		return newPlaces(2, 1, 1, uses...)
	}, *exploreSeed, walks)
}
