package top

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/headgate/headgate/cmd/headgate/internal/adminapi"
)

// A segment is a part of a bar.
type segment struct {
	label string
	n     int
	style lipgloss.Style
	fill  string
}

// bar shows who has a key's permits: a segment for each tenant, then what is on hold, then what is free. The whole
// length of the bar is the limit, or what is taken where that is more.
func (t theme) bar(p *palette, key *Key, width int) string {
	taken := key.Inflight + key.OnHold
	whole := max(key.Limit, taken)
	if whole == 0 || width <= 0 {
		return t.dim.Render(strings.Repeat("·", max(0, width)))
	}
	segments := []segment{}
	named := 0
	for _, tenant := range key.Tenants {
		if tenant.Inflight > 0 {
			named += tenant.Inflight
			style := p.style(t, tenant.Tenant, len(segments))
			segments = append(segments, segment{shown(tenant.Tenant), tenant.Inflight, style, " "})
		}
	}
	if rest := key.Inflight - named; rest > 0 {
		label := "others"
		if named == 0 { // nobody tells tenants apart here
			label = ""
		}
		segments = append(segments, segment{label, rest, t.others[len(segments)%2], " "})
	}
	if key.OnHold > 0 {
		segments = append(segments, segment{"on hold", key.OnHold, t.held, "▒"})
	}
	if free := whole - taken; free > 0 {
		segments = append(segments, segment{"", free, t.dim, "·"})
	}
	var line strings.Builder
	for i, cells := range shares(segments, whole, width) {
		line.WriteString(t.segment(segments[i], cells))
	}
	return line.String()
}

// shares are how many cells each segment gets, width in all. A segment of anything has a cell as long as others have
// more than one.
func shares(segments []segment, whole, width int) []int {
	cells := make([]int, len(segments))
	sum, before := 0, 0
	for i, s := range segments {
		sum += s.n
		end := (sum*width + whole/2) / whole
		cells[i] = end - before
		before = end
	}
	for i := range cells {
		if cells[i] > 0 {
			continue
		}
		most := slices.Index(cells, slices.Max(cells))
		if cells[most] > 1 {
			cells[most]--
			cells[i]++
		}
	}
	return cells
}

// segment is a part of a bar, with its label where there is room for it. Without colours a line ends it.
func (t theme) segment(s segment, cells int) string {
	if cells <= 0 {
		return ""
	}
	if s.fill != " " {
		text := ""
		for _, label := range []string{s.label, strings.TrimPrefix(s.label, "on ")} {
			if long := fmt.Sprintf("%d %s ", s.n, label); label != "" && text == "" && len(long) < cells {
				text = long
			}
		}
		return s.style.Render(text + strings.Repeat(s.fill, cells-len(text)))
	}
	end := ""
	if !t.colours && cells > 1 {
		cells--
		end = "│"
	}
	label := ""
	number := strconv.Itoa(s.n)
	switch room := cells - len(number) - 1; {
	case s.label == "" && len(number) <= cells:
		label = number
	case s.label == "":
	case widthOf(s.label) <= room:
		label = s.label + " " + number
	case room >= 4:
		label = cutMiddle(s.label, room) + " " + number
	case cells >= 4:
		label = cutMiddle(s.label, cells)
	}
	return s.style.Render(label+strings.Repeat(" ", max(0, cells-widthOf(label)))) + end
}

var levels = []rune("▁▂▃▄▅▆▇█")

// spark draws a percentile of the last ten minutes, oldest left, each slot so many cells wide. Where slots are joined
// the highest counts. Spans without a wait have a dot.
func spark(waits adminapi.Waits, of func(adminapi.Slot) int64, top int64, cells int) string {
	values := make([]int64, cells)
	for i := range values {
		values[i] = -1
	}
	for _, slot := range waits.Slots {
		at := slot.AgeMillis / max(1, waits.SlotMillis)
		if at < 0 || at >= waitSlots || slot.N == 0 {
			continue
		}
		from := int(waitSlots-1-at) * cells / waitSlots
		to := max(from+1, int(waitSlots-at)*cells/waitSlots)
		for i := from; i < min(to, cells); i++ {
			values[i] = max(values[i], of(slot))
		}
	}
	line := make([]rune, cells)
	for i, value := range values {
		switch {
		case value < 0:
			line[i] = '·'
		default:
			line[i] = levels[min(int64(len(levels))-1, value*int64(len(levels))/max(1, top))]
		}
	}
	return string(line)
}

// waitSlots is how many slots of waits ten minutes have.
const waitSlots = 60

// A percentile of waits.
type percentile struct {
	name string
	of   func(adminapi.Slot) int64
}

var percentiles = []percentile{
	{"p50", func(s adminapi.Slot) int64 { return s.P50 }},
	{"p90", func(s adminapi.Slot) int64 { return s.P90 }},
	{"p99", func(s adminapi.Slot) int64 { return s.P99 }},
}
