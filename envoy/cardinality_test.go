package envoy_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

// Random tenants and models, with the page open, leave the number of Envoy's stats and its memory where they were: after
// the warm-up it may grow by 8 MiB, which is 40 bytes for each of the 200,000 requests that -explore makes.
func TestCase_O29_RandomTenantsAndModelsStayBounded(t *testing.T) {
	const warmUp, maxKeys, allowed = 5000, 64, 8 << 20
	requests := 15_000
	if *explore {
		requests = 200_000
	}
	tenant := rig.Pool{Name: "tenant", Key: []string{"tenant"}, Limit: 1, Queue: 100, MaxWait: longWait,
		Keys: map[string]any{"acme": rig.Object{"limit": 2}}}
	pair := rig.Pool{Name: "pair", Key: []string{"tenant", "model"}, Limit: 10, Queue: 100, MaxWait: longWait}
	all := rig.Pool{Name: "all", Limit: 6, Queue: 100, MaxWait: longWait, FairBy: "tenant"}
	env := rig.New(t, rig.Shared(t, 2), rig.Setup{Config: &rig.Config{Pools: []rig.Pool{tenant, pair, all},
		More: rig.Object{"max_keys": maxKeys}}})
	page := openPage{admin: env.AdminListener(t, rig.Object{"max_keys": maxKeys})}
	mustBeOK(t, "the first request", env.Do(t, rig.Call{Tenant: "acme"}))
	randomKeys(t, env, &page, warmUp) // what the VMs take once
	names, before := statNames(t, env), resident(t, env)
	for done := 0; done < requests; done += warmUp {
		randomKeys(t, env, &page, warmUp)
	}
	grown := resident(t, env) - before
	t.Logf("%d requests, the page asked %d times and heard of %d events: %d stats before and %d after, %d KiB resident "+
		"before and %+d KiB after", requests, page.refreshes, page.events, len(names), len(statNames(t, env)), before>>10, grown>>10)
	if grown > allowed {
		t.Errorf("Envoy grew by %d MiB", grown>>20)
	}
	for name := range statNames(t, env) {
		if !names[name] {
			t.Errorf("there is a new stat: %s", name)
		}
	}
	if page.refreshes < 3 || page.events == 0 {
		t.Errorf("the page asked %d times and heard of %d events", page.refreshes, page.events)
	}
	for _, pool := range []string{"tenant", "pair", "all"} {
		if keys := env.Gauge(t, pool, "keys"); keys > maxKeys+1 {
			t.Errorf("%s.keys is %d, max_keys is %d", pool, keys, maxKeys)
		}
		env.AwaitDrained(t, pool)
		sent := int64(warmUp + requests + 1)
		got := env.Pool(t, pool)
		if got["evaluated"] != sent || got["admitted"] != sent {
			t.Errorf("%s: %v, want %d evaluated and admitted", pool, got, sent)
		}
	}
	env.Up.ResetPeak()
	env.DrainCheck(t, "tenant", 2, rig.Call{Tenant: "acme"})
}

// randomKeys sends requests of tenants and models that never come twice, and asks for the page each second meanwhile.
func randomKeys(t *testing.T, env *rig.Env, page *openPage, requests int) {
	t.Helper()
	const clients = 8
	var failed atomic.Int64
	var all sync.WaitGroup
	for range clients {
		conn := env.Dial(t)
		all.Go(func() {
			for range requests / clients {
				c := rig.Call{Tenant: fmt.Sprintf("t-%x", rand.Uint64()), Model: fmt.Sprintf("m-%x", rand.Uint64()),
					Script: rig.Script{NoBody: true}}
				if r := conn.Do(c); r.Status != 200 {
					failed.Add(1)
				}
			}
		})
	}
	served := make(chan struct{})
	go func() { all.Wait(); close(served) }()
	for {
		page.refresh(t)
		select {
		case <-served:
			env.Up.Forget()
			if n := failed.Load(); n > 0 {
				t.Fatalf("%d requests failed", n)
			}
			return
		case <-time.After(time.Second):
		}
	}
}

// An openPage asks an admin listener what the dashboard asks it each second.
type openPage struct {
	admin             *rig.AdminListener
	last              float64 // the number of the newest event
	refreshes, events int
}

func (p *openPage) refresh(t *testing.T) {
	t.Helper()
	p.admin.Ask(t, "GET", "/headgate/v1/state?limit=200", "")
	for more := true; more; {
		answer := p.admin.Ask(t, "GET", fmt.Sprintf("/headgate/v1/events?after=%.0f&limit=500", p.last), "")
		events := objects(answer["events"])
		p.events += len(events)
		more = len(events) == 500
		p.last = answer["last"].(float64)
		if more {
			p.last = events[len(events)-1]["id"].(float64)
		}
	}
	p.refreshes++
}

// statNames are the names of all of Envoy's stats, used or not.
func statNames(t *testing.T, env *rig.Env) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for line := range strings.Lines(env.AdminText(t, "/stats")) {
		name, _, _ := strings.Cut(line, ": ")
		names[name] = true
	}
	return names
}

func resident(t *testing.T, env *rig.Env) int64 {
	t.Helper()
	bytes, err := env.ResidentBytes()
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

var weirdNames = []string{`a"b`, `a\`, `a\"b`, `a{b="c"}`, "a\u202eb", "a b", "%0d%0ax: y", "a\tb", "'", "é",
	"\xff\xfe", "../..", strings.Repeat("x", 10_000)}

// Envoy itself refuses these bytes in a header.
var refusedNames = []string{"a\nb", "a\r\nx-injected: y", "a\x00b"}

func TestCase_O30_WeirdNamesBreakNeitherStatsNorRepliesNorLog(t *testing.T) {
	env := governed(t, 2, tenantPool(1, 0), modelPool(0, 0, ""))
	logged := len(env.LogSince())
	for _, name := range weirdNames {
		r := env.Do(t, rig.Call{Tenant: name, Model: name})
		env.CheckRefused(t, r, "model", rig.Rejected)
		if !json.Valid(r.Body) || r.Header.Get("x-injected") != "" || r.Header.Get("x") != "" {
			t.Errorf("%.20q: body %s, header %v", name, r.Body, r.Header)
		}
	}
	for _, name := range refusedNames {
		r := env.Raw(t, "POST "+rig.Path+" HTTP/1.1\r\nhost: gateway\r\n"+
			"x-tenant: "+name+"\r\nx-model: "+name+"\r\ncontent-length: 0\r\n\r\n")
		if r.Status != 400 && r.Status != 429 || r.Header.Get("x-injected") != "" {
			t.Errorf("%q: got %s with %v", name, r, r.Header)
		}
	}
	checkPrometheus(t, env.AdminText(t, "/stats/prometheus"))
	if stats := env.AdminText(t, "/stats"); strings.Contains(stats, strings.Repeat("x", 20)) ||
		strings.Contains(stats, "\u202e") {
		t.Error("a name shows up in the stats")
	}
	for line := range strings.Lines(env.LogSince()[logged:]) {
		if !strings.HasPrefix(line, "[") || len(line) > 1000 {
			t.Errorf("a log line that Envoy did not begin, or a long one: %.100q", line)
		}
	}
	env.AwaitDrained(t, "tenant", "model")
	env.CheckIdentity(t, "model")
}

var (
	metricName = `[a-zA-Z_:][a-zA-Z0-9_:]*`
	label      = `[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"`
	sampleLine = regexp.MustCompile(`^` + metricName + `(?:\{(?:` + label + `(?:,` + label +
		`)*)?,?\})? (?:[-+]?[0-9.eE+-]+|NaN|[-+]?Inf)(?: [0-9-]+)?$`)
	commentLine = regexp.MustCompile(`^# (?:TYPE ` + metricName + ` (?:counter|gauge|histogram|summary|untyped)|HELP ` +
		metricName + ` .*)$`)
)

// checkPrometheus reads a scrape strictly by the text format's grammar.
func checkPrometheus(t *testing.T, text string) {
	t.Helper()
	ours := 0
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.Contains(line, "headgate") {
			ours++
		}
		if line != "" && !sampleLine.MatchString(line) && !commentLine.MatchString(line) {
			t.Errorf("not the text format: %.200q", line)
		}
	}
	if ours == 0 {
		t.Error("the scrape has nothing of Headgate's")
	}
}
