package admission

// routePool is the name of the pool that routes with a limit get when no pool is keyed by route.
const routePool = "route"

// limitRoutes makes a pool key of each route that has a limit: in every pool whose key is the route, or, if there is none,
// in one that is made for them. It comes first, and nobody waits in it.
func (c *Config) limitRoutes(o *object) {
	limits := map[string]int{}
	var names []string
	for i := range c.Routes {
		r := &c.Routes[i]
		if _, known := limits[r.Name]; r.Limit >= 0 && !known {
			limits[r.Name] = r.Limit
			names = append(names, r.Name)
		}
	}
	if len(names) == 0 {
		return
	}
	found := false
	for i := range c.Pools {
		if p := &c.Pools[i]; len(p.Key) == 1 && p.Key[0] == DimensionRoute {
			found = true
			p.limitRoutes(o, names, limits)
		}
	}
	if found {
		return
	}
	for i := range c.Pools {
		if sameStat(c.Pools[i].Name, routePool) {
			o.add("routes", "have limits, which makes a pool "+quoteValue(routePool)+", but another pool has that name")
		}
	}
	p := Pool{Name: routePool, Key: []Dimension{DimensionRoute}, Keys: limits, Match: []Match{{DimensionRoute, names}}}
	c.Pools = append([]Pool{p}, c.Pools...)
}

func (p *Pool) limitRoutes(o *object, names []string, limits map[string]int) {
	if p.Keys == nil {
		p.Keys = map[string]int{}
	}
	for _, name := range names {
		if _, twice := p.Keys[name]; twice {
			o.add("pools", "have two limits for the route "+quoteValue(name)+": one in its pattern, one in the keys of "+quoteValue(p.Name))
		}
		p.Keys[name] = limits[name]
	}
}
