package top

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/headgate/headgate/cmd/headgate/internal/adminapi"
)

// The lists of a key's page, as the focus counts them.
const (
	listTenants = iota
	listRequests
)

// keyPage is all about one key: its limit and why it is as it is, its tenants, and its recent requests.
func (m *model) keyPage(r row, room int) []string {
	lines := m.keyHead(r)
	if room >= 32 {
		lines = append(append(lines, m.rule(waitsTitle(r))),
			m.sparks(r.pool)...)
	}
	left := max(6, room-len(lines)-2)
	tenants := m.tenantLines(r.key)
	forTenants := min(len(tenants), max(3, left*2/5))
	requests := m.requestLines(r)
	forRequests := left - forTenants
	title := fmt.Sprintf("tenants (%d)", max(r.key.TenantsTotal, len(tenants)-1))
	lines = append(lines, m.listTitle(title, listTenants))
	lines = append(lines, m.list(listTenants, tenants, forTenants)...)
	lines = append(lines, m.listTitle("recent requests", listRequests))
	return append(lines, m.list(listRequests, requests, forRequests)...)
}

// listTitle is a rule; that of the list that the keys move is marked.
func (m *model) listTitle(title string, which int) string {
	if m.focus == which {
		title = "▾ " + title
	}
	return m.rule(title)
}

// list is the part of a list that fits below its first line, which stays. It bounds how far the list is scrolled.
func (m *model) list(which int, lines []string, room int) []string {
	if len(lines) == 0 || room < 2 {
		return lines[:min(len(lines), max(0, room))]
	}
	m.scrolls[which] = max(0, min(m.scrolls[which], len(lines)-room))
	from := 1 + m.scrolls[which]
	return append([]string{lines[0]}, lines[from:min(len(lines), from+room-1)]...)
}

// keyHead is the name of a key, its figures, why they are so, and who has its permits.
func (m *model) keyHead(r row) []string {
	t, key := m.theme, r.key
	lines := []string{""}
	name := strings.Split(ansi.Hardwrap(r.name(), m.width-4, true), "\n")
	for _, part := range name[:min(len(name), 4)] {
		lines = append(lines, "  "+t.strong.Render(part))
	}
	limit, mark := limitOf(key.Limit, key.Source)
	figures := "limit " + t.accent.UnsetBold().Render(strings.TrimRight(limit, "*+"))
	if mark != "" {
		figures += t.accent.Render(fmt.Sprintf(" (%s, configured: %d)", markMeanings[mark], key.Configured))
	}
	figures += fmt.Sprintf("   %d run   %d on hold   ", key.Inflight, key.OnHold)
	wait := "nobody waits"
	if key.Queued > 0 {
		wait = fmt.Sprintf("%d wait, longest %s", key.Queued, lasted(key.OldestWaitMillis))
	}
	lines = append(lines, "  "+figures+wait)
	sentence := r.finding.text
	if sentence == "" {
		sentence = "permits are free"
	}
	for part := range strings.SplitSeq(ansi.Wrap(sentence, m.width-4, " "), "\n") {
		lines = append(lines, "  "+t.of(r.finding.trouble).Render(part))
	}
	lines = append(lines, "  "+t.dim.Render(ruleText(r)))
	for _, share := range key.Shares {
		limit, _ := limitOf(share.Limit, share.Source)
		lines = append(lines, "  "+t.text.Render(fmt.Sprintf("%s: %d of %s run, %d wait, breaker %s",
			strings.TrimPrefix(share.Admin, "http://"), share.Inflight, limit, share.Queued, breakerName(share.Breaker))))
	}
	return append(lines, "  "+t.bar(&m.palette, key, m.width-4))
}

// ruleText is what else decides about a key's requests: breaker, headroom, penalty and the pool's rules.
func ruleText(r row) string {
	parts := []string{}
	if r.pool.Breaker || r.key.Breaker != "" && r.key.Breaker != adminapi.BreakerClosed {
		breaker := "breaker " + breakerName(r.key.Breaker)
		if r.key.BreakerChangeMillis > 0 {
			breaker += " for " + until(r.key.BreakerChangeMillis)
		}
		parts = append(parts, breaker)
	}
	if r.key.PenaltyMillis > 0 {
		parts = append(parts, "penalty for "+until(r.key.PenaltyMillis))
	}
	if r.key.Usable != r.key.Limit {
		headroom := fmt.Sprintf("%d usable", r.key.Usable)
		if r.key.HeadroomChangeMillis > 0 {
			headroom += ", one more in " + until(r.key.HeadroomChangeMillis)
		}
		parts = append(parts, headroom)
	}
	if r.key.HoldChangeMillis > 0 {
		parts = append(parts, "first hold ends in "+until(r.key.HoldChangeMillis))
	}
	if r.pool.Queue == 0 {
		parts = append(parts, "no queue")
	} else {
		parts = append(parts, fmt.Sprintf("%d may wait up to %s", r.pool.Queue, until(r.pool.MaxWaitMillis)))
	}
	if r.pool.Fair {
		parts = append(parts, "fair by tenant")
	}
	return strings.Join(append(parts, "per "+cmp.Or(shown(r.pool.Per), "request")), " · ")
}

// breakerName is a breaker's state in words. That it is closed is good news, which "closed" alone doesn't say.
func breakerName(state string) string {
	if state == adminapi.BreakerClosed || state == "" {
		return "fine"
	}
	return strings.ReplaceAll(shown(state), "_", " ")
}

// tenantLines are a key's tenants below their titles.
func (m *model) tenantLines(key *Key) []string {
	t := m.theme
	name := 12
	for _, tenant := range key.Tenants {
		name = max(name, min(m.width/3, widthOf(shown(tenant.Tenant))))
	}
	lines := []string{t.dim.Render("  " + fitted("TENANT", name) + "    RUN QUEUED WEIGHT")}
	room := m.width - name - 27
	for i, tenant := range key.Tenants {
		bar := ""
		if key.Limit > 0 && room > 4 {
			cells := min(room, (tenant.Inflight*room+key.Limit-1)/key.Limit)
			bar = m.palette.style(t, tenant.Tenant, i).Render(strings.Repeat(" ", cells))
		}
		queued := t.dim
		if tenant.Queued > 0 {
			queued = t.warn
		}
		runs := fitted(shown(tenant.Tenant), name) + fittedRight(strconv.Itoa(tenant.Inflight), 7)
		lines = append(lines, "  "+t.text.Render(runs)+queued.Render(fittedRight(strconv.Itoa(tenant.Queued), 7))+
			t.dim.Render(fittedRight(strconv.Itoa(tenant.Weight), 7))+"  "+bar)
	}
	if more := key.TenantsTotal - len(key.Tenants); more > 0 {
		lines = append(lines, "  "+t.dim.Render(fmt.Sprintf("and %d more", more)))
	}
	return lines
}

// requestLines are what is known of a key's recent requests, newest first, below their titles.
func (m *model) requestLines(r row) []string {
	t := m.theme
	events := m.eventsOf(r)
	outcomes, tenants := len("OUTCOME"), len("TENANT")
	for _, event := range events {
		outcome, _ := outcomeOf(t, event)
		outcomes = max(outcomes, min(16, widthOf(outcome)))
		tenants = max(tenants, min(m.width/6, widthOf(shown(event.Tenant))))
	}
	lines := []string{t.dim.Render("  " + fitted("TIME", 8) + " " + fitted("OUTCOME", outcomes) + " " +
		fitted("TENANT", tenants) + "   WAIT   TOOK  REQUEST")}
	room := m.width - 2 - 8 - 1 - outcomes - 1 - tenants - 16
	for _, event := range events {
		outcome, style := outcomeOf(t, event)
		lines = append(lines, "  "+t.dim.Render(clock(time.UnixMilli(event.AtMillis)))+" "+
			style.Render(fitted(outcome, outcomes))+" "+t.text.Render(fitted(shown(event.Tenant), tenants)+" "+
			fittedRight(orDash(event.WaitMillis), 6)+" "+fittedRight(orDash(event.DurationMillis), 6))+"  "+
			t.dim.Render(requestText(event, room)))
	}
	if len(events) == 0 {
		text := "none yet: what is refused, expires, waits long or ends stands here"
		for _, g := range m.gateways {
			if g.eventsErr != nil {
				text = "no answer about requests: " + shown(g.eventsErr.Error())
			}
		}
		lines = append(lines, "  "+t.dim.Render(text))
	}
	return lines
}

func orDash(ms int64) string {
	if ms == 0 {
		return "–"
	}
	return millis(ms)
}

// eventsOf are the events of a key of all gateways, newest first.
func (m *model) eventsOf(r row) []adminapi.Event {
	events := []adminapi.Event{}
	for _, g := range m.gateways {
		for _, event := range g.events {
			if event.Pool == r.pool.Name && (event.Key == r.key.Name || event.Key == "") {
				events = append(events, event)
			}
		}
	}
	slices.SortStableFunc(events, func(a, b adminapi.Event) int {
		return cmp.Or(cmp.Compare(b.AtMillis, a.AtMillis), cmp.Compare(b.ID, a.ID))
	})
	return events
}

// outcomeOf is what an event says, in a word or two.
func outcomeOf(t theme, event adminapi.Event) (string, lipgloss.Style) {
	switch event.Kind {
	case "ended":
		if event.Whole != nil && *event.Whole {
			return "whole", t.good
		}
		return "aborted", t.warn
	case "waited":
		return "admitted", t.text
	case "refused", "expired", "reaped":
		return event.Kind, t.bad
	case "breaker_opened":
		return "breaker opened", t.bad
	case "breaker_half_open":
		return "breaker tries", t.warn
	case "breaker_closed":
		return "breaker fine", t.good
	case "limit_changed":
		return cutEnd(fmt.Sprintf("limit %d -> %d", event.Before, event.Limit), 14), t.accent
	}
	return strings.ReplaceAll(shown(event.Kind), "_", " "), t.dim
}

// reasons are what the reasons of refusals mean.
var reasons = map[string]string{
	"ADMISSION_REJECTED":               "no place",
	"ADMISSION_WAIT_DEADLINE_EXCEEDED": "waited too long",
	"BREAKER_OPEN":                     "breaker open",
}

// changers are who has changed a limit, by its source.
var changers = map[string]string{
	adminapi.SourceConfig:   "back to the configuration",
	adminapi.SourceOverride: "by hand",
	adminapi.SourceFleet:    "by the fleet",
}

// requestText is which request an event is about, and why it was refused, in so many cells. The end of a long path
// says more than its beginning.
func requestText(event adminapi.Event, room int) string {
	parts := []string{}
	if event.Status > 0 {
		parts = append(parts, strconv.Itoa(event.Status))
	}
	if event.Reason != "" {
		parts = append(parts, cmp.Or(reasons[event.Reason], shown(event.Reason))+",")
	}
	if event.Kind == "limit_changed" && event.Source != "" {
		parts = append(parts, cmp.Or(changers[event.Source], "by "+shown(event.Source)))
	}
	if event.Model != "" && event.Model != event.Key {
		parts = append(parts, shown(event.Model))
	}
	text := strings.Join(append(parts, shown(event.Method)), " ")
	path := shown(event.Path)
	if left := room - widthOf(text) - 1; left < widthOf(path) && left > 1 {
		path = "…" + endOf(path, left-1)
	}
	return strings.TrimSpace(text + " " + path)
}
