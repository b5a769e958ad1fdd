package request

import (
	"github.com/headgate/headgate/admission/config"
	"github.com/headgate/headgate/admission/internal/text"
)

// MatchRoute finds the first of routes that governs a request with that method and :path; ok is false when the request is
// to pass untouched. Without routes every request is governed, by no route: nil, true.
//
// No spelling of a governed path escapes: method and path are compared without regard to ASCII case, and a route matches
// when it matches any reading of the path that an upstream may have (see reading). What is not an ordinary path costs
// more, but nothing here allocates, and the time is bounded by readings (8) * len(path) * len(pattern).
func MatchRoute(routes []config.Route, method, path string) (route *config.Route, ok bool) {
	if len(routes) == 0 {
		return nil, true
	}
	path = cutQuery(path)
	found := len(routes)
	present := readingsOf(path)
	for r := present; ; r = (r - 1) & present {
		var tail pathTail
		tail.fill(path, r)
		found = matchTail(routes[:found], method, &tail)
		if r == 0 {
			break
		}
	}
	if found == len(routes) {
		return nil, false
	}
	return &routes[found], true
}

// matchTail is the index of the first route that matches, or len(routes).
func matchTail(routes []config.Route, method string, tail *pathTail) int {
	for i := range routes {
		r := &routes[i]
		if (r.Method == "" || text.EqualFold(r.Method, method)) && tail.matches(r.Segments) {
			return i
		}
	}
	return len(routes)
}

// A pathTail is the last segments of a path, the last one first.
type pathTail struct {
	segments [config.MaxRouteSegments]string
	n        int
}

func (t *pathTail) fill(path string, r reading) {
	w := segmentWalk{path: path, reading: r}
	for t.n < config.MaxRouteSegments && w.back() {
		t.segments[t.n] = w.segment
		t.n++
	}
}

func (t *pathTail) matches(pattern []string) bool {
	if len(pattern) > t.n {
		return false
	}
	for i := range pattern {
		if !segmentMatches(pattern[len(pattern)-1-i], t.segments[i]) {
			return false
		}
	}
	return true
}
