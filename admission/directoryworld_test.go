package admission_test

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/admissiontest"
)

// places is a small world around a directory. Its workers use more keys than there are slots, one host call at a time,
// as filter/records/place.go does. Each key has a limit of 1, so two streams of one key at once mean that two records
// were in use for it.
type places struct {
	*placesConfig
	dir         cell
	slots       []cell
	workers     []placesWorker
	uses        []keyUse
	crashes     int
	falseDeaths int // how often a living worker may still be declared dead
	claims      uint64
	reaped      map[string]int // permits taken from living workers, by key
	tunes       []tune
	owned       map[string]bool // keys whose own override is stored
}

// A placesConfig is what doesn't change.
type placesConfig struct {
	maxKeys int
	mutated placesMutant
	m       *admission.Machine
	w       *admissiontest.Watch
	d       *admission.Directory
}

// A placesMutant is a fault in what the workers do.
type placesMutant uint8

const (
	mutantRetireBusy      placesMutant = iota + 1 // a record is retired although it is in use
	mutantNoGenerations                           // a slot's next key has it under the same generation
	mutantNoRetire                                // a slot changes hands without its record being retired
	mutantBlindDirectory                          // a set of the directory doesn't compare versions
	mutantNoSecondLook                            // a key goes on with a place that was found stale
	mutantStaleDirectory                          // the directory is read again after the record was retired
	mutantRetireForgetful                         // retiring leaves no trace
	mutantRecordsFirst                            // the override of the default goes into the records, and then into the directory
	mutantNoThirdLook                             // the directory is not looked at again after the records
	mutantOnlyThere                               // records that are not there are not made
	mutantNotInherited                            // a record is made without the override of the default
	mutantDropOwn                                 // a record with an override of its key's own is retired
)

// A cell is one value of shared data.
type cell struct {
	b       []byte
	version uint32
}

// A keyUse is one stream of one key.
type keyUse struct {
	worker int
	key    string
	now    phase
}

// A placesWorker is what the filter knows in one VM.
type placesWorker struct {
	admission.Worker
	crashed bool
	known   map[string]admission.Place
	inherit map[string]admission.Override // as was read with the place
	dirty   map[string]bool
	job     *job
}

// A job is a worker's operation on a key: first the place, then the record.
type job struct {
	kind    admission.OpKind
	use     int
	key     string
	then    *job // what goes on after a reconcile in the middle of it
	next    placeCall
	refused *admission.Place
	dir     cell // as it was read
	changed []byte
	victim  admission.Place // whose record is being retired
	place   admission.Place // of the key's own record
	tries   int
	listed  bool
	record  cell // as it was read
	tuning  tuning
}

type placeCall uint8

const (
	callDirGet placeCall = iota
	callRetireGet
	callRetireSet
	callDirSet
	callRecordGet
	callRecordSet
	callTuneDirGet
	callTuneDirSet
	callSpreadDirGet
	callSpreadGet
	callSpreadSet
	callLookAgain
)

const (
	actUse uint8 = iota
	actEnd
	actCall
	actHalt
	actReap
	actRepair
	actTune
)

var placeActs = [...]string{"use", "end", "call", "crash", "reap", "repair", "tune"}

var placeCalls = [...]string{"get directory", "get to retire", "set retired", "set directory", "get record",
	"set record", "get directory to tune", "set directory tuned", "get directory to spread", "get record to tune",
	"set record tuned", "look at directory again"}

func (p *places) label(a action) string {
	return fmt.Sprintf("%s worker %d use %d", placeActs[a.kind], a.who, a.what)
}

func (p *places) String() string {
	p.d.Decode(p.dir.b)
	s := fmt.Sprintf("directory %v", p.d.Override())
	for i := range p.d.Len() {
		name, place := p.d.At(i)
		s += fmt.Sprintf(" %d:%s/%d", i, name, place.Gen)
	}
	for i, c := range p.slots {
		var r admission.Record
		if r.Decode(c.b) == nil {
			s += fmt.Sprintf("; record %d %s/%d retired %v inflight %d limit %d from %d", i, r.Name, r.Gen, r.Retired, r.Inflight(), r.Limit, r.Source)
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
	c.reaped, c.owned, c.tunes = cloneMap(p.reaped), cloneMap(p.owned), slices.Clone(p.tunes)
	for i := range c.workers {
		w := &c.workers[i]
		w.known, w.dirty, w.job = cloneMap(w.known), cloneMap(w.dirty), w.job.clone()
		w.inherit = cloneMap(w.inherit)
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
		o := p.d.Override()
		b = put(b, uint64(o.Source), uint64(o.Limit))
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
	b = put(b, uint64(p.crashes), uint64(p.falseDeaths), p.claims)
	for _, u := range p.uses {
		b = put(b, uint64(u.now))
	}
	for _, t := range p.tunes {
		b = put(b, bit(t.begun))
	}
	for i := range p.workers {
		w := &p.workers[i]
		b = put(b, w.Epoch, bit(w.crashed))
		for _, k := range keyNames {
			at, ok := w.known[k]
			place(at)
			o := w.inherit[k]
			b = put(b, bit(ok), bit(w.dirty[k])|2*bit(p.owned[k]), uint64(p.reaped[k]), uint64(o.Source), uint64(o.Limit))
		}
		for j := w.job; j != nil; j = j.then {
			b = append(put(b, 1, uint64(j.kind), uint64(j.use), uint64(j.next), uint64(j.tries), bit(j.listed)), j.key...)
			place(j.victim)
			place(j.place)
			if j.refused != nil {
				place(*j.refused)
			}
			t := &j.tuning
			b = put(b, bit(j.dir.version == p.dir.version), bit(p.current(j)), uint64(t.tune), uint64(t.at),
				uint64(t.seen.Source), uint64(t.seen.Limit))
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
	if j.next == callRecordSet || j.next == callSpreadSet {
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

// use is a stream that is still to come.
func use(worker int, key string) keyUse { return keyUse{worker: worker, key: key} }

var keyNames = []string{"a", "b", "c", otherName}
