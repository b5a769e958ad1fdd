package rig

import (
	"fmt"
	"regexp"
	"testing"
)

// H2On opens an HTTP/2 connection that is served by the worker with this number. The kernel chooses the worker of each
// connection, so it takes some tries. Nobody else may connect to the listener meanwhile.
func (e *Env) H2On(t testing.TB, worker int) *H2 {
	t.Helper()
	for range 100 {
		before := e.connections(t)
		h := e.H2(t)
		served := -1
		Await(t, "a worker serves the connection", func() bool {
			for i, n := range e.connections(t) {
				if n > before[i] {
					served = i
				}
			}
			return served >= 0
		})
		if served == worker {
			return h
		}
		h.Kill()
	}
	t.Fatalf("worker %d got none of 100 connections", worker)
	return nil
}

// connections is how many connections of the test's listener each worker has taken so far.
func (e *Env) connections(t testing.TB) []int64 {
	t.Helper()
	prefix := fmt.Sprintf("listener.127.0.0.1_%d.worker_", e.Port)
	stats, err := e.AdminStats("^" + regexp.QuoteMeta(prefix))
	if err != nil {
		t.Fatalf("read the stats: %v", err)
	}
	taken := make([]int64, e.Workers)
	for worker := range taken {
		taken[worker] = stats.Count(fmt.Sprintf("%s%d.downstream_cx_total", prefix, worker))
	}
	return taken
}
