package filter_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// The provider of these tests runs four calls at once. It counts each for a moment longer than it lasts, and answers
// 429 to calls above four. For a minute, clients want twice of what it can give.
const (
	providerRuns    = 4
	providerLingers = 300 * ms
	providerMinute  = minute
	shortestCall    = 200 * ms
	longestCall     = 1800 * ms
	meanCall        = (shortestCall + longestCall) / 2
	refusedIn       = 20 * ms                    // a 429 takes that long
	clientPauses    = second                     // after a refusal, before it tries again
	arrivals        = 2 * 4                      // calls that arrive in the time ...
	arrivalsPer     = meanCall + providerLingers // ... in which the provider can run half as many
)

// A providerRun is one minute: clients, perhaps a gateway, the provider.
type providerRun struct {
	*gateway
	rnd     *rand.Rand
	lingers time.Duration // how long the provider counts a call after its end
	events  timetable
	calls   []*providerCall // under way
	lately  []time.Duration // when the provider's last calls ended
	run     int             // what the provider runs now
	sent    int

	completed, provider429, ours int
	most                         int // that it counted at once
	latencies                    []time.Duration
}

type providerCall struct {
	stream  *wasmtest.Stream
	sent    time.Duration
	started bool
	done    func(ok bool)
}

// callTime is how long the provider takes for the next call.
func callTime(rnd *rand.Rand) time.Duration {
	return shortestCall + time.Duration(rnd.Int64N(int64((longestCall-shortestCall)/ms)))*ms
}

// possible is how many calls the provider can complete in its minute if each follows the one before without a gap.
func possible(seed uint64, lingers time.Duration) int {
	rnd, n := newRand(seed), 0
	var free [providerRuns]time.Duration
	for {
		next := slices.Index(free[:], slices.Min(free[:]))
		if free[next] += callTime(rnd); free[next] > providerMinute {
			return n
		}
		free[next] += lingers
		n++
	}
}

// call sends a client's call to the gateway.
func (r *providerRun) call(done func(ok bool)) {
	r.sent++
	c := &providerCall{stream: r.sendModel(r.sent%2, "m"), sent: r.host.Elapsed(), done: done}
	r.calls = append(r.calls, c)
}

// look serves the calls that the gateway has let through, and ends those that it has refused.
func (r *providerRun) look() (changed bool) {
	for _, c := range slices.Clone(r.calls) {
		switch {
		case c.started:
		case runs(c.stream):
			c.started, changed = true, true
			r.serve(c)
		case !waits(c.stream):
			c.started, changed = true, true
			r.ours++
			r.end(c, false)
		}
	}
	return changed
}

// serve is the provider's part.
func (r *providerRun) serve(c *providerCall) {
	now := r.host.Elapsed()
	r.lately = slices.DeleteFunc(r.lately, func(end time.Duration) bool { return now >= end+r.lingers })
	if r.run+len(r.lately) >= providerRuns {
		r.events.add(now+refusedIn, func() {
			r.provider429++
			answer(429)(c.stream)
			r.end(c, false)
		})
		return
	}
	r.run++
	r.most = max(r.most, r.run+len(r.lately))
	r.events.add(now+callTime(r.rnd), func() {
		r.run--
		r.lately = append(r.lately, r.host.Elapsed())
		answer(200)(c.stream)
		if r.host.Elapsed() <= providerMinute {
			r.completed++
			r.latencies = append(r.latencies, r.host.Elapsed()-c.sent)
		}
		r.end(c, true)
	})
}

func (r *providerRun) end(c *providerCall, ok bool) {
	r.calls = slices.DeleteFunc(r.calls, func(d *providerCall) bool { return d == c })
	if c.done != nil {
		c.done(ok)
	}
}

// play runs the minute.
func (r *providerRun) play() {
	for {
		r.host.Drain()
		for r.look() {
			r.host.Drain()
		}
		next := providerMinute
		if len(r.events) > 0 {
			next = min(next, r.events[0].at)
		}
		switch {
		case r.host.RunUntil(next-r.host.Elapsed(), r.somethingToSee):
		case len(r.events) > 0 && r.events[0].at == next:
			heap.Pop(&r.events).(timed).do()
		default:
			return
		}
	}
}

func (r *providerRun) somethingToSee() bool {
	return slices.ContainsFunc(r.calls, func(c *providerCall) bool { return !c.started && !waits(c.stream) })
}

// clients call one after the other, and pause after a refusal.
func (r *providerRun) clients(n int) {
	for i := range n {
		var next func(ok bool)
		next = func(ok bool) {
			wait := time.Duration(0)
			if !ok {
				wait = clientPauses
			}
			r.events.add(r.host.Elapsed()+wait, func() { r.call(next) })
		}
		r.events.add(r.host.Elapsed()+time.Duration(i)*50*ms, func() { r.call(next) })
	}
}

// arrive sends calls at twice the rate that the provider can serve, whatever becomes of them.
func (r *providerRun) arrive(seed uint64) {
	rnd := newRand(seed + 1000)
	for at := r.host.Elapsed(); at < providerMinute; {
		r.events.add(at, func() { r.call(nil) })
		at += time.Duration(rnd.ExpFloat64() * float64(arrivalsPer) / arrivals)
	}
}

func (r *providerRun) median() time.Duration {
	if len(r.latencies) == 0 {
		return 0
	}
	slices.Sort(r.latencies)
	return r.latencies[len(r.latencies)/2]
}

func playProvider(t *testing.T, seed uint64, lingers time.Duration, p object, load func(*providerRun)) *providerRun {
	t.Helper()
	r := &providerRun{gateway: start(t, 2, config(p)), rnd: newRand(seed), lingers: lingers}
	load(r)
	r.play()
	r.host.Close()
	return r
}

// A timetable is a heap of what happens when. What happens at one time happens in the order in which it was added.
type timetable []timed

type timed struct {
	at    time.Duration
	order int
	do    func()
}

var timedOrder int

func (h *timetable) add(at time.Duration, do func()) {
	timedOrder++
	heap.Push(h, timed{at, timedOrder, do})
}

func (h timetable) Len() int { return len(h) }
func (h timetable) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].order < h[j].order
}
func (h timetable) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *timetable) Push(x any)   { *h = append(*h, x.(timed)) }
func (h *timetable) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

// With the limit and the cooldown of such a provider, no client behind the gateway ever sees its 429, and it stays
// busy.
func TestProviderThatCountsLonger(t *testing.T) {
	const seeds = 3
	gated := func(limit int, more ...any) object {
		return pool("model", limit, append([]any{"queue", 200, "max_wait", "30s"}, more...)...)
	}
	usual := []any{"breaker", object{}, "headroom", object{}}
	none := gated(1000)
	shaped := gated(4, append([]any{"hold", object{"success": "300ms", "cancel": "300ms", "failure": "2s"}}, usual...)...)
	rows := []struct {
		what   string
		pool   object
		shaped bool
	}{
		{"no limit", none, false},
		{"limit 4", gated(4), false},
		{"limit 4, the defaults of headgate run", gated(4, "hold", object{"success": "200ms", "cancel": "200ms", "failure": "2s"}, "breaker", object{}), false},
		{"limit 4, release-cooldown 200ms, headroom, breaker", gated(4, append([]any{"hold", object{"success": "200ms", "cancel": "200ms", "failure": "2s"}}, usual...)...), false},
		{"limit 4, release-cooldown 300ms, headroom, breaker", shaped, true},
	}
	loads := []struct {
		what string
		load func(seed uint64) func(*providerRun)
		open bool
	}{
		{"8 clients, each one call at a time", func(uint64) func(*providerRun) { return func(r *providerRun) { r.clients(2 * providerRuns) } }, false},
		{"calls at twice the rate", func(seed uint64) func(*providerRun) { return func(r *providerRun) { r.arrive(seed) } }, true},
	}
	var table strings.Builder
	var shown []string
	for _, load := range loads {
		fmt.Fprintf(&table, "\n%-52s %9s %9s %12s %12s %8s\n", load.what, "completed", "of what", "provider's", "Headgate's", "median")
		fmt.Fprintf(&table, "%-52s %9s %9s %12s %12s %8s\n", "for a minute", "", "it can", "429s", "429s, 503s", "latency")
		for _, row := range rows {
			var completed, can, theirs, ours int
			var median time.Duration
			for seed := range uint64(seeds) {
				r := playProvider(t, seed, providerLingers, row.pool, load.load(seed))
				completed, can, theirs, ours, median = completed+r.completed, can+possible(seed, providerLingers), theirs+r.provider429, ours+r.ours, median+r.median()/seeds
				require.LessOrEqual(t, r.most, providerRuns)
				if !row.shaped {
					continue
				}
				require.Zero(t, r.provider429, "provider's 429s, seed %d", seed)
				require.GreaterOrEqual(t, r.completed*10, possible(seed, providerLingers)*9, "of %d possible, seed %d", possible(seed, providerLingers), seed)
				if !load.open {
					require.Zero(t, r.ours, "refusals at all, seed %d", seed)
				}
			}
			if load.open {
				shown = append(shown, fmt.Sprintf(" | %.0f %% | %d | %d | %.1f s |", 100*float64(completed)/float64(can), theirs/seeds, ours/seeds, median.Seconds()))
			}
			fmt.Fprintf(&table, "%-52s %9d %8.0f%% %12d %12d %7.1fs\n", row.what, completed/seeds, 100*float64(completed)/float64(can), theirs/seeds, ours/seeds, median.Seconds())
		}
	}
	t.Log(table.String())
	requireShown(t, shown)
}

// requireShown compares what README.md shows of the open load with what has come out: of each row what was completed,
// the provider's 429s, Headgate's refusals, and the median latency.
func requireShown(t *testing.T, rows []string) {
	t.Helper()
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	for _, row := range rows {
		require.Contains(t, string(readme), row, "README.md, `go test ./filter -run Provider -v` prints all")
	}
}

// Which cooldown suits which provider, with the other defaults of headgate run.
func TestFinding_A5_WhichCooldownSuitsWhichProvider(t *testing.T) {
	lingering := []time.Duration{0, 50 * ms, 100 * ms, 200 * ms, 300 * ms, 500 * ms, second}
	cooldowns := []time.Duration{0, 100 * ms, 200 * ms, 300 * ms, 500 * ms, second}
	shares := map[[2]time.Duration]int{}
	var table strings.Builder
	fmt.Fprintf(&table, "\n%-10s", "cooldown")
	for _, lingers := range lingering {
		fmt.Fprintf(&table, " %12s", lingers)
	}
	for _, cooldown := range cooldowns {
		fmt.Fprintf(&table, "\n%-10s", cooldown)
		for _, lingers := range lingering {
			p := pool("model", providerRuns, "queue", 100, "max_wait", "30s", "breaker", object{},
				"hold", object{"success": cooldown.String(), "cancel": "200ms", "failure": "2s"})
			completed, can, theirs := 0, 0, 0
			for seed := range uint64(2) {
				r := playProvider(t, seed, lingers, p, func(r *providerRun) { r.arrive(seed) })
				completed, can, theirs = completed+r.completed, can+possible(seed, lingers), theirs+r.provider429
			}
			fmt.Fprintf(&table, " %6d%% %4d", 100*completed/can, theirs/2)
			shares[[2]time.Duration{cooldown, lingers}] = 100 * completed / can
		}
	}
	t.Log(table.String())
	// Why 200 ms is the default.
	for _, lingers := range lingering[:4] {
		require.Greater(t, shares[[2]time.Duration{200 * ms, lingers}], 80, "little is lost where less would do: %s", lingers)
		if lingers > 0 {
			require.Less(t, shares[[2]time.Duration{0, lingers}], 40, "much is lost without a cooldown: %s", lingers)
		}
	}
	for _, lingers := range lingering {
		require.Less(t, shares[[2]time.Duration{second, lingers}], 100, lingers)
	}
}
