package main

import (
	"fmt"
	"time"
)

// A shaping is how the gateway spares an upstream that counts differently: what its flags decide besides the limits.
type shaping struct {
	releaseCooldown time.Duration
	cancelCooldown  time.Duration
	failureHold     time.Duration
	headroom        bool
	headroomWindow  time.Duration
	breaker         bool
	failures        int // within window open the breaker
	window          time.Duration
	open            time.Duration
	maxOpen         time.Duration
	penalty         time.Duration
	maxPenalty      time.Duration
}

func defaultShaping() shaping {
	return shaping{
		releaseCooldown: 200 * time.Millisecond,
		cancelCooldown:  200 * time.Millisecond,
		failureHold:     2 * time.Second,
		headroomWindow:  30 * time.Second,
		breaker:         true,
		failures:        5,
		window:          30 * time.Second,
		open:            10 * time.Second,
		maxOpen:         120 * time.Second,
		penalty:         2 * time.Second,
		maxPenalty:      60 * time.Second,
	}
}

// What the plugin configuration takes of each.
const (
	maxHold     = 10 * time.Minute
	maxFailures = 1000
	maxSpan     = 24 * time.Hour
)

func (s *shaping) flags(f *flagSet) {
	f.duration(&s.releaseCooldown, "release-cooldown", 0, maxHold, "`DURATION` that a permit stays out of use after its request, for an upstream that still counts it")
	f.duration(&s.cancelCooldown, "cancel-cooldown", 0, maxHold, "`DURATION` more after a request whose client left")
	f.duration(&s.failureHold, "failure-hold", 0, maxHold, "`DURATION` more after a failure (5xx, 429, no answer), unless --cb-penalty is in its place")
	f.onOff(&s.headroom, "adaptive-headroom", "after the upstream's 429, one request less at once (`on|off`)")
	f.duration(&s.headroomWindow, "adaptive-headroom-window", time.Millisecond, maxSpan, "until this `DURATION` has passed without another 429")
	f.onOff(&s.breaker, "circuit-breaker", "after failures, 503 for a while instead of more tries (`on|off`)")
	value(f, &s.failures, "cb-threshold", "5", "`N` failures open it ...", numberTo(1, maxFailures))
	f.duration(&s.window, "cb-window", time.Millisecond, maxSpan, "... within this `DURATION`")
	f.duration(&s.open, "cb-open-timeout", time.Millisecond, maxSpan, "`DURATION` until one request may try again; doubled each time it fails")
	f.duration(&s.maxOpen, "cb-max-open-timeout", time.Millisecond, maxSpan, "`DURATION` at most")
	f.duration(&s.penalty, "cb-penalty", 0, maxSpan, "`DURATION` that a failure's permit stays out of use, doubled with each in a row; 0: --failure-hold")
	f.duration(&s.maxPenalty, "cb-max-penalty", 0, maxSpan, "`DURATION` at most")
}

// settle refuses what contradicts itself, and lets defaults give way to what was given.
func (s *shaping) settle(f *flagSet) error {
	if err := f.order("cb-open-timeout", &s.open, "cb-max-open-timeout", &s.maxOpen); err != nil {
		return err
	}
	if err := s.settleFailures(f); err != nil {
		return err
	}
	return f.order("cb-penalty", &s.penalty, "cb-max-penalty", &s.maxPenalty)
}

// breakerFlags are what only a breaker has a use for.
var breakerFlags = []string{"cb-threshold", "cb-window", "cb-open-timeout", "cb-max-open-timeout", "cb-penalty", "cb-max-penalty"}

// settleFailures decides what holds a permit after a failure: the breaker's penalty, or a failure hold that was given where
// no penalty was.
func (s *shaping) settleFailures(f *flagSet) error {
	if !s.breaker {
		for _, name := range breakerFlags {
			if f.given(name) {
				return fmt.Errorf("--%s is of no use with --circuit-breaker off: want one of them", name)
			}
		}
		return nil
	}
	if f.given("failure-hold") && s.failureHold > 0 && !f.given("cb-penalty") {
		s.penalty = 0
	}
	return nil
}

// protect adds to a pool what the flags ask for.
func (s *shaping) protect(p *pluginPool) {
	if s.releaseCooldown+s.cancelCooldown+s.failureHold > 0 {
		p.Hold = &pluginHold{short(s.releaseCooldown), short(s.cancelCooldown), short(s.failureHold)}
	}
	if s.breaker {
		p.Breaker = &pluginBreaker{s.failures, short(s.window), short(s.open), short(s.maxOpen), short(s.penalty), short(s.maxPenalty)}
	}
	if s.headroom {
		p.Headroom = &pluginHeadroom{short(s.headroomWindow)}
	}
}
