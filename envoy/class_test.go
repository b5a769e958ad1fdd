package envoy_test

import (
	"net/http"
	"testing"

	"github.com/headgate/headgate/envoy/rig"
)

func TestClassIsAPoolKey(t *testing.T) {
	env := governed(t, 2, rig.Pool{Name: "class", Key: []string{"class"}, Limit: 1})
	held := env.Hold(t, "held", rig.Call{Class: "background"})
	env.CheckRefused(t, env.Do(t, rig.Call{Class: "background"}), "class", rig.Rejected)
	mustBeOK(t, "another class", env.Do(t, rig.Call{Class: "interactive"}))
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	env.Up.ResetPeak()
	env.DrainCheck(t, "class", 1, rig.Call{Class: "background"})
}

func TestPoolThatMatchesAClassGatesThatClassAlone(t *testing.T) {
	pool := rig.Pool{Name: "background", Limit: 1, Match: rig.Object{"class": []string{"background", "batch"}}}
	env := governed(t, 2, pool)
	held := env.Hold(t, "held", rig.Call{Class: "background"})
	for range 5 {
		mustBeOK(t, "another class", env.Do(t, rig.Call{Class: "interactive"}))
		mustBeOK(t, "no class", env.Do(t, rig.Call{}))
		mustBeOK(t, "a class that only resembles it", env.Do(t, rig.Call{Class: "Background"}))
		env.CheckRefused(t, env.Do(t, rig.Call{Class: "batch"}), "background", rig.Rejected)
	}
	env.CheckCounts(t, "background", rig.Counts{"evaluated": 6, "admitted": 1})
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	env.Up.ResetPeak()
	env.DrainCheck(t, "background", 1, rig.Call{Class: "batch"})
}

func TestClassSentTwiceIsRefused(t *testing.T) {
	batch := rig.Pool{Name: "background", Limit: 1, Match: rig.Object{"class": []string{"batch"}}}
	env := governed(t, 2, tenantPool(1, 0), batch)
	r := env.Do(t, rig.Call{Class: "a", Header: []rig.Field{{Name: "x-class", Value: "a"}}}.With("twice"))
	if r.Status != http.StatusBadRequest || r.Reason() != rig.Ambiguous || env.Up.Saw("twice") {
		t.Errorf("got %s, want 400 %s", r, rig.Ambiguous)
	}
	env.CheckCounts(t, "tenant", rig.Counts{"evaluated": 0})
}
