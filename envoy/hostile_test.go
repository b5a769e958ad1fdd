package envoy_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

// However a client ends its own request, that is no failure of the provider's.
func TestClientsCannotTripTheBreaker(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, env *rig.Env){
		"HTTP/2 reset in mid-stream": func(t *testing.T, env *rig.Env) {
			leaveStream(t, env.H2(t).Send(streaming("id")), rig.LeaveRST)
		},
		"HTTP/2 reset before the answer": func(t *testing.T, env *rig.Env) {
			p := env.H2(t).Send(rig.Call{Script: rig.Script{ID: "id", Gate: "id"}})
			rig.Eventually(t, 3*time.Second, "the upstream has seen the request", func() bool { return env.Up.Saw("id") })
			p.Leave(rig.LeaveRST)
		},
		"HTTP/2 connection killed": func(t *testing.T, env *rig.Env) {
			h := env.H2(t)
			h.Send(streaming("id")).AwaitBody(t, "data: 1")
			h.Kill()
		},
		"idle stream": func(t *testing.T, env *rig.Env) {
			env.Send(t, streaming("id")).AwaitBody(t, "data: 1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			env := shaped(t, rig.Setup{Manager: rig.Object{"stream_idle_timeout": "1s"}}, nil,
				protectedPool(4, 0, rig.Object{"breaker": rig.Object{"failures": 1, "window": "30s", "open": "30s"}}))
			leave(t, env)
			env.AwaitDrained(t, "model")
			mustBeOK(t, "the next client's request", env.Do(t, rig.Call{}))
			env.CheckCounts(t, "model", rig.Counts{"provider_failure": 0, "aborted": 1})
		})
	}
}
