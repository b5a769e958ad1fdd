package envoy_test

import (
	"fmt"
	"testing"

	"github.com/headgate/headgate/envoy/rig"
)

// Each round needs both permits at once, after a client has left its stream. So the round fails if that permit is not back
// some milliseconds after the upstream has seen the client leave.
func TestCase_O01_LeavingClientGivesItsPermitBackAtOnce(t *testing.T) {
	const rounds = 25
	leaves := map[string]func(t *testing.T, env *rig.Env, id string){
		"RST in mid-stream": func(t *testing.T, env *rig.Env, id string) {
			leaveStream(t, env.Send(t, streaming(id)), rig.LeaveRST)
		},
		"FIN in mid-stream": func(t *testing.T, env *rig.Env, id string) {
			leaveStream(t, env.Send(t, streaming(id)), rig.LeaveFIN)
		},
		"h2 RST_STREAM": func(t *testing.T, env *rig.Env, id string) {
			leaveStream(t, env.H2(t).Send(streaming(id)), rig.LeaveRST)
		},
		"before headers, RST": func(t *testing.T, env *rig.Env, id string) {
			env.Hold(t, id).Leave(rig.LeaveRST)
		},
		"before headers, FIN": func(t *testing.T, env *rig.Env, id string) {
			env.Hold(t, id).Leave(rig.LeaveFIN)
		},
	}
	for name, leave := range leaves {
		t.Run(name, func(t *testing.T) {
			env := governed(t, 1, modelPool(2, 0, ""))
			for i := range rounds {
				id := fmt.Sprintf("s%d", i)
				leave(t, env, id)
				if seen := env.AwaitEnd(t, id); seen.Ending != rig.EndingCancelled {
					t.Fatalf("the upstream's request ended as %s, want cancelled", seen.Ending)
				}
				env.AwaitGauge(t, "model", "inflight", 0)
				hold := env.Hold(t, id+"-held")
				mustBeOK(t, "the twin beside it", env.Do(t, rig.Call{}))
				env.Up.Open(id + "-held")
				mustBeOK(t, "the held one", hold.Wait())
			}
			env.DrainCheck(t, "model", 2)
		})
	}
}

func TestCase_O01_KilledConnectionGivesThePermitsOfAllItsStreamsBack(t *testing.T) {
	const streams, rounds = 5, 10
	env := governed(t, 2, modelPool(streams, 0, ""))
	for round := range rounds {
		h2 := env.H2(t)
		ids := make([]string, streams)
		for i := range ids {
			ids[i] = fmt.Sprintf("r%d-%d", round, i)
			h2.Send(streaming(ids[i])).AwaitBody(t, "data: 1")
		}
		h2.Kill()
		for _, id := range ids {
			env.AwaitEnd(t, id)
		}
		env.AwaitGauge(t, "model", "inflight", 0)
	}
	env.DrainCheck(t, "model", streams)
}

func TestCase_O01_LeavingOnTheLastChunk(t *testing.T) {
	env := governed(t, 2, modelPool(1, 0, ""))
	for i := range 40 {
		id := fmt.Sprintf("s%d", i)
		p := env.Send(t, rig.Call{Script: rig.Script{ID: id, Chunks: 3, Gate: id}})
		p.AwaitBody(t, "data: 2")
		how := []rig.Leave{rig.LeaveFIN, rig.LeaveRST}[i%2]
		go env.Up.Open(id) // the last chunk and the client's end meet at Envoy
		p.Leave(how)
		env.AwaitEnd(t, id)
		env.AwaitGauge(t, "model", "inflight", 0)
	}
	env.DrainCheck(t, "model", 1)
}

func TestCase_O02_StreamKeepsItsPermitToItsLastByte(t *testing.T) {
	env := governed(t, 2, modelPool(1, 1, longWait))
	running := env.Send(t, rig.Call{Script: rig.Script{ID: "a", Chunks: 3, Gate: "a"}})
	running.AwaitBody(t, "data: 2")
	waiting := env.Queue(t, "model", rig.Call{}.With("c"))[0]
	env.CheckRefused(t, env.Do(t, rig.Call{}.With("b")), "model", rig.Rejected)
	if env.Up.Saw("c") {
		t.Error("the waiter reached the upstream while the stream ran")
	}
	env.Up.Open("a")
	mustBeOK(t, "the waiter", waiting.Wait())
	mustBeOK(t, "the stream", running.Wait())
	a, _ := env.Up.Request("a")
	c, _ := env.Up.Request("c")
	if c.Start.Before(a.End) {
		t.Errorf("the waiter started %v before the stream's end", a.End.Sub(c.Start))
	}
	if body := string(running.Wait().Body); body != "data: 0\n\ndata: 1\n\ndata: 2\n\n" {
		t.Errorf("the stream's body is %q", body)
	}
	env.DrainCheck(t, "model", 1)
}
