package envoy_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

// secretModel is a model's name. It must not show up in replies, as no pool's key may.
const secretModel = "gpt-secret-7"

func TestTenRequestsAtLimitTwoQueueThree(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		t.Run(fmt.Sprintf("%d workers", workers), func(t *testing.T) {
			env := governed(t, workers, modelPool(2, 3, longWait))
			tenInOrder(t, env)
			env.AwaitDrained(t, "model")
			env.CheckCounts(t, "model", rig.Counts{"evaluated": 10, "admitted": 5, "admitted_after_wait": 3,
				"rejected_queue_full": 5})
			env.Up.Forget()
			tenAtOnce(t, env)
			env.AwaitDrained(t, "model")
			env.CheckCounts(t, "model", rig.Counts{"evaluated": 20, "admitted": 10, "admitted_after_wait": 6,
				"rejected_queue_full": 10})
			env.DrainCheck(t, "model", 2)
		})
	}
}

func tenInOrder(t *testing.T, env *rig.Env) {
	t.Helper()
	secret := rig.Call{Model: secretModel}
	admitted := []*rig.Pending{env.Hold(t, "1", secret), env.Hold(t, "2", secret)}
	for i := 3; i <= 5; i++ {
		c := secret.With(fmt.Sprint(i))
		c.HeaderGate = c.ID
		admitted = append(admitted, env.Queue(t, "model", c)...)
	}
	for range 5 {
		r := env.Do(t, secret)
		env.CheckRefused(t, r, "model", rig.Rejected)
		checkTook(t, r, 0)
		if strings.Contains(strings.Join(r.Head, "\n")+string(r.Body), secretModel) {
			t.Errorf("the refusal names the pool's key: %v %s", r.Head, r.Body)
		}
	}
	if seen := len(env.Up.Requests()); seen != 2 {
		t.Errorf("%d requests reached the upstream, want 2", seen)
	}
	for i := 1; i <= 5; i++ {
		env.Up.Open(fmt.Sprint(i))
		if i <= 3 {
			env.AwaitRunning(t, fmt.Sprint(i+2), admitted[i+1])
		}
	}
	for _, r := range rig.WaitAll(admitted) {
		mustBeOK(t, "an admitted one", r)
		rig.CheckNoInternals(t, r.Header)
	}
	if ids := env.Up.IDs(); !slices.Equal(ids, []string{"1", "2", "3", "4", "5"}) {
		t.Errorf("admitted in the order %v", ids)
	}
	for _, seen := range env.Up.Requests() {
		rig.CheckNoInternals(t, seen.Header)
	}
}

func tenAtOnce(t *testing.T, env *rig.Env) {
	t.Helper()
	var calls []*rig.Pending
	for i := range 10 {
		calls = append(calls, env.Send(t, rig.Call{Script: rig.Script{ID: fmt.Sprint(i), HeaderGate: "all"}}))
	}
	rig.Await(t, "five are refused, two run and three wait", func() bool {
		return rig.CountDone(calls) == 5 && env.Up.Running() == 2 && env.Gauge(t, "model", "queued") == 3
	})
	env.Up.Open("all")
	statuses := map[int]int{}
	for _, r := range rig.WaitAll(calls) {
		statuses[r.Status]++
	}
	if statuses[200] != 5 || statuses[429] != 5 {
		t.Errorf("statuses %v, want five of 200 and of 429", statuses)
	}
	if peak := env.Up.Peak(); peak != 2 {
		t.Errorf("%d ran at once, want 2", peak)
	}
}

func TestCase_O04_ExpiredWaitersTakeNoPermit(t *testing.T) {
	const wait = 300 * time.Millisecond
	env := governed(t, 2, modelPool(1, 8, "300ms"))
	held := env.Hold(t, "held")
	var waiters []*rig.Pending
	for i := range 8 {
		waiters = append(waiters, env.Send(t, rig.Call{}.With(fmt.Sprintf("waiter-%d", i))))
	}
	for _, r := range rig.WaitAll(waiters) {
		env.CheckRefused(t, r, "model", rig.Expired)
		checkTook(t, r, wait)
	}
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	mustBeOK(t, "the next one", env.Do(t, rig.Call{}))
	if seen := len(env.Up.Requests()); seen != 2 {
		t.Errorf("%d requests reached the upstream, want 2", seen)
	}
	env.CheckCounts(t, "model", rig.Counts{"expired_max_wait": 8, "expired_deadline": 0, "queued": 0})
	env.DrainCheck(t, "model", 1)
}

// Pairs of a holder and a waiter whose permit comes from 60 ms before to 60 ms after its wait is over, each on a key of
// its own. Where all of a round end the same way, because the machine is busy, the next one spreads them more.
func TestCase_O04_ReleaseMeetsExpiry(t *testing.T) {
	const pairs, rounds, wait = 40, 5, 300 * time.Millisecond
	env := governed(t, 2, modelPool(1, 1, "300ms"))
	admitted, spread := 0, 60*time.Millisecond
	for round := range rounds {
		before := admitted
		var holders, waiters []*rig.Pending
		for i := range pairs {
			model := fmt.Sprintf("race-%d", i)
			id := fmt.Sprintf("holder-%d-%d", round, i)
			delay := wait - spread + 2*spread*time.Duration(i)/pairs
			holders = append(holders, env.Run(t, rig.Call{Model: model, Script: rig.Script{ID: id, Delay: delay}}))
			waiters = append(waiters, env.Send(t, rig.Call{Model: model}.With(fmt.Sprintf("waiter-%d-%d", round, i))))
		}
		for i, r := range rig.WaitAll(waiters) {
			admitted += checkEither(t, env, r, fmt.Sprintf("waiter-%d-%d", round, i))
			mustBeOK(t, "a holder", holders[i].Wait())
		}
		if admitted == before || admitted == before+pairs {
			spread = min(2*spread, wait)
		}
	}
	if admitted == 0 || admitted == pairs*rounds {
		t.Errorf("%d of %d waiters were admitted: the race did not happen", admitted, pairs*rounds)
	}
	for i := range pairs {
		mustBeOK(t, "a request after the race", env.Do(t, rig.Call{Model: fmt.Sprintf("race-%d", i), Deadline: wait}))
	}
	env.AwaitDrained(t, "model")
	env.CheckIdentity(t, "model")
	if c := env.Pool(t, "model"); c["admitted_after_wait"] != int64(admitted) ||
		c["expired_max_wait"] != int64(pairs*rounds-admitted) {
		t.Errorf("admitted after a wait %d and expired %d, the clients saw %d and %d",
			c["admitted_after_wait"], c["expired_max_wait"], admitted, pairs*rounds-admitted)
	}
}

// checkEither checks that a waiter was admitted or refused, never both or neither, and returns how many were admitted.
func checkEither(t *testing.T, env *rig.Env, r *rig.Reply, id string) int {
	t.Helper()
	switch {
	case r.Err == nil && r.Status == http.StatusOK && env.Up.Saw(id):
		return 1
	case r.Err == nil && r.Status == http.StatusTooManyRequests && !env.Up.Saw(id):
		env.CheckRefused(t, r, "model", rig.Expired)
		return 0
	}
	t.Errorf("waiter %s got %s; at the upstream: %v", id, r, env.Up.Saw(id))
	return 0
}

func TestCase_O05_CancelledWaitersLeaveTheQueue(t *testing.T) {
	const waiters = 100
	env := governed(t, 2, modelPool(1, waiters, longWait))
	held := env.Hold(t, "held")
	send := func(name string) []*rig.Pending {
		var calls []*rig.Pending
		for i := range waiters {
			calls = append(calls, env.Send(t, rig.Call{}.With(fmt.Sprintf("%s-%d", name, i))))
		}
		env.AwaitGauge(t, "model", "queued", waiters)
		return calls
	}
	for i, p := range send("gone") {
		p.Leave([]rig.Leave{rig.LeaveFIN, rig.LeaveRST}[i%2])
	}
	env.AwaitGauge(t, "model", "queued", 0)
	live := send("live")
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	for _, r := range rig.WaitAll(live) {
		mustBeOK(t, "a live waiter", r)
	}
	for _, id := range env.Up.IDs() {
		if strings.HasPrefix(id, "gone") {
			t.Fatalf("the waiter %s, whose client had left, reached the upstream", id)
		}
	}
	env.CheckCounts(t, "model", rig.Counts{"cancelled_waiting": waiters, "admitted_after_wait": waiters,
		"rejected_queue_full": 0})
	env.DrainCheck(t, "model", 1)
}
