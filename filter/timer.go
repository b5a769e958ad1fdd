package filter

import (
	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/filter/abi"
)

const millisecond = int64(admission.Millisecond)

// A timer is when the plugin context wants to be called. It ticks only while something needs time. The host's timer goes on
// ringing with one period until it is set anew.
type timer struct {
	period   int64 // of the host's timer, nanoseconds; 0: stopped
	nextTick int64 // when it rings next. While ticking: the earliest time asked for so far; 0: none
	ticking  bool  // in OnTick: times are collected, and the timer is set once, at the end
}

// wakeBy asks for a tick at that time at the latest.
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

// arm sets the host's timer, in whole milliseconds.
func (t *timer) arm(now, at int64) {
	period := max((at-now+millisecond-1)/millisecond, 1) * millisecond
	if period != t.period {
		t.period = period
		abi.SetTick(uint32(period / millisecond))
	}
	t.nextTick = now + period
}

// ring begins a tick.
func (t *timer) ring() { t.ticking, t.nextTick = true, 0 }

// rearm ends a tick: it sets the timer to the earliest time asked for, or stops it.
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
