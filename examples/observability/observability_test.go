// Package observability_test tries the dashboard and the alerts: with promtool, with Grafana's schema, and against what
// a real Envoy shows.
package observability_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// promtool runs promtool, which takes the files or not.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	binary, err := exec.LookPath("promtool")
	require.NoError(t, err, "promtool comes with Prometheus: `apt-get install prometheus`, or .ci/run, which does so")
	out, err := exec.Command(binary, args...).CombinedOutput()
	require.NoError(t, err, "promtool %s:\n%s", strings.Join(args, " "), out)
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// readYAML reads a file that has the fields of value, and no others if value is a struct.
func readYAML(t *testing.T, path string, value any) {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(readFile(t, path)))
	decoder.KnownFields(true)
	require.NoError(t, decoder.Decode(value), path)
}

type rule struct {
	Alert       string            `yaml:",omitempty"`
	Record      string            `yaml:",omitempty"`
	Expr        string            `yaml:",omitempty"`
	For         string            `yaml:",omitempty"`
	Labels      map[string]string `yaml:",omitempty"`
	Annotations map[string]string `yaml:",omitempty"`
}

type ruleFile struct {
	Groups []struct {
		Name  string
		Rules []rule
	}
}

// rules are the rules of rules.yaml: the alerts, and the names that it records.
func rules(t *testing.T) (alerts []rule, records map[string]bool) {
	t.Helper()
	var file ruleFile
	readYAML(t, "rules.yaml", &file)
	records = map[string]bool{}
	for _, group := range file.Groups {
		for _, r := range group.Rules {
			if r.Record != "" {
				records[r.Record] = true
			} else {
				alerts = append(alerts, r)
			}
		}
	}
	require.NotEmpty(t, alerts)
	return alerts, records
}

func TestPrometheusTakesItsConfigurationAndTheRules(t *testing.T) {
	promtool(t, "check", "config", "prometheus.yaml")
	promtool(t, "check", "rules", "rules.yaml")
}

func TestAlertsFireWhenTheyShould(t *testing.T) {
	promtool(t, "test", "rules", "rules_test.yaml")
}

// promtool passes over an alert that no case names. A case is quiet if more pools or Envoys are in it than alerts.
func TestEachAlertHasACaseInWhichItFiresAndOneInWhichItDoesNot(t *testing.T) {
	var file struct {
		Tests []struct {
			InputSeries    []struct{ Series string } `yaml:"input_series"`
			AlertRuleTests []struct {
				Alertname string
				Expected  []any `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(readFile(t, "rules_test.yaml")), &file))
	fires, quiet := map[string]bool{}, map[string]bool{}
	place := regexp.MustCompile(`instance="[^"]*"(,pool="[^"]*")?`)
	for _, c := range file.Tests {
		places := map[string]bool{}
		for _, s := range c.InputSeries {
			places[place.FindString(s.Series)] = true
		}
		for _, a := range c.AlertRuleTests {
			fires[a.Alertname] = fires[a.Alertname] || len(a.Expected) > 0
			quiet[a.Alertname] = quiet[a.Alertname] || len(a.Expected) < len(places)
		}
	}
	alerts, _ := rules(t)
	for _, a := range alerts {
		require.True(t, fires[a.Alert], "no case in rules_test.yaml in which %s fires", a.Alert)
		require.True(t, quiet[a.Alert], "no case in rules_test.yaml in which %s does not fire", a.Alert)
	}
}

// anchors are the fragments by which GitHub knows a page's headings.
func anchors(text string) (found []string) {
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		kept := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		found = append(found, strings.ReplaceAll(kept, " ", "-"))
	}
	return found
}

const repository = "https://github.com/headgate/headgate/blob/main/"

func TestEachAlertSaysWhatToDo(t *testing.T) {
	alerts, _ := rules(t)
	for _, a := range alerts {
		require.Contains(t, []string{"page", "ticket", "info"}, a.Labels["severity"], a.Alert)
		require.NotEmpty(t, a.Annotations["summary"], a.Alert)
		require.NotEmpty(t, a.Annotations["description"], a.Alert)
		link, found := strings.CutPrefix(a.Annotations["runbook_url"], repository)
		require.True(t, found, "%s: %s", a.Alert, a.Annotations["runbook_url"])
		page, anchor, _ := strings.Cut(link, "#")
		require.Contains(t, anchors(readFile(t, "../../"+page)), anchor, a.Alert)
	}
}

// What docs/3am.md sends people to is there: panels, which it writes *so*, and alerts. It speaks of all alerts.
func TestTheRunbookNamesPanelsAndAlertsThatExist(t *testing.T) {
	text := readFile(t, "../../docs/3am.md")
	var titles, alertNames []string
	for _, p := range panels(t) {
		titles = append(titles, *p.Title)
	}
	named := regexp.MustCompile(`\*([^*\n]+)\*`).FindAllStringSubmatch(text, -1)
	require.Greater(t, len(named), 10)
	for _, m := range named {
		require.Contains(t, titles, m[1])
	}
	alerts, _ := rules(t)
	for _, a := range alerts {
		alertNames = append(alertNames, a.Alert)
		require.Contains(t, text, a.Alert)
	}
	for _, name := range regexp.MustCompile(`\bHeadgate[A-Z]\w+`).FindAllString(text, -1) {
		require.Contains(t, alertNames, name)
	}
	for _, m := range regexp.MustCompile(`"((?:429|503): [^"]+)"`).FindAllStringSubmatch(text, -1) {
		require.Contains(t, rawPanel(t, "Outcomes by reason"), `"`+m[1]+`"`)
	}
}

// board is the form of dashboards in files. The other one is for Grafana's newer API.
type board = dashboard.Dashboard //nolint:staticcheck // deprecated in favour of the other one

// readDashboard reads dashboard.json by Grafana's schema, which it must fit: no field is there that the schema lacks, and
// none is missing that the schema needs. The strict reading finds problems, but keeps no panels.
func readDashboard(t *testing.T) (read board) {
	t.Helper()
	runtime := cog.NewRuntime()
	runtime.RegisterPanelcfgVariant(heatmap.VariantConfig())
	runtime.RegisterPanelcfgVariant(stat.VariantConfig())
	runtime.RegisterPanelcfgVariant(timeseries.VariantConfig())
	runtime.RegisterDataqueryVariant(prometheus.VariantConfig())
	text := []byte(readFile(t, "dashboard.json"))
	var problems cog.BuildErrors // it returns them even if there are none
	require.ErrorAs(t, new(board).UnmarshalJSONStrict(text), &problems)
	require.Empty(t, problems)
	require.NoError(t, json.Unmarshal(text, &read))
	return read
}

// panels are the panels that show something, and the rows' titles are left out.
func panels(t *testing.T) (found []dashboard.Panel) {
	t.Helper()
	for _, p := range readDashboard(t).Panels {
		if p.Panel != nil {
			found = append(found, *p.Panel)
		}
	}
	require.NotEmpty(t, found)
	return found
}

func TestGrafanaTakesTheDashboard(t *testing.T) {
	file := readDashboard(t)
	require.GreaterOrEqual(t, file.SchemaVersion, uint16(41))
	require.NotNil(t, file.Uid)
	ids := map[uint32]bool{}
	taken := map[[2]uint32]string{}
	for _, p := range panels(t) {
		require.NotNil(t, p.Title)
		title := *p.Title
		require.False(t, ids[*p.Id], "%s: its id is another panel's", title)
		ids[*p.Id] = true
		require.NotEmpty(t, p.Description, title)
		require.NotEmpty(t, p.Targets, title)
		require.Equal(t, "${datasource}", *p.Datasource.Uid, title)
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			require.Less(t, x, uint32(24), title)
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				require.Empty(t, taken[[2]uint32{x, y}], "%s lies over another panel", title)
				taken[[2]uint32{x, y}] = title
			}
		}
	}
}

// A length of time has the unit of its metric, and a share is a percentage.
func TestPanelsHaveTheUnitsOfTheirMetrics(t *testing.T) {
	for _, p := range panels(t) {
		unit := p.FieldConfig.Defaults.Unit
		for _, target := range p.Targets {
			query, ok := target.(*prometheus.Dataquery)
			require.True(t, ok, "%s: %T", *p.Title, target)
			switch {
			case p.Type == "heatmap": // its axis has the unit
				require.Contains(t, rawPanel(t, *p.Title), `"unit": "ms"`)
			case strings.Contains(query.Expr, "_ms_bucket"):
				require.Equal(t, "ms", *unit, *p.Title)
			case strings.Contains(query.Expr, "/ ("):
				require.Equal(t, "percentunit", *unit, *p.Title)
			case strings.Contains(query.Expr, "rate("):
				require.Contains(t, []string{"reqps", "ops"}, *unit, *p.Title)
			default:
				require.Equal(t, "short", *unit, *p.Title)
			}
		}
	}
}

// rawPanel is a panel as it is written.
func rawPanel(t *testing.T, title string) string {
	t.Helper()
	var file struct{ Panels []map[string]any }
	require.NoError(t, json.Unmarshal([]byte(readFile(t, "dashboard.json")), &file))
	for _, p := range file.Panels {
		if p["title"] == title {
			text, err := json.MarshalIndent(p, "", "  ")
			require.NoError(t, err)
			return string(text)
		}
	}
	t.Fatalf("no panel %s", title)
	return ""
}

// The folders that compose.yaml mounts into Grafana are those that the provisioning speaks of.
func TestComposeMountsWhatTheProvisioningReads(t *testing.T) {
	var file struct {
		Include  []string
		Services map[string]struct {
			Image       string
			NetworkMode string `yaml:"network_mode"`
			Command     []string
			Environment map[string]string
			Volumes     []string
			Ports       []string
			DependsOn   []string `yaml:"depends_on"`
		}
	}
	readYAML(t, "compose.yaml", &file)
	var mounted []string
	for name, service := range file.Services {
		require.NotContains(t, service.Image, "latest", name)
		for _, port := range service.Ports {
			require.True(t, strings.HasPrefix(port, "127.0.0.1:"), "%s: %s", name, port)
		}
		for _, volume := range service.Volumes {
			source, target, _ := strings.Cut(volume, ":")
			_, err := os.Stat(source)
			require.NoError(t, err, "%s: %s", name, volume)
			mounted = append(mounted, strings.TrimSuffix(target, ":ro"))
		}
	}
	for _, include := range file.Include {
		require.FileExists(t, include)
	}
	var provider struct {
		APIVersion int `yaml:"apiVersion"`
		Providers  []struct {
			Name, Type string
			Options    struct{ Path string }
		}
	}
	readYAML(t, "grafana/provisioning/dashboards/headgate.yaml", &provider)
	require.Len(t, provider.Providers, 1)
	require.Contains(t, mounted, provider.Providers[0].Options.Path+"/dashboard.json")
	require.Contains(t, file.Services["grafana"].Environment, "PROMETHEUS_URL")
	require.Contains(t, readFile(t, "grafana/provisioning/datasources/prometheus.yaml"), "${PROMETHEUS_URL}")
	require.Contains(t, readFile(t, "prometheus.yaml"), "rule_files: [rules.yaml]")
}
