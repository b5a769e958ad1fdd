package check

import (
	"fmt"
	"io"
	"sort"
)

// A Problem is one thing that a file should not have.
type Problem struct {
	Line    int
	Warning string // the warning's name in Warnings; "" is an error
	Field   string // where in a plugin configuration; "" is anywhere else
	Text    string
}

func (p Problem) String() string {
	at := p.Field
	if at != "" {
		at += ": "
	}
	if p.Warning == "" {
		return fmt.Sprintf("%d: error: %s%s", p.Line, at, p.Text)
	}
	return fmt.Sprintf("%d: warning: %s%s [%s]", p.Line, at, p.Text, p.Warning)
}

// A Report is what a file holds, and what is wrong with it.
type Report struct {
	Name     string
	Problems []Problem // by line
	Summary  []string  // lines about the plugin configurations that have no error

	found  int // how many plugin configurations the file holds
	errors int // how many problems are errors
	parsed int // how many bytes package config has read for it
}

// Count returns how many problems are errors and how many are warnings.
func (r *Report) Count() (errors, warnings int) {
	return r.errors, len(r.Problems) - r.errors
}

// Print writes the report for a person to read.
func (r *Report) Print(w io.Writer) {
	for _, p := range r.Problems {
		fmt.Fprintf(w, "%s:%s\n", r.Name, p)
	}
	for _, line := range r.Summary {
		fmt.Fprintln(w, line)
	}
}

func (r *Report) fail(line int, field, text string) {
	r.errors++
	r.Problems = append(r.Problems, Problem{Line: line, Field: field, Text: text})
}

// warn adds a warning that Warnings lists.
func (r *Report) warn(name string, line int, field, format string, args ...any) {
	r.Problems = append(r.Problems, Problem{line, name, field, fmt.Sprintf(format, args...)})
}

func (r *Report) sort() {
	sort.SliceStable(r.Problems, func(i, j int) bool { return r.Problems[i].Line < r.Problems[j].Line })
}
