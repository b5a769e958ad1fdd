package check

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A repair puts something in the place of a refused value, so that package config can judge the rest.
type repair struct {
	of      *value
	was     content
	ways    []content // what else the value could be
	problem int       // the index of the problem in the report
}

// repair changes the tree so that what is refused no longer is. If nothing helps, it replaces what is around that.
func (c *collector) repair(v verdict) (next verdict, repaired bool) {
	of, only := v.at, []content(nil)
	if v.isMissing() {
		of = v.at.absent(fieldName(v.refused.Field))
	} else if m := needsTrue.FindStringSubmatch(v.refused.Problem); m != nil {
		of, only = v.at.parent.absent(m[1]), []content{{kind: kindBool, key: m[1], text: "true", repaired: true}}
	}
	for ; of.parent != nil; of = of.parent {
		r := &repair{of, of.content, only, len(c.report.Problems) - 1}
		if only == nil {
			r.ways = c.ways(of, v)
		}
		if next, repaired = c.first(r, v); repaired {
			c.repairs = append(c.repairs, r)
			return next, true
		}
		only = nil
	}
	return v, false
}

// needsTrue finds the field that must be true for another one to be allowed.
var needsTrue = regexp.MustCompile(`^(?:"(?:[^"\\]|\\.)*" )?needs "(\w+)": true beside it`)

// absent returns the member of that name, or a new one that counts as not there.
func (v *value) absent(name string) *value {
	if m := v.member(name); m != nil {
		return m
	}
	m := &value{content: content{key: name, gone: true}, line: v.line}
	v.add(m)
	return m
}

// first takes the first way after which nothing is refused in the same object, or else the first one after which
// something else is refused there. Without any it leaves the tree as it was.
func (c *collector) first(r *repair, v verdict) (next verdict, found bool) {
	all := r.ways
	var fit []content
	var after verdict // of the first fit way
	for len(r.ways) > 0 && !c.isTired() {
		way := r.ways[0]
		next = c.take(r)
		isWithin := next.isWithinRenamed(r.of, r.was.key)
		if next.isAbout(r.of) && !isWithin || next.repeats(v) {
			continue
		}
		if next.refused == nil || isWithin || r.of.parent.parent == nil || !r.of.parent.isAbove(next.at) {
			return next, true
		}
		if fit == nil {
			after = next
		} else if next.repeats(after) {
			break // it does not depend on the way
		}
		fit = append(fit, way)
	}
	if fit == nil {
		r.of.content, r.ways = r.was, all
		return v, false
	}
	r.ways = append(fit, r.ways...)
	return c.take(r), true
}

// repeats reports whether the same is refused for the same reason.
func (v verdict) repeats(before verdict) bool {
	return v.refused != nil && v.at == before.at && v.refused.Problem == before.refused.Problem
}

// reconsider takes other ways for earlier repairs when what is refused now may only follow from them: a bound may be
// the value of a field that was repaired. found is false if it is refused whatever stands in their places.
func (c *collector) reconsider(v verdict) (next verdict, found bool) {
	for i := len(c.repairs) - 1; i >= 0; i-- {
		r := c.repairs[i]
		if !r.mayConcern(v) {
			continue
		}
		now := r.of.content
		var left []content // that are fit for the value
		for len(r.ways) > 0 && !c.isTired() {
			way := r.ways[0]
			if next = c.take(r); next.isAbout(r.of) {
				continue
			}
			if next.refused == nil || next.at != v.at {
				return next, true
			}
			left = append(left, way)
			if next.repeats(v) {
				break // it does not depend on the way
			}
		}
		r.of.content, r.ways = now, append(left, r.ways...)
	}
	return v, false
}

// mayConcern reports whether a refusal can follow from what stands in the place of the repaired value: that is in the
// same object or around it. Of the fields of the whole configuration a refusal says the name.
func (r *repair) mayConcern(v verdict) bool {
	around := r.of.parent
	if around.kind != kindMap || !around.isAbove(v.at) || r.of.isAbove(v.at) {
		return false
	}
	return around.parent != nil || strings.Contains(v.refused.Problem, r.of.key)
}

// forgive takes back the problems that are none once the others are corrected: a field may need another one whose name
// was written wrongly.
func (c *collector) forgive(v verdict) verdict {
	forgiven := map[int]bool{}
	for _, r := range c.repairs {
		if c.isTired() || !c.root.holds(r.of) {
			continue
		}
		restore := c.remember()
		r.of.content, r.ways = r.was, nil
		next, fits := c.judge(), true
		if next.refused != nil {
			next, fits = c.reconsider(next)
		}
		if !fits || next.refused != nil {
			restore()
			continue
		}
		forgiven[r.problem] = true
		v = next
	}
	var kept []Problem
	for i, p := range c.report.Problems {
		if !forgiven[i] {
			kept = append(kept, p)
		}
	}
	c.report.Problems = kept
	c.report.errors -= len(forgiven)
	return v
}

// remember returns a function that puts all repairs back to what they are now.
func (c *collector) remember() (restore func()) {
	type state struct {
		content content
		ways    []content
	}
	var states []state
	for _, r := range c.repairs {
		states = append(states, state{r.of.content, r.ways})
	}
	return func() {
		for i, s := range states {
			c.repairs[i].of.content, c.repairs[i].ways = s.content, s.ways
		}
	}
}

// holds reports whether other is in the tree below v.
func (v *value) holds(other *value) bool {
	for ; other != v; other = other.parent {
		if other.parent == nil || !slices.Contains(other.parent.children, other) {
			return false
		}
	}
	return true
}

// take takes the next way, and asks package config.
func (c *collector) take(r *repair) verdict {
	r.of.content, r.ways = r.ways[0], r.ways[1:]
	return c.judge()
}

// isAbout reports whether a verdict is about a repaired value, or about what its repair did to the object or list
// around it. That another field is missing there was so before.
func (v verdict) isAbout(of *value) bool {
	switch {
	case v.refused == nil:
		return false
	case v.isMissing() && v.at == of.parent:
		missing := fieldName(v.refused.Field)
		return missing == of.key || nearest(of.key, []string{missing}) != ""
	}
	return of.isAbove(v.at) || v.at == of.parent
}

// isWithinRenamed reports whether a field that was renamed to what was probably meant is refused for its value.
func (v verdict) isWithinRenamed(of *value, wasKey string) bool {
	return !of.gone && of.key != wasKey && of.isAbove(v.at) && !(v.at == of && v.isUnknownField())
}

// fieldName returns the last name of a path such as pools[0].limit.
func fieldName(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// ways returns what could stand in the place of a value, the most harmless first.
func (c *collector) ways(of *value, v verdict) (ways []content) {
	absent := content{key: of.key, gone: true, repaired: true}
	isElement := of.parent.kind == kindList
	if v.at == of && v.isUnknownField() {
		if word := v.suggestion(); word != "" && of.parent.member(word) == nil {
			renamed := of.content
			renamed.key, renamed.repaired = word, true
			ways = append(ways, renamed)
		}
		return append(ways, absent)
	}
	if !isElement {
		ways = append(ways, absent)
	}
	if v.at == of {
		for _, word := range v.wanted() {
			ways = append(ways, of.filled(text(word)))
		}
	}
	for _, p := range c.placeholders() {
		ways = append(ways, of.filled(p))
	}
	if isElement {
		ways = append(ways, absent)
	}
	return ways
}

// filled returns the content of of with something else in it.
func (v *value) filled(with content) content {
	with.key, with.repaired = v.key, true
	var settle func(parent *value, c *content)
	settle = func(parent *value, c *content) {
		for _, child := range c.children {
			child.parent, child.line = parent, v.line
			settle(child, &child.content)
		}
	}
	settle(v, &with)
	return with
}

// placeholders returns one value at least of each kind that a field can have. Their names differ each time.
func (c *collector) placeholders() []content {
	c.serial++
	name := fmt.Sprintf("placeholder-%d", c.serial)
	pool := func() *value {
		return &value{content: object(member("name", text(name)), member("limit", number("1")))}
	}
	return []content{
		text("/" + name), text(name), number("1"), number("1000000"), text("1s"), text("10m"), text("24h"),
		{kind: kindBool, text: "true"}, list(), object(), pool().content, object(member("value", text(name))),
		object(member("limit", number("1"))), list(pool()), list(&value{content: text("tenant")}),
	}
}

func text(s string) content               { return content{kind: kindText, text: s} }
func number(s string) content             { return content{kind: kindNumber, text: s} }
func list(elements ...*value) content     { return content{kind: kindList, children: elements} }
func object(members ...*value) content    { return content{kind: kindMap, children: members} }
func member(key string, c content) *value { c.key = key; return &value{content: c} }
