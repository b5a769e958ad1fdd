package check

import (
	"errors"
	"fmt"
	"strings"

	"github.com/headgate/headgate/admission/config"
)

// Bounds of the search for problems in one file.
const (
	maxProblems = 100
	maxParsed   = 32 << 20 // bytes that package config reads in all
)

// A collector finds all problems of one plugin configuration.
type collector struct {
	root    *value
	report  *Report
	repairs []*repair
	serial  int // makes the names of placeholders differ
}

// A verdict is what package config says of the tree as it is now.
type verdict struct {
	config  *config.Config
	refused *config.Error // nil: the tree is a configuration
	at      *value        // what was refused, or what lacks something
}

// collect reports all problems of a plugin configuration. It returns the configuration, in which something harmless
// stands in the place of what was refused; nil if there is no such thing.
func (r *Report) collect(root *value) *config.Config {
	c := &collector{root: root, report: r}
	for v := c.judge(); ; {
		if v.refused == nil {
			return c.forgive(v).config
		}
		if next, found := c.reconsider(v); found {
			v = next
			continue
		}
		c.tell(v)
		if r.errors >= maxProblems || c.isTired() {
			r.fail(v.at.line, "", "may have more problems: correct these first")
			return nil
		}
		next, repaired := c.repair(v)
		if !repaired {
			return nil
		}
		v = next
	}
}

// judge asks package config about the tree.
func (c *collector) judge() verdict {
	t := encode(c.root)
	c.report.parsed += len(t.bytes)
	cfg, err := config.Parse(t.bytes)
	var refused *config.Error
	if !errors.As(err, &refused) {
		return verdict{config: cfg}
	}
	at := t.at(refused.At)
	if member := c.root.member(refused.Field); refused.At == 0 && member != nil {
		at = member // a problem of the whole that names the field
	}
	return verdict{refused: refused, at: at}
}

// isTired reports whether package config has read enough for one file.
func (c *collector) isTired() bool { return c.report.parsed > maxParsed }

// tell reports a refusal.
func (c *collector) tell(v verdict) {
	field, problem := v.refused.Field, v.refused.Problem
	if isSyntax(v.refused) {
		field = "" // it is the line in what encode wrote
	} else if field == "" {
		problem = "the configuration " + problem
	}
	if word := v.suggestion(); word != "" {
		problem += fmt.Sprintf("; did you mean %s?", word)
	}
	c.report.fail(v.at.line, field, problem)
}

// isMissing reports whether something is refused because a field is not there.
func (v verdict) isMissing() bool { return v.refused.Problem == "is missing" }

// isUnknownField reports whether a field is refused because there is none of that name.
func (v verdict) isUnknownField() bool {
	return strings.HasPrefix(v.refused.Problem, "is not a field here ")
}

// wanted returns the words that a refusal says are allowed.
func (v verdict) wanted() (words []string) {
	_, list, found := strings.Cut(v.refused.Problem, "(want ")
	if !found {
		return nil
	}
	list = strings.TrimSuffix(list, ")")
	if v.isUnknownField() {
		return strings.Split(list, ", ")
	}
	for parts := strings.Split(list, `"`); len(parts) > 2; parts = parts[2:] {
		words = append(words, parts[1])
	}
	return words
}

// suggestion returns the allowed word that was probably meant, or "".
func (v verdict) suggestion() string {
	switch {
	case v.isUnknownField():
		return nearest(v.at.key, v.wanted())
	case strings.Contains(v.refused.Problem, " is unknown (want "):
		return nearest(v.at.text, v.wanted())
	}
	return ""
}
