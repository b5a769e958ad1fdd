package main

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const sample = `package p

const (
	red = iota
	green
	blue
)

const alone = 7

func f(a, b int) (n int, err error) {
	if a < b && ready() {
		n = red
	}
	switch {
	case a == 1:
		n++
	default:
		g(min(a, 2))
	}
	n += a
	return n - 1, nil
}

func empty() {}
`

func sampleChanges(t *testing.T) []change {
	t.Helper()
	neighbours, err := findNeighbours(map[string][]byte{"p.go": []byte(sample)})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"red": "green", "green": "blue", "blue": "red",
		"p.red": "green", "p.green": "blue", "p.blue": "red"}, neighbours)
	changes, err := findChanges("p.go", []byte(sample), neighbours)
	require.NoError(t, err)
	return changes
}

func TestEveryKindOfChangeIsFound(t *testing.T) {
	var found []string
	for _, c := range sampleChanges(t) {
		found = append(found, c.What)
	}
	require.ElementsMatch(t, []string{
		"f returns at once",
		"a < b && ready() becomes !(a < b && ready())",
		"a < b && ready(): && becomes ||",
		"a < b: < becomes <=",
		"dropped: n = red",
		"n = red: red becomes green",
		"removed: case a == 1",
		"a == 1: == becomes !=",
		"case a == 1:: 1 becomes 2",
		"dropped: n++",
		"n++: ++ becomes --",
		"removed: default",
		"dropped: g(min(a, 2))",
		"g(min(a, 2)): min becomes max",
		"g(min(a, 2)): 2 becomes 3",
		"n += a becomes n -= a",
		"dropped: n += a",
		"n - 1: - becomes +",
		"return n - 1, nil: 1 becomes 2",
	}, found)
}

// Each change leaves a program that can be read, and changes something.
func TestChangesAreMade(t *testing.T) {
	for _, c := range sampleChanges(t) {
		text := c.apply([]byte(sample))
		_, err := parser.ParseFile(token.NewFileSet(), "p.go", text, 0)
		require.NoError(t, err, "%s:\n%s", c.What, text)
		require.NotEqual(t, sample, string(text), c.What)
		require.Equal(t, strings.Count(sample[:c.start], "\n")+1, c.Line, c.What)
	}
}

// The order of a file's changes depends on the seed and the file alone.
func TestTheSeedDecides(t *testing.T) {
	order := func(file string, seed uint64) []change {
		changes := sampleChanges(t)
		shuffle(file, changes, seed)
		return changes
	}
	require.Equal(t, order("a.go", 1), order("a.go", 1))
	require.NotEqual(t, order("a.go", 1), order("a.go", 2))
	require.NotEqual(t, order("a.go", 1), order("b.go", 1))
}

func TestFilesHaveTurnsBySize(t *testing.T) {
	small, big := &source{file: "small", text: make([]byte, 100)}, &source{file: "big", text: make([]byte, 300)}
	sources := []*source{small, big}
	long := plan(sources, 80)
	for n := 1; n < 80; n++ {
		short := plan(sources, n)
		require.Equal(t, long[:n], short, "a longer plan begins with a shorter one")
		bigs := 0
		for _, s := range short {
			if s == big {
				bigs++
			}
		}
		require.InDelta(t, float64(n)*3/4, bigs, 1, "of %d", n)
	}
}

func TestFilesThatAreChanged(t *testing.T) {
	sources, err := readSources("../..", "", 1)
	require.NoError(t, err)
	dirs, total := map[string]bool{}, 0
	for _, s := range sources {
		dirs[filepath.Dir(s.file)] = true
		total += len(s.changes)
		require.NotContains(t, s.file, "_test.go")
	}
	require.Len(t, dirs, len(changed))
	require.Greater(t, total, 150)
	some, err := readSources("../..", "filter/records/*.go", 1)
	require.NoError(t, err)
	for _, s := range some {
		require.Equal(t, "filter/records", filepath.Dir(s.file))
	}
	require.Less(t, len(some), len(sources))
	_, err = readSources("../..", "nothing/*.go", 1)
	require.ErrorContains(t, err, "no file with code matches")
}

// inTree is a tree with one file.
func inTree(t *testing.T) tree {
	t.Helper()
	here := tree{t.TempDir()}
	require.NoError(t, os.WriteFile(here.path("p.go"), []byte(sample), 0o644))
	return here
}

func TestAChangeIsTakenBack(t *testing.T) {
	here, c := inTree(t), sampleChanges(t)[3]
	require.ErrorIs(t, here.with(c, []byte(sample), func() error {
		text, err := os.ReadFile(here.path("p.go"))
		require.NoError(t, err)
		require.Equal(t, string(c.apply([]byte(sample))), string(text))
		return os.ErrInvalid
	}), os.ErrInvalid)
	text, err := os.ReadFile(here.path("p.go"))
	require.NoError(t, err)
	require.Equal(t, sample, string(text))
}

func TestWhatBecomesOfAChange(t *testing.T) {
	shell := func(f fate, script string) step { return step{[]string{"sh", "-c", script}, f} }
	for _, c := range []struct {
		what  string
		steps []step
		fate  fate
		by    string
	}{
		{"all passes", []step{shell(fateNoBuild, "true"), shell(fateCaught, "true")}, fateSurvived, ""},
		{"the build fails", []step{shell(fateNoBuild, "echo '# p'; echo p.go:1; false"), shell(fateCaught, "false")}, fateNoBuild, "p.go:1"},
		{"a test fails", []step{shell(fateNoBuild, "true"), shell(fateCaught, "echo '--- FAIL: TestX (0.1s)'; false")}, fateCaught, "TestX"},
		{"a slow test fails", []step{shell(fateCaught, "true"), shell(fateSlow, "echo '--- FAIL: TestY (9s)'; false")}, fateSlow, "TestY"},
		{"the tests don't build", []step{shell(fateCaught, "echo 'FAIL p [build failed]'; false")}, fateNoBuild, "FAIL p [build failed]"},
		{"a test never ends", []step{shell(fateCaught, "tail -f /dev/null")}, fateTimeout, ""},
		{"Go ends the tests", []step{shell(fateCaught, "echo 'panic: test timed out after 1s'; false")}, fateTimeout, ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			limit := time.Minute
			if c.what == "a test never ends" {
				limit = 50 * time.Millisecond
			}
			f, by, err := inTree(t).try(c.steps, limit)
			require.NoError(t, err)
			require.Equal(t, c.fate, f)
			require.Equal(t, c.by, by)
		})
	}
	_, _, err := inTree(t).try([]step{{[]string{"/no such command"}, fateCaught}}, time.Minute)
	require.Error(t, err, "what can't be run says nothing about the change")
}

// What the log has of an earlier run isn't tried again, and what does not build has another in its place.
func TestARunThatGoesOn(t *testing.T) {
	changes := sampleChanges(t)[:3]
	name := filepath.Join(t.TempDir(), "folder", "log.jsonl")
	log, err := openLog(name, false)
	require.NoError(t, err)
	s := session{tree: inTree(t), out: log, log: json.NewEncoder(log), known: map[string]result{}}
	for i, f := range []fate{fateNoBuild, fateSurvived, fateCaught} {
		r := unknown(changes[i], []byte(sample))
		r.Fate = f
		require.NoError(t, s.log.Encode(r))
	}
	require.NoError(t, log.Close())
	s.known, err = readLog(name, true)
	require.NoError(t, err)
	require.Len(t, s.known, 3)
	var out strings.Builder
	s.out = &out
	p := &source{file: "p.go", text: []byte(sample), changes: changes}
	require.NoError(t, s.tryAll([]*source{p, p, p, p}, nil))
	require.Len(t, s.results, 2)
	require.NoError(t, report(&out, s.results))
	require.Contains(t, out.String(), "\np.go:21  "+changes[1].What+"  survived \n")
	require.True(t, strings.HasSuffix(out.String(), "\n2 mutants, 1 caught, 1 survived\n"), out.String())
	none, err := readLog(name, false)
	require.NoError(t, err)
	require.Empty(t, none)
}

// An interrupt ends a run between two changes.
func TestAnInterruptEndsTheRun(t *testing.T) {
	interrupt := make(chan os.Signal, 1)
	interrupt <- os.Interrupt
	s := session{}
	require.NoError(t, s.tryAll([]*source{{changes: sampleChanges(t)}}, interrupt))
	require.Empty(t, s.results)
}

// The quick tests are what the slow ones leave, so that none is run by neither.
func TestStepsLeaveNoTestOut(t *testing.T) {
	for file, slow := range map[string]string{"admission/step.go": slowCore, "filter/wait.go": slowFilter, "filter/abi/pairs.go": slowFilter} {
		quick, all := steps(file, time.Minute, false), steps(file, time.Minute, true)
		require.Equal(t, quick, all[:len(all)-1])
		require.Equal(t, fateNoBuild, all[0].failure)
		skips := func(s step) bool { return slices.Contains(s.command, "-skip") && slices.Contains(s.command, slow) }
		require.True(t, slices.ContainsFunc(quick, skips), "the quick tests skip the slow ones")
		last := all[len(all)-1]
		require.Equal(t, fateSlow, last.failure)
		require.Contains(t, last.command, slow)
	}
}
