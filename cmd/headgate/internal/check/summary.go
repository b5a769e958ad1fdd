package check

import (
	"fmt"
	"strings"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/config"
)

var (
	modeNames  = [...]string{config.ModeEnforce: "enforce", config.ModeShadow: "shadow", config.ModeDisabled: "disabled"}
	stageNames = [...]string{config.StageRequest: "request", config.StageInvocation: "invocation",
		config.StageAttempt: "attempt", config.StageAdmin: "admin"}
)

// pluginConfiguration is what a file is that has nothing else in it.
const pluginConfiguration = "a plugin configuration"

// summarize adds what a plugin configuration without errors does.
func (r *Report) summarize(p *plugin, what string) {
	if p.broken || p.config == nil {
		return
	}
	c := p.config
	line := func(name, text string) { r.Summary = append(r.Summary, fmt.Sprintf("  %-13s %s", name, text)) }
	r.Summary = append(r.Summary, fmt.Sprintf("%s: %s is valid", r.Name, what))
	line("mode", modeNames[c.Mode]+modeMeaning(c.Mode))
	line("stage", stageNames[c.Stage])
	line("governs", p.governed())
	if p.limitsNothing() {
		line("pools", "none that this stage asks")
	}
	for i, pool := range p.asked {
		name := ""
		if i == 0 {
			name = "pools"
		}
		line(name, pool.describe())
	}
	line("longest wait", p.waits())
	needs := p.needs()
	if what == pluginConfiguration { // in any other file the warnings are about what is there
		needs = append(needs, "failure_policy: FAIL_RELOAD")
	}
	for i, need := range needs {
		name := ""
		if i == 0 {
			name = "Envoy needs"
		}
		line(name, need)
	}
}

func modeMeaning(m config.Mode) string {
	return [...]string{
		config.ModeEnforce:  "",
		config.ModeShadow:   ": every request passes, and what enforcing would do is counted",
		config.ModeDisabled: ": every request passes, and nothing is counted",
	}[m]
}

// governed says which requests the plugin governs.
func (p *plugin) governed() string {
	routes := p.config.Routes
	const shown = 4
	var names []string
	for i := range min(shown, len(routes)) {
		names = append(names, routes[i].Method+" /"+strings.Join(routes[i].Segments, "/"))
	}
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	switch {
	case len(routes) == 0:
		return "every request"
	case len(routes) > shown:
		return fmt.Sprintf("%s and %d more patterns", strings.Join(names, ", "), len(routes)-shown)
	}
	return strings.Join(names, ", ")
}

// describe says what a pool does in one line.
func (p pool) describe() string {
	each := ""
	if len(p.Key) > 0 {
		var names []string
		for _, d := range p.Key {
			names = append(names, dimensions[d])
		}
		each = " for each " + strings.Join(names, " and ")
	}
	text := fmt.Sprintf("%s: %d at once%s", p.Name, p.Limit, each)
	if p.Limit == 0 {
		text = p.Name + ": closed" + each
	}
	if len(p.Keys) > 0 {
		text += fmt.Sprintf(" (%d with limits of their own)", len(p.Keys))
	}
	if p.Queue > 0 && p.MaxWait > 0 {
		text += fmt.Sprintf(", %d more wait up to %s", p.Queue, p.MaxWait)
	} else {
		text += ", nobody waits"
	}
	if p.FairBy {
		text += ", fair by tenant"
	}
	return text
}

// longestWait returns how long a request can wait in the pools of the plugin's stage, all together.
func (p *plugin) longestWait() (total admission.Duration) {
	for _, pool := range p.asked {
		if pool.Queue > 0 {
			total += pool.MaxWait
		}
	}
	if d := p.config.Deadline; len(d.Headers) == 0 && d.Default > 0 {
		total = min(total, d.Default)
	}
	return total
}

func (p *plugin) waits() string {
	wait, more := p.longestWait(), ""
	if p.tryWait > 0 {
		more = fmt.Sprintf(", and %s more for each try, in the cluster", p.tryWait)
	}
	switch {
	case wait+p.tryWait == 0 && p.limitsNothing():
		return "none: every request runs at once"
	case wait+p.tryWait == 0 && p.config.Mode != config.ModeEnforce:
		return "none: a request would run at once or be refused, once the mode is enforce"
	case wait+p.tryWait == 0:
		return "none: a request runs at once or is refused"
	case p.config.Mode != config.ModeEnforce:
		more += ", once the mode is enforce"
	}
	return wait.String() + more
}

// needs says what Envoy must allow for the plugin to work.
func (p *plugin) needs() (list []string) {
	if p.config.Mode == config.ModeDisabled {
		return nil
	}
	if wait := p.longestWait() + p.tryWait; wait > 0 {
		const timeouts = "stream_idle_timeout above %s, and request_timeout and max_stream_duration too if set"
		list = append(list, fmt.Sprintf(timeouts, wait))
	}
	if n, bounded := p.atOnce(); n > 0 && bounded {
		list = append(list, fmt.Sprintf("circuit_breakers of the clusters at %d or more", n))
	} else if n > 0 {
		list = append(list, fmt.Sprintf("circuit_breakers of the clusters at %d or more for each key in use", n))
	}
	if p.bodySource() != nil && p.config.Stage != config.StageAttempt {
		list = append(list, "allow_on_headers_stop_iteration: true, because the model is read from the body")
	}
	return list
}

// atOnce returns how many requests the plugin may send on at once, with those that wait in the stage attempt: they have
// an upstream connection already. Where only pools with keys bound that, it is what one key allows, and bounded is
// false.
func (p *plugin) atOnce() (n int, bounded bool) {
	least, most, known := -1, 0, true
	for _, pool := range p.asked {
		room := pool.room(p)
		most = max(most, room)
		known = known && pool.hasKnownKeys()
		if len(pool.Match) == 0 && pool.hasKnownKeys() && (least < 0 || room < least) {
			least = room
		}
	}
	if least < 0 {
		return most, known // each pool is for some requests, or for one key
	}
	return least, true
}

// hasKnownKeys reports whether the configuration says which keys the pool can have.
func (p pool) hasKnownKeys() bool {
	return len(p.Key) == 0 || len(p.Key) == 1 && p.Key[0] == config.DimensionRoute
}

// room returns how many requests at once can be in the pool, as far as its keys are known.
func (p pool) room(of *plugin) int {
	waiting := 0
	if of.config.Stage == config.StageAttempt && p.MaxWait > 0 {
		waiting = p.Queue
	}
	if len(p.Key) == 0 {
		return p.Limit + waiting
	}
	named := 0
	for _, limit := range p.Keys {
		named += limit + waiting
	}
	if len(p.Key) == 1 && p.Key[0] == config.DimensionRoute {
		seen := map[string]bool{}
		for _, route := range of.config.Routes {
			if _, hasOwn := p.Keys[route.Name]; !hasOwn && !seen[route.Name] {
				seen[route.Name] = true
				named += p.Limit + waiting
			}
		}
	}
	return max(named, p.Limit+waiting)
}
