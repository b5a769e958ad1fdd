package filter_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each cell of the table in docs/ownership.md names the tests that show it: those exist, and every test of ownership is
// named in some cell.
func TestOwnershipTableNamesItsTests(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	tests := map[string]bool{} // whether a cell names it
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") {
				tests[f.Name.Name] = false
			}
		}
	}
	text, err := os.ReadFile("../docs/ownership.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "| case |")
	require.True(t, found)
	rows := strings.Split(table, "\n")[2:]
	named := regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")
	cases := map[string]bool{}
	for _, row := range rows {
		if !strings.HasPrefix(row, "|") {
			break
		}
		cells := strings.Split(strings.Trim(row, "|"), "|")
		require.Len(t, cells, 3, row)
		cases[strings.TrimSpace(cells[0])] = true
		for _, cell := range cells[1:] {
			names := named.FindAllStringSubmatch(cell, -1)
			require.NotEmpty(t, names, "no test in the cell %q", cell)
			for _, n := range names {
				require.Contains(t, tests, n[1])
				tests[n[1]] = true
			}
		}
	}
	for _, c := range []string{"success", "stream", "error", "retry", "back-off", "fallback", "hedge", "client gone, queued at the invocation",
		"client gone, queued at the attempt", "client gone, running", "client gone, in back-off", "timeout", "refusal", "local reply", "reload", "trap"} {
		require.Contains(t, cases, c)
	}
	for name, isNamed := range tests {
		if strings.HasPrefix(name, "TestOwnership_") {
			require.True(t, isNamed, "%s is in no cell", name)
		}
	}
}
