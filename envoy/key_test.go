package envoy_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/headgate/headgate/envoy/rig"
)

func TestKeysHaveTheirOwnLimits(t *testing.T) {
	pool := tenantPool(1, 0)
	pool.Keys = map[string]any{"acme": rig.Object{"limit": 3}}
	env := governed(t, 2, pool)
	env.Up.KeyHeader("x-tenant")
	for i := range 3 {
		env.Hold(t, fmt.Sprint("acme-", i), rig.Call{Tenant: "acme"})
	}
	env.CheckRefused(t, env.Do(t, rig.Call{Tenant: "acme"}), "tenant", rig.Rejected)
	env.Hold(t, "globex", rig.Call{Tenant: "globex"})
	env.CheckRefused(t, env.Do(t, rig.Call{Tenant: "globex"}), "tenant", rig.Rejected)
	env.CheckCounts(t, "tenant", rig.Counts{"inflight": 4, "keys": 2})
	if acme, globex := env.Up.PeakOf("acme"), env.Up.PeakOf("globex"); acme != 3 || globex != 1 {
		t.Errorf("%d of acme and %d of globex ran at once, want 3 and 1", acme, globex)
	}
	env.Up.Open("acme-0", "acme-1", "acme-2", "globex")
	env.Up.ResetPeak()
	env.AwaitDrained(t, "tenant")
	env.DrainCheck(t, "tenant", 3, rig.Call{Tenant: "acme"})
}

// Beyond max_keys all share the key `other`, so more tenants get no more permits.
func TestKeysBeyondMaxKeysShareOne(t *testing.T) {
	const maxKeys, tenants = 3, 10
	env := rig.New(t, rig.Shared(t, 2), rig.Setup{Config: &rig.Config{Pools: []rig.Pool{tenantPool(1, 0)},
		More: rig.Object{"max_keys": maxKeys}}})
	for round := range 2 { // the second round needs the keys of the first, idle by then
		gate := fmt.Sprint("round-", round)
		var calls []*rig.Pending
		for i := range tenants {
			calls = append(calls, env.Send(t, rig.Call{Tenant: fmt.Sprintf("t%d-%d", round, i),
				Script: rig.Script{HeaderGate: gate}}))
		}
		rig.Await(t, "all but those of max_keys and of `other` are refused", func() bool {
			return rig.CountDone(calls) == tenants-maxKeys-1 && env.Up.Running() == maxKeys+1
		})
		if keys := env.Gauge(t, "tenant", "keys"); keys > maxKeys+1 {
			t.Errorf("keys is %d, max_keys is %d", keys, maxKeys)
		}
		env.Up.Open(gate)
		statuses := map[int]int{}
		for _, r := range rig.WaitAll(calls) {
			statuses[r.Status]++
		}
		if statuses[http.StatusOK] != maxKeys+1 || statuses[http.StatusTooManyRequests] != tenants-maxKeys-1 {
			t.Errorf("statuses %v", statuses)
		}
		env.AwaitDrained(t, "tenant")
	}
	env.Up.ResetPeak()
	env.DrainCheck(t, "tenant", 1, rig.Call{Tenant: "last"})
}
