package check

import (
	"fmt"
	"slices"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/config"
)

// warnOfPool warns about a field of a pool, in the line of the first of the named fields that the file has.
func (r *Report) warnOfPool(name string, p pool, fields []string, format string, args ...any) {
	at, field := p.tree, fmt.Sprintf("pools[%d]", p.index)
	for _, f := range fields {
		if m := p.tree.member(f); m != nil {
			at, field = m, field+"."+f
			break
		}
	}
	r.warn(name, at.line, field, format, args...)
}

// warnOfQueue warns of a queue and a wait that need each other.
func (r *Report) warnOfQueue(_ *plugin, p pool) {
	if p.Queue > 0 && p.MaxWait == 0 {
		r.warnOfPool("queue-without-wait", p, []string{"max_wait"},
			"max_wait is 0s, so nobody waits and the queue of %d does nothing (leave out queue, or set max_wait)", p.Queue)
	}
	if p.tree.member("queue") == nil && p.tree.member("max_wait") != nil && p.MaxWait > 0 {
		r.warnOfPool("wait-without-queue", p, []string{"max_wait"},
			"there is no queue, so nobody waits and max_wait does nothing (set queue)")
	}
}

// queues reports whether requests wait in the pool.
func (p pool) queues() bool { return p.Queue > 0 && p.MaxWait > 0 && p.Limit > 0 }

// warnOfFairness warns of fair_by where it can't be fair.
func (r *Report) warnOfFairness(p *plugin, fair pool) {
	if !fair.FairBy {
		return
	}
	switch {
	case !fair.queues():
		r.warnOfPool("fair-without-effect", fair, []string{"fair_by"},
			"nobody waits in this pool, and fair_by only decides who is next of those that wait (set queue)")
		return
	case slices.Contains(fair.Key, config.DimensionTenant):
		r.warnOfPool("fair-without-effect", fair, []string{"fair_by"},
			"each key of this pool has one tenant, so fair_by does nothing (take tenant out of key, or leave out fair_by)")
		return
	}
	for _, before := range p.pools {
		if p.asksBefore(before, fair) && before.tree.isWhole() && before.holdsUp(fair) {
			r.warnOfPool("waits-before-fair", fair, []string{"fair_by"},
				"requests first wait in pool %q, first come, first served: one tenant can fill that queue, and fair_by "+
					"only orders who came through it (give %q fair_by too, or put this pool first)", before.Name, before.Name)
			return
		}
	}
}

// asksBefore reports whether a request asks a before b.
func (p *plugin) asksBefore(a, b pool) bool {
	if a.Per != b.Per && p.config.Stage != config.StageRequest {
		return a.Per == config.PerInvocation
	}
	return a.index < b.index
}

// holdsUp reports whether requests wait in p, in the order in which they came, before they come to the fair pool.
func (p pool) holdsUp(fair pool) bool {
	if !p.queues() || p.FairBy || slices.Contains(p.Key, config.DimensionTenant) || exclude(p.Match, fair.Match) {
		return false
	}
	// The fair pool refuses what comes beyond its limit and queue, so more than that never hold a permit of p.
	isRoomy := len(fair.Key) == 0 && len(p.Key) == 0 && p.Limit >= fair.Limit+fair.Queue
	return !isRoomy
}

// exclude reports whether no request can meet both conditions.
func exclude(a, b []config.Match) bool {
	for _, x := range a {
		for _, y := range b {
			shared := func(v string) bool { return slices.Contains(y.Values, v) }
			if x.Dimension == y.Dimension && !slices.ContainsFunc(x.Values, shared) {
				return true
			}
		}
	}
	return false
}

// warnOfHolds warns of holds that never come.
func (r *Report) warnOfHolds(p *plugin, pool pool) {
	breaker := pool.tree.member("breaker")
	if pool.Breaker != nil && pool.Breaker.Penalty > 0 && breaker.member("penalty") == nil && pool.Hold.Failure > 0 &&
		pool.Hold.Failure != pool.Breaker.Penalty {
		failure := pool.tree.member("hold").member("failure")
		r.warn("hold-replaced", failure.line, fmt.Sprintf("pools[%d].hold.failure", pool.index),
			"the breaker's penalty, by default %s, takes its place (set breaker.penalty)", pool.Breaker.Penalty)
	}
	holds := pool.Hold != (admission.Hold{}) || pool.Breaker != nil || pool.Headroom != nil || pool.ReapHold > 0
	switch {
	case pool.MinActive > 0 && !holds:
		r.warnOfPool("holds-without-effect", pool, []string{"min_active"},
			"the pool has no hold, no breaker and no headroom, so min_active does nothing")
	case pool.MinActive > 0 && pool.MinActive == pool.Limit:
		r.warnOfPool("holds-without-effect", pool, []string{"min_active"},
			"min_active is the whole limit, so no hold ever takes a permit out of use")
	}
	if p.config.Stage == config.StageRequest && pool.Per == config.PerAttempt {
		r.warnOfPool("attempt-as-invocation", pool, []string{"per"}, "stage request sees a request and its retries as one: "+
			"the permit is held over all of them (use the stages invocation and attempt)")
	}
}

// warnOfNames warns of names in keys and match that no request can have.
func (r *Report) warnOfNames(p *plugin, pool pool) {
	check := func(dimension config.Dimension, name string, at *value, field string) {
		if at == nil {
			return
		}
		switch dimension {
		case config.DimensionRoute:
			if !p.hasRoute(name) {
				r.warn("unknown-route", at.line, field, "no pattern in routes is called %q, so no request has this key", name)
			}
		case config.DimensionModel:
			if counts := p.config.Identity.Aliases[name]; counts != "" {
				r.warn("aliased-name", at.line, field, "%q counts as %q (identity.aliases), so no request has this key", name,
					counts)
			}
		}
	}
	if len(pool.Key) == 1 {
		for _, entry := range pool.tree.member("keys").members() {
			check(pool.Key[0], entry.key, entry, fmt.Sprintf("pools[%d].keys[%q]", pool.index, entry.key))
		}
	}
	for _, m := range pool.Match {
		dimension := dimensions[m.Dimension]
		for i, v := range pool.tree.member("match").member(dimension).items() {
			check(m.Dimension, v.str(), v, fmt.Sprintf("pools[%d].match.%s[%d]", pool.index, dimension, i))
		}
	}
}

// hasRoute reports whether a request's route can have that name.
func (p *plugin) hasRoute(name string) bool {
	if len(p.config.Routes) == 0 {
		return name == "any" || name == "other"
	}
	return name == "other" || slices.ContainsFunc(p.config.Routes, func(r config.Route) bool { return r.Name == name })
}

// dimensions are the names of the dimensions, in the order of their constants.
var dimensions = [...]string{
	config.DimensionTenant: "tenant", config.DimensionModel: "model", config.DimensionRoute: "route",
	config.DimensionClass: "class",
}

// warnOfMissingSources warns of a pool that tells requests apart by something that no request has.
func (r *Report) warnOfMissingSources(p *plugin, pool pool) {
	for _, dimension := range sourced {
		isTold := p.config.Stage == config.StageAttempt && dimension != config.DimensionModel // by the stage before it
		if len(p.sourcesOf(dimension)) > 0 || isTold || !p.asks(pool) {
			continue
		}
		name := dimensions[dimension]
		var field string
		switch {
		case slices.Contains(pool.Key, dimension):
			field = "key"
		case slices.ContainsFunc(pool.Match, func(m config.Match) bool { return m.Dimension == dimension }):
			field = "match"
		case dimension == config.DimensionTenant && pool.FairBy:
			field = "fair_by"
		default:
			continue
		}
		all := "unknown"
		if dimension == config.DimensionTenant {
			all = "anonymous"
		}
		r.warnOfPool("no-source", pool, []string{field}, "identity has no source of the %s, so every request is the %s %q",
			name, name, all)
	}
}

// warnOfNothing warns of a configuration whose stage asks none of its pools.
func (r *Report) warnOfNothing(p *plugin) {
	if !p.limitsNothing() {
		return
	}
	per, other := "attempt", "invocation"
	if p.config.Stage == config.StageAttempt {
		per, other = other, per
	}
	r.warn("no-pool-asked", p.root.member("stage").lineOr(p.root.line), "stage", "nothing is limited: stage %q asks the "+
		"pools with per: %q, and all pools here have per: %q (want stage %q or \"request\", or a pool with per: %q)",
		stageNames[p.config.Stage], other, per, per, other)
}

// limitsNothing reports whether no request of the plugin's stage ever asks a pool.
func (p *plugin) limitsNothing() bool {
	return p.config != nil && !p.broken && p.config.Stage != config.StageAdmin && len(p.asked) == 0
}

// asks reports whether the plugin's stage asks the pool.
func (p *plugin) asks(pool pool) bool {
	switch p.config.Stage {
	case config.StageInvocation:
		return pool.Per == config.PerInvocation
	case config.StageAttempt:
		return pool.Per == config.PerAttempt
	}
	return p.config.Stage == config.StageRequest
}
