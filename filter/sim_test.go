package filter_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

var (
	seedFlag    = flag.Uint64("seed", 0, "run the simulation with this seed only")
	exploreFlag = flag.Bool("explore", false, "run the long simulations")
)

// faults are what a simulated run may suffer.
type faults struct{ lostMessages, failedSwaps, crashes, reloads, lateWorkers bool }

func (f faults) String() string {
	return fmt.Sprintf("lost=%t swaps=%t crashes=%t reloads=%t late=%t", f.lostMessages, f.failedSwaps, f.crashes, f.reloads, f.lateWorkers)
}

// Random schedules of the built module, with faults switched on one by one and all together. A failing run prints the
// command that repeats it.
func TestSim(t *testing.T) {
	runs := 12
	if *exploreFlag {
		runs = 400
	}
	for _, f := range []faults{{}, {lostMessages: true}, {failedSwaps: true}, {crashes: true}, {reloads: true}, {lateWorkers: true},
		{lostMessages: true, failedSwaps: true, crashes: true, reloads: true, lateWorkers: true}} {
		t.Run(f.String(), func(t *testing.T) {
			if *seedFlag != 0 {
				simulate(t, *seedFlag, f)
				return
			}
			for seed := range uint64(runs) {
				simulate(t, seed+1, f)
			}
		})
	}
}

const simWait = 2 * time.Second

// A sim is one simulated run.
type sim struct {
	*gateway
	rnd     *rand.Rand
	faults  faults
	workers int
	limit   int
	most    int // the largest limit so far
	fair    bool
	live    []*request
	late    int // a worker that gets no events for now; -1: none
	lateEnd time.Duration
}

type request struct {
	*wasmtest.Stream
	worker int
	sent   time.Duration
}

func simulate(t *testing.T, seed uint64, f faults) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("to repeat: go test ./filter -run 'TestSim/%s' -seed=%d", f, seed)
		}
	}()
	s := &sim{rnd: rand.New(rand.NewPCG(seed, 7)), faults: f, workers: 2 + int(seed%3), late: -1}
	s.limit = 1 + s.rnd.IntN(3)
	s.most = s.limit
	s.fair = seed%2 == 0
	s.gateway = start(t, s.workers, s.configuration(), wasmtest.WithSeed(seed))
	s.host.OnHostCall(s.disturb)
	for range 150 {
		s.step()
		s.check()
	}
	s.host.OnHostCall(nil)
	s.late = -1
	s.finish()
	s.host.Close()
}

func (s *sim) configuration() object {
	p := pool("model", s.limit, "queue", 6, "max_wait", simWait.String())
	if s.fair {
		p["fair_by"] = "tenant"
	}
	return with(config(object{"name": "all", "limit": 7, "queue": 3, "max_wait": "1s"}, p), "lease", "1s")
}

// disturb loses messages and swaps.
func (s *sim) disturb(c *wasmtest.HostCall) {
	switch c.Name() {
	case "proxy_enqueue_shared_queue":
		if s.faults.lostMessages && s.rnd.IntN(4) == 0 {
			c.Drop()
		}
	case "proxy_set_shared_data":
		if s.faults.failedSwaps && s.rnd.IntN(3) == 0 {
			c.Fail(wasmtest.StatusCasMismatch)
		}
	}
}

func (s *sim) step() {
	switch n := s.rnd.IntN(100); {
	case n < 35:
		s.arrive()
	case n < 60:
		s.endOne()
	case n < 90:
		s.pass(time.Duration(s.rnd.IntN(60)) * ms)
	case n < 92 && s.faults.crashes:
		s.crash(s.rnd.IntN(s.workers))
	case n < 94 && s.faults.reloads:
		s.limit = 1 + s.rnd.IntN(3)
		s.most = max(s.most, s.limit)
		s.reload(s.configuration())
	case n < 96 && s.faults.lateWorkers && s.late < 0:
		s.late, s.lateEnd = s.rnd.IntN(s.workers), s.host.Elapsed()+time.Duration(s.rnd.IntN(3000))*ms
	default:
		s.host.Step()
	}
}

func (s *sim) arrive() {
	w := s.rnd.IntN(s.workers)
	if w == s.late {
		return
	}
	st := s.send(w, "x-model", "m", "x-tenant", fmt.Sprintf("t%d", s.rnd.IntN(3)))
	s.live = append(s.live, &request{Stream: st, worker: w, sent: s.host.Elapsed()})
}

// endOne ends a request in some way; a running one more often than a waiting one.
func (s *sim) endOne() {
	if len(s.live) == 0 {
		return
	}
	i := s.rnd.IntN(len(s.live))
	r := s.live[i]
	if r.worker == s.late || waits(r.Stream) && s.rnd.IntN(3) > 0 {
		return
	}
	s.live = append(s.live[:i], s.live[i+1:]...)
	switch {
	case !runs(r.Stream):
		r.ClientGone()
	case s.rnd.IntN(3) == 0:
		r.UpstreamReset()
	default:
		r.Respond(200, "ok")
	}
}

// pass lets time pass, in small pieces, with events for every worker but a late one.
func (s *sim) pass(d time.Duration) {
	for end := s.host.Elapsed() + d; s.host.Elapsed() < end; {
		s.host.Advance(5 * ms)
		if s.late >= 0 && s.host.Elapsed() > s.lateEnd {
			s.late = -1
		}
		for range 200 {
			if !s.deliverOne() {
				break
			}
		}
	}
}

func (s *sim) deliverOne() bool {
	for _, e := range s.host.Pending() {
		if e.Worker.Index() != s.late {
			s.host.Deliver(e)
			return true
		}
	}
	return false
}

func (s *sim) crash(w int) {
	if w == s.late {
		return
	}
	s.host.Worker(w).Kill()
	require.NoError(s.t, s.host.Worker(w).Reload())
	kept := s.live[:0]
	for _, r := range s.live {
		if r.worker != w {
			kept = append(kept, r)
		}
	}
	s.live = kept
}

// check is what holds at every moment: no more run than the limit allows, and nobody waits beyond the budget.
func (s *sim) check() {
	running := 0
	kept := s.live[:0]
	for _, r := range s.live {
		if _, ended := r.Ended(); ended {
			continue
		}
		kept = append(kept, r)
		if runs(r.Stream) {
			running++
		} else if !s.faults.failedSwaps && !s.faults.lateWorkers {
			require.LessOrEqual(s.t, s.host.Elapsed()-r.sent, simWait+time.Second+2*tick+60*ms, "a request waits beyond its budgets")
		}
	}
	s.live = kept
	if !s.faults.lateWorkers { // one that is reaped by mistake counts again, above the limit
		require.LessOrEqual(s.t, running, s.most, "more run than the limit")
	}
}

// finish ends everything and checks that nothing is left behind.
func (s *sim) finish() {
	s.host.Run(simWait + 3*time.Second)
	for len(s.live) > 0 {
		r := s.live[0]
		s.live = s.live[1:]
		r.ClientGone()
		s.host.Run(20 * ms)
	}
	s.host.Run(10 * time.Second)
	if !s.faults.crashes { // a VM that dies takes the outcomes of its waiters with it
		s.requireDrained("all", "model")
	}
	s.requireCapacity("m", s.limit)
	require.LessOrEqual(s.t, s.host.MaxActions(), maxActions)
	require.NoError(s.t, s.host.Verify())
	s.host.Run(10 * time.Second)
	require.Zero(s.t, s.host.Run(time.Hour), "a drained gateway ticks")
}
