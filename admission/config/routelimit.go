package config

import "github.com/headgate/headgate/admission/internal/text"

// routePool is the name of the pool that is made for routes with a limit when no pool has the route as its key.
const routePool = "route"

// limitRoutes gives each route that has a limit a key with that limit in every pool whose key is the route. If there is
// no such pool, it puts one before the others. Nobody waits in that one.
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
	keyed, nameTaken := false, false
	for i := range c.Pools {
		p := &c.Pools[i]
		nameTaken = nameTaken || sameStat(p.Name, routePool)
		if len(p.Key) != 1 || p.Key[0] != DimensionRoute {
			continue
		}
		keyed = true
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
	if keyed {
		return nil
	}
	if nameTaken {
		return refusal("routes", "have limits, which makes a pool "+quoteValue(routePool)+", but another pool has that name")
	}
	p := Pool{Name: routePool, Key: []Dimension{DimensionRoute}, Keys: limits, Match: []Match{{DimensionRoute, names}}}
	c.Pools = append([]Pool{p}, c.Pools...)
	return nil
}
