package rig

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// drainTimeout bounds how long after the last stream's end the gauges may take to reach zero, reading them included. It
// is shorter than the time between two beats, a fifth of the default lease. So a permit that comes back only with a
// beat, or with the end of a lease, is a failure.
const drainTimeout = 10 * time.Second

// AwaitDrained waits until nothing runs or waits in the pools.
func (e *Env) AwaitDrained(t testing.TB, pools ...string) {
	t.Helper()
	for _, pool := range pools {
		for _, gauge := range []string{"inflight", "queued", "on_hold"} {
			e.AwaitGaugeWithin(t, drainTimeout, pool, gauge, 0)
		}
	}
}

// DrainCheck is what must hold after every case, once its last stream has ended: the pool's gauges are zero in bounded
// time, every evaluated request has exactly one outcome, the upstream never ran more than the limit, exactly limit
// requests are admitted again at once and one more is not, and Envoy and its VMs live. The calls that fill are like the
// given one, by default the zero Call. All of the upstream's requests must have been for one key of the pool.
func (e *Env) DrainCheck(t testing.TB, pool string, limit int, like ...Call) {
	t.Helper()
	e.AwaitDrained(t, pool)
	e.CheckIdentity(t, pool)
	if peak := e.Up.Peak(); peak > limit {
		t.Errorf("%s: %d ran at once, the limit is %d", pool, peak, limit)
	}
	call := Call{}
	if len(like) > 0 {
		call = like[0]
	}
	e.fill(t, pool, limit, call)
	e.AwaitDrained(t, pool)
	e.CheckIdentity(t, pool)
	e.CheckAlive(t)
}

var fills atomic.Int64

// fill takes every permit of a pool and shows that there is not one more.
func (e *Env) fill(t testing.TB, pool string, limit int, call Call) {
	t.Helper()
	gate := fmt.Sprintf("fill-%d", fills.Add(1))
	before := e.Up.Running()
	call.Script = Script{HeaderGate: gate}
	held := make([]*Pending, limit)
	for i := range held {
		held[i] = e.Send(t, call.With(fmt.Sprintf("%s-%d", gate, i)))
	}
	defer e.Up.Open(gate)
	if !Poll(Patience, func() bool { return e.Up.Running() == before+limit }) {
		t.Fatalf("%s: %d of %d are admitted after the drain, %d answered", pool, e.Up.Running()-before, limit,
			CountDone(held))
	}
	extra := call.With(gate + "-extra")
	extra.Deadline = 50 * time.Millisecond // where the pool has a queue, the one too many leaves it soon
	more := e.Send(t, extra)
	Poll(Patience, func() bool { return more.Done() || e.Up.Saw(extra.ID) })
	e.Up.Open(gate)
	if r := more.Wait(); r.Status != http.StatusTooManyRequests || e.Up.Saw(extra.ID) {
		t.Errorf("%s: one more than the limit %d got %s, want 429", pool, limit, r)
	}
	for _, r := range WaitAll(held) {
		if r.Status != http.StatusOK {
			t.Errorf("%s: a request within the limit got %s", pool, r)
		}
	}
}
