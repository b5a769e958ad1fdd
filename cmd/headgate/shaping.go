package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/headgate/headgate/admission"
)

// A shaping is how the gateway protects an upstream beyond the limits: what the flags say about holds, the breaker and
// the headroom.
type shaping struct {
	releaseCooldown time.Duration
	cancelCooldown  time.Duration
	failureHold     time.Duration
	headroom        bool
	headroomWindow  time.Duration
	breaker         bool
	failures        int // this many within window open the breaker
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

// The greatest values that the plugin configuration takes.
const (
	maxHold     = time.Duration(admission.MaxHold)
	maxFailures = 1000
	maxSpan     = 24 * time.Hour
)

func (s *shaping) addFlags(f *flagSet) {
	f.startSection(sectionAfterRequest)
	f.addDuration(&s.releaseCooldown, "release-cooldown", 0, maxHold,
		"Keep a permit out of use for `DURATION` after its request has ended.")
	f.addDuration(&s.cancelCooldown, "cancel-cooldown", 0, maxHold,
		"When the client has left, keep the permit out of use for another `DURATION` after --release-cooldown.")
	f.addDuration(&s.failureHold, "failure-hold", 0, maxHold,
		"After a failure (5xx, 429, no answer), keep the permit out of use for another `DURATION` "+
			"after --release-cooldown. A --cb-penalty above 0 replaces this.")
	f.addSwitch(&s.headroom, "adaptive-headroom",
		"After the upstream's 429, let one request less run at once until --adaptive-headroom-window has passed "+
			"without a 429.")
	f.addDuration(&s.headroomWindow, "adaptive-headroom-window", shortest, maxSpan,
		"End the effect of --adaptive-headroom when `DURATION` has passed without a 429.")
	f.startSection(sectionBreaker)
	f.addSwitch(&s.breaker, "circuit-breaker",
		"After too many failures, answer 503 for a while and leave the upstream alone.")
	addFlag(f, &s.failures, "cb-threshold", strconv.Itoa(s.failures),
		"Open the breaker when `N` failures have come within --cb-window.", wholeNumberBetween(1, maxFailures))
	f.addDuration(&s.window, "cb-window", shortest, maxSpan,
		"Count failures for --cb-threshold over the last `DURATION`.")
	f.addDuration(&s.open, "cb-open-timeout", shortest, maxSpan,
		"Keep the breaker open for `DURATION`, then let one request through to test the upstream. "+
			"Each failed test doubles the time.")
	f.addDuration(&s.maxOpen, "cb-max-open-timeout", shortest, maxSpan,
		"Keep the breaker open for at most `DURATION` before the next test.")
	f.addDuration(&s.penalty, "cb-penalty", 0, maxHold,
		"Keep a failure's permit out of use for `DURATION`. Each further failure in a row doubles it. "+
			"0: --failure-hold applies instead.")
	f.addDuration(&s.maxPenalty, "cb-max-penalty", 0, maxHold,
		"Let the penalty of --cb-penalty grow to at most `DURATION`.")
}

// resolveConflicts changes a default that contradicts a given flag, and refuses given flags that contradict each other.
func (s *shaping) resolveConflicts(f *flagSet) error {
	if err := f.ensureOrder("cb-open-timeout", &s.open, "cb-max-open-timeout", &s.maxOpen); err != nil {
		return err
	}
	if err := s.refuseBreakerFlags(f); err != nil {
		return err
	}
	if s.breaker && f.isGiven("failure-hold") && s.failureHold > 0 && !f.isGiven("cb-penalty") {
		s.penalty = 0 // the default penalty would replace the failure hold that was asked for
	}
	return f.ensureOrder("cb-penalty", &s.penalty, "cb-max-penalty", &s.maxPenalty)
}

// breakerFlags are the flags that do nothing without a breaker.
var breakerFlags = []string{
	"cb-threshold", "cb-window", "cb-open-timeout", "cb-max-open-timeout", "cb-penalty", "cb-max-penalty",
}

func (s *shaping) refuseBreakerFlags(f *flagSet) error {
	if s.breaker {
		return nil
	}
	for _, name := range breakerFlags {
		if f.isGiven(name) {
			return fmt.Errorf("--%s has no effect with --circuit-breaker off: leave out one of the two", name)
		}
	}
	return nil
}

// addTo gives a pool the holds, the breaker and the headroom that the flags ask for.
func (s *shaping) addTo(p *pluginPool) {
	s.addHoldsTo(p)
	if s.breaker {
		p.Breaker = &pluginBreaker{
			Failures: s.failures,
			Window:   shortDuration(s.window),
			Open:     shortDuration(s.open), MaxOpen: shortDuration(s.maxOpen),
			Penalty: shortDuration(s.penalty), MaxPenalty: shortDuration(s.maxPenalty),
		}
	}
	if s.headroom {
		p.Headroom = &pluginHeadroom{shortDuration(s.headroomWindow)}
	}
}

func (s *shaping) addHoldsTo(p *pluginPool) {
	if s.releaseCooldown+s.cancelCooldown+s.failureHold > 0 {
		p.Hold = &pluginHold{shortDuration(s.releaseCooldown), shortDuration(s.cancelCooldown), shortDuration(s.failureHold)}
	}
}
