package envoy_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

func millis(value string) []rig.Field {
	return []rig.Field{{Name: "x-request-timeout-ms", Value: value}}
}

func grpcTimeout(value string) []rig.Field { return []rig.Field{{Name: "grpc-timeout", Value: value}} }

// A deadlineGroup is values that mean the same. Each group has a pool of its own, and the pool's counts show how the
// values were understood. The last group's pool has no queue. There a request without time left is refused for another
// reason than one with time left.
type deadlineGroup struct {
	name    string
	queue   int64
	want    time.Duration // until the refusal
	counter string
	values  [][]rig.Field
}

const malformed = "malformed"

// deadlineGroups are for a max_wait of 800 ms.
func deadlineGroups() []deadlineGroup {
	const maxWait = 800 * time.Millisecond
	return []deadlineGroup{
		{"unlimited", 100, maxWait, "expired_max_wait", [][]rig.Field{grpcTimeout("99999999H"), millis("9223372036854775807"),
			millis("9223372036854775808"), millis("99999999999999999999999999"), millis("5000")}},
		{malformed, 100, maxWait, "expired_max_wait", [][]rig.Field{millis("-1"), millis("1e9"), millis("12 parsecs"),
			millis("1.5"), millis("abc"), millis("٥٠٠"), millis("0x10"), grpcTimeout("12X"), grpcTimeout("S"),
			grpcTimeout("-5S")}},
		{"short", 100, 400 * time.Millisecond, "expired_deadline",
			[][]rig.Field{millis(" 400 "), millis("400ms"), grpcTimeout("400m"), grpcTimeout("400000u")}},
		{"over", 0, 0, "expired_deadline", [][]rig.Field{millis("0"), millis("000"), grpcTimeout("0n")}},
	}
}

func TestCase_O09_DeadlineValues(t *testing.T) {
	groups := deadlineGroups()
	var pools []rig.Pool
	for _, group := range groups {
		pools = append(pools, rig.Pool{Name: group.name, Limit: 1, Queue: group.queue, MaxWait: "800ms",
			Match: rig.Object{"class": []string{group.name}}})
	}
	env := governed(t, 2, pools...)
	before := env.FilterCounts(t)["bad_deadline"]
	waiters := map[string][]*rig.Pending{}
	for _, group := range groups {
		env.Hold(t, group.name, rig.Call{Class: group.name})
		for _, header := range group.values {
			waiters[group.name] = append(waiters[group.name], env.Send(t, rig.Call{Class: group.name, Header: header}))
		}
	}
	bad := int64(0)
	for _, group := range groups {
		for i, r := range rig.WaitAll(waiters[group.name]) {
			t.Run(fmt.Sprint(group.values[i]), func(t *testing.T) {
				env.CheckRefused(t, r, group.name, rig.Expired)
				checkTook(t, r, group.want)
			})
		}
		n := int64(len(group.values))
		env.CheckCounts(t, group.name, rig.Counts{group.counter: n, "evaluated": n + 1})
		if group.name == malformed {
			bad = n
		}
		env.Up.Open(group.name)
		env.AwaitDrained(t, group.name)
		env.CheckIdentity(t, group.name)
	}
	if got := env.FilterCounts(t)["bad_deadline"] - before; got != bad {
		t.Errorf("bad_deadline grew by %d, want %d", got, bad)
	}
}

func TestCase_O09_TwoDeadlinesAreAmbiguous(t *testing.T) {
	env := governed(t, 2, modelPool(1, 1, longWait))
	r := env.Do(t, rig.Call{Header: append(millis("500"), millis("600")...)})
	if r.Status != http.StatusBadRequest || r.Reason() != rig.Ambiguous {
		t.Errorf("got %s, want 400 %s", r, rig.Ambiguous)
	}
	env.DrainCheck(t, "model", 1)
}

// An empty value says nothing: whether it counts as malformed is not settled, but it never shortens the wait.
func TestCase_O09_EmptyDeadlineDoesNotShortenTheWait(t *testing.T) {
	env := governed(t, 2, modelPool(1, 1, "300ms"))
	held := env.Hold(t, "held")
	r := env.Do(t, rig.Call{Header: millis("")})
	env.CheckRefused(t, r, "model", rig.Expired)
	checkTook(t, r, 300*time.Millisecond)
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
}

func TestExpiredRequestIsRefusedThoughPermitsAreFree(t *testing.T) {
	env := governed(t, 2, modelPool(5, 5, "1s"))
	for _, header := range [][]rig.Field{millis("0"), grpcTimeout("0m")} {
		r := env.Do(t, rig.Call{Header: header})
		env.CheckRefused(t, r, "model", rig.Expired)
		checkTook(t, r, 0)
	}
	if n := len(env.Up.Requests()); n != 0 {
		t.Errorf("%d expired requests reached the upstream", n)
	}
	env.CheckCounts(t, "model", rig.Counts{"evaluated": 2, "expired_deadline": 2})
	env.DrainCheck(t, "model", 5)
}

func TestDefaultDeadlineHoldsForRequestsWithoutOne(t *testing.T) {
	env := rig.New(t, rig.Shared(t, 2), rig.Setup{Config: &rig.Config{Pools: []rig.Pool{modelPool(1, 5, longWait)},
		More: rig.Object{"deadline": rig.Object{"headers": []string{"x-request-timeout-ms"}, "default": "400ms"}}}})
	held := env.Send(t, rig.Call{Script: rig.Script{ID: "held", Chunks: 1, Gate: "held"}})
	held.AwaitBody(t, "data: 0")
	r := env.Do(t, rig.Call{})
	env.CheckRefused(t, r, "model", rig.Expired)
	checkTook(t, r, 400*time.Millisecond)
	longer := env.Do(t, rig.Call{Deadline: 900 * time.Millisecond})
	env.CheckRefused(t, longer, "model", rig.Expired)
	checkTook(t, longer, 900*time.Millisecond)
	env.CheckCounts(t, "model", rig.Counts{"expired_deadline": 2, "expired_max_wait": 0})
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	env.DrainCheck(t, "model", 1)
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

// The deadline runs from the headers on, not only from when the body has named the model.
func TestDeadlineRunsWhileTheBodyComes(t *testing.T) {
	env := rig.New(t, rig.Shared(t, 2), rig.Setup{Config: &rig.Config{Pools: []rig.Pool{modelPool(1, 0, "")},
		More: modelOf(rig.Object{"json_body": "model"})}})
	c := rig.Call{Deadline: 300 * time.Millisecond, Body: []byte(`{"model":"m"}`),
		Delivery: rig.Delivery{Gap: 450 * time.Millisecond}}
	env.CheckRefused(t, env.Do(t, c.With("late")), "model", rig.Expired)
	if env.Up.Saw("late") {
		t.Error("a request whose body came behind its deadline reached the upstream")
	}
	env.CheckCounts(t, "model", rig.Counts{"evaluated": 1, "expired_deadline": 1})
}

func TestUpstreamSeesTheRemainingDeadline(t *testing.T) {
	env := governed(t, 2, modelPool(1, 5, longWait))
	held := env.Hold(t, "held")
	const wait = 300 * time.Millisecond
	waiters := env.Queue(t, "model",
		rig.Call{Deadline: 4 * time.Second}.With("millis"),
		rig.Call{Header: grpcTimeout("4S")}.With("grpc"))
	queued := time.Now()
	rig.Await(t, "the waiters have waited for 300 ms", func() bool { return time.Since(queued) > wait })
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	for i, id := range []string{"millis", "grpc"} {
		mustBeOK(t, "a waiter", waiters[i].Wait())
		seen, _ := env.Up.Request(id)
		waited := seen.Start.Sub(waiters[i].Started())
		left := remaining(t, seen.Header)
		if left > 4*time.Second-wait || left < 4*time.Second-waited-100*time.Millisecond {
			t.Errorf("%s: the upstream was told %v after %v of waiting, want what is left of 4 s", id, left, waited)
		}
	}
	env.DrainCheck(t, "model", 1)
}

// The upstream is told what is left in the form in which the client sent the deadline.
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
		c := rig.Call{Tenant: "a", Header: []rig.Field{form.field},
			Script: rig.Script{ID: name, Tries: []rig.Script{failed, {}}}}
		mustBeOK(t, name, env.Do(t, c))
		for i, seen := range env.Up.Tries(name) {
			if got := seen.Header.Values(form.field.Name); len(got) != 1 || !form.within(got[0]) {
				t.Errorf("%s: try %d was told %q", name, i+1, got)
			}
		}
	}
}

var grpcTimeoutForm = regexp.MustCompile(`^(\d{1,8})([HMSmun])$`)

// remaining reads the deadline that an upstream was told.
func remaining(t *testing.T, header http.Header) time.Duration {
	t.Helper()
	if value := header.Get("x-request-timeout-ms"); value != "" {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			t.Errorf("x-request-timeout-ms is %q", value)
		}
		return time.Duration(n) * time.Millisecond
	}
	match := grpcTimeoutForm.FindStringSubmatch(header.Get("grpc-timeout"))
	if match == nil {
		t.Fatalf("grpc-timeout is %q", header.Get("grpc-timeout"))
	}
	units := map[string]time.Duration{"H": time.Hour, "M": time.Minute, "S": time.Second, "m": time.Millisecond,
		"u": time.Microsecond, "n": 1}
	n, _ := strconv.ParseInt(match[1], 10, 64)
	return time.Duration(n) * units[match[2]]
}

// checkTold checks the deadline that a request reached the upstream with: no more than what is left after the time that
// it has surely spent, and no less than what was left when it arrived there.
func checkTold(t *testing.T, what string, p *rig.Pending, seen rig.Seen, deadline, spent time.Duration) {
	t.Helper()
	told := remaining(t, seen.Header)
	least, most := deadline-seen.Start.Sub(p.Started())-grain, deadline-spent+grain
	if told < least || told > most {
		t.Errorf("%s: the upstream was told %v, want %v to %v", what, told, least, most)
	}
}

// All of these have 3 s from the request's arrival on. They run side by side, each with a model and a tenant of its
// own.
func TestOneDeadlineOverQueuesTriesAndBackOff(t *testing.T) {
	const deadline, almost = 3 * time.Second, 2800 * time.Millisecond
	env := staged(t, tenantPool(9, 0), attemptPool(1, 8))
	call := func(model, id string, each ...rig.Script) rig.Call {
		return rig.Call{Tenant: model, Model: model, Deadline: deadline, Script: rig.Script{ID: id, Tries: each}}
	}
	late := rig.Script{Status: 503, Delay: almost}
	busyRetry := env.Run(t, call("busy", "busy", late, rig.Script{}))
	long := env.Queue(t, "model", rig.Call{Tenant: "other", Model: "busy",
		Script: rig.Script{ID: "long", Chunks: 1, Gate: "long"}})[0]
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
