package clustersim

import (
	"encoding/json"
	"strconv"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/fleet"
	"github.com/headgate/headgate/cluster"
)

// A replica is a process: records, the requests that run on them, and the worker that drives the fleet's side.
type replica struct {
	world       *World
	number      int
	name        string
	clock       func() fleet.Time
	limit       int64
	cut         bool // off from the services
	pausedUntil fleet.Time
	leader      *fleet.Replica
	leaderBack  *fleet.Replica // one that was replaced and wakes up again
	stored      []byte         // the leader's state
	records     []*record
}

// A record is what the workers of a process know of a key.
type record struct {
	replica *replica
	share   fleet.Share
	used    int
	waiting int
	ofLease bool // the share was put when there was a lease
	unsure  bool // what ran without a lease is not in the ledger yet
	met     bool // the replica has had an answer
	assumed bool // the share is what the replica has without the service, since that one learns
	wants   int  // how many requests there are as long as the load stays as it is
}

// answerTime is how long an answer may be on its way and be taken in.
const answerTime = 2 * admission.Second

// tickTime is how often a worker looks at its records.
const tickTime = 50 * admission.Millisecond

func newReplica(w *World, number int) *replica {
	r := &replica{world: w, number: number, name: "r" + strconv.Itoa(number), limit: w.limit}
	rate := 1 + (w.random.Float64()-0.5)/25 // its clock is up to 2 % too fast or too slow
	offset := w.between(0, admission.Hour)
	r.clock = func() fleet.Time { return offset + fleet.Time(float64(w.now)*rate) }
	r.leader = fleet.New(r.clock(), r.settings())
	set := r.settings()
	for range w.plan.Keys {
		r.records = append(r.records, &record{replica: r, share: fleet.Initial(r.clock(), &set, int(w.limit))})
	}
	w.in(w.between(0, 3*admission.Second), r.tick)
	w.in(0, r.changeLoad)
	return r
}

func (r *replica) settings() fleet.Settings {
	w := r.world
	return fleet.Settings{
		Domain: "d", Replica: r.name, Lease: w.plan.Lease, Expected: w.plan.Replicas, OnOutage: w.plan.OnOutage,
		Seed: w.plan.Seed + uint64(r.number),
	}
}

func (r *replica) isPaused() bool { return r.world.now < r.pausedUntil }

// inForce is what the record may grant now.
func (c *record) inForce() int {
	if c.replica.clock() < c.share.Until || c.replica.world.plan.Mutant == EndlessLease {
		return c.share.Limit
	}
	return c.share.After
}

// isLeased reports whether the record has a share of a lease.
func (c *record) isLeased() bool {
	now := c.replica.clock()
	return !c.assumed && c.ofLease && now < c.share.Until && c.share.Until != fleet.Never
}

// mayUse is how many permits are in use or may come to be.
func (c *record) mayUse() int { return max(c.used, c.inForce()) }

// put puts a share into the record.
func (c *record) put(s fleet.Share) {
	if s.Call >= c.share.Call || c.replica.world.plan.Mutant == OldLeaderCounts {
		wasLeased := c.isLeased()
		c.share, c.ofLease = s, c.replica.leader.State(c.replica.clock()) == fleet.StateLeased
		if !wasLeased && c.isLeased() {
			c.assert()
		}
	}
}

// assert notes that a record that had no lease has one from now on: what may be in use is a debt.
func (c *record) assert() {
	w := c.replica.world
	c.unsure = true
	for k, one := range c.replica.records {
		if one == c && w.checker.debts != nil {
			w.checker.debts[k] += int64(c.mayUse())
			w.checker.hold(k, answerTime) // others may still hear of grants of before
		}
	}
}

// changeLoad changes how many requests a replica gets, now and then.
func (r *replica) changeLoad() {
	w := r.world
	if !w.quiet {
		for _, c := range r.records {
			c.wants = 0
			if w.chance(0.6) {
				c.wants = int(w.random.Int64N(2*w.plan.Limit + 1))
			}
		}
	}
	w.in(w.between(admission.Second, 8*admission.Second), r.changeLoad)
}

// run has requests come and begin.
func (r *replica) run() {
	w := r.world
	for _, c := range r.records {
		c.waiting = max(0, c.wants-c.used)
		for c.waiting > 0 && c.used < c.inForce() {
			c.waiting--
			c.used++
			w.checker.started(c)
			length := w.between(10*admission.Millisecond, 2*admission.Second)
			if !w.quiet && w.chance(0.05) {
				length = w.between(admission.Second, 30*admission.Second)
			}
			w.in(length, func() { c.used-- })
		}
	}
}

// tick is what the workers of a process do again and again.
func (r *replica) tick() {
	w := r.world
	defer w.in(w.between(tickTime/2, tickTime*3/2), r.tick)
	if r.isPaused() {
		return
	}
	r.run()
	if old := r.leaderBack; old != nil && w.chance(0.02) { // it goes on where it was stopped
		old.Changes(func(s fleet.Share) bool {
			r.recordOf(s).put(s)
			return true
		})
		r.leaderBack = nil
	}
	now := r.clock()
	r.leader.Observe(now, r.readings())
	r.putChanges(0)
	if now >= r.leader.NextCall(now) {
		r.call(now)
	}
}

func (r *replica) readings() []fleet.Reading {
	var readings []fleet.Reading
	for k, c := range r.records {
		readings = append(readings, fleet.Reading{Pool: keyName(k), Limit: int(r.limit), Share: c.inForce(), Used: c.used,
			Waiting: c.waiting})
	}
	return readings
}

func (r *replica) recordOf(s fleet.Share) *record { return r.records[s.Pool[1]-'a'] }

// putChanges puts the leader's shares into the records. Sometimes that fails.
func (r *replica) putChanges(late fleet.Duration) {
	w := r.world
	r.leader.Changes(func(s fleet.Share) bool {
		if w.plan.Mutant == LeaseOfReceipt && s.Until != fleet.Never {
			s.Until += late + w.plan.Lease/10
		}
		stored := w.quiet || !w.chance(0.02)
		if stored {
			r.recordOf(s).put(s)
		}
		return stored
	})
}

// call sends a call, and takes in what comes back.
func (r *replica) call(now fleet.Time) {
	w := r.world
	number, body := r.leader.Call(now)
	body = r.spoil(body)
	r.stored = r.leader.AppendState(nil)
	w.calls++
	w.bytes += len(body)
	r.checkKept(body)
	sender := r.leader
	w.send(r, func() {
		w.serve(body, func(reply *cluster.LeaseReply) {
			text, err := json.Marshal(reply)
			if err != nil {
				panic(err) // it is numbers and names
			}
			w.bytes += len(text)
			w.send(r, func() { r.hear(sender, number, text, now) })
		})
	})
}

// hear takes in an answer.
func (r *replica) hear(by *fleet.Replica, number int64, text []byte, sent fleet.Time) {
	if r.isPaused() {
		r.world.in(r.pausedUntil-r.world.now, func() { r.hear(by, number, text, sent) })
		return
	}
	if by != r.leader {
		if by == r.leaderBack {
			by.Reply(sent+admission.Millisecond, number, text) // it has slept, and thinks that no time has passed
		}
		return
	}
	if r.leader.Reply(r.clock(), number, text) {
		r.noteAssumed(text)
	}
	r.putChanges(r.clock() - sent)
}

// noteAssumed notes which shares an answer has not granted.
func (r *replica) noteAssumed(text []byte) {
	var reply cluster.LeaseReply
	if err := json.Unmarshal(text, &reply); err != nil {
		panic(err) // the service wrote it
	}
	for _, a := range reply.Pools {
		c := r.records[a.Pool[1]-'a']
		wasAssumed := c.assumed
		c.unsure = false
		// Only the first answer may be none: later ones are kept to.
		c.assumed = (!c.met || c.assumed && a.Grant > 0) && a.Grant < int64(r.leader.Granted(r.clock(), a.Pool, ""))
		c.met = true
		if wasAssumed && !c.assumed {
			c.assert()
		}
	}
}

// spoil is what mutants do to a call before it is sent.
func (r *replica) spoil(body []byte) []byte {
	mutant := r.world.plan.Mutant
	if mutant != OneStepShrink && mutant != KeepWithoutUse {
		return body
	}
	call, err := cluster.ParseLeaseCall(body)
	if err != nil {
		r.world.fail("a replica makes a bad call: %v", err)
		return body
	}
	for i := range call.Pools {
		ask, c := &call.Pools[i], r.records[call.Pools[i].Pool[1]-'a']
		if mutant == OneStepShrink {
			ask.Keep = min(ask.Keep, ask.Wants)
		} else {
			ask.Keep = min(ask.Keep, int64(c.inForce()))
		}
	}
	body, err = json.Marshal(call)
	if err != nil {
		panic(err) // it is numbers and names
	}
	return body
}

// checkKept checks F1: a call keeps what can be used.
func (r *replica) checkKept(body []byte) {
	if r.world.plan.Mutant != NoMutant {
		return // what mutants do has to show in the sum
	}
	call, err := cluster.ParseLeaseCall(body)
	if err != nil {
		r.world.fail("a replica makes a bad call: %v: %s", err, body)
		return
	}
	for _, ask := range call.Pools {
		if c := r.records[ask.Pool[1]-'a']; ask.Keep < int64(c.mayUse()) {
			r.world.fail("%s keeps %d of %s and may use %d", r.name, ask.Keep, ask.Pool, c.mayUse())
		}
	}
}

// replaceLeader has another worker take over. The old one wakes up later and finishes what it was doing.
func (r *replica) replaceLeader() {
	now := r.clock()
	old := r.leader
	next, ok := fleet.Restore(now, r.settings(), r.stored)
	if !ok {
		if r.stored != nil {
			r.world.fail("a state can't be read: %x", r.stored)
		}
		return // it has not called yet
	}
	stale := r.readings()
	for i := range stale {
		stale[i].Share = -1 // it was stopped right before it put its shares into the records
	}
	old.Observe(now, stale)
	r.leader, r.leaderBack = next, old
}
