package records

import (
	"container/heap"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// A race is workers that store on one record, simulated. A worker reads it, steps for a while, and stores what it has to
// if nobody has stored meanwhile. For a while after a turn without a swap, what comes is gathered for the next tick, unless
// eager. Times are microseconds.
type race struct {
	workers, tries int
	window, think  float64 // from get to set; between two operations of a worker
	eager          bool    // each operation begins a turn of its own

	rnd          *rand.Rand
	events       raceEvents
	all          []racer
	version      int
	stored, lost int
	operations   int
	latency      float64
}

type racer struct {
	busy, waits bool
	outrun      float64 // until then a turn tries once, and ticks begin turns
	tries       int
	pending     []float64 // when each operation came
	taken       int       // of them in the swap under way
}

type raceEvent struct {
	at      float64
	worker  int
	kind    raceKind
	version int
}

type raceKind uint8

const (
	raceCome raceKind = iota
	raceSet
	raceTick
)

type raceEvents []raceEvent

func (e raceEvents) Len() int           { return len(e) }
func (e raceEvents) Less(i, j int) bool { return e[i].at < e[j].at }
func (e raceEvents) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *raceEvents) Push(x any)        { *e = append(*e, x.(raceEvent)) }
func (e *raceEvents) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (r *race) run(micros float64) {
	r.rnd, r.all = newRand(1), make([]racer, r.workers)
	for i := range r.all {
		r.post(r.rnd.ExpFloat64()*r.think, i, raceCome)
	}
	for {
		e := heap.Pop(&r.events).(raceEvent)
		if e.at > micros {
			return
		}
		w := &r.all[e.worker]
		switch e.kind {
		case raceCome:
			w.pending = append(w.pending, e.at)
			r.post(e.at+r.rnd.ExpFloat64()*r.think, e.worker, raceCome)
			r.begin(e.at, e.worker)
		case raceTick:
			if w.waits = false; !w.busy && len(w.pending) > 0 {
				r.turn(e.at, e.worker)
			}
		case raceSet:
			r.set(e, w)
		}
	}
}

func (r *race) post(at float64, worker int, kind raceKind) {
	heap.Push(&r.events, raceEvent{at, worker, kind, r.version})
}

// begin begins a turn, now or with a tick.
func (r *race) begin(now float64, i int) {
	w := &r.all[i]
	switch {
	case w.busy:
	case now >= w.outrun || r.eager:
		r.turn(now, i)
	case !w.waits:
		w.waits = true
		r.post(now+1000, i, raceTick)
	}
}

func (r *race) turn(now float64, i int) {
	w := &r.all[i]
	w.busy, w.tries, w.taken = true, 0, len(w.pending)
	if now < w.outrun && !r.eager {
		w.tries = r.tries - 1
	}
	r.post(now+r.window*(0.8+0.4*r.rnd.Float64()), i, raceSet)
}

// set is a worker's attempt to store.
func (r *race) set(e raceEvent, w *racer) {
	if e.version == r.version {
		r.version++
		r.stored++
		r.operations += w.taken
		for _, came := range w.pending[:w.taken] {
			r.latency += e.at - came
		}
		w.pending, w.busy = w.pending[w.taken:], false
		if len(w.pending) > 0 {
			r.begin(e.at, e.worker)
		}
		return
	}
	r.lost++
	if w.tries++; w.tries < r.tries {
		r.post(e.at+r.window*(0.8+0.4*r.rnd.Float64()), e.worker, raceSet)
		return
	}
	w.busy, w.outrun = false, e.at+float64(crowdTime)/1000
	r.begin(e.at, e.worker)
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 11)) }

// The swaps lost for each one stored, and what a turn that tries less costs, by how often a turn tries. The last row of
// each is the rule before: each operation begins a turn of its own, and tries 16 times.
func TestTriesUnderContention(t *testing.T) {
	for _, c := range []race{
		{workers: 8, window: 6, think: 400}, {workers: 8, window: 12, think: 200},
		{workers: 64, window: 6, think: 1000}, {workers: 64, window: 6, think: 400}, {workers: 64, window: 12, think: 200},
	} {
		for _, tries := range []int{2, 3, 4, 16} {
			r := c
			r.tries, r.eager = tries, tries == 16
			r.run(500_000)
			lost := float64(r.lost) / float64(r.stored)
			t.Logf("%2d workers, window %2.0f us, think %4.0f us, %2d tries: %5.2f lost for each stored, %4.1f operations each, %4.0f us late",
				r.workers, r.window, r.think, tries, lost, float64(r.operations)/float64(r.stored), r.latency/float64(r.operations))
			if tries == maxSwaps {
				require.LessOrEqual(t, lost, 1.0)
			}
		}
	}
}
