package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// The calls to Envoy's admin interface that begin a drain. The first has Envoy close a connection after its next
// answer, and the second has it listen no more, so that new connections are refused.
var drainCalls = []string{"/healthcheck/fail", "/drain_listeners"}

const (
	drainEvery = 100 * time.Millisecond
	quietPolls = 2 // so many polls in a row without a request: one may just have come on an open connection
)

// letFinish has Envoy accept nothing new, and waits until the requests that run and those that wait have ended, for at
// most as long as --drain says. Then it has the rest ended. It returns early when atOnce is done.
func (p *runPlan) letFinish(atOnce context.Context, proxy *envoyProcess) {
	if p.drain == 0 || atOnce.Err() != nil {
		return
	}
	for _, call := range drainCalls {
		if err := proxy.tell(call); err != nil {
			p.notes.warn("Envoy does not drain (%v): requests that run are ended", err)
			return
		}
	}
	deadline := time.After(p.drain)
	quiet, told := 0, false
	for {
		active, err := proxy.activeRequests()
		if err != nil {
			return // it ends by itself
		}
		if active > 0 && !told {
			p.notes.say("requests that run or wait: %d. They have %s to finish, and nothing new is accepted. Another "+
				"Ctrl-C or SIGTERM ends them at once", active, shortDuration(p.drain))
			told = true
		}
		if quiet++; active > 0 {
			quiet = 0
		}
		if quiet == quietPolls {
			return
		}
		select {
		case <-atOnce.Done():
			return
		case <-proxy.ended:
			return
		case <-deadline:
			p.notes.say("requests that had not ended after %s: %d. Those without an answer get a 503 now, and the others "+
				"are cut", shortDuration(p.drain), active)
			proxy.endRequests(atOnce)
			return
		case <-time.After(drainEvery):
		}
	}
}

// activeStat is the stat of a listener's requests. Envoy's admin interface has one too, and so has Headgate's.
var activeStat = regexp.MustCompile(`(?m)^http\.([^.]+)\.downstream_rq_active: (\d+)\s*$`)

// activeRequests is how many requests of clients run or wait.
func (p *envoyProcess) activeRequests() (int, error) {
	stats, err := p.ask(`/stats?filter=^http\..*\.downstream_rq_active$`)
	if err != nil {
		return 0, err
	}
	found := activeStat.FindAllSubmatch(stats, -1)
	active := 0
	for _, m := range found {
		if name := string(m[1]); name != "admin" && name != "headgate_admin" {
			n, _ := strconv.Atoi(string(m[2]))
			active += n
		}
	}
	if len(found) == 0 {
		return 0, fmt.Errorf("Envoy has no stat of active requests")
	}
	return active, nil
}
