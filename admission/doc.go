// Package admission decides which request may run: it is the pure core of Headgate.
//
// The state of one pool key is a [Record]: bytes that all workers share and replace by compare-and-swap. [Machine.Step]
// takes such bytes, one operation and the time, and returns the new bytes and what the caller has to do. It has no
// clock, no I/O and no goroutines: the same input gives the same output. A caller whose swap failed reads the bytes
// again and repeats the step.
//
// The package knows neither configuration text nor requests. Package config reads the first, package request the
// second.
//
// # Words
//
//	permit     the right to one unit of concurrency in a pool; never "token", which is a language model's
//	pool       a named rule with a limit
//	key        one value that a pool counts separately, such as one tenant or one model; each key has a record
//	tenant     the one who shares a key's permits fairly with others; a record knows it by an id
//	ticket     one request that asks for a permit, numbered by its worker
//	inflight   permits that are granted and not yet given back
//	on hold    permits that are kept out of use for a while after their request ended
//	spare      a permit that is inflight in its worker's column and that no request has: its request ended a moment ago
//	ahead      the mark of a column whose worker may keep spares
//	recall     to take these marks away and to ask their workers for the spares
//	override   a limit that an operator has set in place of the configured one; it is in the record
//	retune     to set a record's override, or to take it away
//	in force   of a limit: the override, else what was last asserted
//	grant      to give a permit to a ticket; release: to give the permit back
//	reject     to refuse before queueing; expire: to refuse after queueing
//	worker     one incarnation of a plugin context: a seat in the worker table and an epoch
//	seat       a worker's place in the [WorkerTable], of which its column in each record has the number
//	column     what one worker has in a record: inflight permits and tickets in the queue
//	slot       a place for a record in shared data; a [Directory] says which key has it, under which generation
//	lease      what a worker renews by beating; when it is over, the worker may be declared dead
//	reap       to take back the permits and tickets of a dead worker
//	reconcile  to make a record say of a worker what the worker knows to be true
//	budget     how long a ticket may wait
//	probe      the one request that a half-open breaker lets through, to see how it ends
//
// # Dispatch
//
// An acquire appends a ticket and then dispatches. There is no other way to a permit, so nobody can barge. Dispatch
// grants, while a permit is free, to the waiting tenant with the least inflight per weight; on a tie to the tenant
// granted longest ago; inside a tenant to the oldest ticket. Weighing what a tenant runs now, rather than what it has
// used, needs no estimate of how long a stream lasts, and gives equal permits to tenants whose streams differ in
// length. First come, first served and round robin don't. In a pool that isn't fair by tenant all requests belong to
// one tenant, and the same rule is first come, first served.
//
// # A ticket's life
//
//	            acquire
//	               │
//	   ┌───────────┼────────────────────────────┐
//	   │           │ no permit free             │ no permit and no room,
//	   │           ▼                            ▼ closed, breaker open
//	   │       ┌────────┐                   rejected
//	   │       │ queued │
//	   │       └───┬────┘
//	   │           ├─ dispatch, in anybody's step ─▶ granted
//	   │           ├─ expire, by its worker ───────▶ expired
//	   │           ├─ cancel, by its worker ───────▶ cancelled
//	   │           └─ its worker is dead ──────────▶ reaped
//	   ▼
//	granted ── release ─▶ the permit is free, or on hold until its time is over, then free
//	        └─ its worker is dead ─▶ reaped: the permit is free
//
// A queued ticket that its worker does not find in the record any more was granted: only its own worker expires and
// cancels it. A worker that was declared dead finds its column missing, which tells it that its tickets were reaped
// instead.
//
// # Operations
//
// Each has a constructor, which sets an [Op] whole. Every operation needs a [Target]. Every operation first ends the
// holds that are due and the headroom that time gives back; every one but a retire dispatches.
//
//	operation   needs beside the target                      verdicts
//	acquire     tenant, weight, ticket, queue, fair, budget  granted, waiting, full, closed, open, recalling; stale,
//	                                                         fenced
//	release     tenant, ticket, how the request ended        done; stale, fenced
//	cancel      tenant, ticket                               done: it was queued. granted: it had been granted, and its
//	                                                         permit is given back; stale, fenced
//	expire      -                                            done, with the tickets that expired; stale, fenced
//	reconcile   inflight by tenant, tickets, probe           done, with the tickets that had been granted; stale, fenced
//	maintain    assert, worker table                         done; stale
//	report      ticket, outcome                              done; stale, fenced
//	tell        ticket, how the request ended                done; stale, fenced
//	retire      - (of the target only time and generation)   done, busy
//	retune      whether it is about the key's own override   done; stale
//
// A limit comes with every target, and so does an override: those of a record that the operation makes. An acquire and
// a maintain with assert give the limit to a record that is there, a retune gives it the override. As long as it has
// one, its limit is the override, and what is asserted changes nothing. A record whose override is the key's own is not
// retired; one whose override is that of the pool's default is, since the next one is made under it, too.
//
// Stale: the slot is another key's or generation's. Fenced: the worker was declared dead, and reconciles before it goes
// on.
//
// # Spares
//
// A worker whose column is ahead may keep the permit of a request that ends, and give it to the next request of the
// same tenant that comes to it. Neither is a step. The permit stays in the column, so what runs is never more than what
// is counted, and that never more than the limit.
//
// A step marks its worker's column if the worker asks for it and the record is calm: nobody waits, far more permits are
// free than there are workers, and a success has nothing to tell. A step that ends with the record no longer at ease
// takes all marks away, and its effect names their workers. Each gets a message, and gives its spares back by a
// reconcile, which dispatches. Until then, and for 20 ms at most, an acquire is not refused for want of a permit: it is
// to ask again (VerdictRecalling).
//
// A message can be lost. So a worker that keeps spares looks at its mark every 50 ms, and gives back what it did not
// need.
//
// # Truth
//
// A record counts permits per worker, in that worker's column. The worker itself knows the truth: the requests that it
// lets run, and its tickets that the record no longer lists. A reconcile makes the column equal to that truth. It is
// the one repair for everything that can go wrong between a worker and a record: a release that was not stored, a grant
// whose message was lost, a record that vanished, a worker that was declared dead by mistake.
//
// # Invariants
//
// Each is a property that tests check by its number, and each check catches a mutant: a fault put in on purpose. The
// checks named Watch are in package admissiontest and run in every test that steps records; those of the pool world
// and of the directory world run at every state that the explorer reaches (poolchecks_test.go,
// directoryexplore_test.go). The mutants are in mutant_test.go and overtaking_test.go.
//
//	I1   inflight + on hold <= limit at each grant. A lowered limit stops grants until they are below it; nothing is
//	     pre-empted.
//	     Checks: Watch (limit), the pool world, the directory world.
//	     Mutants: "the limit is ignored", "set without compare", "released at response headers", "told before stored",
//	     "an expired waiter goes on", "a release makes two spares", "a spare is kept after a reconcile", "a grant on
//	     its way is taken for a spare", "a worker that was declared dead keeps its spares".
//	I2   Every ticket ends exactly once: granted, expired, cancelled, rejected or reaped.
//	     Checks: Watch (tickets), the pool world. Mutant: "tickets of others expire too".
//	I3   Every grant is released exactly once. A drained system is back at zero, and no gauge is ever negative.
//	     Checks: Watch (sums, deltas), the pool world (truth, drained), the directory world.
//	     Mutants: "ticks don't look for grants", "a granted ticket is cancelled and forgotten", "no worker counts anew",
//	     "a worker that was declared dead goes on as before", "a message is believed".
//	I4   After each operation no eligible ticket waits while a permit is free. A spare that is called back is free one
//	     message later, and one tick of 50 ms later if the message is lost. Nobody is refused in a recall.
//	     Checks: Watch (workConserving, marks), the pool world (spares). Mutants: "no dispatch after a release", "a
//	     release wakes instead of handing over", "recalls are not sent", "recalls are not listened to", spareMutants.
//	I5   First come, first served inside a tenant, in the order in which tickets come to the record. No eligible waiting
//	     tenant had less inflight per weight than the one granted. A request that takes a spare does not come to the
//	     record: until a recall has reached its worker (I4), it goes before tickets of other workers. It never goes
//	     before one of its own worker.
//	     Checks: Watch (rule, tickets), the reference model. Mutants: "weights are ignored", "first come, first served
//	     over all tenants".
//	I6   While a tenant has a waiter and nothing running, each other tenant is granted at most once. Spares are taken
//	     beside that, until a recall has reached their worker (I4).
//	     Check: Watch (overtaking). Mutants: TestOvertakingMutants.
//	I7   No waiter outlives its budget by more than one tick (10 ms). An expired or cancelled waiter starts no work
//	upstream.
//	     Checks: Watch (tickets), the pool world. Mutants: "an expired ticket is granted", "no worker ends waits".
//	I7b  Contention is no failure: no request passes, and nothing is lost, because swaps were lost to other workers.
//	     Checks: the pool world with any number of lost swaps, filter/contention_test.go. Mutants: "a turn without a swap
//	     lets pass", "a turn without a swap forgets a release".
//	I8   Permits and tickets of a dead worker are back within its lease and one tick. Streams that live longer than any
//	     lease keep theirs.
//	     Check: the pool world (columns of the dead). Mutants: "no worker reaps", "records are swept once for each
//	     death".
//	I9   A change or removal of the configuration, or an upgrade of the module, resets no outstanding count and strands
//	no
//	     waiter. Going back to an earlier configuration is a change like any other. It takes no override away: only a
//	     retune does, and all records agree with the override of their pool's default but those of keys with a limit of
//	     their own.
//	     Checks: Watch (outstanding, limit, override, generation), the pool world (override), the directory world
//	     (overrides). Mutants: "a reload starts fresh counts", overrideMutants, "the override of a default goes into the
//	     records first", "an override is spread, and the directory has changed", "records that are not there are not
//	     made", "a record is made without the override of the default", "a record with an override of its key's own is
//	     retired".
//	I10  Memory and keys are bounded by configuration, whatever clients send.
//	     Checks: the directory world (slots), TestTenantTableIsBounded, TestNamesAreClipped. Mutants: "a record in use is
//	     retired", "retiring leaves no trace".
//	I11  No panic on the request path: a broken invariant becomes an error, a counter and the pool's failure policy.
//	     Checks: Watch (encoding), FuzzRecord, FuzzSteps. Mutant: "half a record is written".
package admission
