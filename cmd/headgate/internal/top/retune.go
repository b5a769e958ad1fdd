package top

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	tea "charm.land/bubbletea/v2"

	"github.com/headgate/headgate/cmd/headgate/internal/adminapi"
)

// A question stands in the screen's last lines until it is answered.
type question struct {
	kind    questionKind
	line    []rune // what was typed
	problem string // why the last answer was none
	change  change
	busy    bool // the answer is on its way to the gateways
}

type questionKind int

const (
	questionNone    questionKind = iota
	questionFilter               // which rows?
	questionLimit                // which limit?
	questionWhich                // at which of the gateways?
	questionConfirm              // shall it be so?
	questionEnd                  // shall the gateway of this process end?
)

// A change of a limit, at some of the gateways.
type change struct {
	name    string // what the limit is of
	pool    string
	key     string  // "": the pool's default
	parts   []Share // the gateways that have it, with their limits now
	waiting int
	limit   int64
	back    bool // to the configuration
	// the pool's default was changed by hand, which a key goes back to where it has no limit of its own configured
	inherits bool
	done     int // how many of the parts have it
}

// askLimit begins a change of the chosen key's limit, or of its pool's default.
func (m *model) askLimit(typed string, ofPool bool) {
	if c, ok := m.newChange(ofPool); ok {
		m.ask = question{kind: questionLimit, line: []rune(typed), change: c}
	}
}

// askBack asks whether the limit shall be that of the configuration again.
func (m *model) askBack(ofPool bool) {
	c, ok := m.newChange(ofPool)
	switch {
	case ok && !c.isChanged():
		m.say(c.name+": the limit is the configuration's", true)
	case ok:
		c.back = true
		m.ask = question{kind: questionConfirm, change: c}
		if len(c.parts) > 1 {
			m.ask.kind = questionWhich
		}
	}
}

// isChanged reports whether a limit differs from the configuration's, or was set by hand to the same.
func (c change) isChanged() bool {
	return slices.ContainsFunc(c.parts, func(part Share) bool {
		return part.Source == adminapi.SourceOverride || part.Limit != part.Configured
	})
}

// newChange is a change of the chosen row's limit that has no new limit yet.
func (m *model) newChange(ofPool bool) (change, bool) {
	r, ok := m.chosen()
	switch {
	case !ok:
		return change{}, false
	case m.allAway():
		m.say("no gateway answers: no limit can be changed", false)
		return change{}, false
	}
	if r.isOnlyKey() && r.key.Source == adminapi.SourceOverride && r.pool.Source != adminapi.SourceOverride {
		ofPool = false // the limit was changed as that of the key
	} else if r.isOnlyKey() {
		ofPool = true
	}
	if ofPool {
		c := change{name: shown(r.pool.Name), pool: r.pool.Name, parts: r.pool.Shares, waiting: r.pool.Queued}
		if !r.isOnlyKey() {
			c.name += " (the default of its keys)"
		}
		if len(c.parts) == 0 {
			c.parts = []Share{{Limit: r.pool.Limit, Source: r.pool.Source, Configured: r.pool.Configured}}
		}
		return c, true
	}
	c := change{name: r.name(), pool: r.pool.Name, key: r.key.Name, parts: r.key.Shares, waiting: r.key.Queued,
		inherits: !r.isOnlyKey() && r.pool.Source == adminapi.SourceOverride}
	if len(c.parts) == 0 {
		c.parts = []Share{{Limit: r.key.Limit, Source: r.key.Source, Configured: r.key.Configured}}
	}
	return c, true
}

// was is the limit in force, as the question shows it: 17, or 8 + 9 at two gateways.
func (c change) was() string {
	texts := []string{}
	for _, part := range c.parts {
		texts = append(texts, strconv.Itoa(part.Limit))
	}
	return strings.Join(texts, " + ")
}

// text is the change in a sentence, with so many cells of the name.
func (c change) text(room int) string {
	to := strconv.FormatInt(c.limit, 10)
	switch {
	case c.back && c.inherits:
		to = "the pool's default, which was changed by hand (U takes that back)"
	case c.back:
		configured := []string{}
		for _, part := range c.parts {
			configured = append(configured, strconv.Itoa(part.Configured))
		}
		to = strings.Join(configured, " + ") + " (the configuration's)"
	case len(c.parts) > 1:
		to += fmt.Sprintf(" at each of %d gateways (%d together)", len(c.parts), c.limit*int64(len(c.parts)))
	}
	return fmt.Sprintf("%s: limit %s -> %s, %d wait.", cutMiddle(c.name, room), c.was(), to, c.waiting)
}

// answer takes a key press as a part of an answer.
func (m *model) answer(key tea.KeyPressMsg) tea.Cmd {
	name := key.String()
	if name == "esc" {
		if m.ask.kind == questionFilter {
			m.filter = ""
		}
		m.ask = question{}
		m.arrange()
		return nil
	}
	switch m.ask.kind {
	case questionConfirm:
		return m.confirm(name)
	case questionEnd:
		m.ask = question{}
		if name == "y" {
			return m.end()
		}
		return nil
	case questionWhich:
		m.answerWhich(name)
		return nil
	}
	switch {
	case name == "enter" && m.ask.kind == questionFilter:
		m.ask = question{}
	case name == "enter":
		m.answerLimit()
	default:
		m.ask.edit(name, key.Text)
		m.applyFilter()
	}
	return nil
}

// edit changes the line that is typed.
func (q *question) edit(name, text string) {
	switch name {
	case "backspace":
		q.line = q.line[:max(0, len(q.line)-1)]
	case "ctrl+u", "ctrl+w":
		q.line = nil
	default:
		q.paste(text)
	}
	q.problem = ""
}

// mostTyped bounds the line that is typed.
const mostTyped = 200

// paste adds text to the line that is typed, without what can't be seen.
func (q *question) paste(text string) {
	if q.kind != questionFilter && q.kind != questionLimit {
		return
	}
	for _, r := range text {
		if unicode.IsPrint(r) && len(q.line) < mostTyped {
			q.line = append(q.line, r)
		}
	}
}

// applyFilter has the table follow the filter while it is typed.
func (m *model) applyFilter() {
	if m.ask.kind == questionFilter {
		m.filter = string(m.ask.line)
		m.arrange()
	}
}

func (m *model) answerWhich(name string) {
	parts := m.ask.change.parts
	switch n, err := strconv.Atoi(name); {
	case name == "a":
	case err == nil && n >= 1 && n <= len(parts):
		m.ask.change.parts = parts[n-1 : n]
		m.ask.change.waiting = parts[n-1].Queued
	default:
		m.ask.problem = fmt.Sprintf("want 1 to %d, or a", len(parts))
		return
	}
	m.ask.kind, m.ask.problem = questionConfirm, ""
}

func (m *model) answerLimit() {
	limit, err := strconv.ParseInt(strings.TrimSpace(string(m.ask.line)), 10, 64)
	if err != nil {
		m.ask.problem = "want a whole number"
		return
	}
	m.ask.kind, m.ask.change.limit = questionConfirm, limit
	if len(m.ask.change.parts) > 1 {
		m.ask.kind = questionWhich
	}
}

// A changedMsg says how a change has gone at one gateway.
type changedMsg struct {
	change change
	err    error
}

// confirm takes the answer to the last question of a change. A refused one can be typed again.
func (m *model) confirm(name string) tea.Cmd {
	switch {
	case m.ask.busy:
	case m.ask.problem != "" && name != "n" && name != "q" && !m.ask.change.back:
		m.ask.kind, m.ask.problem, m.ask.line = questionLimit, "", nil
	case name == "n" || name == "q":
		m.ask = question{}
	case name == "y":
		m.ask.busy = true
		return m.apply(m.ask.change)
	}
	return nil
}

// apply asks the gateways for the change, one after the other, and stops at the first that refuses it.
func (m *model) apply(c change) tea.Cmd {
	ctx, gateways := m.ctx, m.gateways
	return func() tea.Msg {
		var limit *int64
		if !c.back {
			limit = &c.limit
		}
		for _, part := range c.parts {
			if err := gateways[part.gateway].client.SetLimit(ctx, c.pool, c.key, limit); err != nil {
				if len(gateways) > 1 {
					err = fmt.Errorf("%s: %w", gateways[part.gateway].place(), err)
				}
				return changedMsg{c, err}
			}
			c.done++
		}
		return changedMsg{c, nil}
	}
}

// changed shows how a change has gone, and asks for the state that it has made.
func (m *model) changed(msg changedMsg) tea.Cmd {
	switch {
	case msg.err == nil:
		m.ask = question{}
		text := fmt.Sprintf("%s: the limit is %d now", msg.change.name, msg.change.limit)
		if msg.change.back {
			text = msg.change.name + ": the limit is the configuration's again"
		}
		m.say(text, true)
	case m.ask.kind == questionConfirm && m.ask.busy:
		m.ask.busy, m.ask.problem = false, refusedText(msg)
	default: // the question was left
		m.say(refusedText(msg), false)
	}
	commands := []tea.Cmd{}
	for _, part := range msg.change.parts {
		commands = append(commands, m.question(part.gateway, true))
	}
	return tea.Batch(commands...)
}

func refusedText(msg changedMsg) string {
	text := shown(msg.err.Error())
	if msg.change.done > 0 {
		text = fmt.Sprintf("changed at %s, but %s", counted(msg.change.done, "gateway"), text)
	}
	return text
}
