package rig

import (
	"sync"
	"testing"
)

var (
	sharedMu sync.Mutex
	shared   = map[int]*Envoy{}
)

// Shared returns the Envoy with this number of workers that the tests of this binary share: V8 compiles the module for
// seconds at each start of an Envoy. If it has died, the next test gets a new one. Main stops them.
func Shared(t testing.TB, workers int) *Envoy {
	t.Helper()
	sharedMu.Lock()
	defer sharedMu.Unlock()
	if e := shared[workers]; e != nil && e.Alive() {
		return e
	}
	e, err := Launch(Options{Workers: workers})
	if err != nil {
		t.Fatal(err)
	}
	shared[workers] = e
	return e
}

// Main runs the tests, stops the shared Envoys and returns the exit code: the body of a TestMain.
func Main(m *testing.M) int {
	defer stopShared()
	return m.Run()
}

func stopShared() {
	sharedMu.Lock()
	defer sharedMu.Unlock()
	for workers, e := range shared {
		e.Stop()
		delete(shared, workers)
	}
}
