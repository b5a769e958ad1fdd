// Package admission decides who may run: it is the pure core of Headgate.
//
// It guarantees that a pool key never grants more permits than its limit, that a free permit goes straight to the next
// waiter (nobody overtakes inside a tenant, no tenant is starved), that each permit is given back exactly once, and
// that what a dead worker held comes back within its lease.
//
// The state of one pool key is a [Record]: bytes that all workers share and replace by compare-and-swap. [Machine.Step]
// takes such bytes, one operation and the time, and hands back the new bytes and what the caller has to do. It has no
// clock, no I/O, no goroutines; the same input gives the same output. The caller retries a step whose swap failed.
//
// # Dispatch
//
// An acquire appends a ticket and then dispatches; there is no other way to a permit, so nobody can barge. Dispatch
// grants, while a permit is free, to the waiting tenant with the least permits per weight; on a tie to the one granted
// longest ago; inside a tenant to whoever came first. Weighing what a tenant runs now, rather than what it has used,
// needs no estimate of how long a stream lasts, and gives equal permits to tenants whose streams differ in length; FIFO
// and round robin don't. A pool that isn't fair by tenant puts all requests under one tenant, which makes the same rule
// first come, first served.
//
// # Truth
//
// A record counts permits per worker, in that worker's column. The worker itself knows the truth: the streams it lets
// run, and its tickets that the record no longer lists. [OpSync] makes the column equal to that truth. It is the one
// repair for everything that can go wrong between a worker and the record: a release that found no free swap, a grant
// whose message was lost, a record that vanished, a worker that was declared dead by mistake.
//
// # Keys
//
// Shared data never forgets a key, so records live in a bounded table of slots, and a [Directory] says which pool key
// has which slot. See the Directory's comment for how a slot changes hands.
package admission
