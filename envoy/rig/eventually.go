package rig

import (
	"testing"
	"time"
)

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

// Eventually fails the test unless holds becomes true within the timeout. The condition is named in the failure.
func Eventually(t testing.TB, timeout time.Duration, condition string, holds func() bool) {
	t.Helper()
	if !Poll(timeout, holds) {
		t.Fatalf("after %v it still does not hold that %s", timeout, condition)
	}
}
