package journal

import (
	"strconv"

	"github.com/headgate/headgate/filter/abi"
	"github.com/headgate/headgate/filter/records"
)

// The table of places, in shared data: who reports in a domain, and who asks. A context takes a place when it first has
// something to tell or to ask, and has it until it ends. The seats of package records are no good for that: a worker
// that is idle has none, and its journal is still to be told.
//
// To each place belong a shared queue and a shared data key for the report. A context that dies with its VM leaves its
// place taken. Whoever has asked it in vain for a while frees the place.

// mostPlaces bounds the table: two for each worker, and more for a while after configuration changes.
const mostPlaces = 256

const (
	placesVersion = 1
	placeBytes    = 17
	placeTries    = 3

	// checkEvery is how often a context looks whether it still has its place.
	checkEvery = int64(30e9)
)

// A role is what a place is for.
type role byte

const (
	roleNone role = iota // the place is free
	roleReporter
	roleAsker
)

type place struct {
	role role
	id   uint64 // of the context
	vm   uint64 // in which it is
}

// vmID tells the VMs apart: a random number, which all contexts of one VM share.
var vmID uint64

func random() uint64 {
	var b [8]byte
	abi.Random(b[:])
	return max(abi.Uint64(b[:]), 1)
}

// thisVM is the id of this VM.
func thisVM() uint64 {
	if vmID == 0 {
		vmID = random()
	}
	return vmID
}

// A post is a context's own place, and what it knows of the others.
type post struct {
	_ incomparable

	domain  string
	role    role
	id      uint64
	at      int // its place, if it is held
	held    bool
	checked int64 // when it was last seen to be held
	queue   uint32

	table  []place
	queues [mostPlaces]uint32 // ids by place, plus one; 0: not known yet
	hostVM string             // the namespace of queues
	out    []byte             // scratch
}

func (p *post) key(name string) string { return records.Prefix + p.domain + name }

func (p *post) queueName(at int) string { return p.key("/journal/" + strconv.Itoa(at)) }

// reportKey is the shared data key of the report of a place.
func (p *post) reportKey(at int) string { return p.key("/report/" + strconv.Itoa(at)) }

// read reads the table.
func (p *post) read() (cas uint32, ok bool) {
	b, cas, status := abi.GetShared(p.key("/places"))
	p.table = p.table[:0]
	switch {
	case status == abi.StatusNotFound:
		return abi.CreateIfAbsent, true
	case status != abi.StatusOK:
		return 0, false
	case len(b) == 0 || b[0] != placesVersion:
		return cas, true
	}
	for b = b[1:]; len(b) >= placeBytes && len(p.table) < mostPlaces; b = b[placeBytes:] {
		p.table = append(p.table, place{role(b[0]), get64(b[1:]), get64(b[9:])})
	}
	return cas, true
}

func (p *post) store(cas uint32) abi.Status {
	p.out = append(p.out[:0], placesVersion)
	for i := range p.table {
		t := &p.table[i]
		p.out = put64(put64(append(p.out, byte(t.role)), t.id), t.vm)
	}
	return abi.SetShared(p.key("/places"), p.out, cas)
}

// keep makes sure that the context has its place. It asks the store once, and then again from time to time.
func (p *post) keep(now int64) {
	if p.held && now-p.checked < checkEvery {
		return
	}
	for range placeTries {
		cas, ok := p.read()
		if !ok {
			return
		}
		if p.checked = now; p.held && p.at < len(p.table) && p.table[p.at].id == p.id {
			return
		}
		if p.id == 0 {
			p.id = random()
		}
		at := p.free()
		p.table[at] = place{p.role, p.id, thisVM()}
		switch p.store(cas) {
		case abi.StatusOK:
			p.at, p.held = at, true
			p.queue, _ = abi.RegisterQueue(p.queueName(at))
			return
		case abi.StatusCasMismatch:
		default:
			return
		}
	}
}

// free finds a free place in the table that was read, and adds one if need be. If there is none, it is anyone's: that
// context looks for another one soon.
func (p *post) free() int {
	for i := range p.table {
		if p.table[i].role == roleNone {
			return i
		}
	}
	if n := len(p.table); n < mostPlaces {
		p.table = append(p.table, place{})
		return n
	}
	return int(p.id % mostPlaces)
}

// leave frees a place, if it is still that context's.
func (p *post) leave(at int, id uint64) {
	for range placeTries {
		cas, ok := p.read()
		if !ok || at >= len(p.table) || p.table[at].id != id {
			return
		}
		p.table[at] = place{}
		if p.store(cas) != abi.StatusCasMismatch {
			return
		}
	}
}

// send sends a message to the context that has a place.
func (p *post) send(at int, message []byte) {
	if at >= mostPlaces {
		return
	}
	id := p.queues[at]
	if id == 0 {
		if p.hostVM == "" {
			vm, _ := abi.Property("plugin_vm_id")
			p.hostVM = string(vm)
		}
		q, s := abi.ResolveQueue(p.hostVM, p.queueName(at))
		if s != abi.StatusOK {
			return
		}
		id = q + 1
		p.queues[at] = id
	}
	abi.Enqueue(id-1, message)
}
