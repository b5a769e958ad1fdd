package envoy_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

// Waiters are admitted and expire while half of them leave at random moments, so that ticks and releases keep meeting
// streams that are gone.
func TestCase_O16_WaitersLeaveWhileOthersAreAdmittedAndExpire(t *testing.T) {
	const waiters, limit, wait = 200, 2, 600 * time.Millisecond
	env := governed(t, 1, modelPool(limit, 2*waiters, "600ms"))
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for round := range 3 {
		var calls []*rig.Pending
		leaving := map[int]bool{}
		for i := range waiters {
			calls = append(calls, env.Send(t, rig.Call{Script: rig.Script{ID: fmt.Sprintf("r%d-%d", round, i),
				Delay: 8 * time.Millisecond}}))
		}
		for _, i := range random.Perm(waiters)[:waiters/2] {
			leaving[i] = true
			how := []rig.Leave{rig.LeaveFIN, rig.LeaveRST}[i%2]
			time.AfterFunc(time.Duration(random.Int64N(int64(wait))), func() { calls[i].Leave(how) })
		}
		for i, r := range rig.WaitAll(calls) {
			if !leaving[i] && (r.Err != nil || r.Status != 200 && r.Status != 429) {
				t.Errorf("waiter %d, which stayed, got %s", i, r)
			}
		}
		env.AwaitDrained(t, "model")
	}
	if c := env.Pool(t, "model"); c["evaluated"] != 3*waiters || c["cancelled_waiting"] == 0 ||
		c["expired_max_wait"] == 0 || c["admitted_after_wait"] == 0 {
		t.Errorf("the mix that this test wants did not come about: %v", c)
	}
	env.DrainCheck(t, "model", limit)
}

func TestCase_O16_ConnectionOfFiftyWaitersDiesInTheTurnOfARelease(t *testing.T) {
	const waiters = 50
	env := governed(t, 1, modelPool(1, 2*waiters, longWait))
	for round := range 10 {
		id := fmt.Sprintf("held-%d", round)
		held := env.Hold(t, id)
		h2 := env.H2(t)
		for i := range waiters {
			h2.Send(rig.Call{}.With(fmt.Sprintf("r%d-%d", round, i)))
		}
		env.AwaitGauge(t, "model", "queued", waiters)
		last := env.Queue(t, "model", rig.Call{}.With(id+"-last"))[0]
		go env.Up.Open(id)
		h2.Kill()
		mustBeOK(t, "the held one", held.Wait())
		mustBeOK(t, "the waiter of another connection", last.Wait())
		env.AwaitDrained(t, "model")
	}
	env.DrainCheck(t, "model", 1)
}

// manyH2 spreads calls over a few connections.
func manyH2(t *testing.T, env *rig.Env, n int, call func(i int) rig.Call) []*rig.Pending {
	t.Helper()
	var connections []*rig.H2
	for range 4 {
		connections = append(connections, env.H2(t))
	}
	calls := make([]*rig.Pending, n)
	for i := range calls {
		calls[i] = connections[i%len(connections)].Send(call(i))
	}
	return calls
}

// All of them have to wait by the time that the first of them expires.
func TestTwoThousandWaitersExpireInTheSameTick(t *testing.T) {
	withEnoughTime(t, 4*time.Second, func(t *testing.T, wait time.Duration) bool {
		const waiters = 2000
		env := governed(t, 1, modelPool(1, waiters, longWait))
		held := env.Hold(t, "held")
		end := time.Now().Add(wait)
		calls := manyH2(t, env, waiters, func(int) rig.Call { return rig.Call{Deadline: time.Until(end)} })
		allWaited := rig.Poll(time.Until(end)-wait/8, func() bool { return env.Gauge(t, "model", "queued") == waiters })
		late := time.Duration(0)
		for _, r := range rig.WaitAll(calls) {
			if r.Err != nil || r.Status != http.StatusTooManyRequests || r.Reason() != rig.Expired {
				t.Fatalf("a waiter got %s", r)
			}
			late = max(late, r.End.Sub(end))
		}
		t.Logf("the last of %d was answered %v late", waiters, late.Round(time.Millisecond))
		env.CheckCounts(t, "model", rig.Counts{"expired_deadline": waiters})
		env.Up.Open("held")
		mustBeOK(t, "the held one", held.Wait())
		env.DrainCheck(t, "model", 1)
		return allWaited
	})
}

func TestTwoThousandWaitersWokenByARaisedLimit(t *testing.T) {
	const waiters = 2000
	pool := modelPool(1, waiters, longWait)
	env := governed(t, 1, pool)
	held := env.Hold(t, "held")
	calls := manyH2(t, env, waiters, func(i int) rig.Call { return rig.Call{Script: rig.Script{NoBody: true}} })
	env.AwaitGauge(t, "model", "queued", waiters)
	pool.Limit = 3000
	mustUpdate(t, env, pool)
	for _, r := range rig.WaitAll(calls) {
		mustBeOK(t, "a waiter", r)
	}
	if n := env.Gauge(t, "model", "inflight"); n != 1 {
		t.Errorf("inflight is %d while one request runs", n)
	}
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	env.CheckCounts(t, "model", rig.Counts{"admitted_after_wait": waiters})
	pool.Limit = 2
	mustUpdate(t, env, pool)
	env.Up.ResetPeak()
	env.DrainCheck(t, "model", 2)
}

// A churn is many clients that send one request after another and leave a fifth of them, and what became of the
// requests.
type churn struct {
	sent, served, odd atomic.Int64

	mu   sync.Mutex
	left map[string]time.Time // when, by id
}

func (c *churn) leave(p *rig.Pending, id string, how rig.Leave) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.Done() {
		return
	}
	if c.left == nil {
		c.left = map[string]time.Time{}
	}
	c.left[id] = time.Now()
	p.Leave(how)
}

func (c *churn) hasLeft(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.left[id].IsZero()
}

// run keeps clients at it until it is over. A client leaves a request at a random moment, most of them in the queue, or
// in mid-stream. Whatever it does, it does not wait longer than patience for a reply.
func (c *churn) run(t *testing.T, env *rig.Env, clients int, patience time.Duration, over func() bool) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var all sync.WaitGroup
	for i := range clients {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		all.Go(func() {
			for !over() {
				c.request(t, env, random, patience)
			}
		})
	}
	all.Wait()
}

func (c *churn) request(t *testing.T, env *rig.Env, random *rand.Rand, patience time.Duration) {
	script := rig.Script{Delay: time.Duration(5+random.IntN(15)) * time.Millisecond}
	if random.IntN(2) == 0 {
		script = rig.Script{Chunks: 2, Gap: time.Duration(3+random.IntN(7)) * time.Millisecond}
	}
	how := []rig.Leave{rig.LeaveFIN, rig.LeaveRST}[random.IntN(2)]
	leavesMidStream, leavesSometime := random.IntN(10) == 0, random.IntN(10) == 0
	if leavesMidStream {
		script = rig.Script{Chunks: 1, Hang: true}
	}
	if leavesSometime {
		patience = time.Duration(random.Int64N(int64(600 * time.Millisecond)))
	}
	script.ID = fmt.Sprint("churn-", c.sent.Add(1))
	p := env.Send(t, rig.Call{Script: script})
	timer := time.AfterFunc(patience, func() { c.leave(p, script.ID, how) })
	defer timer.Stop()
	if leavesMidStream {
		rig.Poll(patience, func() bool { return p.Done() || p.Got("data: 0") })
		c.leave(p, script.ID, how)
	}
	switch r := p.Wait(); {
	case c.hasLeft(script.ID):
	case r.Err == nil && r.Status == http.StatusOK:
		c.served.Add(1)
	default:
		c.odd.Add(1)
	}
}

func TestCase_O18_ChurnNeitherLeaksNorOvershoots(t *testing.T) {
	const clients, limit, duration = 300, 10, 3 * time.Second
	for _, workers := range []int{2, 4} {
		t.Run(fmt.Sprintf("%d workers", workers), func(t *testing.T) {
			env := governed(t, workers, modelPool(limit, 2*clients, longWait))
			var c churn
			end := time.Now().Add(duration)
			c.run(t, env, clients, rig.Patience, func() bool { return time.Now().After(end) })
			env.AwaitDrained(t, "model")
			counts := env.Pool(t, "model")
			t.Logf("%d requests, %d left, %d of them in the queue; %d swaps again", c.sent.Load(), len(c.left),
				counts["cancelled_waiting"], counts["cas_retry"])
			if c.odd.Load() > 0 {
				t.Errorf("%d of %d requests were neither served nor left", c.odd.Load(), c.sent.Load())
			}
			if counts["evaluated"] > c.sent.Load() || counts["admitted"] < c.served.Load() ||
				counts["store_error"]+counts["reaped"] > 0 {
				t.Errorf("%d sent and %d served, the counts are %v", c.sent.Load(), c.served.Load(), counts)
			}
			if int64(len(c.left)) < c.sent.Load()/10 || counts["cancelled_waiting"] == 0 {
				t.Errorf("the mix that this test wants did not come about: %d of %d left, the counts are %v", len(c.left),
					c.sent.Load(), counts)
			}
			if peak := env.Up.PeakUntil(c.left); peak != limit {
				t.Errorf("%d ran at once at most, want exactly %d", peak, limit)
			}
			env.Up.ResetPeak()
			env.DrainCheck(t, "model", limit)
		})
	}
}
