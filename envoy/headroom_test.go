package envoy_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

func TestHeadroomAfterAProvidersPushback(t *testing.T) {
	const window = 1500 * time.Millisecond
	env := protected(t, rig.Setup{}, nil, protectedPool(2, 1,
		rig.Object{"headroom": rig.Object{"window": window.String()}}))
	held := env.Hold(t, "held")
	if r := env.Do(t, rig.Call{Script: rig.Script{ID: "pushback", Status: 429}}); r.Status != 429 || r.Reason() != "" {
		t.Fatalf("got %s, want the upstream's 429", r)
	}
	pushed := env.AwaitEnd(t, "pushback")
	waiter := env.Send(t, rig.Call{}.With("waiter"))
	mustBeOK(t, "another model", env.Do(t, rig.Call{Model: "other"}))
	mustBeOK(t, "the waiter", waiter.Wait())
	seen, _ := env.Up.Request("waiter")
	if gap := seen.Start.Sub(pushed.End); gap < window-grain || gap > window+lateness {
		t.Errorf("the waiter ran %v after the 429, want %v", gap, window)
	}
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	env.CheckCounts(t, "model", rig.Counts{"provider_429": 1, "on_hold": 0})
	env.DrainCheck(t, "model", 2)
}
