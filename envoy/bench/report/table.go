package report

import (
	"strings"
	"unicode/utf8"
)

// A Table is cells of text. The first column is flush left, the others, which are figures, flush right.
type Table struct {
	Header []string
	Rows   [][]string
}

// Add adds a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Markdown is the table with columns of even width, to be read as it is too.
func (t *Table) Markdown() string {
	widths := make([]int, len(t.Header))
	for _, row := range append([][]string{t.Header}, t.Rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell), 2)
		}
	}
	var b strings.Builder
	writeRow(&b, t.Header, widths)
	b.WriteString("|")
	for i, width := range widths {
		if i == 0 {
			b.WriteString(strings.Repeat("-", width+2) + "|")
		} else {
			b.WriteString(strings.Repeat("-", width+1) + ":|")
		}
	}
	b.WriteString("\n")
	for _, row := range t.Rows {
		writeRow(&b, row, widths)
	}
	return b.String()
}

func writeRow(b *strings.Builder, row []string, widths []int) {
	b.WriteString("|")
	for i, cell := range row {
		pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
		if i == 0 {
			b.WriteString(" " + cell + pad + " |")
		} else {
			b.WriteString(" " + pad + cell + " |")
		}
	}
	b.WriteString("\n")
}
