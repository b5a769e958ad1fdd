package wasmtest

import "time"

// Errno is an error of a WASI call.
type Errno uint32

// The WASI errors this host gives; [Host.FailClock] takes any of them.
const (
	ErrnoSuccess Errno = 0
	ErrnoBadf    Errno = 8
	ErrnoFault   Errno = 21
	ErrnoInval   Errno = 28
	ErrnoIO      Errno = 29
	ErrnoNoent   Errno = 44
	ErrnoNosys   Errno = 52
	ErrnoNotsup  Errno = 58
)

// ClockID names a WASI clock.
type ClockID uint32

// The two clocks that the real host offers; the monotonic one is common to all VMs.
const (
	ClockRealtime  ClockID = 0
	ClockMonotonic ClockID = 1
)

// Where the clocks of a new host stand. The monotonic clock doesn't start at zero, as no machine's does when a proxy
// starts.
var startWall = time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC)

const startMonotonic = 1000 * time.Second

// clock is virtual: it moves only when the test says so, so that two VMs see the same nanosecond unless told otherwise.
type clock struct {
	monotonic int64
	wall      int64
	errno     [2]Errno
}

func newClock() clock {
	return clock{monotonic: int64(startMonotonic), wall: startWall.UnixNano()}
}

func (c *clock) advance(d time.Duration) {
	c.monotonic += int64(d)
	c.wall += int64(d)
}

func (c *clock) read(id ClockID) (uint64, Errno) {
	switch id {
	case ClockRealtime:
		return uint64(c.wall), c.errno[id]
	case ClockMonotonic:
		return uint64(c.monotonic), c.errno[id]
	}
	return 0, ErrnoNotsup
}

// Elapsed is the virtual time since the host was made.
func (h *Host) Elapsed() time.Duration {
	return time.Duration(h.clock.monotonic) - startMonotonic
}

// Monotonic is what clock_time_get(1) answers every guest, in nanoseconds.
func (h *Host) Monotonic() int64 { return h.clock.monotonic }

// WallTime is what clock_time_get(0) and proxy_get_current_time_nanoseconds answer every guest.
func (h *Host) WallTime() time.Time { return time.Unix(0, h.clock.wall).UTC() }

// Advance moves both clocks forward by d and delivers nothing: ticks that come due meanwhile become pending, each
// root's at most once, as on a worker that was busy that long. It panics when d is negative. See [Host.Run].
func (h *Host) Advance(d time.Duration) {
	if d < 0 {
		panic("wasmtest: Advance by " + d.String() + ": the monotonic clock never goes back (see StepWallClock)")
	}
	h.clock.advance(d)
}

// StepWallClock moves the wall clock alone, forwards or backwards, as when someone sets the machine's time.
func (h *Host) StepWallClock(d time.Duration) { h.clock.wall += int64(d) }

// FailClock makes clock_time_get answer errno for that clock until called with [ErrnoSuccess]. The real host's clocks
// don't fail; other hosts' may. proxy_get_current_time_nanoseconds can't fail.
func (h *Host) FailClock(id ClockID, errno Errno) {
	if id > ClockMonotonic {
		panic("wasmtest: no such clock")
	}
	h.clock.errno[id] = errno
}
