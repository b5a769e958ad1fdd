package envoy_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

// fallback is a route whose tries go to these clusters in turn.
func fallback(prefix string, clusters ...string) rig.Object {
	route := retrying(prefix, "")
	action := route["route"].(rig.Object)
	delete(action, "cluster")
	action["inline_cluster_specifier_plugin"] = rig.InTurn(clusters...)
	action["retry_policy"].(rig.Object)["refresh_cluster_on_retry"] = true
	return route
}

// A fallbackTest has two targets, each a model with one permit, and calls that go to the second where the first fails.
type fallbackTest struct {
	env      *rig.Env
	one, two *rig.Upstream
}

func newFallbackTest(t *testing.T) *fallbackTest {
	t.Helper()
	f := &fallbackTest{one: rig.NewUpstream(t), two: rig.NewUpstream(t)}
	s := stagedSetup(tenantPool(1, 0), attemptPool(1, 0))
	s.Config.More = modelOf(rig.Object{"cluster": true})
	s.Targets = []rig.Object{rig.Cluster("one", f.one.Port), rig.Cluster("two", f.two.Port)}
	s.Routes = func(string) []rig.Object {
		return []rig.Object{retrying("/one", "one"), retrying("/two", "two"), fallback("/", "one", "two")}
	}
	f.env = rig.New(t, rig.Shared(t, 2), s)
	return f
}

// to is a call of another tenant that goes to that target alone.
func (f *fallbackTest) to(target string) rig.Call {
	return rig.Call{Tenant: "c", Path: "/" + target + rig.Path}
}

// start sends the call a, which fails on the first target as the script says, and streams from the second.
func (f *fallbackTest) start(t *testing.T, fails rig.Script) *rig.Pending {
	t.Helper()
	f.one.Override("a", fails)
	a := f.env.Send(t, rig.Call{Tenant: "a", Script: rig.Script{ID: "a", Chunks: 1, Gate: "a"}})
	rig.Await(t, "the first try has ended", func() bool {
		seen, _ := f.one.Request("a")
		return seen.Ending == rig.EndingComplete
	})
	return a
}

func TestCase_O24_FallbackInBackOffLeavesBothTargetsFree(t *testing.T) {
	f := newFallbackTest(t)
	a := f.start(t, failedThenWaits(time.Minute))
	f.env.AwaitGauge(t, "model", "inflight", 0)
	f.env.CheckRefused(t, f.env.Do(t, rig.Call{Tenant: "a"}.With("b")), "tenant", rig.Rejected)
	mustBeOK(t, "another tenant on the first target", f.env.Do(t, f.to("one")))
	mustBeOK(t, "another tenant on the second target", f.env.Do(t, f.to("two")))
	a.Leave(rig.LeaveRST)
	f.env.AwaitDrained(t, "tenant", "model")
	mustBeOK(t, "the tenant's next one", f.env.Do(t, rig.Call{Tenant: "a"}))
	if n := len(f.two.Tries("a")); n != 0 {
		t.Errorf("the fallback ran %d times after its client had left", n)
	}
}

// The call fails on the first target, backs off, and streams from the second.
func TestCase_O24_FallbackCountsOnItsOwnModel(t *testing.T) {
	for name, leaves := range map[string]bool{"to its end": false, "until its client leaves": true} {
		t.Run(name, func(t *testing.T) {
			f := newFallbackTest(t)
			a := f.start(t, failedThenWaits(time.Second))
			a.AwaitBody(t, "data: 0")
			f.env.CheckRefused(t, f.env.Do(t, rig.Call{Tenant: "a"}), "tenant", rig.Rejected)
			f.env.CheckRefused(t, f.env.Do(t, f.to("two")), "model", rig.Rejected)
			mustBeOK(t, "the first target is free", f.env.Do(t, f.to("one")))
			if leaves {
				a.Leave(rig.LeaveFIN)
			} else {
				f.two.Open("a")
				mustBeOK(t, "the fallback's stream", a.Wait())
			}
			f.env.AwaitDrained(t, "tenant", "model")
			mustBeOK(t, "the second target is free again", f.env.Do(t, f.to("two")))
			f.env.CheckIdentity(t, "model")
			f.env.CheckIdentity(t, "tenant")
			f.env.CheckCounts(t, "tenant", rig.Counts{"evaluated": 5, "admitted": 4, "rejected_queue_full": 1})
			f.env.CheckCounts(t, "model", rig.Counts{"evaluated": 5, "admitted": 4, "rejected_queue_full": 1})
		})
	}
}

// A cluster of clusters is one cluster to Envoy's filters: its tries count under its name, whichever member serves
// them.
func TestAggregateClusterIsOneModel(t *testing.T) {
	one, two := rig.NewUpstream(t), rig.NewUpstream(t)
	s := stagedSetup(tenantPool(2, 0), attemptPool(1, 0))
	s.Config.More = modelOf(rig.Object{"cluster": true})
	s.Targets = []rig.Object{rig.Aggregate("both", "one", "two")}
	s.Clusters = []rig.Object{rig.Cluster("one", one.Port), rig.Cluster("two", two.Port)}
	s.Routes = func(string) []rig.Object {
		route := retrying("/", "both")
		route["route"].(rig.Object)["retry_policy"].(rig.Object)["retry_priority"] = rig.PreviousPriorities
		return []rig.Object{route}
	}
	env := rig.New(t, rig.Shared(t, 2), s)
	one.Override("a", failed)
	a := env.Send(t, rig.Call{Tenant: "a", Script: rig.Script{ID: "a", HeaderGate: "a"}})
	rig.Await(t, "the second member serves the retry", func() bool { return two.Saw("a") })
	env.CheckCounts(t, "model", rig.Counts{"evaluated": 2, "inflight": 1, "keys": 1})
	env.CheckRefused(t, env.Do(t, rig.Call{Tenant: "b"}), "model", rig.Rejected)
	two.Open("a")
	mustBeOK(t, "the retried one", a.Wait())
	env.AwaitDrained(t, "tenant", "model")
}
