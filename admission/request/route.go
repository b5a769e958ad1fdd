package request

import (
	"github.com/headgate/headgate/admission/config"
	"github.com/headgate/headgate/admission/internal/text"
)

// MatchRoute returns the first route that governs a request with that method and :path. ok is false if none does; the
// request then passes untouched. Without routes every request is governed, and the result is nil, true.
//
// A client can't avoid a route by the way it writes a path. Methods are compared without regard to the case of ASCII
// letters. A route matches when it matches any reading of the path (see reading), and its segments match as any
// upstream would match them (see segmentMatches). Nothing here allocates. A path that takes too much effort to read is
// governed by the first route.
func MatchRoute(routes []config.Route, method, path string) (route *config.Route, ok bool) {
	if len(routes) == 0 {
		return nil, true
	}
	path = cutQuery(path)
	first := len(routes)
	bits := readingsOf(path)
	e := effort{left: leastEffort + effortPerRoute*len(routes)}
	for r := bits; ; r = (r - 1) & bits {
		tail := pathTail{effort: e}
		tail.fill(path, r)
		first = matchTail(routes[:first], method, &tail)
		if e = tail.effort; e.over() {
			return &routes[first%len(routes)], true
		}
		if r == 0 {
			break
		}
	}
	if first == len(routes) {
		return nil, false
	}
	return &routes[first], true
}

// matchTail returns the index of the first route that matches, or len(routes).
func matchTail(routes []config.Route, method string, tail *pathTail) int {
	for i := range routes {
		r := &routes[i]
		if (r.Method == "" || text.EqualFold(r.Method, method)) && tail.matches(r.Segments) {
			return i
		}
	}
	return len(routes)
}

// A pathTail has the last segments of a path, the last one first.
type pathTail struct {
	segments [config.MaxRouteSegments]string
	n        int
	effort   effort
}

// fill reads the last segments of a path in one reading. Most paths have but the reading 0, in which only slashes
// separate segments and nothing is left out. It is what segmentWalk would read, and takes less time.
func (t *pathTail) fill(path string, r reading) {
	for r == 0 && path != "" && t.n < config.MaxRouteSegments {
		from := len(path)
		for from > 0 && path[from-1] != '/' {
			from--
		}
		before := path[:max(from-1, 0)]
		if t.effort.left -= len(path) - len(before); t.effort.over() {
			return
		}
		if from < len(path) {
			t.segments[t.n] = path[from:]
			t.n++
		}
		path = before
	}
	if r == 0 {
		return
	}
	w := segmentWalk{path: path, reading: r, effort: t.effort}
	for t.n < config.MaxRouteSegments && w.back() {
		t.segments[t.n] = w.segment
		t.n++
	}
	t.effort = w.effort
}

// matches reports whether the path ends with the segments of a pattern.
func (t *pathTail) matches(pattern []string) bool {
	if len(pattern) > t.n {
		return false
	}
	for i := range pattern {
		p, segment := pattern[len(pattern)-1-i], t.segments[i]
		if p != segment && !segmentMatches(p, segment, i == 0, &t.effort) {
			return false
		}
	}
	return true
}
