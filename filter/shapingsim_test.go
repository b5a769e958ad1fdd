package filter_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 11)) }

// Random schedules with every protection on, and the faults of TestSim. A failing run prints the command that repeats it.
func TestShapingSim(t *testing.T) {
	runs := 8
	if *exploreFlag {
		runs = 300
	}
	for _, f := range []faults{{}, {lostMessages: true}, {failedSwaps: true}, {crashes: true}, {reloads: true}, {lateWorkers: true},
		{lostMessages: true, failedSwaps: true, crashes: true, reloads: true, lateWorkers: true}} {
		t.Run(f.String(), func(t *testing.T) {
			if *seedFlag != 0 {
				shape(t, *seedFlag, f)
				return
			}
			for seed := range uint64(runs) {
				shape(t, seed+1, f)
			}
		})
	}
}

// What the simulated pool holds for. The failures' hold varies by retry-after.
const (
	simSuccess = 30 * ms
	simCancel  = 70 * ms
	simFailure = 200 * ms
)

// A shaping is one simulated run. It keeps book of when the permit of each request that ended may be used again at the
// earliest: running and held together never exceed the limit, whoever asks.
type shaping struct {
	*sim
	headroom object
	held     []time.Duration // when each hold ends
}

func shape(t *testing.T, seed uint64, f faults) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("to repeat: go test ./filter -run 'TestShapingSim/%s' -seed=%d", f, seed)
		}
	}()
	s := &shaping{sim: &sim{rnd: newRand(seed), faults: f, workers: 1 + int(seed%4), late: -1}}
	s.limit = 1 + s.rnd.IntN(4)
	s.most = s.limit
	s.fair = seed%2 == 0
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

func (s *shaping) configuration() object {
	p := pool("model", s.limit, "queue", 6, "max_wait", simWait.String(),
		"hold", object{"success": simSuccess.String(), "cancel": simCancel.String(), "failure": simFailure.String()},
		"breaker", object{"failures": 4, "window": "1s", "open": "300ms", "max_open": "1s", "penalty": "0s", "max_penalty": "0s"})
	if s.fair {
		p["fair_by"] = "tenant"
	}
	if s.headroom != nil {
		p["headroom"] = s.headroom
	}
	return with(config(p, object{"name": "all", "limit": 7, "queue": 3, "max_wait": "1s"}), "lease", "1s")
}

func (s *shaping) step() {
	switch n := s.rnd.IntN(100); {
	case n < 40:
		s.arrive()
	case n < 65:
		s.endOne()
	case n < 94:
		s.pass(time.Duration(s.rnd.IntN(60)) * ms)
	case n < 95 && s.faults.crashes:
		s.crash(s.rnd.IntN(s.workers))
	case n < 97 && s.faults.reloads:
		s.limit = 1 + s.rnd.IntN(4)
		s.most = max(s.most, s.limit)
		s.reload(s.configuration())
	case n < 98 && s.faults.lateWorkers && s.late < 0:
		s.late, s.lateEnd = s.rnd.IntN(s.workers), s.host.Elapsed()+time.Duration(s.rnd.IntN(3000))*ms
	default:
		s.host.Step()
	}
}

func (s *shaping) endOne() {
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
	hold := time.Duration(0)
	switch n := s.rnd.IntN(12); {
	case n < 5:
		answer(200)(r.Stream)
		hold = simSuccess
	case n < 6:
		answer([]int{400, 401, 403, 404}[s.rnd.IntN(4)])(r.Stream)
		hold = simSuccess
	case n < 7:
		clientGone(r.Stream)
		hold = simCancel + simSuccess
	case n < 8:
		inMidStream(upstreamReset)(r.Stream)
		hold = simFailure + simSuccess
	case n < 9:
		hostReply([]int{200, 403, 503}[s.rnd.IntN(3)], "another_filter")(r.Stream)
	case n < 10:
		seconds := s.rnd.IntN(3)
		answer(429, "retry-after", fmt.Sprint(seconds))(r.Stream)
		hold = max(simFailure, time.Duration(seconds)*second) + simSuccess
	default:
		answer(503)(r.Stream)
		hold = simFailure + simSuccess
	}
	s.endHolds()
	if hold > 0 && len(s.held) < s.limit { // a limit that was lowered meanwhile leaves nothing more to hold
		s.held = append(s.held, s.host.Elapsed()+hold)
	}
}

// check: more never run and are held together than the limit, and nobody waits beyond the budget.
func (s *shaping) check() {
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
			require.LessOrEqual(s.t, s.host.Elapsed()-r.sent, simWait+second+2*tick+60*ms, "a request waits beyond its budgets")
		}
	}
	s.live = kept
	s.endHolds()
	require.GreaterOrEqual(s.t, s.gauge("model.on_hold"), 0)
	if s.faults.lateWorkers { // one that is reaped by mistake counts again, above the limit, and its releases hold nothing
		return
	}
	require.LessOrEqual(s.t, running+len(s.held), s.most, "more run and are held than the limit")
	if !s.faults.failedSwaps && !s.faults.crashes && !s.faults.reloads {
		require.GreaterOrEqual(s.t, s.gauge("model.on_hold")+s.gauge("model.inflight"), len(s.held)+running, "the gauges")
		require.LessOrEqual(s.t, s.gauge("model.on_hold")+s.gauge("model.inflight"), s.most)
	}
}

// endHolds strikes out the holds that are over.
func (s *shaping) endHolds() {
	s.held = slices.DeleteFunc(s.held, func(end time.Duration) bool { return end <= s.host.Elapsed() })
}

// finish ends everything and checks that nothing is left behind: no hold, no open breaker, no lowered limit.
func (s *shaping) finish() {
	s.host.Run(simWait + 3*second)
	for len(s.live) > 0 {
		r := s.live[0]
		s.live = s.live[1:]
		r.ClientGone()
		s.host.Run(20 * ms)
	}
	s.host.Run(10 * second)
	if !s.faults.crashes && !s.faults.reloads { // with the context that made a hold goes the tick at its end; the next request sees to it
		require.Zero(s.t, s.gauge("model.on_hold"))
	}
	s.recover()
	s.host.Run(10 * second)
	if !s.faults.crashes { // a VM that dies takes the outcomes of its waiters with it
		s.requireDrained("model", "all")
	}
	s.requireCapacity("m", s.limit)
	require.LessOrEqual(s.t, s.host.MaxActions(), maxActions)
	require.NoError(s.t, s.host.Verify())
	s.host.Run(10 * second)
	require.Zero(s.t, s.host.Run(time.Hour), "a drained gateway ticks")
}

// recover sends what the provider answers well, until the breaker is closed and the limit where it was.
func (s *shaping) recover() {
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
