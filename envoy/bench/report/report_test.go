package report

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMarkdownTable(t *testing.T) {
	table := Table{Header: []string{"filter", "us"}}
	table.Add("none", "44.0")
	table.Add("an empty one", "9")
	require.Equal(t, `| filter       |   us |
|--------------|-----:|
| none         | 44.0 |
| an empty one |    9 |
`, table.Markdown())
}

const page = "# Title\n\n<!-- bench cost: written by `make bench` -->\nold\n<!-- bench end -->\n\nkept\n\n" +
	"<!-- bench queued: written by `make bench` -->\nkept too\n<!-- bench end -->\n"

// A part replaces what stands between its own marks, and leaves the rest of the document alone.
func TestPartIsWrittenIntoItsPlace(t *testing.T) {
	document := filepath.Join(t.TempDir(), "performance.md")
	require.NoError(t, os.WriteFile(document, []byte(page), 0o600))
	p := Part{Name: "cost", Lead: "Lead.", Table: Table{Header: []string{"a"}, Rows: [][]string{{"b"}}},
		Notes: []string{"Note."}, Pictures: []Picture{{File: "p.svg", Alt: "bars", SVG: []byte("<svg/>")}}}
	for range 2 { // the second time it is the same again
		require.NoError(t, p.Write(document, "*Origin.*"))
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		require.Equal(t, strings.Replace(page, "\nold\n",
			"\n\nLead.\n\n| a  |\n|----|\n| b  |\n\nNote.\n\n![bars](p.svg)\n\n*Origin.*\n\n", 1), string(text))
	}
	picture, err := os.ReadFile(filepath.Join(filepath.Dir(document), "p.svg"))
	require.NoError(t, err)
	require.Equal(t, "<svg/>", string(picture))
}

func TestPartWithoutAPlace(t *testing.T) {
	_, err := replace(page, "records", "x")
	require.ErrorContains(t, err, "no line \"<!-- bench records")
	_, err = replace("<!-- bench cost: written by `make bench` -->\n", "cost", "x")
	require.ErrorContains(t, err, "no line \"<!-- bench end -->\" below")
}

func TestSpread(t *testing.T) {
	require.Equal(t, Spread{3, 1, 9}, SpreadOf([]float64{9, 1, 3}))
	require.Equal(t, Spread{2, 2, 2}, Exactly(2))
}

// requireReadable checks that a picture is XML, has a ground of its own, and shows these texts.
func requireReadable(t *testing.T, svg []byte, texts ...string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(string(svg)))
	for {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
	require.Contains(t, string(svg), "fill:#FFFFFF", "a white ground")
	for _, text := range texts {
		require.Contains(t, string(svg), ">"+text+"<")
	}
}

func TestBars(t *testing.T) {
	svg, err := Bars("What it costs", "us", []Bar{{Name: "empty", Spread: Spread{10, 8, 12}},
		{Name: "Headgate", Ours: true, Spread: Spread{40, 38, 45}}})
	require.NoError(t, err)
	requireReadable(t, svg, "What it costs", "us", "empty", "Headgate", "0")
}

func TestLines(t *testing.T) {
	svg, err := Lines("Swaps", "workers", "a request", true, []Line{
		{Name: "half used", X: []float64{1, 2, 64}, Y: []Spread{Exactly(2), {2, 1.9, 2.1}, {3, 2, 4}}},
		{Name: "saturated", X: []float64{1, 2, 64}, Y: []Spread{Exactly(2), Exactly(3), Exactly(9)}, Dashed: true}})
	require.NoError(t, err)
	requireReadable(t, svg, "Swaps", "workers", "half used", "saturated", "64", "0")
}

func TestOrigin(t *testing.T) {
	require.Regexp(t, "^\\*`make bench`, \\d{4}-\\d\\d-\\d\\d, commit .+; .+, \\d+ cores, load .+; Go 1.+, Envoy 1.2.3.\\*$",
		Origin("make bench", Revision(), "1.2.3"))
}
