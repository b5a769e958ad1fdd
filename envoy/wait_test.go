package envoy_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

func TestCase_O08_WaiterAnswersAtItsBudget(t *testing.T) {
	env := governed(t, 2, modelPool(1, 10, "2s"))
	held := env.Hold(t, "held")
	expireInTime(t, env)
	env.CheckCounts(t, "model", rig.Counts{"expired_deadline": 1, "expired_max_wait": 2})
	stop := keepBusy(t, env, 100)
	expireInTime(t, env)
	stop()
	env.CheckCounts(t, "model", rig.Counts{"expired_deadline": 2, "expired_max_wait": 4})
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	env.Up.ResetPeak() // the busy streams were not governed
	env.DrainCheck(t, "model", 1)
}

func expireInTime(t *testing.T, env *rig.Env) {
	t.Helper()
	waits := []struct{ deadline, want time.Duration }{{time.Second, time.Second}, {5 * time.Second, 2 * time.Second},
		{0, 2 * time.Second}}
	var waiters []*rig.Pending
	for _, wait := range waits {
		waiters = append(waiters, env.Send(t, rig.Call{Deadline: wait.deadline}))
	}
	for i, r := range rig.WaitAll(waiters) {
		env.CheckRefused(t, r, "model", rig.Expired)
		checkTook(t, r, waits[i].want)
	}
}

// keepBusy runs that many ungoverned streams through the Envoy until stop is called.
func keepBusy(t *testing.T, env *rig.Env, streams int) (stop func()) {
	t.Helper()
	var calls []*rig.Pending
	for i := range streams {
		calls = append(calls, env.Send(t, rig.Call{Path: "/v1/busy",
			Script: rig.Script{ID: fmt.Sprintf("busy-%d", i), Chunks: 10_000, Gap: 20 * time.Millisecond}}))
	}
	rig.Await(t, "the busy streams run", func() bool { return env.Up.Running() == streams+1 })
	return func() {
		for _, p := range calls {
			p.Leave(rig.LeaveRST)
		}
		rig.Await(t, "the busy streams have ended", func() bool { return env.Up.Running() == 1 })
	}
}

// shortIdle is a route below /short on which Envoy ends a stream that is idle for a second, beside one without that
// limit.
func shortIdle(up string) []rig.Object {
	short := rig.Route("/short", up)
	short["route"].(rig.Object)["idle_timeout"] = "1s"
	return []rig.Object{short, rig.Route("/", up)}
}

func TestCase_O08_EnvoyTimeoutBeforeTheBudgetCancelsOnce(t *testing.T) {
	env := rig.New(t, rig.Shared(t, 2), rig.Setup{Config: &rig.Config{Pools: []rig.Pool{modelPool(1, 4, longWait)}},
		Routes: shortIdle})
	held := env.Hold(t, "held")
	if r := env.Do(t, rig.Call{Path: "/short" + rig.Path}.With("waiter")); r.Status != http.StatusGatewayTimeout ||
		r.Reason() != "" || r.Err != nil {
		t.Errorf("got %s, want Envoy's 504 at the idle timeout", r)
	}
	env.AwaitGauge(t, "model", "queued", 0)
	env.CheckCounts(t, "model", rig.Counts{"cancelled_waiting": 1, "expired_max_wait": 0, "expired_deadline": 0})
	expired := env.Do(t, rig.Call{Deadline: 300 * time.Millisecond}) // a later expiry is of another waiter
	env.CheckRefused(t, expired, "model", rig.Expired)
	env.CheckCounts(t, "model", rig.Counts{"cancelled_waiting": 1, "expired_max_wait": 0, "expired_deadline": 1})
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	env.DrainCheck(t, "model", 1)
	if env.Up.Saw("waiter") {
		t.Error("the waiter reached the upstream")
	}
}

// A route's timeout starts at the router, after the wait. So a longer wait ends with our refusal, and an admitted
// request still has the whole timeout.
func TestCase_O08_RouteTimeoutDoesNotRunWhileWaiting(t *testing.T) {
	env := rig.New(t, rig.Shared(t, 2), rig.Setup{Config: &rig.Config{Pools: []rig.Pool{modelPool(1, 4, longWait)}},
		Routes: func(up string) []rig.Object {
			short := rig.Route("/short", up)
			short["route"].(rig.Object)["timeout"] = "0.5s"
			return []rig.Object{short, rig.Route("/", up)}
		}})
	held := env.Hold(t, "held")
	r := env.Do(t, rig.Call{Path: "/short" + rig.Path, Deadline: 600 * time.Millisecond})
	env.CheckRefused(t, r, "model", rig.Expired)
	checkTook(t, r, 600*time.Millisecond)
	waiter := env.Queue(t, "model", rig.Call{Path: "/short" + rig.Path,
		Script: rig.Script{ID: "waiter", Delay: 100 * time.Millisecond}})[0]
	rig.Await(t, "the waiter has waited longer than the route's timeout",
		func() bool { return time.Since(waiter.Started()) > 550*time.Millisecond })
	env.Up.Open("held")
	mustBeOK(t, "the waiter", waiter.Wait())
	mustBeOK(t, "the held one", held.Wait())
	env.DrainCheck(t, "model", 1)
}

// Budgets end from 50 ms before Envoy's idle timeout to 10 ms after it, and a few long before and long after: either
// way the client gets exactly one whole answer, and the connection is in order for the next request.
func TestCase_O15_BudgetMeetsIdleTimeout(t *testing.T) {
	const waiters, idle = 300, time.Second
	env := rig.New(t, rig.Shared(t, 2), rig.Setup{Config: &rig.Config{Pools: []rig.Pool{modelPool(1, waiters, longWait)}},
		Routes: shortIdle})
	held := env.Hold(t, "held")
	conns := make([]*rig.Conn, waiters)
	for i := range conns {
		conns[i] = env.Dial(t)
	}
	replies := make([]*rig.Reply, waiters)
	var all sync.WaitGroup
	for i, conn := range conns {
		budget := idle + time.Duration(i%60-50)*time.Millisecond
		switch {
		case i < 5:
			budget = idle / 2
		case i < 10:
			budget = 10 * idle
		}
		all.Go(func() { replies[i] = conn.Do(rig.Call{Path: "/short" + rig.Path, Deadline: budget}) })
	}
	all.Wait()
	outcomes := map[int]int64{}
	for _, r := range replies {
		if r.Err != nil || r.Took() > idle+lateness {
			t.Errorf("a waiter got %s, want one whole answer at about %v", r, idle)
		}
		outcomes[r.Status]++
	}
	t.Logf("answers by status: %v", outcomes)
	if outcomes[429]+outcomes[504] != waiters || outcomes[429] == 0 || outcomes[504] == 0 {
		t.Errorf("want our 429 and Envoy's 504, each of them for some")
	}
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	env.AwaitDrained(t, "model")
	// A refusal is counted when it is decided. Until it is sent, Envoy's timeout can still answer with its 504.
	counts := env.Pool(t, "model")
	if expired := counts["expired_deadline"]; expired < outcomes[429] || expired+counts["cancelled_waiting"] != waiters {
		t.Errorf("clients saw %v, the counts are %v", outcomes, counts)
	}
	for _, conn := range conns[:30] {
		if r := conn.Do(rig.Call{Path: "/v1/other"}); r.Status != 200 && !errors.Is(r.Err, rig.ErrCut) {
			t.Errorf("the next request on the connection got %s", r)
		}
	}
	env.Up.ResetPeak()
	env.DrainCheck(t, "model", 1)
}

func TestCase_O15_OwnRefusalIsNotTheProvidersAnswer(t *testing.T) {
	env := governed(t, 2, modelPool(1, 0, ""))
	held := env.Hold(t, "held")
	for range 20 {
		env.CheckRefused(t, env.Do(t, rig.Call{}), "model", rig.Rejected)
	}
	env.CheckCounts(t, "model", rig.Counts{"provider_429": 0, "provider_failure": 0, "inflight": 1, "on_hold": 0,
		"completed": 0, "aborted": 0})
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	theirs := env.Do(t, rig.Call{Script: rig.Script{Status: 429, Headers: map[string]string{"retry-after": "7"}}})
	if theirs.Status != 429 || theirs.Reason() != "" || theirs.Header.Get("retry-after") != "7" {
		t.Errorf("the provider's 429 came as %s with %v", theirs, theirs.Header)
	}
	env.CheckCounts(t, "model", rig.Counts{"admitted": 2, "rejected_queue_full": 20})
	env.DrainCheck(t, "model", 1)
}
