package records

import "github.com/headgate/headgate/admission"

// A Waiter is told what becomes of a ticket that was not decided at once. Granted must not call the Records.
type Waiter interface {
	// Granted tells that a ticket that waited has a permit. It ends the ticket's wait.
	Granted(Permit)
	// Expired tells that the ticket's budget is used up, and in how many seconds it is worth to come back. It ends the
	// wait.
	Expired(retryAfter int)
	// Decided tells what a later turn has made of an acquire: what Acquire would have returned.
	Decided(Answer, Decision)
}

// A Ticket is a request of this context's that asks a key for a permit. Whoever makes it sets Key, Tenant, Weight and
// Waiter, and leaves it where it is while it waits or is being decided.
type Ticket struct {
	_ incomparable

	Key    *Key   // Acquire sets another one if the key has no record of its own
	Tenant uint64 // 0 if the pool isn't fair by tenant
	Weight uint32
	Waiter Waiter

	Seq   uint32 // its number in this context's incarnation
	Since int64  // when it began to wait, or to be decided
	Due   int64  // when its budget is used up

	decideBy   int64 // when the acquire is given up if it could not be decided
	state      ticketState
	prev, next *Ticket // in the list that the state says
}

type ticketState uint8

const (
	ticketIdle     ticketState = iota
	ticketDeciding             // in its key's list of undecided ones
	ticketWaiting              // in its key's queue, as far as is known here
)

// Open reports whether the ticket's Waiter has something to hear yet.
func (t *Ticket) Open() bool { return t.state != ticketIdle }

// A ticketList is tickets in order. Any of them can be taken out at once, however many there are.
type ticketList struct {
	first, last *Ticket
	n           int
}

//go:noinline // many bytes in many places
func (l *ticketList) push(t *Ticket) {
	t.prev, t.next = l.last, nil
	if l.last == nil {
		l.first = t
	} else {
		l.last.next = t
	}
	l.last = t
	l.n++
}

//go:noinline // as push
func (l *ticketList) remove(t *Ticket) {
	if t.prev == nil {
		l.first = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		l.last = t.prev
	} else {
		t.next.prev = t.prev
	}
	t.prev, t.next = nil, nil
	l.n--
}

// A Permit is what a request of this context's holds. The zero Permit is none.
type Permit struct {
	_ incomparable

	Key        *Key
	Tenant     uint64
	Seq        uint32 // of the ticket that was granted
	Since      int64  // when it was granted
	BreakerGen uint32 // of the breaker when it was granted
	Told       bool   // the record knows how its request ended
}

// IsProbe reports whether the permit's request is its breaker's probe.
func (p *Permit) IsProbe() bool { return p.Key != nil && p.Key.probe == p.Seq }

// A Decision is how far an acquire has come.
type Decision uint8

// The decisions.
const (
	Decided  Decision = iota // the answer says how
	Deciding                 // a later turn decides, and tells the Waiter
	Failed                   // the store answered with an error, or has no seat for this context
)

// An Answer is what became of an acquire.
type Answer struct {
	_ incomparable

	Verdict    admission.Verdict // granted, waiting, full, closed or open
	Permit     Permit            // granted
	RetryAfter int               // full, closed, open: seconds
	LastStatus int               // open: of the provider's last failure; 0: it had none
}
