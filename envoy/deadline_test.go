package envoy_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

// toldMillis is the deadline that a request reached the upstream with.
func toldMillis(t *testing.T, seen rig.Seen) int {
	t.Helper()
	text := seen.Header.Get("x-request-timeout-ms")
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("the upstream was told the deadline %q, want milliseconds", text)
	}
	return n
}

// checkTold checks the deadline that a request reached the upstream with: no more than what is left after the time that it has
// surely spent, and no less than what was left when it arrived there.
func checkTold(t *testing.T, what string, p *rig.Pending, seen rig.Seen, deadline, spent time.Duration) {
	t.Helper()
	told := time.Duration(toldMillis(t, seen)) * time.Millisecond
	least, most := deadline-seen.Start.Sub(p.Started())-grain, deadline-spent+grain
	if told < least || told > most {
		t.Errorf("%s: the upstream was told %v, want %v to %v", what, told, least, most)
	}
}

// All of these have 3 s from the request's arrival on. They run side by side, each with a model and a tenant of its own.
func TestOneDeadlineOverQueuesTriesAndBackOff(t *testing.T) {
	const deadline, almost = 3 * time.Second, 2800 * time.Millisecond
	env := staged(t, tenantPool(9, 0), attemptPool(1, 8))
	call := func(model, id string, each ...rig.Script) rig.Call {
		return rig.Call{Tenant: model, Model: model, Deadline: deadline, Script: rig.Script{ID: id, Tries: each}}
	}
	late := rig.Script{Status: 503, Delay: almost}
	busyRetry := env.Run(t, call("busy", "busy", late, rig.Script{}))
	long := env.Queue(t, "model", rig.Call{Tenant: "other", Model: "busy", Script: rig.Script{ID: "long", Chunks: 1, Gate: "long"}})[0]
	lateRetry := env.Send(t, call("free", "late", late, rig.Script{}))
	backedOff := env.Send(t, call("back-off", "backed-off", failedThenWaits(time.Second), rig.Script{}))
	tight := call("tight", "tight", failedThenWaits(time.Second), rig.Script{})
	tight.Deadline = 500 * time.Millisecond
	usedUp := env.Send(t, tight)
	checkDeadlineAfterAQueue(t, env, call("queued", "queued", rig.Script{}))

	mustBeOK(t, "after a back-off", backedOff.Wait())
	first, second := env.Up.Tries("backed-off")[0], env.Up.Tries("backed-off")[1]
	checkTold(t, "the first try", backedOff, first, deadline, 0)
	checkTold(t, "the try after a back-off of a second", backedOff, second, deadline, time.Second)
	// The back-off of at least a second used up what was left: the retry starts no work.
	env.CheckRefused(t, usedUp.Wait(), "model", rig.Expired)
	if n := len(env.Up.Tries("tight")); n != 1 {
		t.Errorf("a retry behind its deadline reached the upstream: %d tries", n)
	}

	r := busyRetry.Wait()
	env.CheckRefused(t, r, "model", rig.Expired)
	checkTook(t, r, deadline)
	if n := len(env.Up.Tries("busy")); n != 1 {
		t.Errorf("the retry of a busy model reached the upstream: %d tries", n)
	}
	if !env.Up.Saw("long") {
		t.Error("the other tenant did not get the model that the failed try gave back")
	}
	env.Up.Open("long")
	mustBeOK(t, "the other tenant's stream", long.Wait())

	lateRetry.Wait()
	if all := env.Up.Tries("late"); len(all) == 2 { // a machine that lost 200 ms refuses the retry instead
		checkTold(t, "the retry close to the deadline", lateRetry, all[1], deadline, almost)
	} else {
		env.CheckRefused(t, lateRetry.Wait(), "model", rig.Expired)
	}
	env.AwaitDrained(t, "tenant", "model")
	env.CheckIdentity(t, "model")
	env.CheckIdentity(t, "tenant")
}

// checkDeadlineAfterAQueue lets a call wait for a second.
func checkDeadlineAfterAQueue(t *testing.T, env *rig.Env, call rig.Call) {
	t.Helper()
	held := env.Hold(t, "held", rig.Call{Tenant: "holder", Model: call.Model})
	queued := env.Queue(t, "model", call)[0]
	since := time.Now()
	rig.Await(t, "a second has passed in the queue", func() bool { return time.Since(since) > time.Second })
	env.Up.Open("held")
	mustBeOK(t, "the holder", held.Wait())
	mustBeOK(t, "after a second in the queue", queued.Wait())
	checkTold(t, "after a second in the queue", queued, env.Up.Tries(call.ID)[0], call.Deadline, time.Second)
}

// What is left reaches the upstream in the form in which the deadline came.
func TestDeadlineKeepsItsForm(t *testing.T) {
	env := staged(t, tenantPool(9, 0), attemptPool(9, 0))
	forms := map[string]struct {
		field  rig.Field
		within func(text string) bool
	}{
		"milliseconds": {millis("10000")[0], func(s string) bool {
			n, err := strconv.Atoi(s)
			return err == nil && n > 5000 && n <= 10000
		}},
		"a Go duration": {millis("10s")[0], func(s string) bool {
			d, err := time.ParseDuration(s)
			return err == nil && d > 5*time.Second && d <= 10*time.Second
		}},
		"gRPC seconds": {grpcTimeout("10S")[0], func(s string) bool {
			n, err := strconv.Atoi(strings.TrimRight(s, "HMSmun"))
			return err == nil && n > 0 && len(strings.TrimLeft(s, "0123456789")) == 1
		}},
		"gRPC milliseconds": {grpcTimeout("9000m")[0], func(s string) bool {
			n, err := strconv.Atoi(strings.TrimSuffix(s, "m"))
			return err == nil && n > 5000 && n <= 9000
		}},
	}
	for name, form := range forms {
		c := rig.Call{Tenant: "a", Header: []rig.Field{form.field}, Script: rig.Script{ID: name, Tries: []rig.Script{failed, {}}}}
		mustBeOK(t, name, env.Do(t, c))
		for i, seen := range env.Up.Tries(name) {
			if got := seen.Header.Values(form.field.Name); len(got) != 1 || !form.within(got[0]) {
				t.Errorf("%s: try %d was told %q", name, i+1, got)
			}
		}
	}
}

func TestDefaultDeadlineHoldsWithoutAHeader(t *testing.T) {
	s := stagedSetup(tenantPool(9, 0), attemptPool(1, 5))
	s.Config.More = rig.Object{"deadline": rig.Object{"headers": []string{"x-request-timeout-ms"}, "default": "400ms"}}
	env := rig.New(t, rig.Shared(t, 2), s)
	held := env.Hold(t, "held", rig.Call{Deadline: 20 * time.Second})
	r := env.Do(t, rig.Call{Tenant: "a"})
	env.CheckRefused(t, r, "model", rig.Expired)
	checkTook(t, r, 400*time.Millisecond)
	r = env.Do(t, rig.Call{Tenant: "a", Deadline: 700 * time.Millisecond}) // the client's own word counts instead
	env.CheckRefused(t, r, "model", rig.Expired)
	checkTook(t, r, 700*time.Millisecond)
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	env.CheckCounts(t, "model", rig.Counts{"expired_deadline": 2})
	env.AwaitDrained(t, "tenant", "model")
}

// The clock starts with the headers, not when the body has told the model.
func TestDeadlineRunsWhileTheBodyComes(t *testing.T) {
	env := rig.New(t, rig.Shared(t, 2), rig.Setup{Config: &rig.Config{Pools: []rig.Pool{modelPool(1, 0, "")},
		More: modelOf(rig.Object{"json_body": "model"})}})
	c := rig.Call{Deadline: 300 * time.Millisecond, Body: []byte(`{"model":"m"}`), Delivery: rig.Delivery{Gap: 450 * time.Millisecond}}
	env.CheckRefused(t, env.Do(t, c.With("late")), "model", rig.Expired)
	if env.Up.Saw("late") {
		t.Error("a request whose body came behind its deadline reached the upstream")
	}
	env.CheckCounts(t, "model", rig.Counts{"evaluated": 1, "expired_deadline": 1})
}
