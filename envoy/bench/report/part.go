package report

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A Part is what one part of a benchmark found.
type Part struct {
	Name     string // of its place in the document
	Lead     string // what the table shows, and how it was measured
	Table    Table
	Notes    []string // what is to be known beside the table: what was left out, say
	Pictures []Picture
}

// A Picture stands in a file beside the document.
type Picture struct {
	File string
	Alt  string // what it shows, for those who don't see it
	SVG  []byte
}

// Text is the part without its pictures.
func (p *Part) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s", p.Lead, p.Table.Markdown())
	for _, note := range p.Notes {
		fmt.Fprintf(&b, "\n%s\n", note)
	}
	return b.String()
}

// Markdown is the part as it stands in the document, with how it came about at its end.
func (p *Part) Markdown(origin string) string {
	var b strings.Builder
	b.WriteString(p.Text())
	for _, picture := range p.Pictures {
		fmt.Fprintf(&b, "\n![%s](%s)\n", picture.Alt, picture.File)
	}
	fmt.Fprintf(&b, "\n%s\n", origin)
	return b.String()
}

// Write puts the part into its place in a document, and its pictures beside that. What stands outside of the place
// stays as it is.
func (p *Part) Write(document, origin string) error {
	old, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	text, err := replace(string(old), p.Name, p.Markdown(origin))
	if err != nil {
		return fmt.Errorf("%s: %w", document, err)
	}
	for _, picture := range p.Pictures {
		if err := os.WriteFile(filepath.Join(filepath.Dir(document), picture.File), picture.SVG, 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(document, []byte(text), 0o644)
}

// replace puts text between the two marks of a place.
func replace(document, place, text string) (string, error) {
	begin, end := fmt.Sprintf("<!-- bench %s: written by `make bench` -->\n", place), "<!-- bench end -->\n"
	before, rest, found := strings.Cut(document, begin)
	if !found {
		return "", fmt.Errorf("no line %q", strings.TrimSpace(begin))
	}
	_, after, found := strings.Cut(rest, end)
	if !found {
		return "", fmt.Errorf("no line %q below %q", strings.TrimSpace(end), strings.TrimSpace(begin))
	}
	return before + begin + "\n" + text + "\n" + end + after, nil
}
