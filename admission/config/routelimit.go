package config

import (
	"github.com/headgate/headgate/admission/internal/text"
)

// routePool is the name of the pool that routes with a limit get when no pool is keyed by route.
const routePool = "route"

// limitRoutes makes a pool key of each route that has a limit: in every pool whose key is the route, or, if there is none,
// in one that is made for them. It comes first, and nobody waits in it.
func (c *Config) limitRoutes() *Error {
	limits := map[string]int{}
	var names []string
	for i := range c.Routes {
		r := &c.Routes[i]
		if _, known := limits[r.Name]; r.Limit >= 0 && !known {
			limits[r.Name] = r.Limit
			names = text.PutText(names, r.Name)
		}
	}
	if names == nil {
		return nil
	}
	found, taken := false, false
	for i := range c.Pools {
		p := &c.Pools[i]
		taken = taken || sameStat(p.Name, routePool)
		if len(p.Key) != 1 || p.Key[0] != DimensionRoute {
			continue
		}
		found = true
		if p.Keys == nil {
			p.Keys = map[string]int{}
		}
		for _, name := range names {
			if _, twice := p.Keys[name]; twice {
				of := quoteValue(name) + ": one in its pattern, one in the keys of " + quoteValue(p.Name)
				return refusal("pools", "have two limits for the route "+of)
			}
			p.Keys[name] = limits[name]
		}
	}
	if found {
		return nil
	}
	if taken {
		return refusal("routes", "have limits, which makes a pool "+quoteValue(routePool)+", but another pool has that name")
	}
	p := Pool{Name: routePool, Key: []Dimension{DimensionRoute}, Keys: limits, Match: []Match{{DimensionRoute, names}}}
	c.Pools = append([]Pool{p}, c.Pools...)
	return nil
}
