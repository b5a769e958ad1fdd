package rig

import (
	"testing"
)

// Run sends a call that must be admitted at once and waits until it runs at the upstream. The call needs an id.
func (e *Env) Run(t testing.TB, c Call) *Pending {
	t.Helper()
	p := e.Send(t, c)
	e.AwaitRunning(t, c.ID, p)
	return p
}

// AwaitRunning waits until the upstream has seen a request with this id.
func (e *Env) AwaitRunning(t testing.TB, id string, p *Pending) {
	t.Helper()
	Poll(Patience, func() bool { return e.Up.Saw(id) || p.Done() })
	if !e.Up.Saw(id) {
		t.Fatalf("request %s was not admitted: %s", id, p.describe())
	}
}

// Hold is Run of a request that the upstream keeps, headers and all, until the gate named like the id opens.
func (e *Env) Hold(t testing.TB, id string, like ...Call) *Pending {
	t.Helper()
	call := Call{}
	if len(like) > 0 {
		call = like[0]
	}
	call.ID, call.HeaderGate = id, id
	return e.Run(t, call)
}

// Queue sends calls one after another, each once the one before it waits in the pool, so that their order is known.
func (e *Env) Queue(t testing.TB, pool string, calls ...Call) []*Pending {
	t.Helper()
	queued := e.Pool(t, pool)["queued"]
	pending := make([]*Pending, len(calls))
	for i, c := range calls {
		pending[i] = e.Send(t, c)
		e.AwaitGauge(t, pool, "queued", queued+int64(i)+1)
	}
	return pending
}

// AwaitEnd waits until the upstream's request with this id has ended and returns it.
func (e *Env) AwaitEnd(t testing.TB, id string) Seen {
	t.Helper()
	var seen Seen
	Await(t, "request "+id+" has ended at the upstream", func() bool {
		seen, _ = e.Up.Request(id)
		return seen.Ending != EndingNone
	})
	return seen
}
