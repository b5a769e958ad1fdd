// Package records keeps one plugin context's part in the records that all workers share: the seat in the worker table,
// the places of keys, and what the context's own requests hold and wait for. It speaks of keys, tickets and permits,
// and never sees a stream.
//
// It guarantees:
//
//   - A step on a record is stored whole or not at all, and is tried again when another worker's swap came first.
//   - What the context knows of its own requests is the truth. A record that may differ from it is marked and
//     reconciled by a tick, until it is the same.
//   - Whoever is granted a permit is told: the context's own ticket by its Waiter, another worker's by a message. A
//     message that is lost costs time only, since ticks look for grants, too.
//   - A permit whose request has ended may stay here for the next request, without the store, while its record has room
//     for it. It is given back when the record calls, and soon when it is not needed.
//   - Contention is no failure. What other workers' swaps keep from being stored in one turn of the event loop is
//     stored in a later one: an acquire is decided then, and what a request's end says stands in its key's journal
//     until then. No acquire overtakes an earlier one of the context's for the same key.
//
// records.go has the operations, spare.go what needs no store, store.go the swap and swaps.go how often a turn tries
// it, place.go the directory of keys, seat.go the worker table, mailbox.go the messages, recount.go the repair of
// gauges. retune.go has live limits and look.go what an operator sees; a context that does nothing else takes no seat.
package records
