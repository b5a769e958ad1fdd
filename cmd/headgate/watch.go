package main

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	statsEvery    = time.Second // how often the stats are read
	refusalsEvery = time.Minute // how often at most a pool's refusals are told
	lossesEvery   = time.Minute // how often at most it is told that the access log is lost
)

// A watcher tells what changes in the gateway while it runs: breakers that open and close, refusals, workers that die,
// and an access log that is lost. It reads Envoy's stats for that.
type watcher struct {
	notes   *notes
	stats   func() ([]byte, error)
	shadows func() bool // the mode is shadow: what would happen is told
	now     func() time.Time
	pools   map[string]*watchedPool

	failedWrites int       // of the access log, when they were told last
	toldLossAt   time.Time // when they were
}

// A watchedPool is what the watcher knows of a pool.
type watchedPool struct {
	last    poolCounts // at the last look
	told    poolCounts // when its refusals were told last
	toldAt  time.Time
	failing poolCounts // when its breaker turned last
}

// poolCounts are the counters of a pool by their names.
type poolCounts map[string]int

func newWatcher(n *notes, stats func() ([]byte, error), shadows func() bool) *watcher {
	return &watcher{notes: n, stats: stats, shadows: shadows, now: time.Now, pools: map[string]*watchedPool{}}
}

// watch looks at the stats until ctx is done.
func (w *watcher) watch(ctx context.Context) {
	ticker := time.NewTicker(statsEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.look()
		}
	}
}

// look tells what has changed since the last look. Stats that can't be read are read the next time.
func (w *watcher) look() {
	text, err := w.stats()
	if err != nil {
		return
	}
	w.tellLoss(text)
	counts := readPoolCounts(text)
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		pool := w.pools[name]
		if pool == nil {
			pool = &watchedPool{last: poolCounts{}, told: poolCounts{}, failing: poolCounts{}}
			w.pools[name] = pool
		}
		w.tellBreaker(name, pool, counts[name])
		w.tellRefusals(name, pool, counts[name])
		if died := counts[name]["reaped"] - pool.last["reaped"]; died > 0 {
			w.notes.say("a worker of Envoy's died or stood still: pool %q has taken back its permits and places in the "+
				"queue (%d)", name, died)
		}
		pool.last = counts[name]
	}
}

// tellBreaker tells when a breaker of the pool has opened or closed. A pool has a breaker for each of its keys.
func (w *watcher) tellBreaker(name string, pool *watchedPool, now poolCounts) {
	opened, closed := now["breaker_opened"]-pool.last["breaker_opened"], now["breaker_closed"]-pool.last["breaker_closed"]
	if opened <= 0 && closed <= 0 {
		return
	}
	is := "is"
	if w.shadows() {
		is = "would be"
	}
	if opened > 0 {
		since := pool.failing
		w.notes.say("the breaker of pool %q %s open: the upstream has failed too often (5xx or no answer: %d, 429: %d)", name,
			is, now["provider_failure"]-since["provider_failure"], now["provider_429"]-since["provider_429"])
	}
	if closed > 0 {
		more := ""
		if open := now["breaker_opened"] - now["breaker_closed"]; open > 0 {
			more = fmt.Sprintf(" (still open for other keys of the pool: %d)", open)
		}
		w.notes.say("the breaker of pool %q %s closed again: the upstream answers%s", name, is, more)
	}
	pool.failing = now
}

// refusals are the counters of refused requests, and what they are called.
var refusals = []struct{ counter, meaning string }{
	{"rejected_queue_full", "no permit and no place in the queue"},
	{"expired_max_wait", "waited too long"},
	{"expired_deadline", "deadline over"},
	{"rejected_breaker", "breaker open"},
	{"rejected_closed", "pool closed"},
	{"shadow_would_reject", "no permit, or the breaker open"},
	{"shadow_would_expire", "waited too long"},
}

// tellRefusals tells the pool's first refusals at once, and further ones once in a minute.
func (w *watcher) tellRefusals(name string, pool *watchedPool, now poolCounts) {
	var reasons []string
	total := 0
	for _, r := range refusals {
		if n := now[r.counter] - pool.told[r.counter]; n > 0 {
			reasons = append(reasons, fmt.Sprintf("%s: %d", r.meaning, n))
			total += n
		}
	}
	if total == 0 || !pool.toldAt.IsZero() && w.now().Sub(pool.toldAt) < refusalsEvery {
		return
	}
	refused := "refused"
	if w.shadows() {
		refused = "that would be refused"
	}
	w.notes.say("requests %s by pool %q: %d (%s)", refused, name, total, strings.Join(reasons, ", "))
	pool.told, pool.toldAt = now, w.now()
}

// failedWrites is Envoy's counter of writes to a log that failed. Envoy goes on without what it could not write.
var failedWrites = regexp.MustCompile(`(?m)^filesystem\.write_failed: (\d+)\s*$`)

// tellLoss tells that lines of the access log are lost, once in a minute while that goes on.
func (w *watcher) tellLoss(stats []byte) {
	found := failedWrites.FindSubmatch(stats)
	if found == nil {
		return
	}
	failed, err := strconv.Atoi(string(found[1]))
	justTold := !w.toldLossAt.IsZero() && w.now().Sub(w.toldLossAt) < lossesEvery
	if err != nil || failed <= w.failedWrites || justTold {
		return
	}
	w.failedWrites, w.toldLossAt = failed, w.now()
	w.notes.warn("lines of the access log are lost: standard output can't be written. Its reader has gone, or the disk " +
		"is full. Requests go on")
}

// watchedStats asks for Headgate's stats, and for those of what Envoy writes.
const watchedStats = `/stats?usedonly&filter=(^|\.)wasmcustom\.headgate\.|^filesystem\.write_failed$`

// poolStat is a counter or gauge of a pool. An Envoy before 1.39 puts the cluster of a filter before the name.
var poolStat = regexp.MustCompile(`(?m)^(?:\S+\.)?wasmcustom\.headgate\.([\w-]+)\.(\w+): (\d+)\s*$`)

// readPoolCounts reads Envoy's stats: the counters of each pool.
func readPoolCounts(stats []byte) map[string]poolCounts {
	counts := map[string]poolCounts{}
	for _, found := range poolStat.FindAllStringSubmatch(string(stats), -1) {
		if counts[found[1]] == nil {
			counts[found[1]] = poolCounts{}
		}
		if n, err := strconv.Atoi(found[3]); err == nil { // the greatest numbers are gauges that are no counters
			counts[found[1]][found[2]] = n
		}
	}
	return counts
}
