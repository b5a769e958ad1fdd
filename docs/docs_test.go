// Package docs_test holds the documents to the code: what they show is tried, what they list is compared.
package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/config"
	"github.com/headgate/headgate/admission/request"
	"github.com/headgate/headgate/filter"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// pages are the documents: docs/*.md and those at the top of the tree.
func pages(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("*.md")
	require.NoError(t, err)
	require.NotEmpty(t, found)
	top, err := filepath.Glob("../*.md")
	require.NoError(t, err)
	require.Contains(t, top, "../README.md")
	return append(found, top...)
}

func TestJSONBlocksAreConfigurations(t *testing.T) {
	block := regexp.MustCompile("(?s)```json\n(.*?)\n```(?:\n+Refused: `([^\n]*)`)?")
	tried := 0
	for _, page := range pages(t) {
		for _, m := range block.FindAllStringSubmatch(read(t, page), -1) {
			tried++
			_, err := config.Parse([]byte(m[1]))
			if m[2] == "" {
				require.NoError(t, err, "%s:\n%s", page, m[1])
			} else {
				require.EqualError(t, err, m[2], "%s:\n%s", page, m[1])
			}
		}
	}
	require.GreaterOrEqual(t, tried, 6)
}

func TestYAMLBlocksAreYAML(t *testing.T) {
	for _, page := range pages(t) {
		for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(read(t, page), -1) {
			var v any
			require.NoError(t, yaml.Unmarshal([]byte(m[1]), &v), "%s:\n%s", page, m[1])
		}
	}
}

// table is the cells of the rows below a page's header row, code marks left as they are.
func table(t *testing.T, text, header string) (rows [][]string) {
	t.Helper()
	_, below, found := strings.Cut(text, "\n"+header+"\n")
	require.True(t, found, "no table %s", header)
	for line := range strings.Lines(below) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "|-") {
			break
		}
		if strings.HasPrefix(line, "| ") {
			rows = append(rows, strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "| "), " |"), " | "))
		}
	}
	require.NotEmpty(t, rows, "no rows below %s", header)
	return rows
}

func code(cell string) string { return strings.Trim(cell, "`") }

// fragment is a configuration that has what a table shows, in the place that the table names.
func fragment(t *testing.T, place, shown string) []byte {
	t.Helper()
	pool := `{"name": "p", "limit": 1}`
	switch place {
	case "the configuration":
		return []byte(`{"pools": [` + pool + `], ` + shown + `}`)
	case "`identity`":
		return []byte(`{"pools": [` + pool + `], "identity": {` + shown + `}}`)
	case "`routes`":
		return []byte(`{"pools": [` + pool + `], "routes": [` + shown + `]}`)
	case "a model source":
		return []byte(`{"pools": [` + pool + `], "identity": {"model": [` + shown + `]}}`)
	case "a pool":
		if strings.HasPrefix(shown, `"limit"`) {
			return []byte(`{"pools": [{"name": "p", ` + shown + `}]}`)
		}
		return []byte(`{"pools": [{"name": "p", "limit": 1, ` + shown + `}]}`)
	}
	t.Fatalf("unknown place %q", place)
	return nil
}

func TestRefusalsAreWhatTheParserSays(t *testing.T) {
	for _, row := range table(t, read(t, "configuration.md"), "| in | written | the error |") {
		require.Len(t, row, 3, "%q", row)
		_, err := config.Parse(fragment(t, row[0], code(row[1])))
		require.EqualError(t, err, code(row[2]), "%q", row)
	}
}

func errorText(err error) string {
	if err == nil {
		return "nothing is refused"
	}
	return err.Error()
}

func parseGo(t *testing.T, path string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	require.NoError(t, err)
	return f
}

// Every name that the parser knows is in the reference.
func TestEveryFieldIsDescribed(t *testing.T) {
	text := read(t, "configuration.md")
	for _, c := range []struct{ config, prefix string }{
		{`{"?": 1}`, ""},
		{`{"deadline": {"?": 1}, "pools": [{"name": "p", "limit": 1}]}`, ""},
		{`{"identity": {"?": 1}, "pools": [{"name": "p", "limit": 1}]}`, ""},
		{`{"identity": {"model": [{"?": 1}]}, "pools": [{"name": "p", "limit": 1}]}`, ""},
		{`{"identity": {"model": [{"json_body": "m", "?": 1}]}, "pools": [{"name": "p", "limit": 1}]}`, ""},
		{`{"identity": {"model": [{"header": "m", "?": 1}]}, "pools": [{"name": "p", "limit": 1}]}`, ""},
		{`{"pools": [{"name": "p", "limit": 1, "?": 1}]}`, ""},
		{`{"pools": [{"name": "p", "limit": 1, "key": ["model"], "keys": {"a": {"limit": 1, "?": 1}}}]}`, ""},
		{`{"pools": [{"name": "p", "limit": 1, "match": {"?": 1}}]}`, ""},
		{`{"pools": [{"name": "p", "limit": 1, "hold": {"?": 1}}]}`, "hold."},
		{`{"pools": [{"name": "p", "limit": 1, "breaker": {"?": 1}}]}`, "breaker."},
		{`{"pools": [{"name": "p", "limit": 1, "headroom": {"?": 1}}]}`, "headroom."},
	} {
		_, err := config.Parse([]byte(c.config))
		_, names, found := strings.Cut(errorText(err), "is not a field here (want ")
		require.True(t, found, "%s: %v", c.config, err)
		for name := range strings.SplitSeq(strings.TrimSuffix(names, ")"), ", ") {
			require.Regexp(t, "`"+regexp.QuoteMeta(c.prefix+name)+"`|\""+name+"\"", text, "%s of %s", name, c.config)
		}
	}
}

func TestSpellingsAreGovernedAsShown(t *testing.T) {
	const pattern = "POST /chat/completions"
	cfg, err := config.Parse(fragment(t, "`routes`", `"`+pattern+`"`))
	require.NoError(t, err)
	for _, row := range table(t, read(t, "configuration.md"), "| sent | governed by `"+pattern+"` |") {
		_, governed := request.MatchRoute(cfg.Routes, "POST", code(row[0]))
		require.Equal(t, row[1] == "yes", governed, row[0])
	}
}

func TestDeadlinesMeanWhatIsSaid(t *testing.T) {
	for _, c := range []struct {
		header, value string
		want          admission.Duration
	}{
		{"grpc-timeout", "5m", 5 * admission.Millisecond}, {"x-deadline", "5m", 5 * admission.Minute},
		{"grpc-timeout", "5M", 5 * admission.Minute}, {"x-deadline", "5M", 5 * admission.Minute},
		{"x-deadline", "5", 5 * admission.Millisecond}, {"x-deadline", "1.5s", 1500 * admission.Millisecond},
		{"x-deadline", "10S", 10 * admission.Second}, {"x-deadline", "500u", 500 * admission.Microsecond},
	} {
		d, ok := request.ParseDeadline(&config.DeadlineHeader{Name: c.header}, c.value)
		require.True(t, ok, "%v", c)
		require.Equal(t, c.want, d, "%v", c)
	}
	for _, value := range []string{"", "-1", "1.5", "1e3", "soon"} {
		_, ok := request.ParseDeadline(&config.DeadlineHeader{Name: "x-deadline"}, value)
		require.False(t, ok, value)
	}
}

func TestStatsAreThoseOfTheCode(t *testing.T) {
	text := read(t, "metrics.md")
	parts := strings.SplitN(text, "\n## The whole filter\n", 2)
	require.Len(t, parts, 2)
	pool, global := statsInCode(t)
	for at, want := range []map[string]string{pool, global} {
		got := map[string]string{}
		for _, row := range table(t, parts[at], "| stat | type | unit | what it says | counted over |") {
			require.Len(t, row, 5, "%q", row)
			for _, cell := range row {
				require.NotEmpty(t, strings.TrimSpace(cell), "%q", row)
			}
			require.NotContains(t, got, code(row[0]))
			require.Equal(t, strings.HasSuffix(code(row[0]), "_ms"), row[2] == "milliseconds", "the unit of %s", row[0])
			got[code(row[0])] = row[1]
		}
		require.Equal(t, want, got)
	}
	for name := range pool {
		if strings.HasPrefix(name, "rejected_") || strings.HasPrefix(name, "expired_") {
			_, identity, _ := strings.Cut(text, "**The identity.**")
			require.Contains(t, identity[:strings.Index(identity, "In shadow mode")], name)
		}
	}
}

// The stats_config that metrics.md shows is envoy.yaml's. It makes a label of a pool's name, in the pools' stats alone.
func TestTheStatsConfigurationIsThatOfTheBootstrap(t *testing.T) {
	var shown, used struct {
		StatsConfig struct {
			Tags []struct {
				Name  string `yaml:"tag_name"`
				Regex string
			} `yaml:"stats_tags"`
			Buckets any `yaml:"histogram_bucket_settings"`
		} `yaml:"stats_config"`
	}
	_, block, found := strings.Cut(read(t, "metrics.md"), "```yaml\nstats_config:")
	require.True(t, found)
	block, _, _ = strings.Cut("stats_config:"+block, "```")
	require.NoError(t, yaml.Unmarshal([]byte(block), &shown))
	require.NoError(t, yaml.Unmarshal([]byte(read(t, "../envoy/envoy.yaml")), &used))
	require.Len(t, used.StatsConfig.Tags, 2)
	require.Equal(t, used.StatsConfig, shown.StatsConfig)
	tags := map[string]*regexp.Regexp{}
	for _, tag := range used.StatsConfig.Tags {
		tags[tag.Name] = regexp.MustCompile(tag.Regex)
	}
	pool, global := statsInCode(t)
	const scope = "cluster.a-b.c." // what an Envoy before 1.39 puts before the names
	for stat := range pool {
		for _, before := range []string{"", scope} {
			require.Equal(t, []string{"a-B_9.", "a-B_9"},
				tags["pool"].FindStringSubmatch(before + "wasmcustom.headgate.a-B_9." + stat)[1:])
		}
		require.Equal(t, []string{scope, "cluster.a-b.c"},
			tags["scope"].FindStringSubmatch(scope + "wasmcustom.headgate.a-B_9." + stat)[1:])
		require.False(t, tags["scope"].MatchString("wasmcustom.headgate.a-B_9."+stat))
	}
	for _, other := range append(slices.Collect(maps.Keys(global)), "fleet.state", "fleet.calls", "fleet.lease_ms") {
		require.False(t, tags["pool"].MatchString("wasmcustom.headgate."+other), other)
	}
}

// What metrics.md has Prometheus do with the names of an Envoy without the stats_tags. Prometheus anchors its expressions.
func TestRelabellingFindsThePoolInEachName(t *testing.T) {
	var rules []string
	for _, m := range regexp.MustCompile(`(?m)^    regex: '(headgate_.*)'$`).FindAllStringSubmatch(read(t, "metrics.md"), -1) {
		rules = append(rules, m[1])
	}
	require.Len(t, rules, 2)
	require.Equal(t, rules[0], rules[1])
	relabel := regexp.MustCompile("^(?:" + rules[0] + ")$")
	pool, global := statsInCode(t)
	for _, name := range []string{"model", "my_provider", "a_keys", "shadow", "x_rejected"} {
		for stat, kind := range pool {
			suffixes := []string{""}
			if kind == "histogram" {
				suffixes = []string{"_bucket", "_sum", "_count"}
			}
			for _, suffix := range suffixes {
				require.Equal(t, []string{name, stat + suffix},
					relabel.FindStringSubmatch("headgate_" + name + "_" + stat + suffix)[1:])
			}
		}
	}
	for stat := range global {
		require.False(t, relabel.MatchString("headgate_"+stat), stat)
	}
}

// statsInCode reads the definitions in filter/metrics.go: the kind of each stat, by its name. A pool's stat fills a
// variable.
func statsInCode(t *testing.T) (pool, global map[string]string) {
	t.Helper()
	pool, global = map[string]string{}, map[string]string{}
	definition := regexp.MustCompile(`Kind(Counter|Gauge|Histogram), "(\w+)"(?:, &([\w.]+)\})?`)
	for _, m := range definition.FindAllStringSubmatch(read(t, "../filter/metrics.go"), -1) {
		kind, name, variable := strings.ToLower(m[1]), m[2], m[3]
		if variable == "" {
			global[name] = kind
		} else {
			pool[name] = kind
		}
	}
	require.Greater(t, len(pool), 20, "is this still how filter/metrics.go defines a pool's stats?")
	require.NotEmpty(t, global, "is this still how filter/metrics.go defines the filter's own stats?")
	require.Contains(t, pool, "on_hold")
	return pool, global
}

// grpcNames are the names of the gRPC statuses that a refusal can have.
var grpcNames = map[int32]string{3: "INVALID_ARGUMENT", 8: "RESOURCE_EXHAUSTED", 14: "UNAVAILABLE"}

// Every table of refusals has exactly the refusals that the code has.
func TestRefusalsAreThoseOfTheCode(t *testing.T) {
	var clients, grpc, logged [][]string
	for _, r := range filter.Replies() {
		status, reason := strconv.Itoa(int(r.Status)), "`"+r.Reason+"`"
		require.Contains(t, grpcNames, r.GRPC, "%s: the name of its gRPC status", r.Reason)
		clients = append(clients, []string{status, reason})
		grpc = append(grpc, []string{status, strconv.Itoa(int(r.GRPC)) + ", " + grpcNames[r.GRPC], reason})
		logged = append(logged, []string{"`" + r.Outcome + "`", "`" + r.Details + "`", status, reason})
	}
	require.NotEmpty(t, clients)
	upstreams := func(row []string) bool { return slices.Contains(row, "the upstream's") }
	for _, c := range []struct {
		page, header string
		skipped      int // columns in front
		want         [][]string
	}{
		{"../README.md", "| outcome | status | `x-headgate-reason` |", 1, clients},
		{"configuration.md", "| outcome | status | gRPC status | `x-headgate-reason` |", 1, grpc},
		{"metrics.md", "| `outcome` | response code details | status | `x-headgate-reason` |", 0, logged},
	} {
		var got [][]string
		for _, row := range slices.DeleteFunc(table(t, read(t, c.page), c.header), upstreams) {
			got = append(got, row[c.skipped:])
		}
		require.ElementsMatch(t, c.want, got, c.page)
	}
	_, troubleshooting, _ := strings.Cut(read(t, "operations.md"), "\n## Troubleshooting\n")
	for _, r := range filter.Replies() {
		require.Contains(t, troubleshooting, "`"+r.Reason+"`", "operations.md, Troubleshooting")
		require.Contains(t, read(t, "configuration.md"), "`"+r.Kind+"`", "configuration.md, the type of the error")
	}
}

// Each line that the filter logs is in operations.md, by its text up to the first thing that is put in.
func TestLogLinesAreListed(t *testing.T) {
	text := read(t, "operations.md")
	files, err := filepath.Glob("../filter/*.go")
	require.NoError(t, err)
	more, err := filepath.Glob("../filter/*/*.go")
	require.NoError(t, err)
	line := regexp.MustCompile(`(?:\bLog\((?:abi\.)?Log\w+, |what := )"([^"]+)"`)
	found := map[string]bool{}
	for _, file := range append(files, more...) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range line.FindAllStringSubmatch(read(t, file), -1) {
			found[m[1]] = true
			require.Contains(t, text, "| `"+m[1], "a line that %s logs", file)
		}
	}
	rows := table(t, text, "| line | level | what it means | what to do |")
	require.Len(t, rows, len(found), "rows against %v", slices.Sorted(maps.Keys(found)))
}

func TestRecordBytesAreThoseOfTheCode(t *testing.T) {
	constants := map[string]string{}
	for _, file := range []string{"../admission/record.go", "../admission/queue.go"} {
		ast.Inspect(parseGo(t, file), func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == 1 {
				if l, ok := v.Values[0].(*ast.BasicLit); ok {
					constants[v.Names[0].Name] = l.Value
				}
			}
			return true
		})
	}
	var bytes []string
	text := read(t, "operations.md")
	for _, row := range table(t, text, "| part of a record | bytes |") {
		bytes = append(bytes, row[1])
	}
	c := constants
	require.Equal(t, []string{c["headBytes"], "its length, at most " + c["MaxName"], c["tenantBytes"], c["orderBytes"],
		c["columnBytes"], c["holderBytes"], c["holdBytes"], c["ticketBytes"]}, bytes)
	require.Contains(t, text, "at most "+c["maxRecordTenants"]+" tenants")
	require.Contains(t, text, "last "+c["idleTenants"]+" to "+c["maxIdleTenants"]+" that had")
	number := func(name string) int {
		n, err := strconv.Atoi(c[name])
		require.NoError(t, err, name)
		return n
	}
	head, tenant, column := number("headBytes"), number("tenantBytes"), number("columnBytes")
	order, holder, ticket := number("orderBytes"), number("holderBytes"), number("ticketBytes")
	require.Contains(t, strings.Join(strings.Fields(text), " "), fmt.Sprintf("%d + %d + 2 × %d + 8 × %d + 8 × %d + 100 × %d = %d bytes",
		head, tenant, order, column, holder, ticket, head+tenant+2*order+8*column+8*holder+100*ticket))
}

func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := page
			if target != "" {
				file = filepath.Join(filepath.Dir(page), target)
			}
			_, err := os.Stat(file)
			require.NoError(t, err, "%s links to %s", page, m[1])
			if anchor != "" {
				require.Contains(t, anchors(read(t, file)), anchor, "%s links to %s", page, m[1])
			}
		}
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

// The README's last section names every page.
func TestREADMELinksEveryPage(t *testing.T) {
	text := read(t, "../README.md")
	for _, page := range pages(t) {
		if page != "../README.md" {
			require.Contains(t, text, "("+strings.TrimPrefix(filepath.Join("docs", page), "/")+")")
		}
	}
}

// goFiles calls f with every Go file of the tree whose name ends so.
func goFiles(t *testing.T, suffix string, f func(path, text string)) {
	t.Helper()
	found := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && (strings.HasPrefix(name, ".") && name != ".." || name == "node_modules") {
			return filepath.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(path, suffix) {
			found++
			f(path, read(t, path))
		}
		return nil
	})
	require.NoError(t, err)
	require.NotZero(t, found, "files that end in %s", suffix)
}

// caseID is the id of a case or finding where it stands alone, in a test's name or a comment.
var caseID = regexp.MustCompile(`(?:^|[^0-9A-Za-z])(O[0-9]{2}|F[A-D][0-9]{1,2})(?:[^0-9A-Za-z]|$)`)

// Every case that a test cites has its entry.
func TestCasesThatTestsCiteHaveEntries(t *testing.T) {
	entries := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^### (\w+): `).FindAllStringSubmatch(read(t, "cases.md"), -1) {
		require.False(t, entries[m[1]], "%s is there twice", m[1])
		require.Regexp(t, caseID, m[1])
		entries[m[1]] = true
	}
	for n := 1; n <= 30; n++ {
		require.Contains(t, entries, fmt.Sprintf("O%02d", n))
	}
	cited := 0
	goFiles(t, "_test.go", func(path, text string) {
		for _, m := range caseID.FindAllStringSubmatch(text, -1) {
			cited++
			require.Contains(t, entries, m[1], "cited in %s", path)
		}
	})
	require.Greater(t, cited, 50)
}

// Every test that an entry names is there, in the directory under which it stands.
func TestCasesNameTestsThatExist(t *testing.T) {
	tests := map[string]map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	goFiles(t, "_test.go", func(path, text string) {
		dir := strings.Split(filepath.ToSlash(path), "/")[1]
		if tests[dir] == nil {
			tests[dir] = map[string]bool{}
		}
		for _, m := range declared.FindAllStringSubmatch(text, -1) {
			tests[dir][m[1]] = true
		}
	})
	quoted := regexp.MustCompile("`([^`]+)`(:?)")
	named := 0
	for _, entry := range strings.Split(read(t, "cases.md"), "\n### ")[1:] {
		id, _, _ := strings.Cut(entry, ":")
		_, list, found := strings.Cut(entry, "- **Tests:** ")
		require.True(t, found, "%s says nothing of tests", id)
		list, _, _ = strings.Cut(list, "\n\n")
		require.Regexp(t, "`Test|^No Go test\\.|^Not tested yet", list, id)
		dir := ""
		for _, m := range quoted.FindAllStringSubmatch(list, -1) {
			switch {
			case m[2] == ":":
				dir = m[1]
				require.Contains(t, tests, dir, id)
			case strings.HasPrefix(m[1], "Test"):
				named++
				require.Contains(t, tests[dir], m[1], "%s names it under %s", id, dir)
			}
		}
	}
	require.Greater(t, named, 80)
}

// Each target of make that a document names is in the Makefile.
func TestMakeTargetsExist(t *testing.T) {
	makefile := read(t, "../Makefile")
	for _, page := range pages(t) {
		for _, m := range regexp.MustCompile("(?m)(?:`|^)make ([a-z-]+)").FindAllStringSubmatch(read(t, page), -1) {
			require.Regexp(t, `(?m)^`+m[1]+`:`, makefile, "%s names make %s", page, m[1])
		}
	}
}

// CONTRIBUTING's layout covers every directory that has Go code, but for testdata, and names none that isn't there.
func TestTheLayoutIsThatOfTheTree(t *testing.T) {
	listed := map[string]bool{}
	for _, row := range table(t, read(t, "../CONTRIBUTING.md"), "| directory | what it holds |") {
		require.Len(t, row, 2, "%q", row)
		dir := strings.TrimSuffix(code(row[0]), "/")
		info, err := os.Stat("../" + dir)
		require.NoError(t, err)
		require.True(t, info.IsDir(), dir)
		listed[dir] = true
	}
	goFiles(t, ".go", func(path, _ string) {
		dir := filepath.ToSlash(filepath.Dir(strings.TrimPrefix(path, "../")))
		if strings.Contains(dir, "testdata") {
			return
		}
		for ; dir != "."; dir = filepath.ToSlash(filepath.Dir(dir)) {
			if listed[dir] {
				return
			}
		}
		t.Errorf("%s is in no directory of the layout", path)
	})
}

// Each `go test` that CONTRIBUTING shows runs in a package that is there, with flags that its tests declare.
func TestShownTestCommandsExist(t *testing.T) {
	text := read(t, "../CONTRIBUTING.md")
	shown := regexp.MustCompile("go test (\\./[\\w/]+)([^`\n]*)").FindAllStringSubmatch(text, -1)
	require.NotEmpty(t, shown)
	for _, m := range shown {
		files, err := filepath.Glob("../" + m[1] + "/*_test.go")
		require.NoError(t, err)
		require.NotEmpty(t, files, m[0])
		var tests strings.Builder
		for _, file := range files {
			tests.WriteString(read(t, file))
		}
		for word := range strings.FieldsSeq(m[2]) {
			name, isFlag := strings.CutPrefix(word, "-")
			name, _, _ = strings.Cut(name, "=")
			if isFlag && !slices.Contains([]string{"run", "v", "count", "fuzz", "bench"}, name) {
				require.Regexp(t, `flag\.\w+\("`+name+`"`, tests.String(), m[0])
			}
		}
	}
}

// GitHub's forms are YAML of the shape that GitHub takes.
func TestIssueFormsAreForms(t *testing.T) {
	files, err := filepath.Glob("../.github/ISSUE_TEMPLATE/*.yml")
	require.NoError(t, err)
	require.Len(t, files, 3, "a form for bugs, one for features, and config.yml")
	for _, file := range files {
		decoder := yaml.NewDecoder(strings.NewReader(read(t, file)))
		decoder.KnownFields(true)
		if filepath.Base(file) == "config.yml" {
			var config struct {
				Blank    bool                                `yaml:"blank_issues_enabled"`
				Contacts []struct{ Name, URL, About string } `yaml:"contact_links"`
			}
			require.NoError(t, decoder.Decode(&config), file)
			continue
		}
		var form struct {
			Name, Description, Title string
			Labels                   []string
			Body                     []struct {
				Type, ID   string
				Attributes struct {
					Label, Description, Placeholder, Value, Render string
					Options                                        []string
				}
				Validations struct{ Required bool }
			}
		}
		require.NoError(t, decoder.Decode(&form), file)
		require.NotEmpty(t, form.Name, file)
		require.NotEmpty(t, form.Description, file)
		ids := map[string]bool{}
		for _, part := range form.Body {
			require.Contains(t, []string{"markdown", "input", "textarea", "dropdown"}, part.Type, file)
			if part.Type == "markdown" {
				require.NotEmpty(t, part.Attributes.Value, file)
				continue
			}
			require.NotEmpty(t, part.Attributes.Label, file)
			require.Regexp(t, `^[a-z-]+$`, part.ID, file)
			require.False(t, ids[part.ID], "%s: %s is there twice", file, part.ID)
			require.Equal(t, part.Type == "dropdown", len(part.Attributes.Options) > 0, "%s: %s", file, part.ID)
			ids[part.ID] = true
		}
		require.NotEmpty(t, ids, file)
	}
	require.NotEmpty(t, read(t, "../.github/pull_request_template.md"))
}

// The rationale says of every direct dependency in go.mod what it is for, and of nothing else.
func TestDependenciesAreExplained(t *testing.T) {
	direct := regexp.MustCompile(`(?m)^(?:\t|require )(\S+) v\S+$`).FindAllStringSubmatch(read(t, "../go.mod"), -1)
	var required, explained []string
	for _, m := range direct {
		required = append(required, strings.TrimPrefix(m[1], "github.com/"))
	}
	for _, row := range table(t, read(t, "rationale.md"), "| library | what for |") {
		for name := range strings.SplitSeq(row[0], ", ") {
			explained = append(explained, code(name))
		}
	}
	require.ElementsMatch(t, required, explained, "go.mod against docs/rationale.md")
}
