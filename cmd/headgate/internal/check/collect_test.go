package check

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/admission/config"
)

// told is a report's problems, one a line, without the file's name.
func told(r *Report) string {
	var lines []string
	for _, p := range r.Problems {
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n")
}

func TestFinding_D8_AllProblemsAreToldAtOnceEachWithItsLine(t *testing.T) {
	r := File("many.json", []byte(`{
  "mode": "enforced",
  "lease": "1ms",
  "routes": ["/a", "b", "/a"],
  "identity": {"tenant": [
    {"header": "x y"},
    {"header": "x-tenant"}
  ]},
  "pools": [
    {"name": "a", "limit": -1, "min_active": 7},
    {"name": "b", "limit": 1, "max_wiat": "5"},
    {
      "name": "b",
      "limits": 1,
      "key": ["colour"],
      "keys": {
        "x": 5
      }
    },
    {"name": "c", "breaker": {"open": "0s", "max_open": "5s"}},
    7
  ]
}`))
	require.Equal(t, `2: error: mode: "enforced" is unknown (want "enforce", "shadow", "disabled"); did you mean enforce?
3: error: lease: "1ms" is out of range (want 1s to 1h)
4: error: routes[1]: "b" has no path that begins with '/'
4: error: routes[2]: "/a" repeats routes[0], which would always match first
6: error: identity.tenant[0].header: "x y" is not the name of a header
7: error: identity.tenant[1].header: "x-tenant" needs "trusted": true beside it, the operator's word that no client can choose it
10: error: pools[0].limit: -1 is out of range (want 0 to 1000000)
11: error: pools[1].max_wiat: is not a field here (want name, limit, queue, max_wait, per, key, keys, fair_by, weights, match, min_active, hold, breaker, headroom); did you mean max_wait?
11: error: pools[1].max_wait: "5" is not a duration (want e.g. "5s", "250ms")
13: error: pools[2].name: "b" is the name of another pool
14: error: pools[2].limits: is not a field here (want name, limit, queue, max_wait, per, key, keys, fair_by, weights, match, min_active, hold, breaker, headroom); did you mean limit?
15: error: pools[2].key[0]: "colour" is unknown (want "tenant", "model", "route", "class")
17: error: pools[2].keys["x"]: 5 is not an object
20: error: pools[3].breaker.open: "0s" is out of range (want 1ms to 24h)
20: error: pools[3].limit: is missing
21: error: pools[4]: 7 is not an object`, told(r))
	require.Empty(t, r.Summary)
}

// What follows only from another problem is not told: a bound that is the value of a refused field, a field that needs a
// refused one.
func TestFinding_D8_WhatFollowsFromAProblemIsNoProblem(t *testing.T) {
	for _, pool := range []string{
		`"limit": -1, "min_active": 3`, `"limit": "many", "headroom": {"min": 200}`,
		`"limit": 1, "key": "tenant", "keys": {"a": {"limit": 1}}`, `"limit": 1, "key": ["tenat"], "keys": {"a": {"limit": 1}}`,
		`"limit": 1, "fair_by": "luck", "weights": {"a": 2}`, `"limit": 1, "fairBy": "tenant", "weights": {"a": 2}`,
		`"limit": 1, "breaker": {"open": "0s", "max_open": "1s"}`, `"limit": 1, "breaker": {"penalty": 1, "max_penalty": "1s"}`,
		`"Limit": 1`, `"limit": 1, "match": {"class": [5]}`, `"limit": 1, "keys": 3`, `"limit": 1, "limit": 2`,
	} {
		r := File("a.json", []byte(`{"pools": [{"name": "a", `+pool+`}]}`))
		require.Len(t, r.Problems, 1, "%s:\n%s", pool, told(r))
	}
	for _, source := range []string{`{"header": "x y"}`, `{"path": "/d/", "trusted": true}`, `{"path": "/{tenant}/x"}`, `{"metadata": ["a"]}`, `7`} {
		r := File("a.json", []byte(`{"identity": {"tenant": [`+source+`, {"value": "x"}]}, "pools": [{"name": "a", "limit": 1}]}`))
		require.Len(t, r.Problems, 1, "%s:\n%s", source, told(r))
	}
}

func TestFinding_D8_DidYouMean(t *testing.T) {
	for written, want := range map[string]string{
		"max_wiat": "max_wait", "maxWait": "max_wait", "max-wait": "max_wait", "Queue": "queue", "limits": "limit", "fairby": "fair_by",
		"wegihts": "weights", "colour": "", "x": "", "": "", "timeout": "", strings.Repeat("limit", 100): "",
	} {
		require.Equal(t, want, nearest(written, []string{"limit", "queue", "max_wait", "fair_by", "weights"}), written)
	}
}

// The cases of package config's own table of refusals.
func TestFinding_D8_EveryRefusalHasALine(t *testing.T) {
	cases := refusals(t)
	require.Greater(t, len(cases), 80)
	for _, c := range cases {
		text := "\n\n" + c.config
		r := File("a.json", []byte(text))
		require.NotEmpty(t, r.Problems, c.config)
		first, _, _ := strings.Cut(told(r), "\n")
		_, problem, _ := strings.Cut(c.want, ": ")
		if !strings.HasPrefix(c.want, "line ") && !strings.HasPrefix(c.want, "the configuration ") {
			problem = c.want
		}
		if c.want == "the configuration 5 is not an object" {
			problem = "is not a configuration"
		}
		require.Contains(t, told(r), problem, c.config)
		require.Regexp(t, `^[1-9]\d*: error: `, first, c.config)
		for _, p := range r.Problems {
			require.GreaterOrEqual(t, p.Line, 3, c.config)
			require.LessOrEqual(t, p.Line, 1+strings.Count(text, "\n"), c.config)
		}
	}
}

type refusal struct{ config, want string }

// refusals reads the table in admission/config/refusals_test.go, which no other package can see.
func refusals(t *testing.T) (cases []refusal) {
	t.Helper()
	e := evaluator{t, map[string]*ast.FuncDecl{}}
	const folder = "../../../../admission/config/"
	var table *ast.CompositeLit
	for _, file := range []string{"refusals_test.go", "parse_test.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), folder+file, nil, 0)
		require.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch d := n.(type) {
			case *ast.FuncDecl:
				e.functions[d.Name.Name] = d
			case *ast.ValueSpec:
				if d.Names[0].Name == "configRefusals" {
					table = d.Values[0].(*ast.CompositeLit)
				}
			}
			return true
		})
	}
	require.NotNil(t, table, "where is the table of refusals?")
	for _, row := range table.Elts {
		cells := row.(*ast.CompositeLit).Elts
		cases = append(cases, refusal{e.text(cells[0], nil), e.text(cells[1], nil)})
	}
	return cases
}

// An evaluator gives the value of an expression that makes a text: of literals, +, strings.Repeat, and functions that
// return such an expression of one parameter.
type evaluator struct {
	t         *testing.T
	functions map[string]*ast.FuncDecl
}

func (e evaluator) text(x ast.Expr, parameters map[string]string) string {
	switch x := x.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(x.Value)
		require.NoError(e.t, err)
		return s
	case *ast.BinaryExpr:
		return e.text(x.X, parameters) + e.text(x.Y, parameters)
	case *ast.ParenExpr:
		return e.text(x.X, parameters)
	case *ast.Ident:
		require.Contains(e.t, parameters, x.Name)
		return parameters[x.Name]
	case *ast.CallExpr:
		if selector, ok := x.Fun.(*ast.SelectorExpr); ok {
			require.Equal(e.t, "Repeat", selector.Sel.Name)
			n, err := strconv.Atoi(x.Args[1].(*ast.BasicLit).Value)
			require.NoError(e.t, err)
			return strings.Repeat(e.text(x.Args[0], parameters), n)
		}
		function := e.functions[x.Fun.(*ast.Ident).Name]
		require.NotNil(e.t, function, "%v", x.Fun)
		inner := map[string]string{function.Type.Params.List[0].Names[0].Name: e.text(x.Args[0], parameters)}
		return e.text(function.Body.List[0].(*ast.ReturnStmt).Results[0], inner)
	}
	e.t.Fatalf("the table of refusals has a %T, which this test can't read", x)
	return ""
}

// Faults that are put into different parts of a good configuration are all told, in their lines, and nothing else is.
func TestFinding_D8_IndependentProblemsAreAllTold(t *testing.T) {
	faults := []struct{ good, bad string }{
		{`"limit": 8`, `"limit": -8`}, {`"limit": 8`, `"limit": "8"`}, {`"limit": 8`, `"limt": 8`}, {`"limit": 8`, `"limit": null`},
		{`"queue": 3`, `"queue": 1.5`}, {`"queue": 3`, `"queue": 3, "queue": 4`}, {`"queue": 3`, `"quue": 3`},
		{`"max_wait": "5s"`, `"max_wait": "5"`}, {`"max_wait": "5s"`, `"max_wait": {}`}, {`"max_wait": "5s"`, `"colour": []`},
		{`"key": ["model"]`, `"key": ["mdel"]`}, {`"key": ["model"]`, `"key": ["model", "model"]`}, {`"key": ["model"]`, `"key": "model"`},
		{`{"window": "30s"}`, `{"windows": "30s"}`}, {`{"window": "30s"}`, `[]`}, {`{"window": "30s"}`, `{"window": "0s"}`},
	}
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		text.WriteString("{\n\"pools\": [\n")
		var lines []int
		pools := rapid.IntRange(1, 12).Draw(t, "pools")
		line := 3
		for i := range pools {
			pool := []string{fmt.Sprintf(`{"name": "p%d"`, i), `"limit": 8`, `"queue": 3`, `"max_wait": "5s"`, `"key": ["model"]`,
				`"headroom": {"window": "30s"}`}
			if rapid.Bool().Draw(t, "bad") {
				fault := rapid.SampledFrom(faults).Draw(t, "fault")
				for f := range pool {
					if strings.Contains(pool[f], fault.good) {
						pool[f] = strings.Replace(pool[f], fault.good, fault.bad, 1)
						lines = append(lines, line+f)
					}
				}
			}
			text.WriteString(strings.Join(pool, ",\n") + "}")
			if i < pools-1 {
				text.WriteString(",")
			}
			text.WriteString("\n")
			line += len(pool)
		}
		text.WriteString("]}\n")
		r := File("a.json", []byte(text.String()))
		var got []int
		for _, p := range r.Problems {
			if p.Warning == "" {
				got = append(got, p.Line)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(lines) {
			t.Fatalf("got errors in the lines %v, want %v, of\n%s\n%s", got, lines, text.String(), told(r))
		}
	})
}

// A file that is one problem after the other ends in time too.
func TestFinding_D8_AFileFullOfProblemsEnds(t *testing.T) {
	pools := make([]map[string]any, 256)
	for i := range pools {
		pools[i] = map[string]any{"name": 5, "limit": -1, "queue": "x", "nonsense": []int{1}, "breaker": map[string]any{"open": 1, "shut": 2}}
	}
	text, err := json.Marshal(map[string]any{"mode": 1, "stage": 2, "domain": 3, "lease": 4, "on_error": 5, "pools": pools})
	require.NoError(t, err)
	r := File("a.json", text)
	errs, _ := r.Count()
	require.Equal(t, maxProblems+1, errs)
	require.Contains(t, told(r), "may have more problems: correct these first")
}

// What package config takes has no error, and what it refuses has one: the judgement is its own.
func agrees(t require.TestingT, text string) {
	_, err := config.Parse([]byte(text))
	l := linesOf(text, 1)
	root, f := readJSON(text, l)
	if f != nil {
		require.Error(t, err, "%q", text)
		return
	}
	r := &Report{}
	r.plugin(document{root, text, l})
	errs, _ := r.Count()
	require.Equal(t, err != nil, errs > 0, "%q: %v\n%s", text, err, told(r))
}

func TestTheJudgementIsPackageConfigs(t *testing.T) {
	for _, c := range refusals(t) {
		agrees(t, c.config)
	}
	for _, text := range []string{
		`{"pools": [{"name": "a", "limit": 1}]}`, `{"pools": [{"name": "a", "limit": 1, "limit": 2}]}`, "{\"pools\": [{\"name\": \"\xff\", \"limit\": 1}]}",
		`{"pools": [{"name": "a", "limit": 1}], "domain": "\ud800"}`, `{"pools": [{"name": "a", "limit": 1}], "routes": ["/\ud83d\ude00"]}`,
		`{"pools": [{"name": "a", "limit": 1e0}]}`, strings.Repeat(`{"a":`, 40) + `1` + strings.Repeat(`}`, 40), `{} {}`, `{"a" 1}`, `[1,]`, ``,
		`{"pools": [{"name": "a", "limit": 1}]}` + strings.Repeat(" ", 1<<20),
	} {
		agrees(t, text)
	}
}
