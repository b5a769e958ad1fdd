package admin

import (
	"github.com/headgate/headgate/filter/abi"
	"github.com/headgate/headgate/filter/journal"
	"github.com/headgate/headgate/filter/records"
)

// The log has the events of all workers in shared data, where each worker's admin stage finds it. Events get their
// numbers when they are taken out of a report: so their numbers grow in the order in which they can be told, and an
// event whose report comes late is not passed over. The log also says which event of each journal it has last.
//
//	1 byte    logVersion
//	8 bytes   the number of the last event
//	2 bytes   how many journals
//	          for each: 8 bytes its id, 4 bytes the number of its last event here
//	          the events, oldest first: 2 bytes the length, 8 bytes the number, the event
const (
	logVersion   = 1
	logHead      = 11
	journalBytes = 12

	mostLogBytes = 128 << 10
	mostJournals = 256
	logTries     = 5
)

// A log is the log as it was read last.
type log struct {
	cas      uint32
	last     uint64
	journals []known
	events   []byte
	out      []byte // scratch
	fresh    []journal.Event
}

type known struct {
	id   uint64
	last uint32
}

func logKey(domain string) string { return records.Prefix + domain + "/events" }

// load reads the log; false: the store failed.
func (l *log) load(domain string) bool {
	b, cas, status := abi.GetShared(logKey(domain))
	l.cas, l.last, l.journals, l.events = cas, 0, l.journals[:0], l.events[:0]
	if status == abi.StatusNotFound {
		l.cas = abi.CreateIfAbsent
	} else if status != abi.StatusOK {
		return false
	}
	if len(b) < logHead || b[0] != logVersion {
		l.last = uint64(abi.WallMillis()) // numbers grow over a restart of Envoy, too
		return true
	}
	l.last = abi.Uint64(b[1:])
	n := int(b[9]) | int(b[10])<<8
	for b = b[logHead:]; n > 0 && len(b) >= journalBytes; n-- {
		l.journals = append(l.journals, known{abi.Uint64(b), uint32(abi.Uint64(b[4:]) >> 32)})
		b = b[journalBytes:]
	}
	l.events = append(l.events, b...)
	return true
}

// store writes the log. Its oldest events go when it is too long.
func (l *log) store(domain string) abi.Status {
	events := l.events
	for len(events) > mostLogBytes {
		events = events[2+eventBytes(events):]
	}
	l.out = abi.AppendUint64(append(l.out[:0], logVersion), l.last)
	l.out = append(l.out, byte(len(l.journals)), byte(len(l.journals)>>8))
	for i := range l.journals {
		k := &l.journals[i]
		l.out = abi.AppendUint64(l.out, k.id)
		l.out = append(l.out, byte(k.last), byte(k.last>>8), byte(k.last>>16), byte(k.last>>24))
	}
	l.out = append(l.out, events...)
	return abi.SetShared(logKey(domain), l.out, l.cas)
}

// eventBytes is the length of the first event.
func eventBytes(b []byte) int { return int(b[0]) | int(b[1])<<8 }

// known is the last event of a journal that the log has.
func (l *log) known(id uint64) uint32 {
	for i := range l.journals {
		if l.journals[i].id == id {
			return l.journals[i].last
		}
	}
	return 0
}

// note remembers the last event of a journal. The journal that was noted first gives way.
func (l *log) note(id uint64, last uint32) {
	for i := range l.journals {
		if l.journals[i].id == id {
			l.journals[i].last = last
			return
		}
	}
	if len(l.journals) == mostJournals {
		l.journals = append(l.journals[:0], l.journals[1:]...)
	}
	l.journals = append(l.journals, known{id, last})
}

// push gives an event its number.
func (l *log) push(e *journal.Event) {
	l.last++
	at := len(l.events)
	l.events = abi.AppendUint64(append(l.events, 0, 0), l.last)
	l.events = e.Append(l.events)
	n := len(l.events) - at - 2
	l.events[at], l.events[at+1] = byte(n), byte(n>>8)
}

// add stores one more event.
func (l *log) add(domain string, e *journal.Event) {
	for range logTries {
		if !l.load(domain) {
			return
		}
		l.push(e)
		if l.store(domain) != abi.StatusCasMismatch {
			return
		}
	}
}

// merge takes the events out of the reports that the log does not have yet.
func (l *log) merge(domain string, a *journal.Asker, now int64) {
	for range logTries {
		if !l.load(domain) {
			return
		}
		l.collect(a)
		if len(l.fresh) == 0 {
			return
		}
		wall := abi.WallMillis()
		for i := range l.fresh {
			e := &l.fresh[i]
			e.At = wall - max(now-e.At, 0)/millisecond
			l.push(e)
		}
		if l.store(domain) != abi.StatusCasMismatch {
			return
		}
	}
}

// collect gathers the events of the reports that the log does not have, oldest first.
func (l *log) collect(a *journal.Asker) {
	l.fresh = l.fresh[:0]
	a.EachReport(func(r *journal.Report) {
		last := l.known(r.ID)
		before := last
		r.EachEvent(func(b []byte) {
			var e journal.Event
			if !e.Decode(b) || int32(e.Seq-before) <= 0 {
				return
			}
			last = e.Seq
			l.fresh = append(l.fresh, e)
			for i := len(l.fresh) - 1; i > 0 && l.fresh[i].At < l.fresh[i-1].At; i-- {
				l.fresh[i], l.fresh[i-1] = l.fresh[i-1], l.fresh[i]
			}
		})
		if last != before {
			l.note(r.ID, last)
		}
	})
}
