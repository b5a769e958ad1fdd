package filter_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// An adversary schedules workers so that whoever wants to store something comes last: before each set of shared data that
// a worker makes, the other workers that have work left go first, all of them or one by one, until the swap is lost. What
// they store is stored at once. So a worker loses its swaps one after the other, as long as others have work. Now and then
// there is a calm, in which nobody gets in the way of anybody: what is known then is checked.
type adversary struct {
	*gateway
	rnd     *rand.Rand
	allGo   bool // before a set all others go first; otherwise as many as it takes to lose the swap
	limit   int  // of each model
	total   int  // of all models together
	maxWait time.Duration
	most    int // requests of a worker at once
	coming  int // of four clients that come or leave so many come, but for the most
	calmOf  int // of so many actions one is followed by a calm
	model   func() string
	over    ending         // how requests that run end; nil: not at all
	asked   []string       // the pools; with more than one, who waits need not wait in the one that is looked at
	tough   bool           // some turn has to end without its swap
	left    []int          // what each worker has still to do, in actions
	next    int            // the worker that went first last
	fought  string         // part of the shared data keys that are fought for
	acting  bool           // the others go first already, or nobody may
	wanted  string         // the shared data key that a worker wants to set
	lost    bool           // another worker has set it meanwhile
	live    [][]*contender // by worker, in the order in which they came
	ended   int            // requests that ran to their end
	sent    int            // requests so far
	recalls int            // messages so far that call spares back
	calms   int            // so far
	ran     ranks
}

// ranks are the last ones that ran.
type ranks struct {
	calm map[string]int     // by model: before how many calms they came
	rank map[workersKey]int // by worker and model: their numbers
}

type workersKey struct {
	worker int
	model  string
}

// A contender is one request.
type contender struct {
	*wasmtest.Stream // nil until its headers have come
	model            string
	sent             time.Duration
	calm, rank       int // how many calms were before it, and its own number
}

func (r *contender) open() bool {
	if r.Stream == nil {
		return true
	}
	_, ended := r.Ended()
	return !ended
}

// startAdversary starts workers under a configuration, and schedules so many actions of theirs.
func startAdversary(t *testing.T, c contest, actions int, cfg object) *adversary {
	a := &adversary{gateway: start(t, c.workers, with(cfg, "on_error", "open")), rnd: newRand(c.seed), allGo: c.allGo,
		limit: 1, total: 1 << 20, maxWait: minute, most: 3, coming: 2, calmOf: 4, model: func() string { return "m" }, over: answer(200), tough: true,
		left: make([]int, c.workers), live: make([][]*contender, c.workers), ran: ranks{map[string]int{}, map[workersKey]int{}}}
	for _, p := range cfg["pools"].([]object) {
		a.asked = append(a.asked, p["name"].(string))
	}
	a.work(actions)
	a.interfere()
	return a
}

// work gives the workers so many actions to do.
func (a *adversary) work(actions int) {
	for i := range a.left {
		a.left[i] = actions / len(a.left)
	}
}

// interfere makes the others go first from now on.
func (a *adversary) interfere() {
	a.host.OnHostCall(func(c *wasmtest.HostCall) {
		if isRecall(c) {
			a.recalls++
		}
		if c.Name() != "proxy_set_shared_data" {
			return
		}
		if a.acting {
			a.lost = a.lost || c.Text(0) == a.wanted
			return
		}
		if !strings.Contains(c.Text(0), a.fought) {
			return
		}
		a.acting, a.lost, a.wanted = true, false, c.Text(0)
		for acted := 0; acted < 32 && !a.lost; { // what is wanted may be nothing that the others want
			n := a.goFirst(c.Worker().Index())
			if acted += n; n == 0 {
				break
			}
		}
		a.acting = false
	})
}

// goFirst lets others act before a worker's set, and returns how many did.
func (a *adversary) goFirst(worker int) (acted int) {
	for range a.left {
		a.next = (a.next + 1) % len(a.left)
		if w := a.next; w != worker && a.left[w] > 0 {
			a.act(w)
			if acted++; !a.allGo {
				break
			}
		}
	}
	return acted
}

// act lets a worker do one thing: handle an event, or have a request come, end or leave.
func (a *adversary) act(w int) {
	a.left[w]--
	if a.rnd.IntN(4) > 0 || !a.deliver(w) {
		a.live[w] = slices.DeleteFunc(a.live[w], func(r *contender) bool { return !r.open() })
		if here := a.live[w]; len(here) == 0 || len(here) < a.most && a.rnd.IntN(4) < a.coming {
			a.come(w)
		} else {
			a.end(w, here[a.rnd.IntN(len(here))])
		}
	}
	a.check()
}

// deliver delivers one pending event of a worker; false: there is none.
func (a *adversary) deliver(w int) bool {
	events := a.host.Pending()
	i := slices.IndexFunc(events, func(e wasmtest.Event) bool { return e.Worker.Index() == w })
	return i >= 0 && a.host.Deliver(events[i])
}

func (a *adversary) come(w int) {
	a.sent++
	r := &contender{model: a.model(), sent: a.host.Elapsed(), calm: a.calms, rank: a.sent}
	a.live[w] = append(a.live[w], r)
	r.Stream = a.sendModel(w, r.model)
}

// end ends a request, if it may end: one that waits is left by its client.
func (a *adversary) end(w int, r *contender) {
	switch {
	case !runs(r.Stream):
		r.ClientGone()
	case a.over != nil:
		a.noteRan(w, r)
		a.ended++
		a.over(r.Stream)
	}
}

func (a *adversary) noteRan(w int, r *contender) {
	key := workersKey{w, r.model}
	a.ran.calm[r.model] = max(a.ran.calm[r.model], r.calm)
	a.ran.rank[key] = max(a.ran.rank[key], r.rank)
}

// each calls f with every request that has not ended, those of one worker in the order in which they came to it.
func (a *adversary) each(f func(w int, r *contender)) {
	for w, here := range a.live {
		for _, r := range here {
			if r.Stream != nil && r.open() {
				f(w, r)
			}
		}
	}
}

// check is what holds after every action: no more run than the limit allows, and nobody waits longer than it may.
func (a *adversary) check() {
	running, all := map[string]int{}, 0
	a.each(func(w int, r *contender) {
		if runs(r.Stream) {
			a.noteRan(w, r)
			running[r.model]++
			all++
		} else if waited := a.host.Elapsed() - r.sent; waited > a.maxWait+tick {
			a.t.Fatalf("a request waits for %v, and may for %v", waited, a.maxWait)
		}
	})
	require.LessOrEqual(a.t, all, a.total, "requests that run")
	for model, n := range running {
		require.LessOrEqual(a.t, n, a.limit, "requests of model %s that run", model)
	}
}

// calm lets everything be decided and told, and checks what holds then: the gauges are right, nobody waits beside a permit,
// and nobody has overtaken those that wait. A request's place in the queue is that of its acquire in the record, so the
// order is known of requests of one worker, and of those that came before a calm and after it.
func (a *adversary) calm() {
	a.acting = true
	a.host.Run(20 * ms)
	if a.limit > 4 { // a smaller limit never has spares
		a.host.Run(spareTime)
	}
	a.acting = false
	a.check()
	a.calms++
	if len(a.asked) > 1 {
		return
	}
	running, waiting := map[string]int{}, map[string]int{}
	a.each(func(w int, r *contender) {
		if runs(r.Stream) {
			running[r.model]++
			running[""]++
			return
		}
		waiting[r.model]++
		waiting[""]++
		require.LessOrEqual(a.t, a.ran.calm[r.model], r.calm, "one that came before a calm waits, and one that came after it has run")
		require.Less(a.t, a.ran.rank[workersKey{w, r.model}], r.rank, "a later request of worker %d has run", w)
	})
	require.Equal(a.t, running[""], a.gauge(a.asked[0]+".inflight"), "permits")
	require.Equal(a.t, waiting[""], a.gauge(a.asked[0]+".queued"), "tickets")
	delete(waiting, "")
	for model := range waiting {
		require.Equal(a.t, a.limit, running[model], "requests of model %s that run while others wait", model)
	}
}

// play lets all workers act until none has work left. So much time passes between two actions of one worker at most.
func (a *adversary) play(pause time.Duration) {
	for slices.Max(a.left) > 0 {
		for w := range a.left {
			if a.left[w] > 0 {
				a.act(w)
				if a.rnd.IntN(a.calmOf) == 0 {
					a.calm()
				}
			}
		}
		a.host.Run(pause)
		a.check()
	}
}

// finish ends all requests, and checks that nothing was taken for a failure and nothing is left behind.
func (a *adversary) finish() {
	clear(a.left)
	a.over = answer(200)
	for a.calm(); a.countOpen() > 0; a.calm() {
		a.each(func(w int, r *contender) {
			if runs(r.Stream) {
				a.end(w, r)
			}
		})
	}
	a.host.Run(second)
	a.requireUnharmed()
	a.requireDrained(a.asked...)
	a.requireCapacity(a.model(), min(a.total, a.limit))
	a.requireQuiet()
}

func (a *adversary) countOpen() (n int) {
	a.each(func(int, *contender) { n++ })
	return n
}

// requireUnharmed checks that contention was no failure.
func (a *adversary) requireUnharmed() {
	for _, p := range a.asked {
		a.t.Logf("%s: %d requests, %d ran to their end, %d calms, %d turns without a swap, %d swaps lost", p, a.counter(p+".evaluated"),
			a.ended, a.calms, a.counter(p+".contended"), a.counter(p+".cas_retry"))
		require.Zero(a.t, a.counter(p+".store_error"), "nothing has failed")
		require.Zero(a.t, a.counter(p+".reaped"), "nobody has died")
	}
	if a.tough {
		require.NotZero(a.t, a.counter(a.asked[0]+".contended"), "some turn ended without its swap")
	}
	require.NoError(a.t, a.host.Verify())
}

var manyWorkers = []int{2, 8, 17, 32, 64}

// A contest is how an adversary is played against.
type contest struct {
	workers int
	allGo   bool
	seed    uint64
}

// contests plays with few workers and many, which all go first or one by one.
func contests(t *testing.T, play func(t *testing.T, c contest)) {
	seeds := uint64(1)
	if *exploreFlag {
		seeds = 20
	}
	for _, workers := range manyWorkers {
		for _, allGo := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d workers, all go first %t", workers, allGo), func(t *testing.T) {
				for seed := uint64(1); seed <= seeds; seed++ {
					contest{workers, allGo, max(seed, *seedFlag)}.run(t, play)
				}
			})
		}
	}
}

// run plays once, and says after a failure how to repeat it.
func (c contest) run(t *testing.T, play func(t *testing.T, c contest)) {
	defer func() {
		if t.Failed() {
			t.Logf("to repeat: go test ./filter -run '%s' -seed=%d", t.Name(), c.seed)
		}
	}()
	play(t, c)
}

// actions is enough of them that some worker loses all swaps of its turn.
func (c contest) actions() int {
	if c.allGo {
		return 600 + 60*c.workers
	}
	return 600 + 20*c.workers
}

// The workers fight for one key, clients come, are served, and leave the queue.
func TestAdversaryOnOneKey(t *testing.T) {
	contests(t, func(t *testing.T, c contest) {
		a := startAdversary(t, c, c.actions(), config(all(4, "queue", 1000, "max_wait", "60s")))
		a.total, a.limit = 4, 4
		a.play(ms)
		a.finish()
	})
}

// The same without a queue: whoever is not admitted is refused, and nobody waits.
func TestAdversaryWithoutAQueue(t *testing.T) {
	contests(t, func(t *testing.T, c contest) {
		limit := 2 + c.workers/2
		a := startAdversary(t, c, c.actions(), config(all(limit)))
		a.total, a.limit, a.maxWait = limit, limit, second
		a.tough = c.workers > 2 // one other worker's requests are refused most of the time, and store nothing
		a.play(ms)
		a.finish()
	})
}

// Nobody has a seat at first: the workers fight for the worker table. Up to 3 of them meet there without being sent back.
func TestAdversaryAtTheStart(t *testing.T) {
	for _, workers := range manyWorkers {
		t.Run(fmt.Sprint(workers, " workers"), func(t *testing.T) {
			for seed := uint64(1); seed <= 3; seed++ {
				a := startAdversary(t, contest{workers: workers, seed: seed}, workers, config(all(1, "queue", 1000, "max_wait", "60s")))
				a.tough = workers > enough
				a.play(ms)
				require.Equal(t, workers, a.counter("all.evaluated"), "each has one request")
				a.finish()
			}
		})
	}
}

// Half of the requests are the first for their model: the workers fight for the directory.
func TestAdversaryOnNewKeys(t *testing.T) {
	contests(t, func(t *testing.T, c contest) {
		a := startAdversary(t, c, c.actions(), with(config(pool("model", 1, "queue", 1000, "max_wait", "60s")), "max_keys", 10_000))
		names := 0
		a.model = func() string {
			if names == 0 || a.rnd.IntN(2) == 0 {
				names++
				return fmt.Sprint("m", names)
			}
			return fmt.Sprint("m", max(1, names-a.rnd.IntN(50)))
		}
		a.most, a.fought = 20, "/directory" // for the record of one of so many models nobody else asks just then
		a.play(ms)
		a.host.Run(second)
		require.LessOrEqual(t, a.gauge("model.keys"), names, "no model has two records")
		a.finish()
	})
}

// Requests pass two pools, so that what one pool decides late goes on to the other.
func TestAdversaryOnTwoPools(t *testing.T) {
	contests(t, func(t *testing.T, c contest) {
		a := startAdversary(t, c, c.actions(), config(all(6, "queue", 1000, "max_wait", "30s"), pool("model", 2, "queue", 1000, "max_wait", "30s")))
		a.total, a.limit = 6, 2
		a.model = func() string { return fmt.Sprint("m", a.rnd.IntN(4)) }
		a.play(ms)
		a.finish()
	})
}

// One request keeps the only permit, so that all others wait. Then each that ends makes room for the next, in the order in
// which they came, whatever swaps its release loses.
func TestAdversaryKeepsTheOrder(t *testing.T) {
	contests(t, func(t *testing.T, c contest) {
		a := startAdversary(t, c, c.actions(), config(all(1, "queue", 1000, "max_wait", "60s")))
		a.over, a.most, a.coming = nil, 4, 3
		a.play(ms)
		a.calm()
		for a.work(c.actions()); a.countOpen() > 0; a.calm() {
			running := a.onlyRunning()
			require.NotNil(t, running)
			running.Respond(200, "ok")
			a.ended++
		}
		a.finish()
	})
}

// onlyRunning is the request that runs at a limit of one, which is no younger than those of its worker that wait.
func (a *adversary) onlyRunning() (running *contender) {
	seen := map[int]bool{}
	a.each(func(w int, r *contender) {
		if runs(r.Stream) {
			require.Nil(a.t, running, "at a limit of one")
			require.False(a.t, seen[w], "an older request of worker %d waits", w)
			running = r
		}
		seen[w] = true
	})
	return running
}

// The only permit stays taken: everybody else's budget ends, and no tick later.
func TestAdversaryLetsWaitsEnd(t *testing.T) {
	contests(t, func(t *testing.T, c contest) {
		a := startAdversary(t, c, c.actions(), config(all(1, "queue", 1000, "max_wait", "300ms")))
		a.over, a.maxWait, a.most = nil, 300*ms, 5
		a.play(20 * ms)
		a.host.Run(300*ms + tick)
		require.Equal(t, 1, a.countOpen(), "the one that runs")
		require.NotZero(t, a.counter("all.expired_max_wait"))
		a.finish()
	})
}

// What every release says arrives: as many permits are on hold as requests ended.
func TestAdversaryLosesNoRelease(t *testing.T) {
	contests(t, func(t *testing.T, c contest) {
		hold := object{"success": "10m", "cancel": "10m", "failure": "10m"}
		a := startAdversary(t, c, c.actions(), config(all(10_000, "hold", hold)))
		a.total, a.limit = 10_000, 10_000
		endings := []ending{answer(200), answer(503), clientGone}
		a.over = func(s *wasmtest.Stream) { endings[a.rnd.IntN(len(endings))](s) }
		a.play(ms)
		a.host.Run(second)
		require.Equal(t, a.countOpen(), a.gauge("all.inflight"))
		a.each(a.end)
		a.host.Run(second)
		require.Equal(t, a.ended, a.gauge("all.on_hold"))
		a.requireUnharmed()
		a.host.Run(25 * minute)
		a.requireDrained("all")
	})
}

// Behind a crowd, what a turn brings is stored in a later one. Then the crowd leaves, all at once.
func TestAdversaryBehindACrowd(t *testing.T) {
	for _, workers := range []int{2, 17} {
		t.Run(fmt.Sprint(workers, " workers"), func(t *testing.T) {
			a := startAdversary(t, contest{workers: workers, seed: 1}, 0, config(all(4, "queue", 2*aCrowd, "max_wait", "60s")))
			a.total, a.limit, a.most = 4, 4, aCrowd
			for i := range aCrowd {
				a.come(i % 2)
			}
			a.host.Run(100 * ms)
			require.Equal(t, aCrowd-4, a.gauge("all.queued"))
			a.work(400)
			a.play(ms)
			a.work(200)
			a.each(func(_ int, r *contender) {
				if !runs(r.Stream) {
					r.ClientGone()
				}
			})
			a.play(ms)
			a.finish()
		})
	}
}
