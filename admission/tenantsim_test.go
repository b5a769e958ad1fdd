package admission_test

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
)

// A simTenant is how one tenant behaves.
type simTenant struct {
	name    string
	weight  uint32
	threads int     // closed loop: so many clients, each asking again when it is done
	rate    float64 // open: requests per second on average
	burst   float64 // open: on for so many seconds, off for as long
	stream  float64 // a stream's mean length in seconds
	begins  float64
}

// A simResult is what one tenant got, after the first ten minutes.
type simResult struct {
	permits  float64   // mean
	demand   float64   // permits it could have used, without any queue
	waits    []float64 // of those admitted, seconds
	asked    int
	shed     int // the wait ran out
	rejected int // found no place in the queue
}

func (r *simResult) percentile(p float64) float64 {
	if len(r.waits) == 0 {
		return math.NaN()
	}
	slices.Sort(r.waits)
	return r.waits[int(p*float64(len(r.waits)-1))]
}

func (r *simResult) shedShare() float64 {
	return float64(r.shed+r.rejected) / float64(max(r.asked, 1))
}

// A discipline decides which request is next.
type discipline interface {
	ask(id int, tenant int, now float64) (granted, waiting bool)
	done(id int, tenant int, now float64) []int // the requests that are granted now
	expire(id int, tenant int, now float64) bool
}

type simScenario struct {
	capacity int
	queue    int
	wait     float64
	tenants  []simTenant
	hours    float64
}

type simEvent struct {
	at     float64
	kind   uint8 // 0 arrival, 1 end of a stream, 2 end of a wait
	tenant int
	id     int
	thread bool
}

type simEvents []simEvent

func (h simEvents) Len() int { return len(h) }

func (h simEvents) Less(i, j int) bool { return h[i].at < h[j].at }

func (h simEvents) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *simEvents) Push(x any) { *h = append(*h, x.(simEvent)) }

func (h *simEvents) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}

const simWarmup = 600.0

type simRequest struct {
	since  float64
	length float64
	thread bool
	state  uint8 // 0 waiting, 1 running, 2 over
	tenant int
}

type sim struct {
	simScenario
	d        discipline
	random   *rand.Rand
	events   simEvents
	requests []simRequest
	results  []simResult
	end      float64
}

func simulate(sc simScenario, d discipline) []simResult {
	s := &sim{simScenario: sc, d: d, random: rand.New(rand.NewPCG(1, 2)), end: sc.hours * 3600}
	s.results = make([]simResult, len(sc.tenants))
	for i, t := range sc.tenants {
		s.results[i].demand = t.rate * t.stream
		if t.burst > 0 {
			s.results[i].demand /= 2
		}
		if t.threads > 0 {
			s.results[i].demand = float64(t.threads)
		}
		for range t.threads {
			heap.Push(&s.events, simEvent{at: t.begins + s.random.Float64(), tenant: i, thread: true})
		}
		if t.rate > 0 {
			heap.Push(&s.events, simEvent{at: t.begins + s.random.ExpFloat64()/t.rate, tenant: i})
		}
	}
	for s.events.Len() > 0 {
		e := heap.Pop(&s.events).(simEvent)
		if e.at > s.end {
			break
		}
		s.step(e)
	}
	for i := range s.results {
		s.results[i].permits /= s.end - simWarmup
	}
	return s.results
}

func (s *sim) step(e simEvent) {
	switch e.kind {
	case 0:
		s.arrive(e)
	case 1:
		r := &s.requests[e.id]
		r.state = 2
		for _, id := range s.d.done(e.id, e.tenant, e.at) {
			s.run(id, e.at)
		}
		s.again(r, e.at)
	case 2:
		if r := &s.requests[e.id]; r.state == 0 && s.d.expire(e.id, e.tenant, e.at) {
			r.state = 2
			if e.at > simWarmup {
				s.results[e.tenant].shed++
			}
			s.again(r, e.at)
		}
	}
}

func (s *sim) arrive(e simEvent) {
	t := &s.tenants[e.tenant]
	if !e.thread {
		next := e.at + s.random.ExpFloat64()/t.rate
		if t.burst > 0 && math.Mod(next, 2*t.burst) >= t.burst {
			next = math.Ceil(next/(2*t.burst)) * 2 * t.burst
		}
		heap.Push(&s.events, simEvent{at: next, tenant: e.tenant})
	}
	const sigma = 0.5
	id := len(s.requests)
	length := t.stream * math.Exp(sigma*s.random.NormFloat64()-sigma*sigma/2)
	s.requests = append(s.requests, simRequest{since: e.at, length: length, thread: e.thread, tenant: e.tenant})
	if e.at > simWarmup {
		s.results[e.tenant].asked++
	}
	granted, waiting := s.d.ask(id, e.tenant, e.at)
	switch {
	case granted:
		s.run(id, e.at)
	case waiting:
		heap.Push(&s.events, simEvent{at: e.at + s.wait, kind: 2, tenant: e.tenant, id: id})
	default:
		s.requests[id].state = 2
		if e.at > simWarmup {
			s.results[e.tenant].rejected++
		}
		s.again(&s.requests[id], e.at+1)
	}
}

// again lets a client of a closed loop ask for its next stream.
func (s *sim) again(r *simRequest, at float64) {
	if r.thread {
		heap.Push(&s.events, simEvent{at: at + 0.01, tenant: r.tenant, thread: true})
	}
}

func (s *sim) run(id int, now float64) {
	r := &s.requests[id]
	r.state = 1
	heap.Push(&s.events, simEvent{at: now + r.length, kind: 1, tenant: r.tenant, id: id})
	if now > simWarmup {
		s.results[r.tenant].waits = append(s.results[r.tenant].waits, now-r.since)
	}
	from, to := max(now, simWarmup), min(now+r.length, s.end)
	s.results[r.tenant].permits += max(to-from, 0)
}
