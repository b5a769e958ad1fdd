package check

import "github.com/headgate/headgate/admission/config"

// Warnings are the names of all warnings. docs/checking.md has a row for each.
var Warnings = []string{
	// Of a plugin configuration.
	"queue-without-wait", "wait-without-queue", "waits-before-fair", "fair-without-effect", "hold-replaced",
	"holds-without-effect", "attempt-as-invocation", "unreachable-route", "unknown-route", "aliased-name",
	"body-path", "source-never-asked", "no-source", "deadline-unit",
	// Of where Headgate is loaded.
	"no-fail-reload", "no-stop-iteration", "before-authentication", "behind-the-end", "pool-never-asked",
	"no-pool-asked", "stages-differ", "vm-differs", "client-names-tenant",
	// Of what Envoy must allow.
	"circuit-breakers", "short-timeout", "no-stream-limit", "extra-requests", "unguarded-cluster", "public-admin",
	"exposed-admin",
}

// warnOf warns of what a plugin configuration says without effect, or with another effect than it seems to have.
func (r *Report) warnOf(p *plugin) {
	r.warnOfRoutes(p)
	r.warnOfSources(p)
	r.warnOfDeadlines(p)
	for _, pool := range p.pools {
		if pool.tree.isWhole() {
			r.warnOfQueue(p, pool)
			r.warnOfFairness(p, pool)
			r.warnOfHolds(p, pool)
			r.warnOfNames(p, pool)
			r.warnOfMissingSources(p, pool)
		}
	}
}

// A pool is a pool of a plugin configuration: as package config has it, and in the file.
type pool struct {
	*config.Pool
	index int // in the file
	tree  *value
}

// listPools fills in the pools.
func (p *plugin) listPools() {
	trees := p.root.member("pools").items()
	made := len(p.config.Pools) - len(trees) // of routes with limits
	for i := range p.config.Pools {
		one := pool{&p.config.Pools[i], i - made, nil}
		if i >= made {
			one.tree = trees[i-made]
			p.pools = append(p.pools, one)
		}
		if p.asks(one) {
			p.asked = append(p.asked, one)
		}
	}
}

// inFile reports whether the file itself has everything that a warning is about. What stands in the place of something
// that was refused gives no warnings.
func inFile(values ...*value) bool {
	for _, v := range values {
		if v == nil || !v.isWhole() {
			return false
		}
	}
	return true
}
