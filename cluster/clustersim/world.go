package clustersim

import (
	"container/heap"
	"fmt"
	"math/rand/v2"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/fleet"
	"github.com/headgate/headgate/cluster"
)

// A Mutant is a deliberate fault, which the checker has to see.
type Mutant string

// The mutants.
const (
	NoMutant        Mutant = ""
	OneStepShrink   Mutant = "one-step shrink"      // a replica says that it keeps what it wants, before its record does
	LeaseOfReceipt  Mutant = "lease from receipt"   // a lease is counted from the answer
	WantsAsGrant    Mutant = "wants as grant"       // the service grants what is wanted
	NoLearning      Mutant = "no learning mode"     // a new Redis grants at once
	LateCallCounts  Mutant = "late call counts"     // the service forgets call numbers
	KeepWithoutUse  Mutant = "keep without use"     // a replica forgets what runs above its share
	OldLeaderCounts Mutant = "old leader counts"    // a record takes the shares of a worker that was replaced
	EndlessLease    Mutant = "endless lease"        // a record forgets the end of its lease
	NoDebt          Mutant = "keep is not honoured" // the service grants less than what is kept, and counts that
)

// A Plan is what a run is like.
type Plan struct {
	Seed      uint64
	Replicas  int
	Keys      int
	Limit     int64
	Lease     fleet.Duration
	OnOutage  fleet.Outage
	Steps     int
	Mutant    Mutant
	Unwatched bool // without the checker, for large fleets

	Loss, Repeat, Slow float64 // of messages
	Partitions         bool
	Pauses             bool // of the worker that drives a replica, and of whole replicas
	PauseEvery         int  // seconds, on average
	Restarts           bool // of Redis, which then knows nothing
	Failovers          bool // of Redis, which lose the last writes
	LimitChanges       bool
	ServiceStops       bool
}

// A World is a run.
type World struct {
	plan   Plan
	random *rand.Rand
	now    fleet.Time // by nobody's clock
	events events
	steps  int

	ledger    *cluster.Ledger
	redisSkew int64 // of its clock, in ms
	redisDown bool
	services  [2]bool // up
	limit     int64   // by the replicas' configuration
	override  int64   // by hand, or -1

	replicas []*replica
	checker  checker
	quiet    bool
	calls    int
	bytes    int
	failure  error
}

// An event is something that happens at a time.
type event struct {
	at    fleet.Time
	order int
	do    func()
}

type events struct {
	list  []event
	count int
}

func (e *events) Len() int { return len(e.list) }
func (e *events) Less(i, j int) bool {
	a, b := &e.list[i], &e.list[j]
	return a.at < b.at || a.at == b.at && a.order < b.order
}
func (e *events) Swap(i, j int) { e.list[i], e.list[j] = e.list[j], e.list[i] }
func (e *events) Push(x any)    { e.list = append(e.list, x.(event)) }
func (e *events) Pop() any {
	last := e.list[len(e.list)-1]
	e.list = e.list[:len(e.list)-1]
	return last
}

// in has something happen after a time.
func (w *World) in(after fleet.Duration, do func()) {
	w.events.count++
	heap.Push(&w.events, event{w.now + max(0, after), w.events.count, do})
}

func (w *World) chance(p float64) bool { return w.random.Float64() < p }

// between is a random duration.
func (w *World) between(least, most fleet.Duration) fleet.Duration {
	return least + fleet.Duration(w.random.Int64N(int64(most-least)+1))
}

// New makes a world.
func New(plan Plan) *World {
	w := &World{
		plan: plan, random: rand.New(rand.NewPCG(plan.Seed, 1)), ledger: cluster.NewLedger(), limit: plan.Limit,
		override: -1, services: [2]bool{true, true},
	}
	w.checker.world = w
	for i := range plan.Replicas {
		w.replicas = append(w.replicas, newReplica(w, i))
	}
	w.plant(plan.Partitions, 20, w.partition)
	w.plant(plan.Pauses, max(1, plan.PauseEvery), w.pause)
	w.plant(plan.Restarts, 30, w.restartRedis)
	w.plant(plan.Failovers, 25, w.failover)
	w.plant(plan.LimitChanges, 15, w.changeLimit)
	w.plant(plan.ServiceStops, 20, w.stopService)
	return w
}

// plant has something happen again and again, every so many seconds on average, until all is quiet.
func (w *World) plant(wanted bool, every int, do func()) {
	if !wanted {
		return
	}
	var again func()
	again = func() {
		if !w.quiet {
			do()
			w.in(w.between(0, fleet.Duration(2*every)*admission.Second), again)
		}
	}
	w.in(w.between(0, fleet.Duration(2*every)*admission.Second), again)
}

// Run runs the world for its steps and then until it has been quiet for a while. It returns what the checker has found.
func (w *World) Run() error {
	for w.steps < w.plan.Steps && w.failure == nil {
		w.step()
	}
	w.beQuiet()
	for end := w.now + 4*w.plan.Lease + 40*admission.Second; w.now < end && w.failure == nil; {
		w.step()
	}
	if w.failure == nil {
		w.failure = w.checker.settled()
	}
	return w.failure
}

func (w *World) step() {
	e := heap.Pop(&w.events).(event)
	w.now = e.at
	w.steps++
	e.do()
	if !w.plan.Unwatched {
		w.checker.check()
	}
}

// beQuiet ends the faults and has every replica want the same from now on.
func (w *World) beQuiet() {
	w.quiet = true
	w.redisDown, w.services = false, [2]bool{true, true}
	for _, r := range w.replicas {
		r.cut, r.pausedUntil, r.leaderBack = false, 0, nil
	}
}

// fail notes what the checker has found.
func (w *World) fail(format string, args ...any) {
	if w.failure == nil {
		w.failure = fmt.Errorf("seed %d, step %d, %s: %s", w.plan.Seed, w.steps, w.now, fmt.Sprintf(format, args...))
	}
}

func (w *World) anyReplica() *replica { return w.replicas[w.random.IntN(len(w.replicas))] }

func (w *World) partition() {
	r := w.anyReplica()
	r.cut = true
	w.in(w.between(admission.Second, 3*w.plan.Lease), func() { r.cut = false })
}

// pause stops a whole replica, or only the worker that drives it: then another one takes over, and the old one wakes up
// later with what it knew.
func (w *World) pause() {
	r := w.anyReplica()
	if w.chance(0.5) {
		r.pausedUntil = w.now + w.between(admission.Second, 2*w.plan.Lease)
		return
	}
	r.replaceLeader()
}

func (w *World) restartRedis() {
	w.redisDown = true
	w.in(w.between(0, 2*w.plan.Lease), func() {
		w.redisDown = false
		w.ledger = cluster.NewLedger()
		w.checker.lostAll()
		w.setLimit(w.override) // by hand, again
	})
}

// failover loses the last writes, and the new Redis has a clock of its own.
func (w *World) failover() {
	newest, old := w.ledger, cloneLedger(w.ledger)
	w.in(w.between(0, 300*admission.Millisecond), func() {
		if w.redisDown || w.ledger != newest {
			return
		}
		w.redisDown = true
		w.in(w.between(0, admission.Second), func() {
			if w.ledger != newest { // it was restarted
				return
			}
			w.redisDown = false
			w.checker.lostWrites(w.ledger, old)
			w.ledger = old
			w.setLimit(w.override)
			w.redisSkew = w.random.Int64N(101) - 50
		})
	})
}

func (w *World) stopService() {
	which := w.random.IntN(2)
	w.services[which] = false
	w.in(w.between(0, 10*admission.Second), func() { w.services[which] = true })
}

// changeLimit changes the configuration, one replica after the other, or the limit by hand.
func (w *World) changeLimit() {
	if w.chance(0.5) {
		if limit := w.random.Int64N(2*w.plan.Limit+2) - 1; !w.redisDown {
			w.setLimit(limit)
		}
		return
	}
	w.limit = w.random.Int64N(2*w.plan.Limit + 1)
	for _, r := range w.replicas {
		w.in(w.between(0, 5*admission.Second), func() { r.limit = w.limit })
	}
}

func (w *World) setLimit(limit int64) {
	w.override = limit
	for k := range w.plan.Keys {
		call := &cluster.LimitCall{Pool: keyName(k)}
		if limit >= 0 {
			call.Limit = &limit
		}
		_ = w.ledger.SetLimit(call) // there are few
	}
}

func cloneLedger(l *cluster.Ledger) *cluster.Ledger {
	c := cluster.NewLedger()
	c.Booted, c.LearnsUntil, c.Joined = l.Booted, l.LearnsUntil, l.Joined
	for name, m := range l.Replicas {
		copied := *m
		c.Replicas[name] = &copied
	}
	for name, limit := range l.Overrides {
		c.Overrides[name] = limit
	}
	for k, e := range l.Keys {
		copied := *e
		copied.Holders = map[string]*cluster.Holder{}
		for name, h := range e.Holders {
			holder := *h
			copied.Holders[name] = &holder
		}
		c.Keys[k] = &copied
	}
	return c
}

func keyName(k int) string { return "p" + string(rune('a'+k)) }

// redisNow is Redis's time in milliseconds.
func (w *World) redisNow() int64 {
	return 1_700_000_000_000 + int64(w.now/admission.Millisecond) + w.redisSkew
}

// send has a message arrive, or not, or twice.
func (w *World) send(r *replica, arrive func()) {
	times := 1
	if !w.quiet {
		if r.cut || w.chance(w.plan.Loss) {
			return
		}
		if w.chance(w.plan.Repeat) {
			times = 2
		}
	}
	for range times {
		delay := w.between(admission.Millisecond, 20*admission.Millisecond)
		if !w.quiet && w.chance(w.plan.Slow) {
			delay = w.between(admission.Millisecond, 2*w.plan.Lease)
		}
		w.in(delay, arrive)
	}
}

// serve carries out a call that has arrived at a service.
func (w *World) serve(body []byte, answer func(reply *cluster.LeaseReply)) {
	if !w.services[w.random.IntN(2)] || w.redisDown {
		return
	}
	call, err := cluster.ParseLeaseCall(body)
	if err != nil {
		w.fail("a replica makes a bad call: %v: %s", err, body)
		return
	}
	w.spoilCall(call)
	before := map[cluster.Key]map[string]int64{}
	if !w.plan.Unwatched {
		before = w.checker.grants()
	}
	reply, err := w.ledger.Lease(w.redisNow(), call)
	if err != nil {
		return
	}
	w.spoilReply(call, reply)
	if !w.plan.Unwatched {
		w.checker.served(call, before)
	}
	answer(reply)
}

// spoilCall is what mutants do to a call that has arrived.
func (w *World) spoilCall(call *cluster.LeaseCall) {
	switch w.plan.Mutant {
	case LateCallCounts:
		if m := w.ledger.Replicas[call.Replica]; m != nil {
			m.Call = 0
		}
	case NoDebt:
		for i := range call.Pools {
			call.Pools[i].Keep = min(call.Pools[i].Keep, call.Pools[i].Limit/int64(w.plan.Replicas))
		}
	case NoLearning:
		w.ledger.Booted, w.ledger.LearnsUntil = 1, 0
	}
}

// spoilReply is what mutants do to what a call has done.
func (w *World) spoilReply(call *cluster.LeaseCall, reply *cluster.LeaseReply) {
	if w.plan.Mutant != WantsAsGrant {
		return
	}
	for i, ask := range call.Pools {
		e := w.ledger.Keys[ask.Key]
		h := e.Holders[call.Replica]
		if grant := max(ask.Keep, min(ask.Wants, e.Limit)); h != nil {
			e.Granted += grant - h.Grant
			h.Grant, reply.Pools[i].Grant, reply.Pools[i].Target = grant, grant, grant
		}
	}
}
