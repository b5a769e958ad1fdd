package admission

import "strconv"

// The features that are configured and checked, but that this version does not act on. A configuration that asks for one
// is refused: to ignore it would let through what it was meant to stop. Building a feature deletes its line here.
var unbuilt = []struct {
	field string
	asked func(c *Config) bool
}{
	{"mode", func(c *Config) bool { return c.Mode == ModeShadow }},
	{"stage", func(c *Config) bool { return c.Stage == StageInvocation }},
	{"stage", func(c *Config) bool { return c.Stage == StageAttempt }},
	{"stage", func(c *Config) bool { return c.Stage == StageAdmin }},
	{"identity.aliases", func(c *Config) bool { return len(c.Identity.Aliases) > 0 }},
}

var unbuiltPool = []struct {
	field string
	asked func(p *Pool) bool
}{
	{"per", func(p *Pool) bool { return p.Per == PerAttempt }},
	{"match", func(p *Pool) bool { return len(p.Match) > 0 }},
	{"min_active", func(p *Pool) bool { return p.MinActive > 0 }},
	{"hold", func(p *Pool) bool { return p.Hold != Hold{} }},
	{"breaker", func(p *Pool) bool { return p.Breaker != nil }},
	{"headroom", func(p *Pool) bool { return p.Headroom != nil }},
}

var unbuiltRoute = []func(r *Route) bool{
	func(r *Route) bool { return r.Limit >= 0 },
	func(r *Route) bool { return r.Group != "" },
}

// unbuiltSource is for the sources of every dimension.
var unbuiltSource = []struct {
	field string
	kind  SourceKind
}{
	{"metadata", SourceMetadata},
	{"peer_certificate", SourcePeerCertificate},
	{"filter_state", SourceFilterState},
	{"json_body", SourceJSONBody},
}

// refuseUnbuilt is a *ConfigError for the first feature of c that is not built, or nil.
func (c *Config) refuseUnbuilt() error {
	found := &problems{}
	for _, u := range unbuilt {
		if u.asked(c) {
			found.unbuilt(u.field)
		}
	}
	for i := range c.Routes {
		for _, asked := range unbuiltRoute {
			if asked(&c.Routes[i]) {
				found.unbuilt("routes[" + strconv.Itoa(i) + "]")
			}
		}
	}
	found.unbuiltSources("identity.tenant", c.Identity.Tenant)
	found.unbuiltSources("identity.model", c.Identity.Model)
	found.unbuiltSources("identity.class", c.Identity.Class)
	for i := range c.Pools {
		for _, u := range unbuiltPool {
			if u.asked(&c.Pools[i]) {
				found.unbuilt("pools[" + strconv.Itoa(i) + "]." + u.field)
			}
		}
	}
	if found.first != nil {
		return found.first
	}
	return nil
}

func (p *problems) unbuiltSources(path string, sources []Source) {
	for i, s := range sources {
		for _, u := range unbuiltSource {
			if s.Kind == u.kind {
				p.unbuilt(path + "[" + strconv.Itoa(i) + "]." + u.field)
			}
		}
	}
}

func (p *problems) unbuilt(path string) { p.add(path, "is not built into this version yet") }
