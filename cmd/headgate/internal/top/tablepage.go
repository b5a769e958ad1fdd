package top

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/headgate/headgate/cmd/headgate/internal/adminapi"
)

// columns are how many cells each column of the table has. 0: there is no room for it.
type columns struct{ pool, key, limit, run, hold, queued, oldest, bar int }

// The least and the most cells of some columns.
const (
	leastBar = 14
	leastKey = 8
	mostPool = 20
	mostKey  = 60
)

// columnsFor fits the columns into the screen: those of figures get what they need, names what is left beside the least
// bar, and the bar the rest. On a narrow screen there is no bar, and then no column of holds.
func (m *model) columnsFor(width int) columns {
	c := columns{pool: 4, key: 3, limit: 5, run: 3, hold: 4, queued: 6, oldest: 6}
	for _, r := range m.rows {
		limit, _ := limitOf(r.key.Limit, r.key.Source)
		c.pool = max(c.pool, min(mostPool, widthOf(shown(r.pool.Name))))
		c.key = max(c.key, min(mostKey, widthOf(keyOf(r, mostKey))))
		c.limit = max(c.limit, len(limit))
		c.run = max(c.run, len(strconv.Itoa(r.key.Inflight)))
		c.hold = max(c.hold, len(strconv.Itoa(r.key.OnHold)))
		c.queued = max(c.queued, len(strconv.Itoa(r.key.Queued)))
	}
	const gaps = 2 + 6 // the mark of the chosen row, and a space between columns
	left := width - gaps - c.limit - c.run - c.hold - c.queued - c.oldest
	if left < c.pool+leastKey+leastBar {
		left += c.hold + 1
		c.hold = 0
	}
	names := max(left-leastBar-1, left*5/8)
	if left < 10+leastKey+leastBar {
		names = left
	}
	c.pool = min(c.pool, max(4, names/2))
	c.key = min(c.key, max(3, names-c.pool-1))
	if c.bar = left - c.pool - c.key - 1; c.bar < leastBar {
		c.bar = 0
	}
	return c
}

// sentenceBeside is from which width on a row's sentence stands beside it and not below it.
const sentenceBeside = 150

// tablePage is the table of keys, and the waits of the chosen one's pool.
func (m *model) tablePage(room int) []string {
	panel := m.waitsPanel(room)
	room -= len(panel) + 2
	lines := append([]string{""}, m.tableLines(room)...)
	for len(lines) < room+2 {
		lines = append(lines, "")
	}
	return append(lines, panel...)
}

// tableLines are the title of the table and the rows that fit, with the chosen one among them.
func (m *model) tableLines(room int) []string {
	width := m.width
	beside := width >= sentenceBeside
	if beside {
		width = width * 3 / 5
	}
	c := m.columnsFor(width)
	below := func(r row) bool { return r.finding.text != "" && !beside }
	count, from, to := 0, 0, 0 // lines of all rows, and of which to which those of the chosen one are
	for i, r := range m.rows {
		first := count
		if count++; below(r) {
			count++
		}
		if i == m.at {
			from, to = first, count
		}
	}
	m.scrolled = scrolledTo(m.scrolled, from, to, count, room)
	titles := m.titles(c)
	if beside {
		titles += "  " + m.theme.dim.Render("WHY")
	}
	if count == 0 {
		return []string{titles, "", "  " + m.theme.dim.Render(m.emptyText())}
	}
	lines := []string{titles}
	show := func(at int, line func() string) {
		if at >= m.scrolled && at < m.scrolled+room {
			lines = append(lines, line())
		}
	}
	at := 0
	for i, r := range m.rows {
		sentence := m.theme.of(r.finding.trouble).Render(r.finding.text)
		show(at, func() string {
			line := m.rowLine(c, r, i == m.at)
			if beside {
				line += "  " + sentence
			}
			return line
		})
		if at++; below(r) {
			show(at, func() string {
				return strings.Repeat(" ", min(2+c.pool+1, 14)) + m.theme.dim.Render("└ ") + sentence
			})
			at++
		}
	}
	return lines
}

// scrolledTo is the first line to show so that those of the chosen row are on the screen.
func scrolledTo(scrolled, from, to, count, room int) int {
	scrolled = min(scrolled, from)
	scrolled = max(scrolled, to-room)
	return max(0, min(scrolled, count-room))
}

func (m *model) emptyText() string {
	if m.filter != "" {
		return "no pool, key or tenant has that in its name (esc takes the filter away)"
	}
	if m.options.Own != nil {
		return "no request has been governed yet (g shows how to send one)"
	}
	return "no request has been governed yet"
}

// titles are the names of the columns. The one that the rows are sorted by has an arrow.
func (m *model) titles(c columns) string {
	t := m.theme
	arrow := map[bool]string{false: "↓", true: "↑"}[m.backwards != (m.by == 1)]
	cell := func(title string, width int, right bool) string {
		style := t.dim
		if width > 0 && title == orders[m.by].column {
			style = t.accent
			if widthOf(title) < width || !right {
				title += arrow
			}
		}
		if right {
			return style.Render(fittedRight(title, width))
		}
		return style.Render(fitted(title, width))
	}
	parts := []string{cell("POOL", c.pool, false), cell("KEY", c.key, false), cell("LIMIT", c.limit, true),
		cell("RUN", c.run, true)}
	if c.hold > 0 {
		parts = append(parts, cell("HOLD", c.hold, true))
	}
	parts = append(parts, cell("QUEUED", c.queued, true), cell("OLDEST", c.oldest, true))
	if c.bar > 0 {
		parts = append(parts, cell("WHO RUNS", c.bar, false))
	}
	return "  " + strings.Join(parts, " ")
}

// rowLine is a key's line.
func (m *model) rowLine(c columns, r row, chosen bool) string {
	t := m.theme
	mark, name := "  ", t.text
	if chosen {
		mark, name = t.accent.Render("▌ "), t.strong
	}
	if chosen && !t.colours {
		mark = "> "
	}
	limit, from := limitOf(r.key.Limit, r.key.Source)
	limitStyle := t.text
	if from != "" {
		limitStyle = t.accent
	}
	figure := func(n, width int, style lipgloss.Style) string {
		if n == 0 {
			style = t.dim
		}
		return style.Render(fittedRight(strconv.Itoa(n), width))
	}
	key := name.Render(fitted(keyOf(r, c.key), c.key))
	if r.isOnlyKey() {
		key = t.dim.Render(fitted("–", c.key))
	}
	parts := []string{name.Render(fitted(shown(r.pool.Name), c.pool)), key, limitStyle.Render(fittedRight(limit, c.limit)),
		figure(r.key.Inflight, c.run, t.text)}
	if c.hold > 0 {
		parts = append(parts, figure(r.key.OnHold, c.hold, t.held))
	}
	wait := t.dim.Render(fittedRight("–", c.oldest))
	if r.key.Queued > 0 {
		wait = t.warn.Render(fittedRight(millis(r.key.OldestWaitMillis), c.oldest))
	}
	parts = append(parts, figure(r.key.Queued, c.queued, t.warn), wait)
	if c.bar > 0 {
		parts = append(parts, t.bar(&m.palette, r.key, c.bar))
	}
	return mark + strings.Join(parts, " ")
}

// waitsTitle says whose waits are drawn: those of the row's pool, whichever of its keys they were for.
func waitsTitle(r row) string {
	title := "waits in " + cutMiddle(shown(r.pool.Name), 30)
	if !r.isOnlyKey() {
		title += ", all keys"
	}
	return title + ", last 10 minutes"
}

// waitsPanel is how long requests waited in the chosen row's pool, and how they ended. On a low screen there is none.
func (m *model) waitsPanel(room int) []string {
	r, ok := m.chosen()
	if !ok || room < 13 {
		return nil
	}
	return append(append([]string{m.rule(waitsTitle(r))}, m.sparks(r.pool)...), m.outcomesLine(r.pool))
}

// sparks draws the percentiles of a pool's waits, each with its newest figure.
func (m *model) sparks(pool *Pool) []string {
	t := m.theme
	if len(pool.Waits.Slots) == 0 {
		return []string{"", "  " + t.dim.Render("no request was admitted after a wait"), ""}
	}
	top := int64(0)
	for _, slot := range pool.Waits.Slots {
		top = max(top, slot.P99)
	}
	const beside = 2 + 4 + 7 + 1
	cells := waitSlots
	if m.width-beside < cells {
		cells = waitSlots / 2
	}
	cells *= max(1, min(3, (m.width-beside)/waitSlots))
	newest := slices.MinFunc(pool.Waits.Slots, func(a, b adminapi.Slot) int {
		return cmp.Compare(a.AgeMillis, b.AgeMillis)
	})
	lines := []string{}
	for _, p := range percentiles {
		drawn := spark(pool.Waits, p.of, top, min(cells, m.width-beside))
		lines = append(lines, "  "+t.dim.Render(p.name)+" "+t.text.Render(fittedRight(millis(p.of(newest)), 6))+"  "+
			t.accent.UnsetBold().Render(drawn))
	}
	return lines
}

// outcomesLine is how a pool's requests have ended since its gateway started, those that have come about alone.
func (m *model) outcomesLine(pool *Pool) string {
	n := pool.Outcomes
	parts := []struct {
		n    uint64
		what string
		bad  bool
	}{
		{n["admitted"], "admitted", false},
		{n["admitted_after_wait"], "of them after a wait", false},
		{n["rejected_queue_full"] + n["rejected_closed"] + n["rejected_breaker"], "refused", true},
		{n["expired_max_wait"] + n["expired_deadline"], "expired", true},
		{n["cancelled_waiting"], "left while waiting", false},
		{n["aborted"], "aborted", false},
		{n["provider_429"], "429s of the provider", true},
		{n["provider_failure"], "failures of the provider", true},
		{n["reaped"], "reaped", true},
		{n["store_error"], "store errors", true},
		{n["shadow_would_reject"], "would be refused", true},
		{n["shadow_would_expire"], "would expire", true},
	}
	line := m.theme.dim.Render("  since the start: ")
	gap := ""
	for _, part := range parts {
		if part.n == 0 && part.what != "admitted" {
			continue
		}
		style := m.theme.dim
		if part.bad {
			style = m.theme.warn
		}
		more := m.theme.dim.Render(gap) + style.Render(fmt.Sprintf("%s %s", grouped(part.n), part.what))
		if widthOf(line)+widthOf(more) > m.width {
			break
		}
		line += more
		gap = ", "
	}
	return line
}
