// Package fleet is a replica's side of a limit that is shared by a fleet: it decides what to ask the share service,
// when, and how many permits each key's record may grant meanwhile. It has no clock and no I/O. One worker of the
// process drives a Replica:
//
//	r.Observe(now, readings)                  // what the records say
//	r.Changes(func(s Share) bool { ... })     // put each one into its record
//	if now >= r.NextCall(now) {
//		id, body := r.Call(now)               // keep r.AppendState, then send the call
//	}
//	r.Reply(now, id, body) or r.Fail(now, id) // then Changes again
//
// What the package guarantees, as long as the driver does this, and the clocks' rates differ by less than a tenth:
//
//   - F1: what a call says it keeps is at least what any worker of the process can use when the call is sent, and stays
//     so until the next one: a record's share is lowered first, and the service is told afterwards.
//   - F2: a lease ends by the replica's own clock, counted from when its call was sent, before it ends at the service.
//     The end is in the share, so that each worker can see it without this one.
//   - F3: only the answer to the last call counts, once. An answer with anything wrong in it counts as none.
//   - F4: how often it calls doesn't depend on how many requests there are: once a second, and besides at most 10 times
//     at once and once a second in the long run.
//
// Times are nanoseconds of one monotonic clock. docs/fleet.md describes the states, package cluster the service.
package fleet
