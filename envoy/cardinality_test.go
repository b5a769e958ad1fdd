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

	"github.com/headgate/headgate/envoy/rig"
)

func TestCase_O29_RandomTenantsAndModelsStayBounded(t *testing.T) {
	const requests, clients, maxKeys = 20_000, 8, 64
	tenant := rig.Pool{Name: "tenant", Key: []string{"tenant"}, Limit: 1, Queue: 100, MaxWait: longWait,
		Keys: map[string]any{"acme": rig.Object{"limit": 2}}}
	pair := rig.Pool{Name: "pair", Key: []string{"tenant", "model"}, Limit: 10, Queue: 100, MaxWait: longWait}
	env := rig.New(t, rig.Shared(t, 2), rig.Setup{Config: &rig.Config{Pools: []rig.Pool{tenant, pair},
		More: rig.Object{"max_keys": maxKeys}}})
	mustBeOK(t, "the first request", env.Do(t, rig.Call{Tenant: "acme"}))
	names := statNames(t, env)
	if failed := randomKeys(t, env, requests/4, clients); failed > 0 { // what the VMs take once comes in the first part
		t.Errorf("%d requests failed", failed)
	}
	before := resident(t, env)
	if failed := randomKeys(t, env, requests*3/4, clients); failed > 0 {
		t.Errorf("%d requests failed", failed)
	}
	if grown := resident(t, env) - before; grown > 16<<20 {
		t.Errorf("Envoy grew by %d MiB", grown>>20)
	}
	if got := statNames(t, env); got != names {
		t.Errorf("Envoy has %d stats, %d before the random keys", got, names)
	}
	for _, pool := range []string{"tenant", "pair"} {
		if keys := env.Gauge(t, pool, "keys"); keys > maxKeys+1 {
			t.Errorf("%s.keys is %d, max_keys is %d", pool, keys, maxKeys)
		}
		env.AwaitDrained(t, pool)
		env.CheckCounts(t, pool, rig.Counts{"evaluated": requests + 1, "admitted": requests + 1})
	}
	env.Up.ResetPeak()
	env.DrainCheck(t, "tenant", 2, rig.Call{Tenant: "acme"})
}

// randomKeys sends requests of tenants and models that never come twice and returns how many were not served.
func randomKeys(t *testing.T, env *rig.Env, requests, clients int) int64 {
	t.Helper()
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
	all.Wait()
	env.Up.Forget()
	return failed.Load()
}

func statNames(t *testing.T, env *rig.Env) int {
	t.Helper()
	return len(wasmStats(t, env))
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
