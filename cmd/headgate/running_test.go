package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// A shownFlag is what the usage or docs/running.md shows of a flag.
type shownFlag struct{ byDefault, meaning string }

// flagsOf are a command's flags as its usage shows them.
func flagsOf(t *testing.T, command string) map[string]shownFlag {
	t.Helper()
	status, out, _ := call("", command, "--help")
	require.Equal(t, 0, status)
	shown := map[string]shownFlag{}
	out = regexp.MustCompile(`\n {9,}`).ReplaceAllString(out, " ") // sentences go on in the next line
	flagLine := regexp.MustCompile(`(?m)^  --(\S+)(?: \S+)? +(.*?)(?: \(default (.*)\))?$`)
	for _, line := range flagLine.FindAllStringSubmatch(out, -1) {
		shown[line[1]] = shownFlag{line[3], line[2]}
	}
	require.NotEmpty(t, shown)
	return shown
}

// runningRows are the rows of the table below a header row of docs/running.md, each as its cells.
func runningRows(t *testing.T, header string) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/running.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "\n"+header+"\n")
	require.True(t, found, "no table %s", header)
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		require.Len(t, cells, strings.Count(header, "|")-1, line)
		for i := range cells {
			cells[i] = strings.ReplaceAll(strings.TrimSpace(cells[i]), "`", "")
		}
		rows = append(rows, cells)
	}
	return rows[1:] // without the line of dashes
}

// docs/running.md has every flag with its default. What it says of a flag begins with what the usage says.
func TestRunningListsEveryFlagAsTheUsageDoes(t *testing.T) {
	run, render := flagsOf(t, "run"), flagsOf(t, "render")
	listed, forRender := map[string]bool{}, map[string]bool{}
	for _, cells := range runningRows(t, "| flag | default | meaning | becomes |") {
		name, byDefault, meaning := strings.TrimPrefix(cells[0], "--"), cells[1], plainLinks(cells[2])
		require.False(t, listed[name], "--%s is there twice", name)
		listed[name] = true
		require.Equal(t, run[name].byDefault, byDefault, name)
		usage := run[name].meaning
		require.NotEmpty(t, usage, name)
		require.True(t, strings.HasPrefix(meaning, usage), "--%s:\nusage: %s\ndocs:  %s", name, usage, meaning)
		if !strings.Contains(meaning, "Not for render.") {
			forRender[name] = true
			require.Equal(t, run[name], render[name])
		}
	}
	require.Len(t, listed, len(run))
	require.Len(t, forRender, len(render))
}

// plainLinks is a Markdown text with its links' texts only.
func plainLinks(text string) string {
	return regexp.MustCompile(`\[([^\]]+)\]\([^)]+\)`).ReplaceAllString(text, "$1")
}

// The names and defaults are those that users of similar tools know.
func TestFlagsHaveTheirKnownNamesAndDefaults(t *testing.T) {
	names := strings.Fields("concurrency global-concurrency queue-timeout retry retry-max-body-mb retry-min-delay " +
		"retry-wait-min retry-wait-max retry-skip-429 release-cooldown cancel-cooldown failure-hold adaptive-headroom " +
		"adaptive-headroom-window circuit-breaker cb-threshold cb-window cb-open-timeout cb-max-open-timeout cb-penalty " +
		"cb-max-penalty upstream-disable-keep-alives")
	defaults := strings.Fields("4 off 30s 2 5 1s 500ms 30s on 200ms 200ms 2s off 30s on 5 30s 10s 120s 2s 60s off")
	flags := commandsWithFlags["run"]().Flags()
	for i, name := range names {
		require.Equal(t, defaults[i], flags.Lookup(name).DefValue, name)
	}
	for _, name := range []string{"limit", "bind", "upstream"} {
		require.NotNil(t, flags.Lookup(name), name)
	}
}

// A default is what a flag with that text sets.
func TestDefaultsAreWhatTheUsageShows(t *testing.T) {
	notText := []string{"workers", "wasm", "admin"}        // their defaults are described, or make way for others
	ofSample := []string{"sample", "concurrency", "queue"} // parsedRun changes them
	var args []string
	commandsWithFlags["run"]().Flags().VisitAll(func(f *pflag.Flag) {
		if f.DefValue != "" && !slices.Contains(notText, f.Name) && !slices.Contains(ofSample, f.Name) {
			args = append(args, "--"+f.Name+"="+f.DefValue)
		}
	})
	require.Equal(t, parsedRun(t), parsedRun(t, args...))
}
