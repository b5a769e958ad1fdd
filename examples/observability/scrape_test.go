package observability_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metricsql"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/headgate/headgate/envoy/rig"
)

// A gateway is an Envoy that runs what `headgate render envoy` prints, with other ports.
type gateway struct{ url, admin string }

// start renders with the flags, and starts Envoy with what comes out.
func start(t *testing.T, flags ...string) gateway {
	t.Helper()
	binary, err := rig.EnvoyPath()
	require.NoError(t, err)
	wasm, err := rig.WasmPath()
	require.NoError(t, err)
	render := exec.Command("go", append([]string{"run", "./cmd/headgate", "render", "envoy", "--wasm", wasm}, flags...)...)
	render.Dir = "../.."
	render.Stderr = t.Output()
	text, err := render.Output()
	require.NoError(t, err)
	var bootstrap map[string]any
	require.NoError(t, yaml.Unmarshal(text, &bootstrap))
	bootstrap["stats_flush_interval"] = "0.1s" // Envoy fills histograms then
	admin := moved(t, bootstrap["admin"].(map[string]any))
	var bind string
	for i, listener := range bootstrap["static_resources"].(map[string]any)["listeners"].([]any) {
		if address := moved(t, listener.(map[string]any)); i == 0 {
			bind = address
		}
	}
	file := filepath.Join(t.TempDir(), "envoy.yaml")
	text, err = yaml.Marshal(bootstrap)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, text, 0o600))
	program := exec.Command(binary, "--disable-hot-restart", "--log-level", "error", "--concurrency", "2", "-c", file)
	program.Stderr = t.Output()
	rig.EndWithParent(program)
	require.NoError(t, program.Start())
	t.Cleanup(func() {
		_ = program.Process.Kill()
		_ = program.Wait()
	})
	g := gateway{url: "http://" + bind, admin: "http://" + admin}
	rig.Await(t, "Envoy is ready", func() bool {
		reply, err := http.Get(g.admin + "/ready")
		if err != nil {
			return false
		}
		defer reply.Body.Close()
		return reply.StatusCode == http.StatusOK
	})
	return g
}

// moved gives what listens a free port of loopback, and returns its address.
func moved(t *testing.T, listener map[string]any) string {
	t.Helper()
	port, err := rig.FreePort()
	require.NoError(t, err)
	socket := listener["address"].(map[string]any)["socket_address"].(map[string]any)
	socket["address"], socket["port_value"] = "127.0.0.1", port
	return "127.0.0.1:" + strconv.Itoa(port)
}

func get(t *testing.T, url string) string {
	t.Helper()
	reply, err := http.Get(url)
	require.NoError(t, err)
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, reply.StatusCode, url)
	return string(text)
}

// A series is a line of /stats/prometheus.
type series struct{ name, labels string }

var seriesLine = regexp.MustCompile(`(?m)^([a-zA-Z_:][\w:]*)\{(.*)\} (\S+)$`)

// scrape reads what Prometheus gets with the parameters of prometheus.yaml, without the labels that Envoys before 1.39 add.
func (g gateway) scrape(t *testing.T) map[series]string {
	t.Helper()
	var file struct {
		Global  any
		Rules   any `yaml:"rule_files"`
		Scrapes []struct {
			JobName string `yaml:"job_name"`
			Path    string `yaml:"metrics_path"`
			Params  url.Values
			Targets any `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	readYAML(t, "prometheus.yaml", &file)
	require.Len(t, file.Scrapes, 1)
	found := map[series]string{}
	text := get(t, g.admin+file.Scrapes[0].Path+"?"+file.Scrapes[0].Params.Encode())
	for _, m := range seriesLine.FindAllStringSubmatch(text, -1) {
		labels := strings.Split(m[2], ",")
		labels = slices.DeleteFunc(labels, func(label string) bool {
			return strings.HasPrefix(label, `scope="`) || strings.HasPrefix(label, `envoy_cluster_name="`)
		})
		found[series{m[1], strings.Join(labels, ",")}] = m[3]
	}
	return found
}

// Names of pools with all the characters that a name may have, and some that are names of stats as well. One is as long as
// may be.
const oddPools = `{"routes": ["/x"], "pools": [
	{"name": "A-b_9", "limit": 1, "queue": 1, "max_wait": "1h"}, {"name": "inflight", "limit": 1}, {"name": "fleet", "limit": 1},
	{"name": "config", "limit": 1}, {"name": "7", "limit": 1}, {"name": "-", "per": "attempt", "limit": 1},
	{"name": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "per": "attempt", "limit": 1}
]}`

// used starts a gateway with the odd pools, and has a request run, one wait and one be refused in it.
func used(t *testing.T) gateway {
	t.Helper()
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	model := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-held }))
	t.Cleanup(model.Close)
	t.Cleanup(release) // before that: the model ends when its requests have
	config := filepath.Join(t.TempDir(), "plugin.json")
	require.NoError(t, os.WriteFile(config, []byte(oddPools), 0o600))
	g := start(t, "--upstream", model.URL, "--config", config)
	shows := func(figures ...string) bool {
		text := get(t, g.admin+"/stats?filter=wasmcustom.headgate.A-b_9")
		return !slices.ContainsFunc(figures, func(figure string) bool {
			return !strings.Contains(text, "wasmcustom.headgate.A-b_9."+figure)
		})
	}
	var requests sync.WaitGroup
	for _, queued := range []string{"queued: 0", "queued: 1"} {
		requests.Go(func() { g.post() })
		rig.Await(t, "a request runs, and another waits", func() bool { return shows("inflight: 1", queued) })
	}
	require.Equal(t, http.StatusTooManyRequests, g.post())
	release()
	requests.Wait()
	rig.Await(t, "the figures are there", func() bool {
		return shows("wait_ms: P0(", "held_ms: P0(", "completed: 2", "rejected_queue_full: 1")
	})
	return g
}

// post sends a request that is governed, and returns the status, or 0 for none.
func (g gateway) post() int {
	reply, err := http.Post(g.url+"/x", "application/json", strings.NewReader("{}"))
	if err != nil {
		return 0
	}
	reply.Body.Close()
	return reply.StatusCode
}

// What a gateway that `headgate render envoy` makes shows to Prometheus.
func TestScrape(t *testing.T) {
	g := used(t)
	scraped := g.scrape(t)
	t.Run("HasEachMetricOfAQuery", func(t *testing.T) { checkQueries(t, scraped) })
	t.Run("HasThePoolAsALabel", func(t *testing.T) {
		checkLabels(t, scraped, get(t, g.admin+"/stats?filter=wasmcustom"))
	})
	t.Run("HasBoundsForWaits", func(t *testing.T) {
		checkBounds(t, scraped, "headgate_wait_ms_bucket")
		checkBounds(t, scraped, "headgate_held_ms_bucket")
	})
}

// queries are all expressions of the dashboard and the rules, by the place where they stand. Grafana's variables are
// filled in.
func queries(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	alerts, _ := rules(t)
	for _, a := range alerts {
		found["alert "+a.Alert] = a.Expr
	}
	file := readDashboard(t)
	for _, p := range panels(t) {
		for i, target := range p.Targets {
			query, ok := target.(*prometheus.Dataquery)
			require.True(t, ok, *p.Title)
			found[fmt.Sprintf("panel %s, query %d", *p.Title, i)] = query.Expr
		}
	}
	for _, v := range file.Templating.List {
		if v.Definition != nil {
			found["variable "+v.Name] = regexp.MustCompile(`^label_values\((.*), \w+\)$`).ReplaceAllString(*v.Definition, "$1")
		}
	}
	for _, a := range file.Annotations.List {
		found["annotation "+a.Name] = *a.Expr
	}
	for place, expr := range found {
		found[place] = strings.NewReplacer("$__rate_interval", "1m", "$instance", ".*", "$pool", ".*").Replace(expr)
		require.NotContains(t, found[place], "$", place)
	}
	require.Greater(t, len(found), 40)
	return found
}

// promtool knows Prometheus' grammar best. It reads rules, so each query becomes one.
func TestEachQueryIsPromQL(t *testing.T) {
	var file ruleFile
	file.Groups = append(file.Groups, struct {
		Name  string
		Rules []rule
	}{Name: "queries"})
	all := queries(t)
	for i, place := range slices.Sorted(maps.Keys(all)) {
		file.Groups[0].Rules = append(file.Groups[0].Rules, rule{Record: "query:" + strconv.Itoa(i), Expr: all[place]})
	}
	text, err := yaml.Marshal(file)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "queries.yaml")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	promtool(t, "check", "rules", path)
}

// A selector is what a query selects: a metric's name, and the labels that it asks for.
type selector struct {
	name   string
	labels []string
}

func selectors(t *testing.T, place, expr string) (found []selector) {
	t.Helper()
	parsed, err := metricsql.Parse(expr)
	require.NoError(t, err, "%s: %s", place, expr)
	metricsql.VisitAll(parsed, func(e metricsql.Expr) {
		metric, ok := e.(*metricsql.MetricExpr)
		if !ok {
			return
		}
		for _, filters := range metric.LabelFilterss {
			var s selector
			for _, f := range filters {
				if f.Label == "__name__" {
					s.name = f.Value
				} else {
					s.labels = append(s.labels, f.Label)
				}
			}
			found = append(found, s)
		}
	})
	require.NotEmpty(t, found, "%s: %s", place, expr)
	return found
}

// Prometheus itself has these: the labels it puts on all series, and the series of its alerts.
var (
	labelsOfPrometheus = []string{"job", "instance"}
	seriesOfPrometheus = []string{"ALERTS"}
)

// checkQueries checks that each metric which a query selects is there, with the labels by which it is selected.
func checkQueries(t *testing.T, scraped map[series]string) {
	t.Helper()
	shown := map[string]string{} // the labels by the name
	for s := range scraped {
		shown[s.name] = s.labels
	}
	_, records := rules(t)
	ours := map[string]bool{}
	for place, expr := range queries(t) {
		for _, s := range selectors(t, place, expr) {
			if records[s.name] || slices.Contains(seriesOfPrometheus, s.name) {
				continue
			}
			labels, found := shown[s.name]
			require.True(t, found, "%s: no %s in\n%s", place, s.name, strings.Join(slices.Sorted(maps.Keys(shown)), "\n"))
			for _, label := range s.labels {
				require.True(t, slices.Contains(labelsOfPrometheus, label) || strings.Contains(labels, label+`="`),
					"%s: %s has no label %s", place, s.name, label)
			}
			ours[s.name] = true
		}
	}
	require.Greater(t, len(ours), 25)
	for _, page := range []string{"../../docs/3am.md", "../../docs/metrics.md", "README.md"} {
		for _, name := range regexp.MustCompile(`\bheadgate_\w+`).FindAllString(readFile(t, page), -1) {
			if _, found := shown[name]; !found {
				require.Contains(t, notMetrics, name, page)
			}
		}
	}
}

// notMetrics are names in documents that are no metric's: details in the access log, and what Envoy makes of a stat
// without the rules.
var notMetrics = []string{
	"headgate_rejected", "headgate_expired", "headgate_breaker_open", "headgate_ambiguous", "headgate_model_inflight",
}

var statLine = regexp.MustCompile(`(?m)^(?:\S+\.)?wasmcustom\.headgate\.(?:([A-Za-z0-9_-]+)\.)?(\w+): (.*)$`)

// checkLabels compares a scrape with Envoy's stats: every stat of a pool has the pool's name as its only label, whatever
// the name is; every other stat has no label.
func checkLabels(t *testing.T, scraped map[series]string, stats string) {
	t.Helper()
	pools, global := map[string]bool{}, 0
	for _, m := range statLine.FindAllStringSubmatch(stats, -1) {
		pool, name, value := m[1], m[2], m[3]
		if value == "No recorded values" { // Prometheus is not told of such a histogram
			continue
		}
		s := series{name: "headgate_" + name}
		if strings.HasPrefix(value, "P0(") {
			s.name += "_count"
		}
		if pool != "" {
			s.labels = `pool="` + pool + `"`
			pools[pool] = true
		} else {
			global++
		}
		require.Contains(t, scraped, s)
	}
	require.Len(t, pools, 7)
	require.Equal(t, 4, global)
	labels := regexp.MustCompile(`^(pool="[A-Za-z0-9_-]+"(,le="[^"]*")?)?$`)
	for s := range scraped {
		require.Regexp(t, labels, s.labels, s.name)
	}
}

// checkBounds checks that the bounds of a histogram in milliseconds fit waits from a millisecond to ten minutes.
func checkBounds(t *testing.T, scraped map[series]string, name string) {
	t.Helper()
	var bounds []float64
	bound := regexp.MustCompile(`,le="([\d.]+)"$`)
	for s := range scraped {
		if m := bound.FindStringSubmatch(s.labels); m != nil && s.name == name {
			value, err := strconv.ParseFloat(m[1], 64)
			require.NoError(t, err)
			bounds = append(bounds, value)
		}
	}
	slices.Sort(bounds)
	bounds = slices.Compact(bounds)
	require.NotEmpty(t, bounds)
	require.Equal(t, 1.0, bounds[0])
	require.Equal(t, float64((10 * time.Minute).Milliseconds()), bounds[len(bounds)-1])
	for i := 1; i < len(bounds); i++ {
		require.LessOrEqual(t, bounds[i], 2.5*bounds[i-1], "a percentile between these two would say little")
	}
}
