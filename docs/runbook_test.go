package docs_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What 3am.md quotes, the page says, or the Grafana dashboard. What it sets as code where it speaks of top, top says.
func TestTheRunbookQuotesThePageAndTop(t *testing.T) {
	page := strings.ReplaceAll(read(t, "../filter/admin/page/page.html"), "’", "'")
	page = regexp.MustCompile(`\$\{within\([^']*'([^']*)'\)\}`).ReplaceAllString(page, "$1") // "open", "next try in" and a time
	grafana := read(t, "../examples/observability/dashboard.json")
	sources, err := filepath.Glob("../cmd/headgate/internal/top/*.go")
	require.NoError(t, err)
	top := ""
	for _, name := range sources {
		if !strings.HasSuffix(name, "_test.go") {
			top += read(t, name)
		}
	}
	text := strings.ReplaceAll(read(t, "3am.md"), "’", "'")
	text = regexp.MustCompile("(?s)```.*?```|<img.*?>|<source.*?>").ReplaceAllString(text, "")

	quotes := regexp.MustCompile(`"([^"\n]+)"`).FindAllStringSubmatch(regexp.MustCompile("`[^`\n]*`").ReplaceAllString(text, ""), -1)
	require.Greater(t, len(quotes), 40)
	for _, quote := range quotes {
		require.True(t, strings.Contains(page, quote[1]) || strings.Contains(grafana, quote[1]),
			"neither the page nor Grafana says %q", quote[1])
	}
	rows := regexp.MustCompile("(?m)^\\| `top` \\|.*").FindAllString(text, -1)
	_, table, found := strings.Cut(text, "| page | `top` | it is |\n")
	require.True(t, found)
	for row := range strings.Lines(table) {
		if !strings.HasPrefix(row, "|") {
			break
		}
		rows = append(rows, strings.Split(row, "|")[2])
	}
	said := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(strings.ReplaceAll(strings.Join(rows, "\n"), "`top`", ""), -1)
	require.Greater(t, len(said), 20)
	for _, words := range said {
		require.Contains(t, top, words[1], "top doesn't say so")
	}
}
