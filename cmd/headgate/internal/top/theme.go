package top

import (
	"cmp"
	"image/color"
	"maps"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
)

// A theme is how things look. Without colours it only has bold, faint and reversed text.
type theme struct {
	colours bool
	text    lipgloss.Style
	dim     lipgloss.Style // what stands there always: titles, lines, keys to press
	strong  lipgloss.Style
	accent  lipgloss.Style // what was chosen: the row, a sort order, a filter, an override
	good    lipgloss.Style
	warn    lipgloss.Style // requests wait, permits are all taken
	bad     lipgloss.Style // requests are refused, a breaker is open
	held    lipgloss.Style
	tints   []lipgloss.Style  // the tenants', in turn
	others  [2]lipgloss.Style // the tenants' that have none of their own, so that two neighbours differ
}

// themeOf is the theme for a terminal with a dark or a light background.
func themeOf(colours, dark bool) theme {
	t := theme{colours: colours, text: lipgloss.NewStyle(), strong: lipgloss.NewStyle().Bold(true)}
	if !colours {
		t.dim = lipgloss.NewStyle().Faint(true)
		t.accent, t.warn, t.bad = t.strong, t.strong, t.strong
		t.good, t.held = t.text, t.dim
		t.tints = []lipgloss.Style{lipgloss.NewStyle().Reverse(true)}
		t.others = [2]lipgloss.Style{t.tints[0], t.tints[0]}
		return t
	}
	pick := lipgloss.LightDark(dark)
	fg := func(light, dark string) lipgloss.Style {
		return lipgloss.NewStyle().Foreground(pick(lipgloss.Color(light), lipgloss.Color(dark)))
	}
	t.dim = fg("#6e7781", "#7d8590")
	t.accent = fg("#0550ae", "#79c0ff").Bold(true)
	t.good = fg("#1a7f37", "#56d364")
	t.warn = fg("#9a6700", "#e3b341")
	t.bad = fg("#cf222e", "#ff7b72").Bold(true)
	t.held = fg("#8250df", "#a371f7")
	ink := lipgloss.Color("#0d1117")
	paint := func(c color.Color) lipgloss.Style { return lipgloss.NewStyle().Background(c).Foreground(ink) }
	for _, tint := range []string{"#79c0ff", "#f0a868", "#7ee0a1", "#d2a8ff", "#f2cc60", "#ff9bce", "#76d9e6", "#c3b59b"} {
		t.tints = append(t.tints, paint(lipgloss.Color(tint)))
	}
	t.others[0] = paint(pick(lipgloss.Color("#afb8c1"), lipgloss.Color("#8b949e")))
	t.others[1] = paint(pick(lipgloss.Color("#d0d7de"), lipgloss.Color("#aab2bb")))
	return t
}

// of is the style of a finding.
func (t theme) of(level trouble) lipgloss.Style {
	switch level {
	case troubleRefuses:
		return t.bad
	case troubleWaiting, troubleFull:
		return t.warn
	}
	return t.dim
}

// A palette gives a tint to each of the tenants that run most, and leaves it to a tenant as long as it has anything.
type palette struct{ given map[string]int }

// refresh takes back the tints of tenants that have nothing any more, and gives what is free to those who run most.
func (p *palette) refresh(t theme, state *State) {
	has := map[string]int{}
	for _, pool := range state.Pools {
		for _, key := range pool.Keys {
			for _, tenant := range key.Tenants {
				has[tenant.Tenant] += tenant.Inflight
			}
		}
	}
	free := make([]bool, len(t.tints))
	for i := range free {
		free[i] = true
	}
	for tenant, tint := range p.given {
		if has[tenant] == 0 || tint >= len(free) {
			delete(p.given, tenant)
			continue
		}
		free[tint] = false
	}
	byUse := slices.SortedFunc(maps.Keys(has), func(a, b string) int {
		return cmp.Or(has[b]-has[a], strings.Compare(a, b))
	})
	for _, tenant := range byUse {
		tint := slices.Index(free, true)
		if tint < 0 {
			return
		}
		if _, known := p.given[tenant]; !known && has[tenant] > 0 {
			p.given[tenant], free[tint] = tint, false
		}
	}
}

// style is the look of a tenant's part of a bar, which is the part at this place in it.
func (p *palette) style(t theme, tenant string, place int) lipgloss.Style {
	if tint, known := p.given[tenant]; known && tint < len(t.tints) {
		return t.tints[tint]
	}
	return t.others[place%2]
}
