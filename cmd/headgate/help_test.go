package main

import (
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestFinding_D9_TheUsageHasSectionsInTheOrderOfUse(t *testing.T) {
	_, out, _ := call("", "run", "--help")
	titles := regexp.MustCompile(`(?m)^(\S.*):$`).FindAllStringSubmatch(out, -1)
	require.Equal(t, "Examples", titles[0][1])
	require.Equal(t, "Help and version", titles[len(titles)-1][1])
	require.Greater(t, len(titles), 5)
	for i, title := range titles {
		require.NotContains(t, titles[:i], title)
	}
	before := -1
	for _, name := range []string{"upstream", "limit", "retry", "release-cooldown", "circuit-breaker", "workers", "help"} {
		at := strings.Index(out, "\n  --"+name+" ")
		require.Greater(t, at, before, name)
		before = at
	}
}

func TestFinding_D9_TheUsageOfAFlagIsWholeSentences(t *testing.T) {
	for _, command := range []string{"run", "render", "check", "top", "fleet", "schema", "envoy", "completion", "version"} {
		for name, flag := range flagsOf(t, command) {
			require.Regexp(t, `^[A-Z].*\.$`, flag.meaning, name)
		}
	}
}

// Every example is a command line that headgate reads.
func TestFinding_D9_TheExamplesAreCommandsThatWork(t *testing.T) {
	withExamples := maps.Clone(commandsWithFlags)
	withExamples["top"] = func() *cobra.Command { c, _, _ := newTop(terminal{}); return c }
	for command, newCommand := range withExamples {
		_, out, _ := call("", command, "--help")
		_, examples, _ := strings.Cut(out, "\nExamples:\n")
		examples, _, _ = strings.Cut(strings.ReplaceAll(examples, "\\\n", ""), "\n\nWh")
		shown := regexp.MustCompile(`(?m)^  headgate `+command+`(?: (.*))?$`).FindAllStringSubmatch(examples, -1)
		require.GreaterOrEqual(t, len(shown), map[string]int{"run": 3, "render": 2, "top": 3}[command])
		for _, line := range shown {
			words, _, _ := strings.Cut(line[1], " >")
			split, err := exec.Command("sh", "-c", `printf '%s\n' `+words).Output()
			require.NoError(t, err)
			args := strings.Fields(strings.ReplaceAll(string(split), " ", "\x00"))
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "\x00", " ")
			}
			require.NoError(t, parse(newCommand(), args...), line[1])
		}
	}
}

func TestFinding_D9_CompletionScriptsAreForTheirShells(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		status, script, errs := call("", "completion", shell)
		require.Equal(t, 0, status, errs)
		require.Contains(t, script, "headgate")
		if path, err := exec.LookPath(shell); err == nil {
			check := exec.Command(path, "-n")
			check.Stdin = strings.NewReader(script)
			said, err := check.CombinedOutput()
			require.NoError(t, err, "%s: %s", shell, said)
		}
	}
}

// A completion script asks headgate itself what could come next.
func TestFinding_D9_CommandsAndFlagsAreCompleted(t *testing.T) {
	for words, want := range map[string][]string{
		"":                                 {"run", "render", "check", "top", "fleet", "schema", "envoy", "completion", "version", "help"},
		"render ":                          {"envoy", "istio"},
		"completion ":                      {"bash", "zsh", "fish"},
		"top --":                           {"--admin", "--once", "--json", "--interval", "--help"},
		"top --admin ":                     nil,
		"run --queue":                      {"--queue", "--queue-timeout"},
		"run --sample --retry-s":           {"--retry-skip-429"},
		"run --mode ":                      {"enforce", "shadow", "disabled"},
		"run --queue ":                     nil,
		"run --circuit-breaker off --cb-t": {"--cb-threshold"},
	} {
		_, out, _ := call("", append([]string{"__complete"}, strings.Split(words, " ")...)...)
		var offered []string
		for line := range strings.Lines(out) {
			if word, _, _ := strings.Cut(strings.TrimSpace(line), "\t"); !strings.HasPrefix(word, ":") {
				offered = append(offered, word)
			}
		}
		slices.Sort(offered)
		slices.Sort(want)
		require.Equal(t, want, offered, "headgate %s", words)
	}
}
