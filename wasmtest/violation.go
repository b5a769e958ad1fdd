package wasmtest

import (
	"fmt"
	"time"
)

// ViolationKind says which rule of the real host a guest broke.
type ViolationKind string

// Mistakes that do harm in a real proxy, and that no status tells the guest about.
const (
	// GaugeWrapped: a gauge was decremented below zero and reads 2^64-1 or so from then on.
	GaugeWrapped ViolationKind = "gauge wrapped below zero"
	// ReplyFromOtherStream: a local reply to one stream asked for inside a header, body or trailer callback of another:
	// the host then stops the calling stream, which nobody resumes.
	ReplyFromOtherStream ViolationKind = "local reply to another stream from within a stream callback"
	// ContinueNotPaused: a continue reached a stream that wasn't paused: it never was, it was resumed twice, or its
	// callback hadn't returned Pause yet. The real host asserts, or forwards the headers and then stops for ever.
	ContinueNotPaused ViolationKind = "continue of a stream that is not paused"
	// ActionWithoutStream: continue, close or local reply with no stream as the effective context. Silently lost.
	ActionWithoutStream ViolationKind = "stream action in a context without a stream"
	// TooManyActions: so many actions were queued in one callback that the real host overflows its stack.
	TooManyActions ViolationKind = "too many stream actions in one callback"
	// BadPairs: a malformed header map was handed over; the real host takes it for an empty one.
	BadPairs ViolationKind = "malformed header map"
	// EndlessEvents: [Host.Drain] gave up, because events kept making events without time passing.
	EndlessEvents ViolationKind = "events without end"
)

// Violation is one broken rule. Tests should expect none: see [Host.Verify].
type Violation struct {
	Kind    ViolationKind
	Worker  string        // "w0", "main", "canary", or "" when it is no VM's
	Message string        // what happened
	At      time.Duration // virtual time since the host's start
}

func (v Violation) String() string {
	return fmt.Sprintf("%s %s: %s: %s", v.At, v.Worker, v.Kind, v.Message)
}

// Violations lists the rules broken so far, in order.
func (h *Host) Violations() []Violation { return append([]Violation(nil), h.violations...) }

// ForgetViolations empties the list, for a test that provokes one on purpose.
func (h *Host) ForgetViolations() { h.violations = nil }

func (h *Host) violate(worker string, kind ViolationKind, format string, args ...any) {
	v := Violation{Kind: kind, Worker: worker, Message: fmt.Sprintf(format, args...), At: h.Elapsed()}
	h.violations = append(h.violations, v)
	h.trace(worker, "VIOLATION %s: %s", v.Kind, v.Message)
}

func (vm *VM) violate(kind ViolationKind, format string, args ...any) {
	vm.host.violate(vm.name(), kind, format, args...)
}
