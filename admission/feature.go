package admission

import "strconv"

// The features that are configured and checked, but that this version does not act on. A configuration that asks for one
// is refused: to ignore it would let through what it was meant to stop. Building a feature deletes its line here.
var unbuilt = []struct {
	field string
	asked func(c *Config) bool
}{
	{"stage", func(c *Config) bool { return c.Stage == StageAdmin }},
}

var unbuiltPool = []struct {
	field string
	asked func(p *Pool) bool
}{
	{"min_active", func(p *Pool) bool { return p.MinActive > 0 }},
	{"hold", func(p *Pool) bool { return p.Hold != Hold{} }},
	{"breaker", func(p *Pool) bool { return p.Breaker != nil }},
	{"headroom", func(p *Pool) bool { return p.Headroom != nil }},
}

var unbuiltRoute = []func(r *Route) bool{
	func(r *Route) bool { return r.Limit >= 0 },
	func(r *Route) bool { return r.Group != "" },
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

func (p *problems) unbuilt(path string) { p.add(path, "is not built into this version yet") }
