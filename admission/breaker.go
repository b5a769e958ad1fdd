package admission

// An Outcome is how a request ended for its provider.
type Outcome uint8

// The outcomes.
const (
	OutcomeNone    Outcome = iota // nothing the provider did: never sent, refused elsewhere, answered by another filter
	OutcomeSuccess                // a whole answer that is no failure
	OutcomeCancel                 // the client left, or another attempt won
	OutcomeFailure                // 5xx, 429, 403 that speaks of a rate limit, transport error
)

// A breakerState is whether a pool key admits.
type breakerState uint8

const (
	breakerClosed   breakerState = iota // it does
	breakerOpen                         // it doesn't, until its time is over
	breakerHalfOpen                     // one request at a time, to see how it ends
)

// windowParts is in how many parts the breaker's window slides: a failure counts for its window, less a tenth at most.
const windowParts = 10

// breakerRecord is a pool key's breaker.
type breakerRecord struct {
	state    breakerState
	gen      uint32 // counts its changes of state: the results of requests granted in an earlier one don't count
	until    int64  // open: when it becomes half open
	trips    uint8  // without a success in between; doubles the open time
	level    uint8  // failures without a success in between; doubles the penalty
	probe    ticketID
	began    int64 // when the window's newest part began
	failures [windowParts]uint16
}

// ticketID names a ticket, granted or waiting; no sequence number is 0.
type ticketID struct {
	slot uint16
	seq  uint32
}

// passes moves the breaker with time and reports how many requests it lets through now, at most.
func (r *Record) passes(now int64, b *Breaker) int {
	br := &r.breaker
	if b == nil {
		return int(r.Limit)
	}
	if br.state == breakerOpen && now >= br.until {
		br.state, br.probe = breakerHalfOpen, ticketID{}
		br.gen++
	}
	switch {
	case br.state == breakerClosed:
		return int(r.Limit)
	case br.state == breakerHalfOpen && br.probe.seq == 0:
		return 1
	}
	return 0
}

// settle takes a request's outcome into account, of the ticket it was granted under.
func (r *Record) settle(now int64, b *Breaker, id ticketID, gen uint32, o Outcome) {
	br := &r.breaker
	switch {
	case b == nil:
		r.breaker = breakerRecord{gen: br.gen}
	case br.state == breakerHalfOpen && br.probe == id:
		r.settleProbe(now, b, o)
	case br.state != breakerClosed || br.gen != gen:
	case o == OutcomeSuccess:
		br.level = 0
	case o == OutcomeFailure:
		br.slide(now, b)
		if br.failures[0]++; br.sum() >= b.Failures {
			br.trip(now, b)
		}
	}
}

// settleProbe ends the probe. One without a verdict decides nothing and leaves its place to the next.
func (r *Record) settleProbe(now int64, b *Breaker, o Outcome) {
	br := &r.breaker
	switch o {
	case OutcomeSuccess:
		r.breaker = breakerRecord{gen: br.gen + 1}
	case OutcomeFailure:
		br.trip(now, b)
	default:
		br.probe = ticketID{}
	}
}

// trip opens the breaker, each time in a row for twice as long.
func (br *breakerRecord) trip(now int64, b *Breaker) {
	open := doubled(b.Open, br.trips, b.MaxOpen)
	*br = breakerRecord{state: breakerOpen, gen: br.gen + 1, until: now + int64(open), trips: min(br.trips+1, maxDoublings), level: br.level}
}

// slide moves the window's parts on to the present.
func (br *breakerRecord) slide(now int64, b *Breaker) {
	part := max(int64(b.Window)/windowParts, 1)
	n := (now - br.began) / part
	if n < 0 || n >= windowParts || br.began == 0 {
		br.failures, br.began = [windowParts]uint16{}, now
		return
	}
	copy(br.failures[n:], br.failures[:windowParts-n])
	clear(br.failures[:n])
	br.began += n * part
}

func (br *breakerRecord) sum() int {
	n := 0
	for _, f := range br.failures {
		n += int(f)
	}
	return n
}

func (br *breakerRecord) load(b []byte) {
	br.state, br.trips, br.level = breakerState(min(b[0], uint8(breakerHalfOpen))), b[1], b[2]
	br.gen, br.until = get32(b[4:]), int64(get64(b[8:]))
	br.probe = ticketID{slot: get16(b[16:]), seq: get32(b[20:])}
	br.began = int64(get64(b[24:]))
	for i := range br.failures {
		br.failures[i] = get16(b[32+2*i:])
	}
}

func (br *breakerRecord) store(b []byte) {
	b[0], b[1], b[2] = byte(br.state), br.trips, br.level
	put32(b[4:], br.gen)
	put64(b[8:], uint64(br.until))
	put16(b[16:], br.probe.slot)
	put32(b[20:], br.probe.seq)
	put64(b[24:], uint64(br.began))
	for i := range br.failures {
		put16(b[32+2*i:], br.failures[i])
	}
}

// maxDoublings bounds how often a time is doubled, whatever its maximum.
const maxDoublings = 32

// doubled is d, doubled n times, and most at most.
func doubled(d Duration, n uint8, most Duration) Duration {
	for ; n > 0 && d < most; n-- {
		d *= 2
	}
	return min(d, most)
}

// holdOf is how long a permit stays out of use after its request ended so. A failure's or cancel's hold is followed by the
// success's, which every upstream needs that counts a call for a moment longer than it lasts. With a penalty, failures in
// a row are held for that, doubled each time, in place of the failure's hold. The provider's Retry-After lengthens a
// failure's hold, but makes none where none is configured.
func (r *Record) holdOf(p *Pool, o Outcome, retryAfter Duration) (d Duration, charged bool) {
	switch o {
	case OutcomeSuccess:
		return p.Hold.Success, true
	case OutcomeCancel:
		return p.Hold.Cancel + p.Hold.Success, true
	case OutcomeFailure:
		d = p.Hold.Failure
		if b := p.Breaker; b != nil && b.Penalty > 0 {
			d = doubled(b.Penalty, r.breaker.level, b.MaxPenalty)
			r.breaker.level = min(r.breaker.level+1, maxDoublings)
		}
		if d > 0 {
			d = max(d, retryAfter)
		}
		return d + p.Hold.Success, false
	}
	return 0, false
}
