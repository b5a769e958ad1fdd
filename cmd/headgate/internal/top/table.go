package top

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/headgate/headgate/cmd/headgate/internal/adminapi"
)

// The most cells of a name where lines may be long.
const longName = 48

// printTable prints the state as a table of plain text.
func printTable(w io.Writer, state *State) {
	for _, g := range state.Gateways {
		if g.Error == "" {
			place := strings.TrimPrefix(g.Admin, "http://")
			fmt.Fprintf(w, "%s: mode %s, domain %s, %s\n", place, shown(g.Mode), shown(g.Domain), counted(g.Workers, "worker"))
		}
	}
	table := [][]string{{"POOL", "KEY", "LIMIT", "RUN", "HOLD", "QUEUED", "OLDEST", "RUNNING", "WHY"}}
	several := len(state.Gateways) > 1
	if several {
		table[0] = append(table[0], "RUN OF LIMIT AT EACH")
	}
	legend := map[string]bool{}
	for _, r := range rowsOf(state, orders[1], false, "") {
		limit, mark := limitOf(r.key.Limit, r.key.Source)
		legend[mark] = true
		table = append(table, []string{
			cutMiddle(shown(r.pool.Name), longName), keyOf(r, longName), limit, strconv.Itoa(r.key.Inflight),
			strconv.Itoa(r.key.OnHold), strconv.Itoa(r.key.Queued), oldest(r.key), running(r.key), r.finding.text,
		})
		if several {
			table[len(table)-1] = append(table[len(table)-1], sharesOf(r.key))
		}
	}
	for _, line := range aligned(table, map[int]bool{2: true, 3: true, 4: true, 5: true, 6: true}) {
		fmt.Fprintln(w, line)
	}
	for _, mark := range []string{"*", "+"} {
		if legend[mark] {
			fmt.Fprintln(w, mark+" "+markMeanings[mark])
		}
	}
}

// The marks behind limits that the configuration has not set.
var markMeanings = map[string]string{"*": "changed by hand", "+": "a share of the fleet's limit"}

// limitOf is a limit with the mark of where it comes from.
func limitOf(limit int, source string) (text, mark string) {
	switch source {
	case adminapi.SourceOverride:
		mark = "*"
	case adminapi.SourceFleet:
		mark = "+"
	}
	return strconv.Itoa(limit) + mark, mark
}

func keyOf(r row, width int) string {
	if r.isOnlyKey() {
		return "-"
	}
	return cutMiddle(shown(r.key.Name), width)
}

func oldest(key *Key) string {
	if key.Queued == 0 {
		return "-"
	}
	return millis(key.OldestWaitMillis)
}

// sharesOf is each gateway's part of a key.
func sharesOf(key *Key) string {
	parts := []string{}
	for _, share := range key.Shares {
		limit, _ := limitOf(share.Limit, share.Source)
		parts = append(parts, fmt.Sprintf("%s: %d of %s", strings.TrimPrefix(share.Admin, "http://"), share.Inflight, limit))
	}
	return strings.Join(parts, ", ")
}

// running is who runs how many, in a few words.
func running(key *Key) string {
	const most = 3
	parts := []string{}
	for _, tenant := range key.Tenants {
		switch {
		case tenant.Inflight == 0:
		case len(parts) == most:
			return strings.Join(append(parts, "..."), ", ")
		default:
			parts = append(parts, fmt.Sprintf("%s %d", brief(tenant.Tenant), tenant.Inflight))
		}
	}
	return strings.Join(parts, ", ")
}

// aligned writes the cells of a table below each other. Those of figures stand at the right of their columns.
func aligned(table [][]string, figures map[int]bool) []string {
	widths := make([]int, len(table[0]))
	for _, cells := range table {
		for i, cell := range cells {
			widths[i] = max(widths[i], widthOf(cell))
		}
	}
	lines := []string{}
	for _, cells := range table {
		line := ""
		for i, cell := range cells {
			if figures[i] {
				cell = fittedRight(cell, widths[i])
			} else {
				cell = fitted(cell, widths[i])
			}
			line += cell + "  "
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines
}
