package top

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/headgate/headgate/cmd/headgate/internal/adminapi"
)

// The least screen that has room for anything.
const (
	leastWidth  = 40
	leastHeight = 10
)

// View draws the screen.
func (m *model) View() tea.View {
	body, cursor := m.draw()
	view := tea.NewView(body)
	view.AltScreen = true
	view.Cursor = cursor
	return view
}

// draw returns the lines of the screen, and where the cursor is while something is typed.
func (m *model) draw() (string, *tea.Cursor) {
	if m.width < leastWidth || m.height < leastHeight {
		return cutEnd(fmt.Sprintf("want %dx%d", leastWidth, leastHeight), m.width), nil
	}
	lines := append(m.head(), m.main()...)
	room := m.height - 1
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], m.width, "…")
	}
	if len(lines) > room {
		lines = lines[:room]
	}
	for len(lines) < room {
		lines = append(lines, "")
	}
	if m.state != nil && m.allAway() && m.page != pageHelp { // what they said last, and may not be so any more
		for i := len(m.head()); i < len(lines); i++ {
			lines[i] = m.theme.dim.Render(ansi.Strip(lines[i]))
		}
	}
	foot, cursor := m.foot()
	return strings.Join(append(lines, foot), "\n"), cursor
}

// main is what stands between the head and the last line.
func (m *model) main() []string {
	room := m.height - 1 - len(m.head())
	switch {
	case m.page == pageHelp:
		return m.helpPage()
	case m.page == pageLines:
		return m.linesPage(room)
	case m.state == nil:
		return m.waitingPage()
	case m.page == pageKey:
		if r, ok := m.chosen(); ok {
			return m.keyPage(r, room)
		}
		return []string{"", "  " + m.theme.warn.Render("this key is gone: the configuration has it no more")}
	}
	return m.tablePage(room)
}

// head is the first lines: whose figures these are, from when, and what they are in sum.
func (m *model) head() []string {
	t := m.theme
	places := []string{}
	for _, g := range m.gateways {
		places = append(places, g.place())
	}
	left := " " + t.accent.Render("headgate") + "  " + strings.Join(places, " + ")
	if len(places) > 2 {
		left = " " + t.accent.Render("headgate") + "  " + fmt.Sprintf("%s + %d more", places[0], len(places)-1)
	}
	if m.state != nil {
		left += t.dim.Render("  " + cutEnd(shown(m.state.Domain), 20) + ", " + counted(m.state.Workers, "worker"))
		if mode := m.state.Mode; mode != "" && mode != "enforce" {
			left += "  " + t.warn.Render("mode "+shown(mode))
		}
	}
	right := t.dim.Render(clock(time.Now()) + " ")
	if m.state != nil && m.allAway() {
		right = t.warn.Render("figures of " + clock(m.summed) + " ")
	}
	lines := []string{m.ends(left, right)}
	for _, g := range m.gateways {
		if g.err != nil && len(lines) < 4 {
			lines = append(lines, " "+t.bad.Render(m.awayLine(g)))
		}
	}
	if m.state != nil && m.page == pageTable && !m.allAway() {
		lines = append(lines, m.ends(" "+m.sumLine(), m.orderLine()+" "))
	}
	return lines
}

// awayLine says of a gateway since when it doesn't answer, and why. What matters least is cut first where the screen is
// narrow.
func (m *model) awayLine(g *gateway) string {
	summed := ""
	if !m.allAway() {
		summed = ", not summed"
	}
	return fmt.Sprintf("%s is away since %s (%s)%s: %s", g.place(), clock(g.since),
		until(max(1000, time.Since(g.since).Milliseconds()/1000*1000)), summed, shown(g.reason()))
}

// ends puts one text at the left and one at the right of a line. What doesn't fit is cut from the left one.
func (m *model) ends(left, right string) string {
	room := m.width - widthOf(right)
	left = ansi.Truncate(left, max(0, room-1), "…")
	return left + strings.Repeat(" ", max(0, room-widthOf(left))) + right
}

// sumLine is all pools in a line.
func (m *model) sumLine() string {
	wait, hold, keys := 0, 0, 0
	for _, pool := range m.state.Pools {
		wait += pool.Queued
		hold += pool.OnHold
		keys += pool.KeysTotal
	}
	t := m.theme
	waiting := t.dim
	if wait > 0 {
		waiting = t.warn
	}
	line := t.dim.Render(fmt.Sprintf("%s, %s   ", counted(len(m.state.Pools), "pool"), counted(keys, "key"))) +
		waiting.Render(fmt.Sprintf("%d wait", wait))
	if hold > 0 {
		line += t.dim.Render("   ") + t.held.Render(fmt.Sprintf("%d on hold", hold))
	}
	return line
}

// orderLine is what decides which rows stand where.
func (m *model) orderLine() string {
	t := m.theme
	line := t.dim.Render("by ") + t.text.Render(orders[m.by].name)
	if m.backwards {
		line += t.dim.Render(", backwards")
	}
	if m.filter != "" {
		line = t.accent.Render("/"+cutMiddle(shown(m.filter), 20)) +
			t.dim.Render(fmt.Sprintf(" %s   ", counted(len(m.rows), "match"))) + line
		line = strings.Replace(line, "matchs", "matches", 1)
	}
	return line
}

// waitingPage stands there until the first answer.
func (m *model) waitingPage() []string {
	lines := []string{""}
	if !m.allAway() {
		return append(lines, "  "+m.theme.dim.Render("asking ..."))
	}
	return append(lines, "  "+m.theme.text.Render("Waiting for a gateway."),
		"  "+m.theme.dim.Render("Is one up, with its admin listener there? `headgate run --admin ADDR` opens it,"),
		"  "+m.theme.dim.Render("and `headgate top --admin ADDR` looks at it."))
}

// foot is the last line: a question, what the last change has done, or the keys.
func (m *model) foot() (string, *tea.Cursor) {
	t := m.theme
	if m.ask.kind != questionNone {
		line, at := m.ask.prompt(t, m.width)
		line = ansi.Truncate(line, m.width, "…")
		if at < 0 {
			return line, nil
		}
		return line, tea.NewCursor(min(at, m.width-1), m.height-1)
	}
	if m.note != "" && time.Now().Before(m.noteTill) {
		style := t.bad
		if m.noteGood {
			style = t.good
		}
		return ansi.Truncate(" "+style.Render(m.note), m.width, "…"), nil
	}
	return m.hints(), nil
}

// hints are the keys that matter on this page, as many as there is room for.
func (m *model) hints() string {
	keys := [][2]string{{"↑↓", "move"}, {"enter", "look in"}, {"l", "limit"}, {"/", "filter"},
		{"s", "sort"}, {"?", "help"}, {"q", "quit"}}
	switch m.page {
	case pageKey:
		keys = [][2]string{{"esc", "back"}, {"↑↓", "scroll"}, {"tab", "other list"}, {"l", "limit"},
			{"?", "help"}, {"q", "quit"}}
	case pageHelp, pageLines:
		keys = [][2]string{{"any key", "back"}}
	}
	if m.options.Own != nil && m.page == pageTable {
		keys = append(keys[:5:5], [2]string{"g", "log"}, [2]string{"?", "help"}, [2]string{"q", "end"})
	}
	if back := m.backHint(); back != "" { // it matters more than sorting, for which there may be no room then
		keys = slices.DeleteFunc(keys, func(key [2]string) bool { return key[0] == "s" })
		keys = append(keys, [2]string{"u", back}, [2]string{"s", "sort"})
	}
	line := ""
	for _, key := range keys {
		hint := " " + m.theme.text.Render(key[0]) + " " + m.theme.dim.Render(key[1]) + " "
		if widthOf(line)+widthOf(hint) <= m.width {
			line += hint
		}
	}
	return line
}

// backHint says what u takes back, where there is something.
func (m *model) backHint() string {
	r, ok := m.chosen()
	if !ok || r.key.Source != adminapi.SourceOverride || m.page == pageHelp || m.page == pageLines {
		return ""
	}
	back := fmt.Sprintf("back to %d", r.key.Configured)
	if m.width >= 110 {
		back += ", as configured"
	}
	return back
}

// prompt is a question's line, and at which cell the cursor stands. Below 0: there is none.
func (q *question) prompt(t theme, width int) (string, int) {
	typed := string(q.line)
	lead := " "
	switch q.kind {
	case questionFilter:
		lead += "/"
	case questionLimit:
		lead += fmt.Sprintf("limit of %s (now %s): ", cutMiddle(q.change.name, 30), q.change.was())
	case questionWhich:
		return " " + q.whichLine(t), -1
	case questionEnd:
		return " " + t.warn.Render("End the gateway? Requests that run may finish. y/n"), -1
	case questionConfirm:
		return q.confirmLine(t, width), -1
	}
	line := t.accent.Render(lead) + t.text.Render(typed)
	if q.problem != "" {
		line += "  " + t.bad.Render(q.problem)
	}
	return line, widthOf(lead) + widthOf(typed)
}

func (q *question) whichLine(t theme) string {
	line := t.accent.Render("at which? ")
	for i, part := range q.change.parts {
		place := strings.TrimPrefix(part.Admin, "http://")
		line += t.text.Render(fmt.Sprintf("%d: %s (%d)  ", i+1, cutMiddle(place, 24), part.Limit))
	}
	return line + t.text.Render("a: all") + "  " + t.bad.Render(q.problem)
}

// confirmLine names what is about to change. Where the screen is narrow the name is cut, and not the limits behind it.
func (q *question) confirmLine(t theme, width int) string {
	text := q.change.text(max(8, min(40, width-7-widthOf(q.change.text(0)))))
	switch {
	case q.problem != "" && q.change.back:
		return " " + t.bad.Render(q.problem) + t.dim.Render("  n: leave it")
	case q.problem != "":
		return " " + t.bad.Render(q.problem) + t.dim.Render("  enter: again  n: leave it")
	case q.busy:
		return " " + t.dim.Render(text+" ...")
	}
	return " " + t.warn.Render(text) + " " + t.strong.Render("y/n")
}

// linesPage is what the gateway of this process has said last.
func (m *model) linesPage(room int) []string {
	lines := []string{m.rule("what the gateway says")}
	said, _ := m.options.Own.Log.Lines()
	if len(said) == 0 {
		return append(lines, "  "+m.theme.dim.Render("nothing yet"))
	}
	if excess := len(said) - (room - 1); excess > 0 {
		said = said[excess:]
	}
	for _, line := range said {
		lines = append(lines, " "+shown(line))
	}
	return lines
}

// rule is a line across the screen with a title in it.
func (m *model) rule(title string) string {
	title = cutEnd(title, m.width-6)
	return m.theme.dim.Render("── ") + m.theme.text.Render(title) +
		m.theme.dim.Render(" "+strings.Repeat("─", max(0, m.width-4-widthOf(title))))
}
