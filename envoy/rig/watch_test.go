package rig_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

// A watch that can't see too many requests proves nothing. Here nothing limits them.
func TestWatchesSeeTooMany(t *testing.T) {
	for name, change := range map[string]func(rig.Object) rig.Object{"HTTP/1": nil, "HTTP/2": rig.WithHTTP2} {
		t.Run(name, func(t *testing.T) {
			env := newEnv(t, rig.Setup{Upstream: change})
			watches := []*rig.Watch{env.Watch(t), env.WatchConnections()}
			for i := range 3 {
				env.Do(t, rig.Call{}.With(fmt.Sprint("alone-", i)))
			}
			a := env.Send(t, rig.Call{Script: rig.Script{ID: "a", Chunks: 1, Gate: "a"}})
			a.AwaitBody(t, "data")
			b := env.Hold(t, "b")
			rig.Poll(300*time.Millisecond, func() bool { return false }) // both run for longer than an end goes unnoticed
			b.Leave(rig.LeaveRST)
			env.AwaitEnd(t, "b")
			env.Up.Open("a")
			if r := a.Wait(); r.Err != nil {
				t.Fatal(r)
			}
			for _, w := range watches {
				if spans := w.Spans(t); len(spans) != 5 || spans[4].ID != "b" || spans[4].Ended == "" {
					t.Errorf("%s: saw %v", w.How, spans)
				}
				if found := w.Excesses(t, 1); len(found) != 1 || len(found[0].Running) != 2 || found[0].Lasted < 100*time.Millisecond {
					t.Errorf("%s: more than one ran %d times: %v", w.How, len(found), found)
				}
				if found := w.Excesses(t, 2); len(found) != 0 {
					t.Errorf("%s: more than two ran: %v", w.How, found)
				}
			}
		})
	}
}

// On the wire a request ends with what Envoy or the upstream sends last.
func TestWatchTellsHowRequestsEnd(t *testing.T) {
	want := map[string]map[string]string{
		"HTTP/1": {"whole": "its answer", "left": "Envoy's FIN", "cut": "the upstream's FIN", "stream": "its answer"},
		"HTTP/2": {"whole": "its answer", "left": "Envoy's RST_STREAM", "cut": "the upstream's RST_STREAM", "stream": "its answer"},
	}
	for name, change := range map[string]func(rig.Object) rig.Object{"HTTP/1": nil, "HTTP/2": rig.WithHTTP2} {
		t.Run(name, func(t *testing.T) {
			env := newEnv(t, rig.Setup{Upstream: change})
			watches := []*rig.Watch{env.Watch(t), env.WatchConnections()}
			env.Do(t, rig.Call{}.With("whole"))
			env.Do(t, rig.Call{Script: rig.Script{ID: "cut", Cut: true}})
			env.Do(t, rig.Call{Script: rig.Script{ID: "stream", Chunks: 2, Trailers: map[string]string{"x-end": "yes"}}})
			left := env.Send(t, rig.Call{Script: rig.Script{ID: "left", Chunks: 1, Hang: true}})
			left.AwaitBody(t, "data")
			left.Leave(rig.LeaveRST)
			env.AwaitEnd(t, "left")
			for _, w := range watches {
				spans := w.Spans(t)
				for _, s := range spans {
					packets := strings.Contains(w.How, "packets")
					if packets && s.Ended != want[name][s.ID] || s.Ended == "" || !strings.HasPrefix(want[name][s.ID], s.Ended) {
						t.Errorf("%s: %q was ended by %q, want %q", w.How, s.ID, s.Ended, want[name][s.ID])
					}
				}
				if len(spans) != len(want[name]) {
					t.Errorf("%s: saw %v", w.How, spans)
				}
			}
		})
	}
}
