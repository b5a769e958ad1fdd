package request

import "github.com/headgate/headgate/admission/config"

// A Router finds the routes of requests. It remembers those of the last few paths: clients of model APIs use the same
// ones all the time, and to read a path takes longer than to compare it.
type Router struct {
	Routes []config.Route

	recent [recentPaths]recentPath
}

const (
	recentPaths   = 16
	longestRecent = 128 // bytes
)

// A recentPath is what MatchRoute has said of a method and a path.
type recentPath struct {
	key    []byte // the method and the path
	method int    // how long the method is
	route  *config.Route
	ok     bool
}

// Match is MatchRoute with the router's routes.
func (r *Router) Match(method, path string) (route *config.Route, ok bool) {
	m, n := len(method), len(method)+len(path)
	if m == 0 || len(path) == 0 || n > longestRecent {
		return MatchRoute(r.Routes, method, path)
	}
	known := &r.recent[(n+3*int(path[len(path)-1])+5*int(path[len(path)/2]))%recentPaths]
	if k := known.key; len(k) == n && known.method == m && string(k[:m]) == method && string(k[m:]) == path {
		return known.route, known.ok
	}
	route, ok = MatchRoute(r.Routes, method, path)
	known.key = append(append(known.key[:0], method...), path...)
	known.method, known.route, known.ok = m, route, ok
	return route, ok
}
