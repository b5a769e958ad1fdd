package filter

import (
	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/filter/abi"
)

const millisecond = int64(admission.Millisecond)

// A timer is the time at which the plugin context wants a tick. There are ticks only while something depends on time.
// The host has one timer for each context, which ticks with one period until it gets another.
type timer struct {
	_ incomparable

	period   int64 // of the host's timer in nanoseconds; 0: stopped
	nextTick int64 // when the host ticks next; while ticking the earliest time asked for so far, 0: none
	ticking  bool  // in OnTick: it collects the times that are asked for, and sets the host's timer at its end
}

// wakeBy asks for a tick no later than at.
func (t *timer) wakeBy(now, at int64) {
	if t.ticking {
		if t.nextTick == 0 || at < t.nextTick {
			t.nextTick = at
		}
		return
	}
	if t.period == 0 || at < t.nextTick {
		t.arm(now, at)
	}
}

// restart sets the host's timer anew, to its shortest time. So it does not ring in the current turn of the event loop,
// where it may have been about to.
func (t *timer) restart(now int64) {
	t.period = 0
	t.arm(now, now)
}

// arm sets the host's timer to tick at the time at, rounded up to whole milliseconds from now.
func (t *timer) arm(now, at int64) {
	period := max((at-now+millisecond-1)/millisecond, 1) * millisecond
	if period != t.period {
		t.period = period
		abi.SetTick(uint32(period / millisecond))
	}
	t.nextTick = now + period
}

// ring begins a tick: from now on times are collected.
func (t *timer) ring() { t.ticking, t.nextTick = true, 0 }

// rearm ends a tick: it sets the host's timer to the earliest time asked for, or stops it.
func (t *timer) rearm(now int64) {
	t.ticking = false
	if t.nextTick > 0 {
		t.arm(now, t.nextTick)
		return
	}
	if t.period != 0 {
		abi.SetTick(0)
	}
	t.period = 0
}
