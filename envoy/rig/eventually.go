package rig

import (
	"testing"
	"time"
)

// Patience bounds every wait for what has to happen sooner or later. It says nothing about how soon: that is for the
// assertions of a test. It is long because a busy machine is slow (Envoy then compiles the module for half a minute),
// and it costs nothing, because a test that passes never waits to its end.
const Patience = 2 * time.Minute

// pollInterval is short against a tick of the filter (10 ms), so that polling adds no lateness worth measuring.
const pollInterval = 2 * time.Millisecond

// Poll asks holds until it is true or the timeout is over, and reports whether it became true.
func Poll(timeout time.Duration, holds func() bool) bool {
	end := time.Now().Add(timeout)
	for !holds() {
		if time.Now().After(end) {
			return false
		}
		time.Sleep(pollInterval)
	}
	return true
}

// Await waits until holds is true, and fails the test if its patience ends. The condition is named in the failure.
func Await(t testing.TB, condition string, holds func() bool) {
	t.Helper()
	Eventually(t, Patience, condition, holds)
}

// Eventually is Await with a bound of its own.
func Eventually(t testing.TB, timeout time.Duration, condition string, holds func() bool) {
	t.Helper()
	if !Poll(timeout, holds) {
		t.Fatalf("after %v it still does not hold that %s", timeout, condition)
	}
}
