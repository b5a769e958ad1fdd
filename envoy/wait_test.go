package envoy_test

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

func millis(value string) []rig.Field {
	return []rig.Field{{Name: "x-request-timeout-ms", Value: value}}
}

func grpcTimeout(value string) []rig.Field { return []rig.Field{{Name: "grpc-timeout", Value: value}} }

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
	waits := []struct{ deadline, want time.Duration }{{time.Second, time.Second}, {5 * time.Second, 2 * time.Second}, {0, 2 * time.Second}}
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
		calls = append(calls, env.Send(t, rig.Call{Path: "/v1/busy", Script: rig.Script{ID: fmt.Sprintf("busy-%d", i), Chunks: 10_000, Gap: 20 * time.Millisecond}}))
	}
	rig.Await(t, "the busy streams run", func() bool { return env.Up.Running() == streams+1 })
	return func() {
		for _, p := range calls {
			p.Leave(rig.LeaveRST)
		}
		rig.Await(t, "the busy streams have ended", func() bool { return env.Up.Running() == 1 })
	}
}

// shortIdle is a route below /short on which Envoy ends a stream that is idle for a second, beside one without that limit.
func shortIdle(up string) []rig.Object {
	short := rig.Route("/short", up)
	short["route"].(rig.Object)["idle_timeout"] = "1s"
	return []rig.Object{short, rig.Route("/", up)}
}

func TestCase_O08_EnvoyTimeoutBeforeTheBudgetCancelsOnce(t *testing.T) {
	env := rig.New(t, rig.Shared(t, 2), rig.Setup{Config: &rig.Config{Pools: []rig.Pool{modelPool(1, 4, longWait)}}, Routes: shortIdle})
	held := env.Hold(t, "held")
	if r := env.Do(t, rig.Call{Path: "/short" + rig.Path}.With("waiter")); r.Status != http.StatusGatewayTimeout || r.Reason() != "" || r.Err != nil {
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

// A route's timeout begins at the router, so a wait longer than it ends as ours, and an admitted request still has all of it.
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
	waiter := env.Queue(t, "model", rig.Call{Path: "/short" + rig.Path, Script: rig.Script{ID: "waiter", Delay: 100 * time.Millisecond}})[0]
	rig.Await(t, "the waiter has waited longer than the route's timeout", func() bool { return time.Since(waiter.Started()) > 550*time.Millisecond })
	env.Up.Open("held")
	mustBeOK(t, "the waiter", waiter.Wait())
	mustBeOK(t, "the held one", held.Wait())
	env.DrainCheck(t, "model", 1)
}

// A deadlineGroup is values that mean the same. Each group has a pool of its own, whose counts tell whether each value was
// taken so. Where nobody may wait, a value that leaves no time is told from one that leaves some: by the reason.
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
		{malformed, 100, maxWait, "expired_max_wait", [][]rig.Field{millis("-1"), millis("1e9"), millis("12 parsecs"), millis("1.5"), millis("abc"),
			millis("٥٠٠"), millis("0x10"), grpcTimeout("12X"), grpcTimeout("S"), grpcTimeout("-5S")}},
		{"short", 100, 400 * time.Millisecond, "expired_deadline", [][]rig.Field{millis(" 400 "), millis("400ms"), grpcTimeout("400m"),
			grpcTimeout("400000u")}},
		{"over", 0, 0, "expired_deadline", [][]rig.Field{millis("0"), millis("000"), grpcTimeout("0n")}},
	}
}

func TestCase_O09_DeadlineValues(t *testing.T) {
	groups := deadlineGroups()
	var pools []rig.Pool
	for _, group := range groups {
		pools = append(pools, rig.Pool{Name: group.name, Limit: 1, Queue: group.queue, MaxWait: "800ms", Match: rig.Object{"class": []string{group.name}}})
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
	units := map[string]time.Duration{"H": time.Hour, "M": time.Minute, "S": time.Second, "m": time.Millisecond, "u": time.Microsecond, "n": 1}
	n, _ := strconv.ParseInt(match[1], 10, 64)
	return time.Duration(n) * units[match[2]]
}

// Budgets end from 50 ms before Envoy's idle timeout to 10 ms after it, and a few long before and long after: either way the
// client gets exactly one whole answer, and the connection is in order for the next request.
func TestCase_O15_BudgetMeetsIdleTimeout(t *testing.T) {
	const waiters, idle = 300, time.Second
	env := rig.New(t, rig.Shared(t, 2), rig.Setup{Config: &rig.Config{Pools: []rig.Pool{modelPool(1, waiters, longWait)}}, Routes: shortIdle})
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
	env.CheckCounts(t, "model", rig.Counts{"expired_deadline": outcomes[429], "cancelled_waiting": outcomes[504]})
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
	env.CheckCounts(t, "model", rig.Counts{"provider_429": 0, "provider_failure": 0, "inflight": 1, "on_hold": 0, "completed": 0, "aborted": 0})
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	theirs := env.Do(t, rig.Call{Script: rig.Script{Status: 429, Headers: map[string]string{"retry-after": "7"}}})
	if theirs.Status != 429 || theirs.Reason() != "" || theirs.Header.Get("retry-after") != "7" {
		t.Errorf("the provider's 429 came as %s with %v", theirs, theirs.Header)
	}
	env.CheckCounts(t, "model", rig.Counts{"admitted": 2, "rejected_queue_full": 20})
	env.DrainCheck(t, "model", 1)
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
