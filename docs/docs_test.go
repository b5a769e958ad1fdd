// Package docs_test holds the documents to the code: what they show is tried, what they list is compared.
package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
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
)

// unbuiltError is what ParseConfig says, behind a field, of a feature that this version does not act on.
const unbuiltError = "is not built into this version yet"

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// pages are the documents: docs/*.md and the README.
func pages(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("*.md")
	require.NoError(t, err)
	require.NotEmpty(t, found)
	return append(found, "../README.md")
}

func TestJSONBlocksAreConfigurations(t *testing.T) {
	block := regexp.MustCompile("(?s)```json\n(.*?)\n```(?:\n+Refused: `([^\n]*)`)?")
	tried := 0
	for _, page := range pages(t) {
		for _, m := range block.FindAllStringSubmatch(read(t, page), -1) {
			tried++
			_, err := admission.ParseConfig([]byte(m[1]))
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
		_, err := admission.ParseConfig(fragment(t, row[0], code(row[1])))
		require.EqualError(t, err, code(row[2]), "%q", row)
	}
}

// The features that feature.go names, by the last part of the refused field, each as often as it is named.
func TestUnbuiltFeaturesAreThoseThatAreRefused(t *testing.T) {
	var listed []string
	seen := map[string]bool{}
	for _, row := range table(t, read(t, "configuration.md"), "| in | refused |") {
		require.Len(t, row, 2, "%q", row)
		require.False(t, seen[row[1]], "%s is there twice", row[1])
		seen[row[1]] = true
		_, err := admission.ParseConfig(fragment(t, row[0], code(row[1])))
		field, problem, _ := strings.Cut(errorText(err), ": ")
		require.Equal(t, unbuiltError, problem, "%q", row)
		listed = append(listed, regexp.MustCompile(`\[\d+\]$`).ReplaceAllString(field[strings.LastIndexByte(field, '.')+1:], ""))
	}
	require.ElementsMatch(t, unbuiltInCode(t), listed, "docs/configuration.md, Not built yet, against admission/feature.go")
}

func errorText(err error) string {
	if err == nil {
		return "nothing is refused"
	}
	return err.Error()
}

// unbuiltInCode is the last part of each field in feature.go's lists; a route's features are its predicates.
func unbuiltInCode(t *testing.T) (fields []string) {
	t.Helper()
	for name, list := range listsOf(t, "../admission/feature.go") {
		if !strings.HasPrefix(name, "unbuilt") {
			continue
		}
		for _, e := range list.Elts {
			field := "routes"
			if entry, ok := e.(*ast.CompositeLit); ok {
				field = literal(t, entry.Elts[0])
			} else {
				require.IsType(t, &ast.FuncLit{}, e, "an entry of %s", name)
			}
			fields = append(fields, field[strings.LastIndexByte(field, '.')+1:])
		}
	}
	require.NotEmpty(t, fields)
	return fields
}

func parseGo(t *testing.T, path string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	require.NoError(t, err)
	return f
}

// listsOf is the package variables of a file that are initialised with a composite literal.
func listsOf(t *testing.T, path string) map[string]*ast.CompositeLit {
	t.Helper()
	lists := map[string]*ast.CompositeLit{}
	ast.Inspect(parseGo(t, path), func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == 1 {
			if list, ok := v.Values[0].(*ast.CompositeLit); ok {
				lists[v.Names[0].Name] = list
			}
		}
		return true
	})
	return lists
}

func literal(t *testing.T, e ast.Expr) string {
	t.Helper()
	l, ok := e.(*ast.BasicLit)
	require.True(t, ok, "not a literal: %T", e)
	s, err := strconv.Unquote(l.Value)
	require.NoError(t, err)
	return s
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
		_, err := admission.ParseConfig([]byte(c.config))
		_, names, found := strings.Cut(errorText(err), "is not a field here (want ")
		require.True(t, found, "%s: %v", c.config, err)
		for name := range strings.SplitSeq(strings.TrimSuffix(names, ")"), ", ") {
			require.Regexp(t, "`"+regexp.QuoteMeta(c.prefix+name)+"`|\""+name+"\"", text, "%s of %s", name, c.config)
		}
	}
}

func TestSpellingsAreGovernedAsShown(t *testing.T) {
	const pattern = "POST /chat/completions"
	config, err := admission.ParseConfig(fragment(t, "`routes`", `"`+pattern+`"`))
	require.NoError(t, err)
	for _, row := range table(t, read(t, "configuration.md"), "| sent | governed by `"+pattern+"` |") {
		_, governed := config.MatchRoute("POST", code(row[0]))
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
		d, ok := admission.ParseDeadline(c.header, c.value)
		require.True(t, ok, "%v", c)
		require.Equal(t, c.want, d, "%v", c)
	}
	for _, value := range []string{"", "-1", "1.5", "1e3", "soon"} {
		_, ok := admission.ParseDeadline("x-deadline", value)
		require.False(t, ok, value)
	}
}

// A stat is a stat's kind, and whether the code says that its feature is still to come.
type stat struct {
	kind   string
	future bool
}

func TestStatsAreThoseOfTheCode(t *testing.T) {
	text := read(t, "metrics.md")
	parts := strings.SplitN(text, "\n## The whole filter\n", 2)
	require.Len(t, parts, 2)
	pool, global := statsInCode(t)
	for at, want := range []map[string]stat{pool, global} {
		got := map[string]stat{}
		for _, row := range table(t, parts[at], "| stat | type | counts |") {
			require.Len(t, row, 3, "%q", row)
			require.NotContains(t, got, code(row[0]))
			got[code(row[0])] = stat{row[1], strings.Contains(row[2], "Zero until")}
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

// statsInCode reads the definitions in filter/metrics.go: a kind and a name, and in a pool's the variable that it fills.
func statsInCode(t *testing.T) (pool, global map[string]stat) {
	t.Helper()
	pool, global = map[string]stat{}, map[string]stat{}
	definition := regexp.MustCompile(`Kind(Counter|Gauge|Histogram), "(\w+)"(?:, &([\w.]+)\})?`)
	for _, m := range definition.FindAllStringSubmatch(read(t, "../filter/metrics.go"), -1) {
		kind, name, variable := strings.ToLower(m[1]), m[2], m[3]
		if variable == "" {
			global[name] = stat{kind: kind}
		} else {
			pool[name] = stat{kind, variable == "future"}
		}
	}
	require.Greater(t, len(pool), 20, "is this still how filter/metrics.go defines a pool's stats?")
	require.NotEmpty(t, global, "is this still how filter/metrics.go defines the filter's own stats?")
	_, err := admission.ParseConfig(fragment(t, "a pool", `"hold": {"failure": "1s"}`))
	pool["held"] = stat{pool["held"].kind, err != nil}
	return pool, global
}

// Each line that the filter logs is in operations.md, by its text up to the first thing that is put in.
func TestLogLinesAreListed(t *testing.T) {
	text := read(t, "operations.md")
	files, err := filepath.Glob("../filter/*.go")
	require.NoError(t, err)
	more, err := filepath.Glob("../filter/abi/*.go")
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
	rows := table(t, text, "| line | level | means | do |")
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
	require.Equal(t, []string{c["headBytes"], "its length, at most " + c["MaxName"], c["tenantBytes"], c["columnBytes"], c["holderBytes"],
		c["parkedBytes"], c["ticketBytes"]}, bytes)
	require.Contains(t, text, "at most "+c["maxRecordTenants"]+" tenants")
	require.Contains(t, text, "last "+c["idleTenants"]+" that did")
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
			require.Contains(t, text, "(docs/"+page+")")
		}
	}
}
