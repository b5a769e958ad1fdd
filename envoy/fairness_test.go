package envoy_test

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

// fairPool is a model pool that its waiting tenants share, equally but for the weights.
func fairPool(limit, queue int64, wait string, weights map[string]int) rig.Pool {
	p := modelPool(limit, queue, wait)
	p.FairBy, p.Weights = "tenant", weights
	return p
}

// fair is a listener with such a pool; its upstream counts by tenant.
func fair(t *testing.T, workers int, pool rig.Pool) *rig.Env {
	t.Helper()
	env := governed(t, workers, pool)
	env.Up.KeyHeader("x-tenant")
	return env
}

// Streams of 2 s against requests of 125 ms, each tenant with a backlog. First come, first served and round robin would
// give the long ones nearly all permits.
func TestTenantsOfUnequalStreamsHoldTheirShares(t *testing.T) {
	const long, short = 2 * time.Second, 125 * time.Millisecond
	for name, c := range map[string]struct {
		limit   int
		weights map[string]int
		want    map[string]float64
	}{
		"equal":    {10, nil, map[string]float64{"long": 5, "short": 5}},
		"weighted": {9, map[string]int{"long": 2}, map[string]float64{"long": 6, "short": 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := fair(t, 2, fairPool(int64(c.limit), 100, longWait, c.weights))
			stop := backlog(t, env, 30, map[string]rig.Script{"long": {Chunks: 1, Gap: long}, "short": {Delay: short}})
			rig.Await(t, "those that were there first have ended, whoever sent them", func() bool { return ended(env, c.limit) })
			from := time.Now()
			to := from.Add(2 * long)
			rig.Await(t, "the time to measure is over", func() bool { return time.Now().After(to) })
			checkShares(t, env, c.limit, c.want, from, to)
			if peak := env.Up.Peak(); peak != c.limit {
				t.Errorf("%d ran at once at most, want %d", peak, c.limit)
			}
			stop()
			env.Up.ResetPeak()
			env.DrainCheck(t, "model", c.limit)
		})
	}
}

// checkShares checks what part of the permits each tenant held. Between two requests the upstream does not see a permit
// in use, and on a busy machine that costs the tenant of short requests most. So the parts are of what the upstream
// saw.
func checkShares(t *testing.T, env *rig.Env, limit int, want map[string]float64, from, to time.Time) {
	t.Helper()
	got, sum := map[string]float64{}, 0.0
	for tenant := range want {
		got[tenant] = env.Up.Average(tenant, from, to)
		sum += got[tenant]
	}
	t.Logf("permits held on average: %v, the shares are %v", got, want)
	checkInUse(t, sum, limit)
	for tenant := range want {
		if held := got[tenant] * float64(limit) / sum; math.Abs(held-want[tenant]) > 0.5 {
			t.Errorf("%s held %.2f permits on average, its share is %v", tenant, held, want[tenant])
		}
	}
}

// ended says whether the first n requests at the upstream have ended.
func ended(env *rig.Env, n int) bool {
	first := env.Up.Requests()
	return len(first) >= n && !slices.ContainsFunc(first[:n], func(s rig.Seen) bool { return s.Ending == rig.EndingNone })
}

// backlog keeps that many requests of each tenant under way until it is stopped, which ends those that still are.
func backlog(t *testing.T, env *rig.Env, clients int, tenants map[string]rig.Script) (stop func()) {
	t.Helper()
	var stopped atomic.Bool
	var all sync.WaitGroup
	var conns []*rig.H2
	for tenant, script := range tenants {
		conn := env.H2(t)
		conns = append(conns, conn)
		for range clients {
			all.Go(func() {
				for !stopped.Load() {
					r := conn.Do(rig.Call{Tenant: tenant, Script: script})
					if (r.Status != http.StatusOK || r.Err != nil) && !stopped.Load() {
						t.Errorf("tenant %s: got %s", tenant, r)
						return
					}
				}
			})
		}
	}
	return func() {
		stopped.Store(true)
		for _, conn := range conns {
			conn.Kill()
		}
		all.Wait()
	}
}

const floodService = 200 * time.Millisecond

// floods are the requests of a flood. They take different times, so that they don't all end at once for ever.
func floods(i int) rig.Call {
	return rig.Call{Tenant: "greedy", Script: rig.Script{Delay: floodService/2 + floodService*time.Duration(i%11)/10}}
}

// smallTenant sends one request after another and checks that none of them waits behind the flood: the next permit goes
// to the tenant with the least load. The few of the flood that still start before it were granted before it came.
func smallTenant(t *testing.T, env *rig.Env, limit, requests int) {
	t.Helper()
	var waits []time.Duration
	for i := range requests {
		c := rig.Call{Tenant: "small", Script: rig.Script{ID: fmt.Sprint("small-", i), Delay: floodService}}
		r := env.Do(t, c)
		mustBeOK(t, "the small tenant", r)
		seen, _ := env.Up.Request(c.ID)
		waits = append(waits, seen.Start.Sub(r.Start))
		overtaken := 0
		for _, other := range env.Up.Requests() {
			if other.Key == "greedy" && other.Start.After(r.Start) && other.Start.Before(seen.Start) {
				overtaken++
			}
		}
		if overtaken > 3*limit {
			t.Errorf("the small tenant's request %d was overtaken by %d of the flood", i, overtaken)
		}
	}
	slices.Sort(waits)
	t.Logf("the small tenant waited %v at the median, %v at most", median(waits), waits[len(waits)-1])
}

func TestCase_O07_FloodThatFitsTheQueueDelaysNobodyElse(t *testing.T) {
	t.Parallel()
	const limit, flood, requests = 4, 300, 12
	env := fair(t, 2, fairPool(limit, 600, longWait, nil))
	calls := manyH2(t, env, flood, floods)
	env.AwaitGauge(t, "model", "evaluated", flood)
	from := time.Now()
	smallTenant(t, env, limit, requests)
	to := time.Now()
	if n := rig.CountDone(calls); n > flood-2*limit {
		t.Errorf("the flood ended too early: %d of %d", n, flood)
	}
	checkInUse(t, env.Up.Average("greedy", from, to)+env.Up.Average("small", from, to), limit)
	for _, p := range calls {
		if p.Done() {
			mustBeOK(t, "the flood", p.Wait())
		}
		p.Leave(rig.LeaveRST)
	}
	rig.WaitAll(calls)
	env.CheckCounts(t, "model", rig.Counts{"rejected_queue_full": 0})
	env.Up.ResetPeak()
	env.DrainCheck(t, "model", limit)
}

// checkInUse checks that permits were in use while others waited. Half of them is enough: on a busy machine it takes
// long until a permit's next request arrives at the upstream.
func checkInUse(t *testing.T, average float64, limit int) {
	t.Helper()
	if average < 0.5*float64(limit) {
		t.Errorf("%.2f of %d permits were in use on average while others waited", average, limit)
	}
}

// A tenant alone gets half of the queue's places. The other half is left for the tenants that come.
func TestCase_O07_FloodThatOverflowsTheQueueFillsItsShareOfIt(t *testing.T) {
	t.Parallel()
	const limit, queue, clients, requests = 4, 40, 60, 12
	env := fair(t, 2, fairPool(limit, queue, longWait, nil))
	var stopped atomic.Bool
	var refused atomic.Int64
	var all sync.WaitGroup
	for i := range clients {
		conn := env.Dial(t)
		all.Go(func() {
			for !stopped.Load() {
				r := conn.Do(floods(i))
				if r.Status == http.StatusTooManyRequests {
					refused.Add(1)
					return
				}
			}
		})
	}
	rig.Await(t, "half of the queue is full and the rest of the flood refused", func() bool {
		return refused.Load() >= clients-limit-queue/2 && env.Gauge(t, "model", "queued") >= queue/2-1
	})
	smallTenant(t, env, limit, requests)
	rig.Await(t, "the flood has its share of the queue again", func() bool {
		n := env.Gauge(t, "model", "queued")
		if n > queue/2+1 {
			t.Fatalf("%d wait, the share of a tenant alone is %d", n, queue/2)
		}
		return n >= queue/2-limit
	})
	stopped.Store(true)
	all.Wait()
	if n := refused.Load(); n > clients-limit-queue/2+limit {
		t.Errorf("%d of the flood were refused", n)
	}
	env.DrainCheck(t, "model", limit)
}

// A fairOrder follows grants one by one and says what is wrong with them (invariants I5 and I6).
type fairOrder struct {
	weights          map[string]int
	running, waiting map[string]int
	overtaken        map[[2]string]int // {who, by whom}: grants since who waits with nothing running
}

func (o *fairOrder) weight(tenant string) int { return max(1, o.weights[tenant]) }

// less says whether a has less running for its weight than b.
func (o *fairOrder) less(a, b string) bool {
	return o.running[a]*o.weight(b) < o.running[b]*o.weight(a)
}

func (o *fairOrder) grant(tenant string) error {
	for _, other := range slices.Sorted(maps.Keys(o.waiting)) {
		if other == tenant || o.waiting[other] == 0 {
			continue
		}
		if o.less(other, tenant) {
			return fmt.Errorf("%s was granted with %d running, %s waits with %d", tenant, o.running[tenant], other,
				o.running[other])
		}
		if by := [2]string{other, tenant}; o.running[other] == 0 {
			if o.overtaken[by]++; o.overtaken[by] > 1 {
				return fmt.Errorf("%s, which has nothing running, was overtaken %d times by %s", other, o.overtaken[by], tenant)
			}
		}
	}
	o.waiting[tenant]--
	o.running[tenant]++
	maps.DeleteFunc(o.overtaken, func(by [2]string, _ int) bool { return by[0] == tenant })
	return nil
}

func TestFairOrderFindsWhatIsWrong(t *testing.T) {
	o := fairOrder{running: map[string]int{"a": 2, "b": 1, "c": 1}, waiting: map[string]int{"a": 1, "b": 1},
		overtaken: map[[2]string]int{}}
	if o.grant("a") == nil {
		t.Error("a grant to the tenant with more is not found")
	}
	o.weights = map[string]int{"a": 3}
	if err := o.grant("a"); err != nil {
		t.Error(err)
	}
	o = fairOrder{running: map[string]int{}, waiting: map[string]int{"a": 3, "b": 1}, overtaken: map[[2]string]int{}}
	for i := range 2 {
		o.running["a"] = 0
		if err := o.grant("a"); (err == nil) != (i == 0) {
			t.Errorf("overtaking for the %d. time: %v", i+1, err)
		}
	}
}

// One release after another, each of which must go to the waiting tenant with the least running for its weight, inside
// a tenant to the oldest. The waiters are spread over all workers.
func TestEachReleaseGoesToTheTenantWithTheLeastForItsWeight(t *testing.T) {
	for _, limit := range []int{1, 3} {
		t.Run(fmt.Sprintf("limit %d", limit), func(t *testing.T) {
			weights := map[string]int{"heavy": 2}
			env := fair(t, 4, fairPool(int64(limit), 60, longWait, weights))
			o := fairOrder{weights: weights, running: map[string]int{}, waiting: map[string]int{},
				overtaken: map[[2]string]int{}}
			var calls []*rig.Pending
			var running []string
			send := func(tenant string) rig.Call {
				id := fmt.Sprintf("%s-%02d", tenant, len(calls))
				return rig.Call{Tenant: tenant, Script: rig.Script{ID: id, HeaderGate: id}}
			}
			for range limit {
				c := send("greedy")
				calls, running = append(calls, env.Run(t, c)), append(running, c.ID)
				o.running["greedy"]++
			}
			for _, tenant := range []string{"greedy", "greedy", "greedy", "greedy", "heavy", "small", "heavy", "greedy",
				"heavy", "small", "late", "heavy", "late"} {
				calls = append(calls, env.Queue(t, "model", send(tenant))...)
				o.waiting[tenant]++
			}
			last := map[string]string{}
			for seen := limit; seen < len(calls); seen++ {
				ended := running[0]
				running = running[1:]
				before, _ := env.Up.Request(ended)
				env.Up.Open(ended)
				rig.Await(t, "the release admits a waiter", func() bool { return len(env.Up.Requests()) == seen+1 })
				o.running[before.Key]--
				next := env.Up.Requests()[seen]
				if err := o.grant(next.Key); err != nil {
					t.Fatalf("grant %d of %v: %v", seen-limit+1, env.Up.IDs(), err)
				}
				if next.ID < last[next.Key] {
					t.Errorf("%s was admitted after %s", next.ID, last[next.Key])
				}
				last[next.Key] = next.ID
				running = append(running, next.ID)
			}
			env.Up.Open(running...)
			for _, r := range rig.WaitAll(calls) {
				mustBeOK(t, "an admitted one", r)
			}
			if peak := env.Up.Peak(); peak != limit {
				t.Errorf("%d ran at once, want %d", peak, limit)
			}
			env.DrainCheck(t, "model", limit)
		})
	}
}
