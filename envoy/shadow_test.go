package envoy_test

import (
	"fmt"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

func mode(name string, pools ...rig.Pool) rig.Config {
	return rig.Config{Pools: pools, More: rig.Object{"mode": name}}
}

func inShadow(t *testing.T, pools ...rig.Pool) *rig.Env {
	t.Helper()
	c := mode("shadow", pools...)
	return rig.New(t, rig.Shared(t, 2), rig.Setup{Config: &c})
}

func mustSwitch(t *testing.T, env *rig.Env, c rig.Config) {
	t.Helper()
	if err := env.Update(t, c); err != nil {
		t.Fatal(err)
	}
}

func TestShadowCountsWhatEnforcingWouldDo(t *testing.T) {
	const limit, queue, all = 2, 3, 10
	env := inShadow(t, modelPool(limit, queue, longWait))
	var calls []*rig.Pending
	for i := range all {
		calls = append(calls, env.Hold(t, fmt.Sprint(i)))
	}
	env.CheckCounts(t, "model", rig.Counts{"evaluated": all, "admitted": all, "rejected_queue_full": 0,
		"shadow_would_wait": queue, "shadow_would_reject": all - limit - queue, "inflight": limit, "queued": queue})
	for i, p := range calls { // each end lets the next virtual waiter in
		env.Up.Open(fmt.Sprint(i))
		r := p.Wait()
		mustBeOK(t, "a request in shadow", r)
		rig.CheckNoInternals(t, r.Header)
		want := rig.Counts{"inflight": max(0, min(limit, int64(limit+queue-i-1))), "queued": max(queue-int64(i)-1, 0)}
		for gauge, n := range want {
			env.AwaitGauge(t, "model", gauge, n)
		}
	}
	env.CheckCounts(t, "model", rig.Counts{"evaluated": all, "admitted": all, "admitted_after_wait": 0,
		"cancelled_waiting": 0})
	for _, seen := range env.Up.Requests() {
		rig.CheckNoInternals(t, seen.Header)
	}
	mustBeOK(t, "one with free permits", env.Do(t, rig.Call{}))
	env.AwaitDrained(t, "model")
	env.CheckCounts(t, "model", rig.Counts{"shadow_would_wait": queue, "shadow_would_reject": all - limit - queue})
	env.CheckIdentity(t, "model")
}

func TestShadowWaitsAndExpiresInItsCountsAlone(t *testing.T) {
	env := inShadow(t, modelPool(1, 5, longWait))
	held := env.Hold(t, "held")
	expiring := env.Hold(t, "expiring", rig.Call{Deadline: 300 * time.Millisecond})
	env.AwaitGauge(t, "model", "shadow_would_expire", 1) // its virtual wait is over; the request runs on
	env.CheckCounts(t, "model", rig.Counts{"shadow_would_wait": 1, "queued": 0, "expired_max_wait": 0,
		"expired_deadline": 0})
	mustBeOK(t, "one that came too late", env.Do(t, rig.Call{Header: millis("0")}))
	env.CheckCounts(t, "model", rig.Counts{"shadow_would_expire": 2, "expired_deadline": 0})
	leaver := env.Hold(t, "leaver")
	env.AwaitGauge(t, "model", "queued", 1)
	leaver.Leave(rig.LeaveRST)
	env.AwaitGauge(t, "model", "queued", 0)
	env.CheckCounts(t, "model", rig.Counts{"cancelled_waiting": 0})
	env.Up.Open("held", "expiring")
	mustBeOK(t, "the held one", held.Wait())
	mustBeOK(t, "the expired one", expiring.Wait())
	env.AwaitDrained(t, "model")
	env.CheckCounts(t, "model", rig.Counts{"evaluated": 4, "admitted": 4})
	env.CheckIdentity(t, "model")
}

// In shadow each request passes as it would without the filter, even if every pool is full.
func TestShadowChangesNothing(t *testing.T) {
	shared := rig.Shared(t, 2)
	without := rig.New(t, shared, rig.Setup{})
	closed := mode("shadow", rig.Pool{Name: "tenant", Limit: 0},
		rig.Pool{Name: "model", Key: []string{"model"}, Per: "attempt", Limit: 0})
	fromBody := mode("shadow", rig.Pool{Name: "model", Key: []string{"model"}, Limit: 0})
	fromBody.More["identity"] = modelOf(rig.Object{"json_body": "model"})["identity"]
	for name, s := range map[string]rig.Setup{
		"one stage":           {Config: &closed},
		"two stages":          {Config: &closed, Stages: true},
		"the model in a body": {Config: &fromBody},
	} {
		t.Run(name, func(t *testing.T) {
			env := rig.New(t, shared, s)
			for what, call := range passthroughCalls(rig.Path) {
				call.Header = append(call.Header, rig.Field{Name: "grpc-timeout", Value: "10S"})
				if got, want := observe(t, env, call), observe(t, without, call); !reflect.DeepEqual(got, want) {
					t.Errorf("%s: %s", what, difference(got, want))
				}
			}
			env.AwaitDrained(t, "model")
			env.CheckIdentity(t, "model")
		})
	}
}

// The body is read as it passes: it is not waited for.
func TestShadowDoesNotWaitForTheBody(t *testing.T) {
	c := mode("shadow", modelPool(1, 1, longWait))
	c.More["identity"] = modelOf(rig.Object{"json_body": "model"})["identity"]
	env := rig.New(t, rig.Shared(t, 2), rig.Setup{Config: &c})
	conn := env.Dial(t)
	body := llm("m", 3000)
	call := rig.Call{NoModel: true, Script: rig.Script{ID: "late"}}
	conn.Write(t, call.Head(len(body)))
	rig.Await(t, "the headers are at the upstream before the body", func() bool { return env.Up.Saw("late") })
	conn.Write(t, string(body))
	mustBeOK(t, "once its body has come", conn.Read("POST"))
	held := takes(t, env, "held", "m")
	mustBeOK(t, "the same model", env.Do(t, bodyCall("", llm("m", 0), rig.Delivery{})))
	mustBeOK(t, "another model", env.Do(t, bodyCall("", llm("z", 0), rig.Delivery{})))
	env.CheckCounts(t, "model", rig.Counts{"evaluated": 4, "admitted": 4, "shadow_would_wait": 1,
		"shadow_would_reject": 0})
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	env.AwaitDrained(t, "model")
}

// A switch is a change of configuration like any other: what runs counts on, and is given back once.
func TestSwitchingModesLosesNoCount(t *testing.T) {
	pool := modelPool(2, 2, longWait)
	env := governed(t, 2, pool)
	enforced := []*rig.Pending{env.Hold(t, "e0"), env.Hold(t, "e1")}
	waiter := env.Queue(t, "model", rig.Call{}.With("waiter"))[0]

	mustSwitch(t, env, mode("shadow", pool))
	env.CheckCounts(t, "model", rig.Counts{"inflight": 2, "queued": 1})
	shadowed := env.Hold(t, "s0") // would wait behind the waiter
	env.AwaitGauge(t, "model", "queued", 2)
	mustBeOK(t, "one in shadow", env.Do(t, rig.Call{}))
	env.CheckCounts(t, "model", rig.Counts{"shadow_would_wait": 1, "shadow_would_reject": 1, "evaluated": 5})

	mustSwitch(t, env, mode("disabled", pool))
	mustBeOK(t, "one in disabled", env.Do(t, rig.Call{}))
	env.CheckCounts(t, "model", rig.Counts{"evaluated": 5, "inflight": 2, "queued": 2})
	if waiter.Done() || env.Up.Saw("waiter") {
		t.Error("a switch ended a wait")
	}

	mustSwitch(t, env, mode("enforce", pool))
	env.CheckRefused(t, env.Do(t, rig.Call{}), "model", rig.Rejected)
	env.Up.Open("e0")
	mustBeOK(t, "an enforced one", enforced[0].Wait())
	mustBeOK(t, "the waiter", waiter.Wait())
	env.AwaitGauge(t, "model", "queued", 0) // the one in shadow has the permit that it would have waited for
	env.CheckCounts(t, "model", rig.Counts{"inflight": 2})
	env.Up.Open("e1", "s0")
	mustBeOK(t, "an enforced one", enforced[1].Wait())
	mustBeOK(t, "the one in shadow", shadowed.Wait())
	env.Up.ResetPeak()
	env.DrainCheck(t, "model", 2)
}

func TestShadowInBothStages(t *testing.T) {
	c := mode("shadow", tenantPool(1, 0), attemptPool(1, 1))
	s := stagedSetup()
	s.Config = &c
	env := rig.New(t, rig.Shared(t, 2), s)
	a := env.Hold(t, "a", rig.Call{Tenant: "a"})
	b := env.Hold(t, "b", rig.Call{Tenant: "a"})
	mustBeOK(t, "a retried one", env.Do(t, tries("c", failed, rig.Script{Status: http.StatusTooManyRequests},
		rig.Script{})))
	env.CheckCounts(t, "tenant", rig.Counts{"evaluated": 3, "admitted": 3, "shadow_would_reject": 2, "inflight": 1})
	env.CheckCounts(t, "model", rig.Counts{"evaluated": 5, "admitted": 5, "shadow_would_wait": 1,
		"shadow_would_reject": 3})
	env.Up.Open("a", "b")
	mustBeOK(t, "a", a.Wait())
	mustBeOK(t, "b", b.Wait())
	env.AwaitDrained(t, "tenant", "model")
}
