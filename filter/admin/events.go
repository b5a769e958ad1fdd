package admin

import (
	"github.com/headgate/headgate/filter/abi"
	"github.com/headgate/headgate/filter/journal"
)

const mostEvents = 500 // in one answer

var kindNames = [...]string{
	journal.Refused:         "refused",
	journal.Expired:         "expired",
	journal.Cancelled:       "cancelled",
	journal.Reaped:          "reaped",
	journal.BreakerOpened:   "breaker_opened",
	journal.BreakerHalfOpen: "breaker_half_open",
	journal.BreakerClosed:   "breaker_closed",
	journal.LimitChanged:    "limit_changed",
	journal.Waited:          "waited",
	journal.Ended:           "ended",
}

// writeEvents writes the events behind a number, oldest first. Where there are more than an answer holds, the next
// answer goes on.
func (s *Stage) writeEvents(q *query) {
	s.log.merge(s.cfg.Domain, s.asker, s.now)
	after, _ := wholeNumber(q.after)
	most := mostEvents
	if q.limit > 0 {
		most = min(q.limit, most)
	}
	w := &s.out
	w.raw(`{"events":[`)
	last, told := int64(s.log.last), 0
	for b := s.log.events; len(b) >= 2 && len(b) >= 2+eventBytes(b); b = b[2+eventBytes(b):] {
		body := b[2 : 2+eventBytes(b)]
		var e journal.Event
		if len(body) < 8 || !e.Decode(body[8:]) || int64(abi.Uint64(body)) <= after {
			continue
		}
		if told == most {
			break
		}
		told++
		last = int64(abi.Uint64(body))
		w.next()
		writeEvent(w, last, &e)
	}
	w.raw("]")
	if told < most {
		last = int64(s.log.last)
	}
	w.number("last", last)
	w.raw("}")
}

// writeEvent writes an event, without the members that say nothing about one of its kind.
func writeEvent(w *writer, id int64, e *journal.Event) {
	w.raw("{")
	w.number("id", id)
	w.number("at_ms", e.At)
	w.text("kind", kindNames[e.Kind])
	w.present("pool", e.Pool)
	w.present("key", e.Key)
	w.present("tenant", e.Tenant)
	w.present("model", e.Model)
	w.present("method", e.Method)
	w.present("path", e.Path)
	w.present("reason", e.Reason)
	switch e.Kind {
	case journal.Refused, journal.Expired, journal.Cancelled, journal.Waited, journal.Ended:
		w.number("wait_ms", e.Wait)
	case journal.LimitChanged:
		w.number("limit", int64(e.Limit))
		w.number("before", int64(e.Before))
		w.text("source", sourceNames[e.Source&3])
	}
	if e.Kind == journal.Ended {
		w.number("duration_ms", e.Duration)
		w.boolean("whole", e.Whole)
	}
	if e.Status > 0 {
		w.number("status", int64(e.Status))
	}
	w.raw("}")
}
