package build_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// A rule is one of depguard's: what the files that it names may import, and what not.
type rule struct {
	ListMode string `yaml:"list-mode"`
	Files    []string
	Allow    []string
	Deny     []struct{ Pkg, Desc string }
}

// rulesOfRooms reads the rules from the linter's configuration: they are written down once.
func rulesOfRooms(t *testing.T) map[string]rule {
	t.Helper()
	text, err := os.ReadFile("../.golangci.yml")
	require.NoError(t, err)
	var config struct {
		Linters struct {
			Enable   []string
			Settings struct {
				Depguard struct{ Rules map[string]rule }
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &config))
	require.Contains(t, config.Linters.Enable, "depguard")
	for name, r := range config.Linters.Settings.Depguard.Rules {
		require.Empty(t, r.ListMode, "rule %s: this test knows the list-mode original alone", name)
	}
	return config.Linters.Settings.Depguard.Rules
}

// globOf turns a file pattern into a regular expression for paths from the repository's root.
func globOf(pattern string) *regexp.Regexp {
	if pattern == "$test" {
		pattern = "**_test.go"
	}
	quoted := regexp.QuoteMeta(strings.TrimPrefix(pattern, "${config-path}/"))
	return regexp.MustCompile("^" + strings.NewReplacer(`\*\*`, `.*`, `\*`, `[^/]*`).Replace(quoted) + "$")
}

// governs tells whether the rule is for this file.
func (r rule) governs(file string) bool {
	named := false
	for _, pattern := range r.Files {
		without, negated := strings.CutPrefix(pattern, "!")
		if globOf(without).MatchString(file) {
			if negated {
				return false
			}
			named = true
		}
	}
	return named
}

// names tells whether an entry of a rule names the package: itself and what is below it, or itself alone when it ends with $.
func names(entry, imported string) bool {
	if entry == "$gostd" {
		first, _, _ := strings.Cut(imported, "/")
		return !strings.Contains(first, ".")
	}
	if exact, ok := strings.CutSuffix(entry, "$"); ok {
		return imported == exact
	}
	return imported == entry || strings.HasPrefix(imported, entry+"/")
}

// refuses returns why the rule's files must not import the package, or "".
func (r rule) refuses(imported string) string {
	for _, d := range r.Deny {
		if names(d.Pkg, imported) {
			return cmp.Or(d.Desc, "it is denied")
		}
	}
	if len(r.Allow) > 0 && !slices.ContainsFunc(r.Allow, func(e string) bool { return names(e, imported) }) {
		return "it is not among what is allowed"
	}
	return ""
}

// concurrency returns the lines of a file that start a goroutine or use a channel.
func concurrency(files *token.FileSet, file *ast.File) []int {
	var lines []int
	ast.Inspect(file, func(n ast.Node) bool {
		unary, isUnary := n.(*ast.UnaryExpr)
		switch n.(type) {
		case *ast.GoStmt, *ast.ChanType, *ast.SendStmt, *ast.SelectStmt:
			lines = append(lines, files.Position(n.Pos()).Line)
		}
		if isUnary && unary.Op == token.ARROW {
			lines = append(lines, files.Position(n.Pos()).Line)
		}
		return true
	})
	slices.Sort(lines)
	return slices.Compact(lines)
}

// isSequential tells whether a file is of admission, where nothing runs at the same time as something else.
func isSequential(file string) bool {
	return strings.HasPrefix(file, "admission/") && !strings.HasSuffix(file, "_test.go")
}

// trespasses lists what the Go files of a tree do against the rules. It reads all files, whatever platform they are for.
func trespasses(t *testing.T, rules map[string]rule, tree fs.FS) []string {
	t.Helper()
	var found []string
	for _, name := range goFiles(t, tree) {
		text, err := fs.ReadFile(tree, name)
		require.NoError(t, err)
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			for _, of := range slices.Sorted(maps.Keys(rules)) {
				if why := rules[of].refuses(imported); why != "" && rules[of].governs(name) {
					found = append(found, fmt.Sprintf("%s imports %s: %s (rule %s)", name, imported, why, of))
				}
			}
		}
		if isSequential(name) {
			for _, line := range concurrency(files, file) {
				found = append(found, fmt.Sprintf("%s:%d: no goroutine and no channel in admission", name, line))
			}
		}
	}
	return found
}

// goFiles lists the Go files of a tree, without those that Go's tools pass over: hidden folders and test data.
func goFiles(t *testing.T, tree fs.FS) []string {
	t.Helper()
	var found []string
	require.NoError(t, fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base := path.Base(name); d.IsDir() && name != "." && (base[0] == '.' || base == "testdata") {
			return fs.SkipDir
		}
		if !d.IsDir() && path.Ext(name) == ".go" {
			found = append(found, name)
		}
		return nil
	}))
	return found
}

func TestRooms(t *testing.T) {
	rules, tree := rulesOfRooms(t), os.DirFS("..")
	require.Empty(t, strings.Join(trespasses(t, rules, tree), "\n"))
	// A rule for a folder that is there must be for some of its files: otherwise its patterns are wrong.
	files := goFiles(t, tree)
	for name, r := range rules {
		folder, _, _ := strings.Cut(strings.TrimPrefix(r.Files[0], "${config-path}/"), "*")
		if _, err := fs.Stat(tree, path.Clean(folder)); err == nil {
			require.True(t, slices.ContainsFunc(files, r.governs), "rule %s is for no file", name)
		}
	}
	for _, folder := range []string{"admission/", "filter/", "wasmtest/"} {
		require.True(t, slices.ContainsFunc(files, func(f string) bool { return strings.HasPrefix(f, folder) }), folder)
	}
}

// What the rules refuse and what they let pass, written down apart from them.
func TestRoomsRefuse(t *testing.T) {
	rules := rulesOfRooms(t)
	for _, room := range []struct {
		files            string // names with spaces between
		refused, allowed string // imports with spaces between; "./" is this module
	}{
		{"admission/a.go admission/config/a.go admission/request/a.go admission/internal/text/a_wasm.go",
			"os os/exec net net/http sync sync/atomic context time io/fs syscall fmt encoding/json log log/slog reflect " +
				"math/rand/v2 crypto/rand hash/maphash " +
				"example.com/x ./filter ./filter/abi ./cmd/headgate ./envoy/rig ./cluster ./wasmtest ./build",
			"errors strconv unicode/utf8 ./admission/internal/text"},
		{"admission/a.go", "./admission/config ./admission/request", "./admission/internal/text"},
		{"admission/config/a.go admission/request/a.go admission/a_test.go", "./filter", "./admission ./admission/config"},
		{"admission/admissiontest/a.go", "time example.com/x ./filter ./wasmtest", "fmt os ./admission"},
		{"admission/a_test.go admission/config/a_test.go", "./cmd/headgate ./envoy ./cluster ./wasmtest", "time fmt example.com/x"},
		{"filter/a.go filter/records/a.go filter/abi/a_wasm.go", "./cmd/filter ./envoy ./cluster/x ./wasmtest", "time example.com/x"},
		{"filter/a_test.go filter/abi/a_test.go", "./cmd/filter ./envoy/rig ./cluster", "./wasmtest ./filter"},
		{"filter/a.go", "./wasmtest", "./admission/config ./filter/records ./filter/abi"},
		{"filter/records/a.go", "./filter", "./admission ./filter/abi"},
		{"filter/abi/a.go", "./filter ./filter/records ./admission", "strings"},
		{"wasmtest/a.go wasmtest/internal/a/a.go wasmtest/a_test.go", "./admission/config ./filter/abi ./cmd/filter ./envoy/rig ./cluster",
			"fmt example.com/x ./wasmtest/internal/a"},
		{"cluster/a.go", "time net/http os sync context ./cluster/store ./admission ./filter example.com/x", "errors encoding/json fmt"},
		{"cluster/store/a.go cluster/clustersim/a_test.go", "./filter ./cmd/headgate ./envoy/rig ./wasmtest",
			"time net/http ./cluster ./admission/fleet example.com/x"},
		{"cmd/headgate/a.go envoy/a.go", "", "./admission ./filter ./envoy/rig ./wasmtest"},
	} {
		for file := range strings.FieldsSeq(room.files) {
			for refused, imports := range map[bool]string{true: room.refused, false: room.allowed} {
				for imported := range strings.FieldsSeq(imports) {
					imported = strings.Replace(imported, "./", "github.com/headgate/headgate/", 1)
					code := fmt.Sprintf("//go:build any\n\npackage a\n\nimport b %q\n", imported)
					found := trespasses(t, rules, fstest.MapFS{file: {Data: []byte(code)}})
					require.Equal(t, refused, len(found) > 0, "%s in %s: %v", imported, file, found)
				}
			}
		}
	}
}

func TestRoomsRefuseConcurrencyInAdmission(t *testing.T) {
	for code, refused := range map[string]bool{
		"go f()": true, "var c chan int": true, "f(make(chan int))": true, "c <- 1": true, "x := <-c": true, "for <-c {}": true,
		"select {}":              true,
		"x := func() { go f() }": true, "go f(-x)": true, "var x struct{ c <-chan int }": true, "x := -y": false, "f()": false,
	} {
		source := "package a\n\nfunc _() {\n\t" + code + "\n}\n"
		for file, governed := range map[string]bool{
			"admission/a.go": true, "admission/request/a.go": true, "admission/admissiontest/a.go": true,
			"admission/a_test.go": false, "filter/a.go": false,
		} {
			var want []string
			if refused && governed {
				want = []string{file + ":4: no goroutine and no channel in admission"}
			}
			require.Equal(t, want, trespasses(t, nil, fstest.MapFS{file: {Data: []byte(source)}}), code)
		}
	}
}
