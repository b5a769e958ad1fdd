package filter

import (
	"strconv"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/filter/abi"
)

// beatsPerLease is how often in a lease a worker beats: four beats may be late before it is declared dead.
const beatsPerLease = 5

// A worker is a plugin context's part in the domain's worker table.
type worker struct {
	seat  admission.Worker // Epoch 0: none
	beat  int64            // when the lease was last renewed
	seq   uint32           // the last ticket number given out
	queue uint32           // id of the seat's shared queue
	vmID  string

	table     admission.WorkerTable
	live      admission.WorkerTable // the table as a reaping operation reads it
	dead      []admission.Worker
	swept     []admission.Worker // dead workers whose records have been seen to
	nextSweep int64              // when they are seen to again
	queues    [admission.MaxWorkers]uint32

	complained int64 // when a line that requests can provoke was last logged

	ticker
	message [messageBytes]byte
}

func (p *plugin) beatInterval() int64 { return int64(p.cfg.Lease) / beatsPerLease }

// sit makes sure that this context has a living seat before it touches a record; false if the store failed.
func (p *plugin) sit() bool {
	dead := p.nextDeath > 0 && p.now >= p.nextDeath
	if p.seat.Epoch != 0 && !dead && p.now-p.beat < 2*p.beatInterval() {
		return true
	}
	return p.renew()
}

// renew beats, or claims a seat if there is none or it has gone to somebody else.
func (p *plugin) renew() bool {
	for range maxSwaps {
		cas := p.readTable(&p.table)
		full := p.table.Full()
		seat, ok := p.seat, true
		if !p.table.Beat(seat, p.now, p.cfg.Lease) {
			seat, ok = p.table.Reclaim(seat, random(), p.now, p.cfg.Lease)
		}
		if !ok {
			if p.mayComplain() {
				abi.Log(abi.LogError, "no seat left in the worker table of domain "+p.cfg.Domain)
			}
			return false
		}
		if p.storeTable(cas) {
			p.beat = p.now
			displaced := seat != p.seat && (p.seat.Epoch != 0 || full)
			if seat != p.seat {
				p.settle(seat)
			}
			p.sweep(displaced)
			return true
		}
	}
	return false
}

// settle takes a new seat: grants for it arrive in its queue, and what was counted under an old one is counted anew.
func (p *plugin) settle(seat admission.Worker) {
	p.seat = seat
	p.queue, _ = abi.RegisterQueue(p.queueName(seat.Slot))
	if p.vmID == "" {
		id, _ := abi.Property("plugin_vm_id")
		p.vmID = string(id)
	}
	p.each(func(k *key) {
		if k.involved() {
			p.mark(k)
		}
	})
}

// sweep takes back what dead workers hold: as soon as one is seen to have died, again each lease as long as one is there,
// since a dying worker may have written last after it was swept, and when a seat was displaced whose dead worker nobody hears
// of any more: this context's own former one's, or in a full table somebody's.
func (p *plugin) sweep(displaced bool) {
	p.nextDeath = p.table.NextDeath(p.seat, p.now)
	p.dead = p.table.AppendDead(p.dead[:0], p.now)
	fresh := displaced || len(p.dead) > 0 && p.now >= p.nextSweep
	for _, w := range p.dead {
		fresh = fresh || !contains(p.swept, w)
	}
	p.swept = append(p.swept[:0], p.dead...)
	if fresh {
		p.nextSweep = p.now + int64(p.cfg.Lease)
		p.tend(false)
	}
}

func contains(ws []admission.Worker, w admission.Worker) bool {
	for _, v := range ws {
		if v == w {
			return true
		}
	}
	return false
}

// mayComplain bounds how often a line is logged that requests can provoke.
func (p *plugin) mayComplain() bool {
	if p.complained > 0 && p.now-p.complained < int64(admission.Minute) {
		return false
	}
	p.complained = p.now
	return true
}

// leave gives the seat up, once nothing is held or waited for.
func (p *plugin) leave() {
	for try := 0; p.seat.Epoch != 0 && try < maxSwaps; try++ {
		cas := p.readTable(&p.table)
		if p.doubt && p.table.Alone(p.seat) {
			p.recount(cas)
		}
		p.table.Leave(p.seat)
		if p.storeTable(cas) {
			p.seat = admission.Worker{}
		}
	}
}

func (p *plugin) tableKey() string { return dataPrefix + p.cfg.Domain + "/workers" }

func (p *plugin) queueName(slot uint16) string {
	return dataPrefix + p.cfg.Domain + "/queue/" + strconv.Itoa(int(slot))
}

func (p *plugin) readTable(t *admission.WorkerTable) (cas uint32) {
	b, cas, s := abi.GetShared(p.tableKey())
	if s != abi.StatusOK {
		b, cas = nil, abi.CreateIfAbsent
	}
	t.Decode(b)
	return cas
}

func (p *plugin) storeTable(cas uint32) bool {
	p.out = p.table.Append(p.out[:0])
	return abi.SetShared(p.tableKey(), p.out, cas) == abi.StatusOK
}

// random is a random number: two VMs can start in the same nanosecond, so a time would not tell them apart.
func random() uint64 {
	var b [8]byte
	abi.Random(b[:])
	e := uint64(1)
	for _, c := range b {
		e = e<<8 | uint64(c)
	}
	return e
}

// A message tells a worker that one of its tickets was granted: epoch, then ticket number, little endian.
const messageBytes = 12

// tell sends a grant to its worker. A message that is lost costs time only: the tick looks for grants too.
func (p *plugin) tell(g admission.Grant) {
	id := p.queues[g.Slot]
	if id == 0 {
		q, s := abi.ResolveQueue(p.vmID, p.queueName(g.Slot))
		if s != abi.StatusOK {
			return
		}
		id = q + 1
		p.queues[g.Slot] = id
	}
	for i := range 8 {
		p.message[i] = byte(g.Epoch >> (8 * i))
	}
	for i := range 4 {
		p.message[8+i] = byte(g.Seq >> (8 * i))
	}
	abi.Enqueue(id-1, p.message[:])
}

func readMessage(b []byte) (epoch uint64, seq uint32, ok bool) {
	if len(b) != messageBytes {
		return 0, 0, false
	}
	for i := range 8 {
		epoch |= uint64(b[i]) << (8 * i)
	}
	for i := range 4 {
		seq |= uint32(b[8+i]) << (8 * i)
	}
	return epoch, seq, true
}

// OnQueueReady lets granted waiters go on.
func (p *plugin) OnQueueReady(queue uint32) {
	p.begin()
	p.releaseLeaving()
	if queue == p.queue {
		p.drain()
	}
	p.flush()
}

// drain takes grants out of the queue as long as this callback may act on them; the host calls once for each message, so
// none is forgotten.
func (p *plugin) drain() {
	for p.actions < maxActions {
		b, s := abi.Dequeue(p.queue)
		if s != abi.StatusOK {
			return
		}
		epoch, seq, ok := readMessage(b)
		if !ok || epoch != p.seat.Epoch {
			continue
		}
		if s := p.waiting[seq]; s != nil {
			p.verify(s)
		}
	}
}

// verify looks whether a waiter that a message calls granted is: anybody can write to a queue.
func (p *plugin) verify(s *stream) {
	k := s.at
	state, _, status := abi.GetShared(k.data)
	if status != abi.StatusOK {
		p.mark(k)
		return
	}
	p.prepare(&p.op, admission.OpSync, k).Seq = s.seq
	standing, e := p.machine.Look(state, &p.op)
	switch standing {
	case admission.StandingGranted:
		p.stopWaiting(s)
		s.take(e)
		s.carryOn()
	case admission.StandingUnknown:
		p.sync(k)
	}
}
