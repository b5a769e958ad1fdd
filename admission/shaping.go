package admission

// MaxLimit bounds every count of requests that an operator can set: a limit, a queue, a route's limit.
const MaxLimit = 1_000_000

// MaxHold is the longest time that a permit can stay on hold, whatever the configuration or a provider asks for.
const MaxHold = 10 * Minute

// Shaping is what an operator configures about the permits of a pool beyond its limit.
type Shaping struct {
	ReapHold  Duration // how long the permits of a dead worker stay on hold: its requests may still run at the provider
	MinActive int      // a permit is not put on hold if fewer permits than this would stay in use or free
	Hold      Hold
	Breaker   *Breaker  // nil: none
	Headroom  *Headroom // nil: none
}

// Hold says how long a permit stays out of use after its request ended, by how it ended.
type Hold struct {
	Success, Cancel, Failure Duration
}

// A Breaker says when a pool key stops admitting because its provider fails.
type Breaker struct {
	Failures            int // so many failures within Window open it
	Window              Duration
	Open, MaxOpen       Duration // how long it stays open; doubled each time in a row, up to MaxOpen
	Penalty, MaxPenalty Duration // the hold after a failure, doubled with each in a row up to MaxPenalty; 0: Hold.Failure
}

// Headroom says how a provider's pushback lowers the limit in force.
type Headroom struct {
	AIMD   bool // mode aimd; else step
	Window Duration
	Min    int // the limit in force is never lowered below it
}
