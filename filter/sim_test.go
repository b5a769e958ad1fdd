package filter_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

var (
	seedFlag    = flag.Uint64("seed", 0, "run the simulations with this seed only")
	exploreFlag = flag.Bool("explore", false, "run the long simulations")
)

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 11)) }

// faults are what a simulated run may suffer.
type faults struct{ lostMessages, failedSwaps, crashes, reloads, lateWorkers bool }

func (f faults) String() string {
	return fmt.Sprintf("lost=%t swaps=%t crashes=%t reloads=%t late=%t",
		f.lostMessages, f.failedSwaps, f.crashes, f.reloads, f.lateWorkers)
}

// faultSets are the faults one by one, and all together.
var faultSets = []faults{{},
	{lostMessages: true}, {failedSwaps: true}, {crashes: true}, {reloads: true}, {lateWorkers: true},
	{lostMessages: true, failedSwaps: true, crashes: true, reloads: true, lateWorkers: true}}

// Random schedules of the built module, with faults. A failing run prints the command that repeats it.
func TestSim(t *testing.T) { simulateAll(t, false) }

// The same with holds, a breaker, and perhaps headroom.
func TestShapingSim(t *testing.T) { simulateAll(t, true) }

func simulateAll(t *testing.T, shaped bool) {
	runs := uint64(12)
	if *exploreFlag {
		runs = 400
	}
	for _, f := range faultSets {
		t.Run(f.String(), func(t *testing.T) {
			first, last := uint64(1), runs
			if *seedFlag != 0 {
				first, last = *seedFlag, *seedFlag
			}
			for seed := first; seed <= last; seed++ {
				simulate(t, seed, f, shaped)
			}
		})
	}
}

const simWait = 2 * time.Second

// What the simulated pool holds for, if it is shaped. The failures' hold varies by retry-after.
const (
	simSuccess = 30 * ms
	simCancel  = 70 * ms
	simFailure = 200 * ms
)

// A sim is one simulated run.
type sim struct {
	*gateway
	rnd     *rand.Rand
	faults  faults
	workers int
	limit   int
	roomy   bool // limits are so large that workers keep spares
	most    int  // the largest limit so far
	fair    bool
	live    []*request
	late    int // a worker that gets no events for now; -1: none
	lateEnd time.Duration

	shaped   bool
	headroom object
	// holds is when the permit of each request that ended may be used again at the earliest. Running requests and holds
	// together never exceed the limit.
	holds []time.Duration
}

type request struct {
	*wasmtest.Stream
	worker int
	sent   time.Duration
}

func simulate(t *testing.T, seed uint64, f faults, shaped bool) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("to repeat: go test ./filter -run '%s' -seed=%d", t.Name(), seed)
		}
	}()
	s := &sim{rnd: newRand(seed), faults: f, workers: 1 + int(seed%4), late: -1, fair: seed%2 == 0, shaped: shaped}
	s.roomy = seed%3 == 0
	s.limit = s.drawLimit()
	s.most = s.limit
	s.headroom = []object{nil, {"window": "400ms"}, {"mode": "aimd", "window": "400ms"}}[s.rnd.IntN(3)]
	s.gateway = start(t, s.workers, s.configuration(), wasmtest.WithSeed(seed))
	s.host.OnHostCall(s.disturb)
	for range 200 {
		s.step()
		s.check()
	}
	s.host.OnHostCall(nil)
	s.late = -1
	s.finish()
	s.host.Close()
}

func (s *sim) drawLimit() int {
	if s.roomy {
		return 5 + s.rnd.IntN(6)
	}
	return 1 + s.rnd.IntN(4)
}

func (s *sim) configuration() object {
	p := pool("model", s.limit, "queue", 6, "max_wait", simWait.String())
	if s.fair {
		p["fair_by"] = "tenant"
	}
	if s.shaped {
		p["hold"] = object{"success": simSuccess.String(), "cancel": simCancel.String(), "failure": simFailure.String()}
		p["breaker"] = breaking(4, "window", "1s", "open", "300ms", "max_open", "1s")
		if s.headroom != nil {
			p["headroom"] = s.headroom
		}
	}
	all := object{"name": "all", "limit": 7, "queue": 3, "max_wait": "1s"}
	if s.roomy {
		all["limit"] = 12
	}
	// A shaped pool stands first. Behind another pool, a request of an earlier configuration could come to it after a
	// reload and assert the earlier limit again. Then the pool makes fewer holds than are noted here.
	if s.shaped || s.rnd.IntN(2) == 0 {
		return with(config(p, all), "lease", "1s")
	}
	return with(config(all, p), "lease", "1s")
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
	case n < 35 || s.roomy && n < 45:
		s.arrive()
	case n < 60:
		s.endOne()
	case n < 90:
		s.pass(time.Duration(s.rnd.IntN(60)) * ms)
	case n < 92 && s.faults.crashes:
		s.crash(s.rnd.IntN(s.workers))
	case n < 94 && s.faults.reloads:
		s.limit = s.drawLimit()
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
	if !runs(r.Stream) {
		r.ClientGone()
		return
	}
	hold := s.endRunning(r.Stream)
	s.endHolds()
	if s.shaped && hold > 0 && len(s.holds) < s.limit { // no more is on hold than the limit, also after it was lowered
		s.holds = append(s.holds, s.host.Elapsed()+hold)
	}
}

// endRunning ends a request that runs in some way, and returns what a shaped pool holds its permit for.
func (s *sim) endRunning(r *wasmtest.Stream) (hold time.Duration) {
	switch n := s.rnd.IntN(12); {
	case n < 5:
		answer(200)(r)
		return simSuccess
	case n < 6:
		answer([]int{400, 401, 403, 404}[s.rnd.IntN(4)])(r)
		return simSuccess
	case n < 7:
		clientGone(r)
		return simCancel + simSuccess
	case n < 8:
		inMidStream(upstreamReset)(r)
		return simFailure + simSuccess
	case n < 9:
		hostReply([]int{200, 403, 503}[s.rnd.IntN(3)], "another_filter")(r)
		return 0
	case n < 10:
		seconds := s.rnd.IntN(3)
		answer(429, "retry-after", fmt.Sprint(seconds))(r)
		return max(simFailure, time.Duration(seconds)*second) + simSuccess
	}
	answer(503)(r)
	return simFailure + simSuccess
}

// endHolds strikes out the holds that are over.
func (s *sim) endHolds() {
	s.holds = slices.DeleteFunc(s.holds, func(end time.Duration) bool { return end <= s.host.Elapsed() })
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

// check is what holds at every moment: no more run and are on hold together than the limit allows, and no request waits
// beyond its budgets.
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
			most := simWait + time.Second + 2*tick + 60*ms
			require.LessOrEqual(s.t, s.host.Elapsed()-r.sent, most, "a request waits beyond its budgets")
		}
	}
	s.live = kept
	s.endHolds()
	onHold, inflight := s.gauge("model.on_hold"), s.gauge("model.inflight")
	require.GreaterOrEqual(s.t, onHold, 0)
	require.GreaterOrEqual(s.t, inflight, 0)
	if s.faults.lateWorkers { // one that is reaped by mistake counts again, above the limit, and its releases hold nothing
		return
	}
	require.LessOrEqual(s.t, running+len(s.holds), s.most, "more run and are on hold than the limit")
	if !s.faults.failedSwaps && !s.faults.crashes && !s.faults.reloads {
		require.GreaterOrEqual(s.t, onHold+inflight, running+len(s.holds), "the gauges")
		require.LessOrEqual(s.t, onHold+inflight, s.most, "the gauges")
	}
}

// finish ends everything and checks that nothing is left behind: no permit, no hold, no open breaker, no lowered limit.
func (s *sim) finish() {
	s.host.Run(simWait + 3*time.Second)
	for len(s.live) > 0 {
		r := s.live[0]
		s.live = s.live[1:]
		r.ClientGone()
		s.host.Run(20 * ms)
	}
	s.host.Run(10 * time.Second)
	if s.shaped {
		if !s.faults.crashes && !s.faults.reloads { // with the context that made a hold goes the tick at its end
			require.Zero(s.t, s.gauge("model.on_hold"))
		}
		s.succeed()
		s.host.Run(10 * time.Second)
	}
	if !s.faults.crashes { // a VM that dies takes the outcomes of its waiters with it
		s.requireDrained("all", "model")
	}
	s.requireCapacity("m", s.limit)
	require.LessOrEqual(s.t, s.host.MaxActions(), maxActions)
	require.NoError(s.t, s.host.Verify())
	s.host.Run(10 * time.Second)
	require.Zero(s.t, s.host.Run(time.Hour), "a drained gateway ticks")
}

// succeed sends requests that the provider answers well, until the breaker is closed and the limit is what it was.
func (s *sim) succeed() {
	for range 20 {
		var all []*wasmtest.Stream
		for i := range s.limit {
			all = append(all, s.send(i%s.workers, "x-model", "m"))
		}
		for _, r := range all {
			if runs(r) {
				r.Respond(200, "ok")
			} else {
				r.ClientGone()
			}
		}
		s.host.Run(1100 * ms)
	}
}
