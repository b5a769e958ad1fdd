package admission

// A BreakerState is whether a pool key admits.
type BreakerState uint8

// The states of a breaker.
const (
	BreakerClosed   BreakerState = iota // it admits
	BreakerOpen                         // it admits nobody until its open time is over
	BreakerHalfOpen                     // it admits one request at a time, the probe, to see how that ends
)

// windowParts is the number of parts in which the breaker's window slides. A failure counts for the length of the
// window, or up to a tenth less.
const windowParts = 10

// breakerRecord is a pool key's breaker.
type breakerRecord struct {
	_ incomparable

	state    BreakerState
	gen      uint32              // counts changes of state: outcomes of requests granted before the last one don't count
	until    int64               // open: when it becomes half open
	trips    uint8               // openings without a success in between; doubles the open time
	level    uint8               // failures without a success in between; doubles the penalty
	last     uint8               // the status of the last failure, less statusBase; 0: it had none
	row      uint16              // failures without a success in between, in this generation
	probe    ticketID            // half open: the request that may pass; seq 0: none does
	began    int64               // when the window's newest part began
	failures [windowParts]uint16 // in each part of the window, the newest first
}

// ticketID names a ticket, granted or waiting. No ticket's seq is 0.
type ticketID struct {
	seat uint16
	seq  uint32
}

// isOpen is 1 when the breaker is open or half open, and 0 when it is closed.
func (br *breakerRecord) isOpen() int {
	if br.state == BreakerClosed {
		return 0
	}
	return 1
}

// advance opens a half-open breaker when its open time is over: from then on one request at a time may pass.
func (br *breakerRecord) advance(now int64, b *Breaker) {
	if b != nil && br.state == BreakerOpen && now >= br.until {
		br.state, br.probe = BreakerHalfOpen, ticketID{}
		br.gen++
	}
}

// allowance is how many requests may pass: the limit when the breaker is closed, 0 when it is open, 1 when it is half
// open and no probe runs.
func (r *Record) allowance(b *Breaker) int {
	br := &r.breaker
	switch {
	case b == nil || br.state == BreakerClosed:
		return int(r.Limit)
	case br.state == BreakerHalfOpen && br.probe.seq == 0:
		return 1
	}
	return 0
}

// countOutcome takes into account how the request of a ticket ended, which was granted in the given generation of the
// breaker.
func (r *Record) countOutcome(now int64, b *Breaker, id ticketID, gen uint32, o Outcome) {
	br := &r.breaker
	switch {
	case b == nil:
		r.breaker = breakerRecord{gen: br.gen}
	case br.state == BreakerHalfOpen && br.probe == id:
		r.countProbe(now, b, o)
	case br.state != BreakerClosed || br.gen != gen:
	case o == OutcomeSuccess:
		br.level, br.row = 0, 0
	case o == OutcomeFailure:
		br.slide(now, b)
		br.failures[0]++
		br.row = min(br.row, maxRow) + 1
		if br.sum() >= b.Failures || int(br.row) >= b.Failures {
			br.trip(now, b)
		}
	}
}

// countProbe ends the probe. A probe without a verdict decides nothing, and the next request becomes the probe.
func (r *Record) countProbe(now int64, b *Breaker, o Outcome) {
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

// raisePenalty makes the next penalty longer after a failure.
func (br *breakerRecord) raisePenalty(b *Breaker) {
	if b != nil && b.Penalty > 0 {
		br.level = min(br.level+1, maxDoublings)
	}
}

// trip opens the breaker, for twice as long each time in a row.
func (br *breakerRecord) trip(now int64, b *Breaker) {
	open := doubled(b.Open, br.trips, b.MaxOpen)
	*br = breakerRecord{state: BreakerOpen, gen: br.gen + 1, until: now + int64(open),
		trips: min(br.trips+1, maxDoublings), level: br.level, last: br.last}
}

const (
	// statusBase is one below the least status of a failure.
	statusBase = 399
	// maxRow is far above the failures that can be configured.
	maxRow = 1 << 15
)

// noteStatus remembers the status of a failure, for what a client is told when the breaker is open.
func (br *breakerRecord) noteStatus(status int) {
	if br.last = 0; status > statusBase && status <= statusBase+255 {
		br.last = uint8(status - statusBase)
	}
}

// lastStatus is the status of the last failure; 0: it had none.
func (br *breakerRecord) lastStatus() int {
	if br.last == 0 {
		return 0
	}
	return statusBase + int(br.last)
}

// slide drops the parts of the window that are over, and begins new ones.
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

// breakerArray is an encoded breaker.
type breakerArray [52]byte

func (br *breakerRecord) load(b *breakerArray) {
	br.state, br.trips, br.level, br.last = BreakerState(min(b[0], uint8(BreakerHalfOpen))), b[1], b[2], b[3]
	br.gen, br.until = get32(b[4:]), int64(get64(b[8:]))
	br.probe = ticketID{seat: get16(b[16:]), seq: get32(b[20:])}
	br.row = get16(b[18:])
	br.began = int64(get64(b[24:]))
	for i := range br.failures {
		br.failures[i] = get16(b[32+2*i:])
	}
}

func (br *breakerRecord) store(b *breakerArray) {
	b[0], b[1], b[2], b[3] = byte(br.state), br.trips, br.level, br.last
	put32(b[4:], br.gen)
	put64(b[8:], uint64(br.until))
	put16(b[16:], br.probe.seat)
	put16(b[18:], br.row)
	put32(b[20:], br.probe.seq)
	put64(b[24:], uint64(br.began))
	for i := range br.failures {
		put16(b[32+2*i:], br.failures[i])
	}
}

// maxDoublings bounds how often a time is doubled, whatever its maximum.
const maxDoublings = 32

// doubled is d doubled n times, but not above most.
func doubled(d Duration, n uint8, most Duration) Duration {
	for ; n > 0 && d < most; n-- {
		d *= 2
	}
	return min(d, most)
}
