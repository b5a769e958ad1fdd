package journal

import "github.com/headgate/headgate/filter/abi"

const (
	// PatienceNanos is how long an answer waits for reports.
	PatienceNanos = int64(100e6)

	// mostMisses is how often a context is asked in vain before it is taken for dead.
	mostMisses = 5
	missEvery  = int64(1e9)
)

// An Asker is a context's part as one that asks.
type Asker struct {
	post
	reports []*read // by place; nil: nobody there is asked
	rounds  uint32  // of questions
}

// A read is what one who reports has said last, or the wait for it.
type read struct {
	Report
	id       uint64 // of who has the place
	bytes    []byte
	awaited  bool   // it has been asked and has not reported since
	asked    int64  // when it was last asked
	missed   uint32 // the last round whose answer was made without its report
	missedAt int64
	misses   int // how often, counted once in a second
}

// A Round is one question to all. The zero Round is none.
type Round struct {
	at     int64
	number uint32
}

// isMissing reports whether it has not reported since a question, and may do so yet.
func (r *read) isMissing(q Round) bool { return r.awaited && r.At < q.at && r.missed < q.number }

// NewAsker returns the asker of a context. It has no place yet.
func NewAsker(domain string) *Asker {
	return &Asker{post: post{domain: domain, role: roleAsker}, reports: make([]*read, mostPlaces)}
}

// IsAnswer reports whether a shared queue is the one in which answers come.
func (a *Asker) IsAnswer(queue uint32) bool { return a.held && queue == a.queue }

// Ask asks all who report. since is the last event that is known of a context's journal.
func (a *Asker) Ask(now int64, since func(id uint64) uint32) Round {
	a.rounds++
	a.keep(now)
	a.read()
	for at, r := range a.reports {
		if r != nil && (at >= len(a.table) || a.table[at].id != r.id) {
			a.reports[at] = nil
		}
	}
	for at := range a.table {
		t := &a.table[at]
		if t.role != roleReporter {
			continue
		}
		r := a.reports[at]
		if r == nil {
			r = &read{id: t.id}
			a.reports[at] = r
		}
		r.awaited, r.asked = true, now
		seq := since(t.id)
		a.send(at, put32([]byte{questionMark, byte(a.at), byte(a.at >> 8)}, seq))
	}
	return Round{now, a.rounds}
}

// Hear takes a message out of the queue and reads the report that it tells of; false: there is none.
func (a *Asker) Hear() bool {
	b, status := abi.Dequeue(a.queue)
	if status != abi.StatusOK {
		return false
	}
	if len(b) == answerBytes && b[0] == answerMark {
		if at := int(b[1]) | int(b[2])<<8; at < mostPlaces && a.reports[at] != nil {
			a.look(at, a.reports[at])
		}
	}
	return true
}

// look reads the report of a place.
func (a *Asker) look(at int, r *read) {
	b, _, status := abi.GetShared(a.reportKey(at))
	var head Report
	if status != abi.StatusOK || !head.Read(b) || head.ID != r.id {
		return
	}
	r.bytes = append(r.bytes[:0], b...) // the next host call uses the memory of this one again
	r.Read(r.bytes)
	if r.At >= r.asked {
		r.awaited, r.misses = false, 0
	}
}

// Answered reports whether all have reported since a question.
func (a *Asker) Answered(q Round) bool {
	for _, r := range a.reports {
		if r != nil && r.isMissing(q) {
			return false
		}
	}
	return true
}

// GiveUp ends the wait for those that have not reported since a question. Their message may be lost, and their report
// there. Who misses again and again is dead: its place is freed.
func (a *Asker) GiveUp(q Round, now int64) {
	for place, r := range a.reports {
		if r == nil || !r.isMissing(q) {
			continue
		}
		if a.look(place, r); !r.isMissing(q) {
			continue
		}
		if now-r.missedAt >= missEvery {
			r.misses, r.missedAt = r.misses+1, now
		}
		if r.missed = q.number; r.misses >= mostMisses {
			a.leave(place, r.id)
			a.reports[place] = nil
		}
	}
}

// EachReport calls f with the last report of each who reports.
//
//go:noinline // called from many places
func (a *Asker) EachReport(f func(*Report)) {
	for _, r := range a.reports {
		if r != nil && r.At > 0 {
			f(&r.Report)
		}
	}
}

// Workers is how many VMs have reported that decide requests, and this one.
func (a *Asker) Workers() int {
	seen := []uint64{thisVM()}
	a.EachReport(func(r *Report) {
		for _, vm := range seen {
			if vm == r.VM || r.VM == 0 {
				return
			}
		}
		seen = append(seen, r.VM)
	})
	return len(seen)
}

// Leave ends it with the context.
func (a *Asker) Leave() {
	if a.held {
		a.held = false
		a.leave(a.at, a.id)
	}
}
