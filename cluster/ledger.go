package cluster

import (
	"cmp"
	"errors"
	"hash/fnv"
	"slices"
)

// What a call can be answered with instead of grants.
var (
	// ErrLate says that the replica has made a later call. Nothing was changed.
	ErrLate = errors.New("the replica has made a later call already")
	// ErrFull says that the domain has as many replicas as it can have. Nothing was changed.
	ErrFull = errors.New("the domain has too many replicas")
	// ErrOverrides says that the domain has as many limits of its own as it can have. Nothing was changed.
	ErrOverrides = errors.New("the domain has too many limits that were set by hand")
)

const (
	// turnEvery is for how long the same replicas have a permit when there are fewer permits than replicas, in ms.
	turnEvery = 10_000
	// fewClaims are divided anew in each call. Where there are more, the work is kept small: a division is used for one
	// millisecond for each claim beyond.
	fewClaims = 8
	// mostReaped is how many dead replicas one call forgets. Until they are, they count as alive.
	mostReaped = 64
)

// A Ledger is what is known of one domain. It is what package store keeps in Redis, and each call changes it in one
// step. Times are milliseconds of one clock, which may be changed while it runs.
type Ledger struct {
	Booted, LearnsUntil int64
	Joined              int64 // how many replicas have ever joined: the number of the last one
	Replicas            map[string]*Member
	Keys                map[Key]*Entry
	// Overrides are the limits that were set by hand: for a pool's key, or with no key for the pool.
	Overrides map[Override]int64
}

// A Member is a replica that has called.
type Member struct{ Number, Call, Ends int64 }

// An Override names a limit that was set by hand.
type Override struct {
	Pool   string
	Key    string
	ForKey bool // it is for one key of the pool, else for all that have none of their own
}

// An Entry is what is known of one key.
type Entry struct {
	Holders  map[string]*Holder
	Granted  int64 // the sum of the holders' grants
	Limit    int64 // in force when the division was made
	Override int64 // the limit set by hand at that time, or -1
	Division Division
	Count    int64 // of the claims that the division was made of
	Divided  int64 // when it was made
}

// A Holder is what is known of a replica's part of a key.
type Holder struct{ Grant, Wants, Limit, Number, Ends int64 }

// NewLedger returns what is known at first: nothing.
func NewLedger() *Ledger {
	return &Ledger{
		Replicas: map[string]*Member{}, Keys: map[Key]*Entry{}, Overrides: map[Override]int64{},
	}
}

// Start is where a key's odd permits begin: at another replica for each key.
func Start(key Key) int64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key.Pool + "\x00" + key.Key))
	return int64(h.Sum32() >> 8)
}

// Lease carries out a call, which has been checked. An error leaves the grants unchanged.
func (l *Ledger) Lease(now int64, call *LeaseCall) (*LeaseReply, error) {
	l.boot(now, call.TTL)
	reaped := l.reap(now)
	member := l.Replicas[call.Replica]
	if member == nil {
		if len(l.Replicas) >= MaxReplicas {
			return nil, ErrFull
		}
		l.Joined++
		member = &Member{Number: l.Joined}
		l.Replicas[call.Replica] = member
	}
	if call.Call < member.Call {
		return nil, ErrLate
	}
	isRepeat := call.Call == member.Call
	if !isRepeat {
		member.Call, member.Ends = call.Call, now+call.TTL
	}
	reply := &LeaseReply{TTL: call.TTL, Learning: max(0, l.LearnsUntil-now), Expired: reaped}
	reply.Pools = make([]Answer, 0, len(call.Pools))
	for i := range call.Pools {
		reply.Pools = append(reply.Pools, l.leaseKey(now, call, &call.Pools[i], member.Number, isRepeat))
	}
	return reply, nil
}

// boot begins to learn when the ledger is new, and when the clock was set back: then the ends of leases mean nothing.
func (l *Ledger) boot(now, ttl int64) {
	switch {
	case l.Booted == 0 || now < l.Booted:
		l.Booted, l.LearnsUntil = now, now+ttl
	case now < l.LearnsUntil:
		l.LearnsUntil = max(l.LearnsUntil, l.Booted+ttl)
	}
}

// reap forgets replicas whose lease has ended, those that ended first before the others.
// It returns how many.
func (l *Ledger) reap(now int64) int {
	var ended []string
	for name, member := range l.Replicas {
		if member.Ends <= now {
			ended = append(ended, name)
		}
	}
	if len(ended) > mostReaped {
		slices.SortFunc(ended, func(a, b string) int {
			return cmp.Or(cmp.Compare(l.Replicas[a].Ends, l.Replicas[b].Ends), cmp.Compare(a, b))
		})
		ended = ended[:mostReaped]
	}
	for _, name := range ended {
		delete(l.Replicas, name)
	}
	return len(ended)
}

// leaseKey carries out what a call says of one key.
func (l *Ledger) leaseKey(now int64, call *LeaseCall, ask *Ask, number int64, isRepeat bool) Answer {
	entry := l.Keys[ask.Key]
	if entry == nil {
		entry = &Entry{Holders: map[string]*Holder{}, Override: -1}
		l.Keys[ask.Key] = entry
	}
	holder := entry.Holders[call.Replica]
	if isRepeat {
		return l.repeat(entry, holder, ask)
	}
	override := l.override(ask.Key)
	if holder == nil {
		holder = &Holder{}
		entry.Holders[call.Replica] = holder
	}
	holder.Wants, holder.Limit, holder.Number, holder.Ends = ask.Wants, ask.Limit, number, now+call.TTL
	if entry.Override != override || now < entry.Divided || now-entry.Divided >= entry.Count-fewClaims {
		entry.divide(now, override, len(l.Replicas), Start(ask.Key))
	} else if override < 0 {
		entry.Limit = min(entry.Limit, ask.Limit)
	}
	target := entry.Division.Share(number, ask.Wants)
	grant := ask.Keep
	if now >= l.LearnsUntil {
		free := entry.Limit - (entry.Granted - holder.Grant)
		grant = max(grant, min(target, free))
	}
	entry.Granted += grant - holder.Grant
	holder.Grant = grant
	return Answer{Key: ask.Key, Grant: grant, Target: target, Safe: safe(entry.Limit, len(l.Replicas))}
}

// repeat gives the answer that a call got before.
func (l *Ledger) repeat(entry *Entry, holder *Holder, ask *Ask) Answer {
	answer := Answer{Key: ask.Key, Safe: safe(entry.Limit, len(l.Replicas))}
	if holder != nil {
		answer.Grant, answer.Target = holder.Grant, entry.Division.Share(holder.Number, holder.Wants)
	}
	return answer
}

// override is the limit set by hand for a key, or -1.
func (l *Ledger) override(key Key) int64 {
	if limit, set := l.Overrides[Override{Pool: key.Pool, Key: key.Key, ForKey: true}]; set {
		return limit
	}
	if limit, set := l.Overrides[Override{Pool: key.Pool}]; set {
		return limit
	}
	return -1
}

// divide forgets the holders whose lease has ended, and divides the limit anew among the others. The limit is the one
// set by hand, or the lowest that a holder's configuration has: a new one is not in force everywhere yet.
func (e *Entry) divide(now, override int64, live int, start int64) {
	e.Granted, e.Limit, e.Override = 0, MaxCount, override
	claims := make([]Claim, 0, len(e.Holders))
	for name, h := range e.Holders {
		h.Ends = min(h.Ends, now+MaxTTL) // the clock may have been set back
		if h.Ends <= now {
			delete(e.Holders, name)
			continue
		}
		e.Granted += h.Grant
		e.Limit = min(e.Limit, h.Limit)
		claims = append(claims, Claim{Number: h.Number, Wants: h.Wants})
	}
	if override >= 0 {
		e.Limit = override
	}
	e.Division = Divide(e.Limit, claims, live, start, now/turnEvery)
	e.Count, e.Divided = int64(len(claims)), now
}

// safe is what a replica may use when it loses contact: an equal part of the limit, but not nothing.
func safe(limit int64, live int) int64 {
	if limit == 0 {
		return 0
	}
	return max(1, limit/int64(max(1, live)))
}

// SetLimit sets the limit of a pool, or of one of its keys, by hand, or takes back what was set.
func (l *Ledger) SetLimit(call *LimitCall) error {
	name := Override{Pool: call.Pool}
	if call.Key != nil {
		name.Key, name.ForKey = *call.Key, true
	}
	_, isSet := l.Overrides[name]
	switch {
	case call.Limit == nil:
		delete(l.Overrides, name)
	case !isSet && len(l.Overrides) >= MaxOverrides:
		return ErrOverrides
	default:
		l.Overrides[name] = *call.Limit
	}
	return nil
}
