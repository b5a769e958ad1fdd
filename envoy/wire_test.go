package envoy_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

// A departure makes a request come to an end in one of the ways there are.
type departure struct {
	name string
	path string // "": the default. The others have timers, which may end a call before the upstream has it
	end  func(t *testing.T, s *storm, c rig.Call)
	left bool   // Envoy has to end it at the upstream, which does not
	only string // the stage or the upstream's protocol that it needs; "": none
}

// A storm is many requests that end in all ways at once, all under one limit.
type storm struct {
	env *rig.Env
	h2  *rig.H2
}

// send sends every other call over HTTP/1, and the others as streams of one HTTP/2 connection.
func (s *storm) send(t *testing.T, c rig.Call) *rig.Pending {
	if len(c.ID)%2 == 0 {
		return s.env.Send(t, c)
	}
	return s.h2.Send(c)
}

// ends waits for the end of a call whose script is this.
func ends(script rig.Script) func(*testing.T, *storm, rig.Call) {
	return func(t *testing.T, s *storm, c rig.Call) {
		script.ID = c.ID
		c.Script = script
		s.send(t, c).Wait()
	}
}

// leaves leaves a call whose script is this: once the upstream has it, or once its answer has begun if it has one.
func leaves(how rig.Leave, script rig.Script) func(*testing.T, *storm, rig.Call) {
	return func(t *testing.T, s *storm, c rig.Call) {
		script.ID = c.ID
		c.Script = script
		p := s.send(t, c)
		rig.Await(t, c.ID+" runs", func() bool { return s.env.Up.Saw(c.ID) && (script.Chunks == 0 || p.BodyHas("data")) })
		p.Leave(how)
		rig.Await(t, c.ID+" has ended", p.Done)
	}
}

// breaks sends a broken chunk once the upstream has the head.
func breaks(t *testing.T, s *storm, c rig.Call) {
	c.Script = rig.Script{ID: c.ID, Early: true, HeaderGate: "never"}
	c.Delivery.Chunked = true
	conn := s.env.Dial(t)
	conn.Write(t, c.Head(0))
	rig.Await(t, c.ID+" runs", func() bool { return s.env.Up.Saw(c.ID) })
	conn.Write(t, "zz\r\n")
	conn.Read("POST")
}

func upgrades(t *testing.T, s *storm, c rig.Call) {
	conn := upgrade(t, s.env, c.ID)
	conn.Leave(rig.LeaveRST)
}

var departures = []departure{
	{name: "whole", end: ends(rig.Script{Delay: time.Millisecond})},
	{name: "whole stream", end: ends(rig.Script{Chunks: 2, Gap: time.Millisecond})},
	{name: "whole failure", end: ends(rig.Script{Status: 503})},
	{name: "cut", end: ends(rig.Script{Cut: true})},
	{name: "cut stream", end: ends(rig.Script{Chunks: 1, Reset: true})},
	{name: "left", left: true, end: leaves(rig.LeaveRST, rig.Script{HeaderGate: "never"})},
	{name: "left by FIN", left: true, end: leaves(rig.LeaveFIN, rig.Script{HeaderGate: "never"})},
	{name: "left stream", left: true, end: leaves(rig.LeaveRST, rig.Script{Chunks: 1, Hang: true})},
	{name: "left 429", left: true, end: leaves(rig.LeaveRST, rig.Script{Status: 429, Chunks: 1, Hang: true})},
	{name: "left 503", left: true, end: leaves(rig.LeaveFIN, rig.Script{Status: 503, Chunks: 1, Hang: true})},
	{name: "left upgrade", left: true, end: upgrades, only: "HTTP/1"},
	{name: "broken chunk", left: true, end: breaks},
	{name: "timeout", path: "/short", end: ends(rig.Script{HeaderGate: "never"})},
	{name: "timeout of a stream", path: "/short", end: ends(rig.Script{Chunks: 1, Hang: true})},
	{name: "per-try timeout", path: "/per-try", end: ends(rig.Script{Tries: []rig.Script{{HeaderGate: "never"}, {}}})},
	{name: "retried failure", path: "/per-try", end: ends(rig.Script{Tries: []rig.Script{{Status: 503, Chunks: 2, Gap: 300 * time.Millisecond}, {}}})},
	{name: "hedge", path: "/hedge", only: "attempt", end: ends(rig.Script{Tries: []rig.Script{{Delay: 60 * time.Millisecond}, {Delay: time.Millisecond}}})},
}

// A limit holds on the wire: from the first packet of a request to the packet with which its upstream has answered, or
// Envoy has given it up, no more than the limit run, however they end.
func TestLimitHoldsOnTheWire(t *testing.T) {
	for _, workers := range []int{1, 4} {
		for _, upstream := range []string{"HTTP/1", "HTTP/2"} {
			for _, stage := range []string{"request", "attempt"} {
				for _, limit := range []int{1, 4} {
					t.Run(fmt.Sprintf("%d workers, %s upstream, stage %s, limit %d", workers, upstream, stage, limit), func(t *testing.T) {
						env := rig.New(t, rig.Shared(t, workers), wireSetup(upstream, stage, limit))
						watch := env.Watch(t)
						all := slices.DeleteFunc(slices.Clone(departures), func(d departure) bool { return d.only != "" && d.only != upstream && d.only != stage })
						(&storm{env, env.H2(t)}).rage(t, all)
						env.AwaitDrained(t, "model")
						watch.CheckLimit(t, limit)
						checkSpans(t, watch, all)
						logGaps(t, watch)
						env.CheckIdentity(t, "model")
					})
				}
			}
		}
	}
}

func wireSetup(upstream, stage string, limit int) rig.Setup {
	s := rig.Setup{Manager: rig.Object{"upgrade_configs": []rig.Object{{"upgrade_type": "websocket"}}, "delayed_close_timeout": "0.01s"},
		Config: &rig.Config{Pools: []rig.Pool{{Name: "model", Key: []string{"model"}, Limit: int64(limit), Queue: 1000, MaxWait: longWait}}},
		Routes: func(up string) []rig.Object {
			short, perTry, hedge := rig.Route("/short", up), rig.Route("/per-try", up), rig.Route("/hedge", up)
			short["route"].(rig.Object)["timeout"] = "0.02s"
			perTry["route"].(rig.Object)["retry_policy"] = rig.Object{"retry_on": "5xx", "num_retries": 1, "per_try_timeout": "0.02s"}
			hedge["route"].(rig.Object)["retry_policy"] = rig.Object{"retry_on": "5xx", "num_retries": 1, "per_try_timeout": "0.02s"}
			hedge["route"].(rig.Object)["hedge_policy"] = rig.Object{"hedge_on_per_try_timeout": true}
			return []rig.Object{short, perTry, hedge, rig.Route("/", up)}
		}}
	if stage == "attempt" {
		s.Stages, s.Config.Pools[0].Per = true, "attempt"
	}
	if upstream == "HTTP/2" {
		s.Upstream = rig.WithHTTP2
	}
	return s
}

const stormClients = 10

// rage has some clients go through all departures, each in another order.
func (s *storm) rage(t *testing.T, all []departure) {
	var clients sync.WaitGroup
	for client := range stormClients {
		clients.Go(func() {
			for i := range all {
				d := all[(i*7+client*3)%len(all)]
				d.end(t, s, rig.Call{Path: d.path + rig.Path}.With(d.id(client)))
			}
		})
	}
	clients.Wait()
}

func (d departure) id(client int) string { return fmt.Sprintf("%s %d", d.name, client) }

// checkSpans checks that the watch has seen the calls, and how those came to their ends that only Envoy can end.
func checkSpans(t *testing.T, w *rig.Watch, all []departure) {
	t.Helper()
	ended := map[string]string{}
	for _, s := range w.Spans(t) {
		ended[s.ID] = s.Ended
	}
	for _, d := range all {
		for client := range stormClients {
			id := d.id(client)
			if by, seen := ended[id]; seen && by == "" || d.path == "" && !seen || d.left && !strings.HasPrefix(by, "Envoy") {
				t.Errorf("%s: %q was seen: %v, and ended by %q", w.How, id, seen, by)
			}
		}
	}
}

// logGaps logs how soon a permit is used again.
func logGaps(t *testing.T, w *rig.Watch) {
	t.Helper()
	spans := w.Spans(t)
	after := map[string][]time.Duration{}
	for i, s := range spans {
		by := "other ends"
		if strings.HasPrefix(s.Ended, "Envoy") {
			by = "resets"
		}
		next := slices.IndexFunc(spans[i:], func(n rig.Span) bool { return n.Start.Order > s.End.Order })
		if next > 0 {
			after[by] = append(after[by], spans[i+next].Start.At.Sub(s.End.At))
		}
	}
	for by, gaps := range after {
		slices.Sort(gaps)
		t.Logf("the next request began after %d %s: median %v, 95 of 100 within %v, at most %v", len(gaps), by,
			gaps[len(gaps)/2], gaps[len(gaps)*95/100], gaps[len(gaps)-1])
	}
}
