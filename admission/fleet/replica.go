package fleet

import "github.com/headgate/headgate/admission"

// A Duration is a span of time in nanoseconds.
type Duration = admission.Duration

// A Time is nanoseconds of one monotonic clock.
type Time = admission.Duration

// incomparable, as a struct's first field, keeps the function that compares two of them out of the module.
type incomparable [0]func()

// Never is later than any time.
const Never = admission.MaxDuration

// An Outage is what a replica does without a lease.
type Outage uint8

// What it can do.
const (
	OutageSafeShare  Outage = iota // an equal part of the fleet's limit, at least one
	OutageLocalLimit               // the whole limit, in each replica
	OutageOpen                     // no limit
	OutageClosed                   // nothing
)

// A State is how the replica stands with the service.
type State uint8

// The states. Their numbers are those of the stat `state`.
const (
	StateNone   State = iota // it has not heard from the service yet, and waits for it
	StateLeased              // it has a lease
	StateOutage              // it has none
)

// Settings are what a replica is told by its configuration.
type Settings struct {
	_ incomparable

	Domain   string
	Replica  string // another one for each process, also for one that takes another's place
	Lease    Duration
	Expected int // how many replicas there will be
	OnOutage Outage
	Seed     uint64 // for the jitter, another one for each process
}

// A Reading is what the record of one key says. All of it is from one look at the record.
type Reading struct {
	_ incomparable

	Pool, Key string
	Limit     int // the fleet's limit by the configuration
	Share     int // what the record grants now: of its Share, Limit or After, whichever is in force
	Used      int // permits
	Waiting   int // tickets
	// Refused is how many requests were refused for want of a permit since the last reading. 1 is enough where the driver
	// only knows that there were some.
	Refused int
}

// A Share is what a record may grant from now on: Limit until the time Until, and After from then on. A record takes no
// share with a lower Call than the one it has: that one comes from a worker that does not know yet that another one has
// taken over.
type Share struct {
	_ incomparable

	Pool, Key    string
	Limit, After int
	Until        Time
	Call         int64
}

// Times of the protocol.
const (
	refresh      = admission.Second           // between calls
	answerTime   = admission.Second           // for an answer
	shortestGap  = 50 * admission.Millisecond // between calls, whatever happens
	giveBackGap  = 100 * admission.Millisecond
	longestPoll  = 800 * admission.Millisecond
	peakTime     = 250 * admission.Millisecond // demand is the highest of the last one to two such spans
	idleTime     = 60 * admission.Second       // a key of a pool that has keys is let go after this time without a request
	mostBursts   = 10                          // calls between the regular ones
	marginPart   = 10                          // a lease ends by this part of its time early
	maxCallBytes = 1<<20 - 1<<12
	maxKeys      = 4096
	maxCall      = 1<<53 - 1
)

// A Replica is what one process knows of its shares.
type Replica struct {
	set      Settings
	keys     map[string]*key
	order    []*key // all keys, as they were last observed
	before   []*key // has room for the next order
	number   int64  // of the last call
	sent     Time   // when the last call was sent; its answer is still to come if pending is
	pending  []*key // the keys of the call whose answer is to come, in order
	waiting  bool
	until    Time // the end of the lease
	joinBy   Time // until then it waits for its first answer
	next     Time // of the next regular call
	bursts   int  // how many calls between the regular ones are left
	filled   Time // when bursts last grew
	poll     Duration
	random   uint64
	calls    int
	failures int
}

// mapKey names a key in one string. A pool's name has no zero byte.
func mapKey(pool, of string) string { return pool + "\x00" + of }

// A key is what is known of one key.
type key struct {
	_ incomparable

	pool, key   string
	reading     Reading
	seen        bool
	peaks       [2]int // of demand: of this span of time and of the one before
	peakSince   Time
	demandSince Time // when there last was demand
	share       Share
	changed     bool
	isListed    bool // calls name it
	granted     int  // what the service has given, as far as known
	target      int
	safe        int // -1: not known
	answered    bool
	sentWants   int
	sentKeep    int
	sentLimit   int
}

// New returns a replica that has not called yet.
func New(now Time, set Settings) *Replica {
	return &Replica{
		set: set, keys: map[string]*key{}, joinBy: now + set.Lease/2, next: now, bursts: mostBursts, filled: now,
		poll: shortestGap / 2, random: set.Seed | 1,
	}
}

// Initial is the share of a record that is made while a worker that does not drive the replica has nothing to go by.
func Initial(now Time, set *Settings, limit int) Share {
	return Share{Until: now + set.Lease/2, After: outageShare(set, limit, -1)}
}

// outageShare is what a key may use without a lease. safe is what the service has said, or -1.
func outageShare(set *Settings, limit, safe int) int {
	switch {
	case limit == 0 || set.OnOutage == OutageClosed:
		return 0
	case set.OnOutage == OutageOpen:
		return admission.MaxLimit
	case set.OnOutage == OutageLocalLimit:
		return limit
	case safe >= 0:
		return safe
	}
	return max(1, limit/max(1, set.Expected))
}

// Observe takes in what the records say: the readings of all keys of the process.
func (r *Replica) Observe(now Time, readings []Reading) {
	r.expire(now)
	for _, k := range r.order {
		k.seen = false
	}
	r.before, r.order = r.order, r.before[:0]
	for i := range readings {
		reading := &readings[i]
		id := mapKey(reading.Pool, reading.Key)
		k := r.keys[id]
		if k == nil {
			k = r.newKey(now, reading.Pool, reading.Key)
			k.safe, k.isListed = -1, true
			r.await(now, k, reading.Limit)
		}
		if k.seen {
			continue
		}
		k.seen = true
		r.order = append(r.order, k)
		k.observe(now, reading)
		r.settle(now, k)
	}
	for _, k := range r.before {
		if !k.seen {
			delete(r.keys, mapKey(k.pool, k.key))
		}
	}
}

// newKey adds a key.
func (r *Replica) newKey(now Time, pool, of string) *key {
	k := &key{pool: pool, key: of, demandSince: now, peakSince: now}
	k.share.Pool, k.share.Key, k.share.Until = pool, of, Never
	r.keys[mapKey(pool, of)] = k
	return k
}

// await has a key wait for its first answer. Without a lease there is nothing to wait for.
func (r *Replica) await(now Time, k *key, limit int) {
	after := outageShare(&r.set, limit, k.safe)
	if r.State(now) == StateOutage {
		k.put(after, after, Never)
		return
	}
	k.put(0, after, now+r.set.Lease/2)
}

// put sets what the key's record may grant.
func (k *key) put(limit, after int, until Time) {
	s := &k.share
	k.changed = k.changed || s.Limit != limit || s.After != after || s.Until != until
	s.Limit, s.After, s.Until = limit, after, until
}

// inForce is what the key's record may grant now, once it has the share.
func (k *key) inForce(now Time) int {
	if now < k.share.Until {
		return k.share.Limit
	}
	return k.share.After
}

func (k *key) observe(now Time, reading *Reading) {
	k.reading = *reading
	demand := reading.Used + reading.Waiting
	if reading.Refused > 0 {
		demand += max(reading.Refused, 1+reading.Used/4) // the driver may know that there were some, and not how many
	}
	if demand > 0 {
		k.demandSince = now
	}
	if now-k.peakSince >= peakTime {
		k.peaks[1] = k.peaks[0]
		if now-k.peakSince >= 2*peakTime {
			k.peaks[1] = demand
		}
		k.peaks[0], k.peakSince = demand, now
	}
	k.peaks[0] = max(k.peaks[0], demand)
}

// demand is how many permits the key could use.
func (k *key) demand() int { return min(max(k.peaks[0], k.peaks[1]), admission.MaxLimit) }

// settle brings a key's share in line with the state, and tells the driver again where the record has another share.
func (r *Replica) settle(now Time, k *key) {
	isIdle := k.key != "" && now-k.demandSince >= idleTime && k.reading.Used == 0
	switch {
	case !k.isListed && !isIdle:
		k.isListed = true
		r.await(now, k, k.reading.Limit)
	case k.isListed && isIdle:
		k.isListed = false
	}
	after := outageShare(&r.set, k.reading.Limit, k.safe)
	switch {
	case r.State(now) == StateOutage:
		k.put(after, after, Never)
	case !k.isListed:
		k.put(0, after, Never)
		k.granted, k.target, k.answered = 0, 0, false
	case k.share.After != after:
		k.put(k.share.Limit, after, k.share.Until)
	}
	if k.reading.Share != k.inForce(now) {
		k.changed = true
	}
}

// Changes calls put for each share that its record does not have yet. put reports whether the record has it now, or a
// later one. Otherwise the share comes again in the next Changes.
func (r *Replica) Changes(put func(Share) bool) {
	for _, k := range r.order {
		if k.changed {
			k.share.Call = r.number
			k.changed = !put(k.share)
		}
	}
}

// State is how the replica stands with the service.
func (r *Replica) State(now Time) State {
	switch {
	case now < r.until:
		return StateLeased
	case r.until == 0 && now < r.joinBy:
		return StateNone
	}
	return StateOutage
}

// LeaseLeft is how long the lease lasts.
func (r *Replica) LeaseLeft(now Time) Duration { return max(0, r.until-now) }

// Calls is how many calls this worker has made, and Failures how many of them had no usable answer.
func (r *Replica) Calls() int { return r.calls }

// Failures is how many calls had no usable answer.
func (r *Replica) Failures() int { return r.failures }

// Granted is what a key may use now, by its share.
func (r *Replica) Granted(now Time, pool, of string) int {
	if k := r.keys[mapKey(pool, of)]; k != nil {
		return k.inForce(now)
	}
	return 0
}
