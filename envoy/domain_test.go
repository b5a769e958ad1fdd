package envoy_test

import (
	"testing"

	"github.com/headgate/headgate/envoy/rig"
)

func TestInstancesOfOneDomainShareTheirPools(t *testing.T) {
	shared := rig.Shared(t, 2)
	config := &rig.Config{Pools: []rig.Pool{modelPool(1, 1, longWait)}}
	one := rig.New(t, shared, rig.Setup{Config: config})
	two := rig.New(t, shared, rig.Setup{Config: config, PoolsOf: one})
	apart := rig.New(t, shared, rig.Setup{PoolsOf: one,
		Config: &rig.Config{Domain: "apart-" + one.PoolName("model"), Pools: config.Pools}})
	held := one.Hold(t, "held")
	waiter := two.Queue(t, "model", rig.Call{}.With("waiter"))[0]
	two.CheckRefused(t, two.Do(t, rig.Call{}), "model", rig.Rejected)
	mustBeOK(t, "a request in another domain", apart.Do(t, rig.Call{}))
	one.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	mustBeOK(t, "the waiter of the other listener", waiter.Wait())
	two.DrainCheck(t, "model", 1)
}
