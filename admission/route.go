package admission

import (
	"strconv"
)

// parseRoutes reads the patterns of governed requests.
func parseRoutes(f field) (routes []Route) {
	for _, e := range f.array(0, maxRoutes) {
		r := parseRoute(e)
		for i := range routes {
			checkRoutePair(e, &routes[i], &r, "routes["+strconv.Itoa(i)+"]")
		}
		routes = append(routes, r)
	}
	return routes
}

// checkRoutePair refuses a route that an earlier one makes dead, or that disagrees with its group.
func checkRoutePair(e field, earlier, r *Route, at string) {
	switch {
	case r.Segments == nil:
	case earlier.Method == r.Method && equalFolds(earlier.Segments, r.Segments):
		e.refuse("repeats " + at + ", which would always match first")
	case r.Group != "" && earlier.Group == r.Group && earlier.Limit != r.Limit:
		e.refuse("disagrees with " + at + " on the limit of group " + quoteValue("@"+r.Group))
	}
}

// parseRoute reads [METHOD ]/path[:N][@group]. In the last segment `@` always begins the group, and `:` the limit when
// a digit, a sign, a dot or nothing follows; any other `:` belongs to the path.
func parseRoute(f field) Route {
	r := Route{Limit: -1}
	text, ok := f.text()
	if !ok {
		return r
	}
	path := text
	if method, rest, found := cut(text, " "); found {
		r.Method, path = asciiUpper(method), rest
		if method == "" || anyRune(method, notIn("!#$%&'*+-.^_`|~")) {
			f.refuse("begins with no method (want e.g. \"POST /chat/completions\")")
			return r
		}
	}
	path = cutGroup(f, path, &r)
	path = cutLimit(f, path, &r)
	if problem := checkPattern(path); problem != "" {
		f.refuse(problem)
		return r
	}
	r.Segments = split(path[1:], '/')
	r.Name = routeName(&r, path)
	return r
}

func routeName(r *Route, path string) string {
	switch {
	case r.Group != "":
		return "@" + r.Group
	case r.Method != "":
		return r.Method + " " + path
	}
	return path
}

// cutGroup takes @group off the end of a pattern.
func cutGroup(f field, pattern string, r *Route) (path string) {
	at := lastIndexByte(pattern, '@')
	if at < lastIndexByte(pattern, '/') || at < 0 {
		return pattern
	}
	r.Group = pattern[at+1:]
	if r.Group == "" || len(r.Group) > maxNameBytes || anyRune(r.Group, notIn("_-.")) {
		f.refuse("has no good group after '@' (want letters, digits, '_', '-' and '.')")
	}
	return pattern[:at]
}

// cutLimit takes :N off the end of a pattern.
func cutLimit(f field, pattern string, r *Route) (path string) {
	at := lastIndexByte(pattern, ':')
	if at < lastIndexByte(pattern, '/') || at < 0 {
		return pattern
	}
	limit := pattern[at+1:]
	if limit != "" && !isDigit(limit[0]) && indexByte("+-.", limit[0]) < 0 {
		return pattern
	}
	n, ok := parseDigits(limit, MaxLimit)
	_, rest := cutDigits(limit)
	if !ok || rest != "" || limit == "" || limit[0] == '0' && limit != "0" {
		f.refuse("has no limit after ':' (want 0 to " + strconv.Itoa(MaxLimit) + ")")
	}
	r.Limit = int(n)
	return pattern[:at]
}

// checkPattern says what is wrong with the path of a pattern, which is written decoded and normalised; "" if nothing is.
func checkPattern(path string) string {
	if !hasPrefix(path, "/") {
		return "has no path that begins with '/'"
	}
	for i := range len(path) {
		if indexByte(" \"#%;<>?\\^`{|}", path[i]) < 0 {
			continue
		}
		return "holds " + quoteValue(path[i:i+1]) + " (want a decoded path; '*' stands for any run of characters in a segment)"
	}
	segments := split(path[1:], '/')
	for _, s := range segments {
		if s == "" || s == "." || s == ".." {
			return "has an empty, '.' or '..' segment"
		}
	}
	if len(segments) > maxRouteSegments {
		return "has more than " + strconv.Itoa(maxRouteSegments) + " segments"
	}
	return ""
}

// maxRouteSegments is how many trailing segments of a path a pattern can name.
const maxRouteSegments = 16

// MatchRoute is the first configured route that governs a request with that method and :path; ok is false when the
// request is to pass untouched. Without configured routes every request is governed, by no route: nil, true.
//
// No spelling of a governed path escapes: method and path are compared without regard to ASCII case, and a route matches
// when it matches any reading of the path that an upstream may have (see reading). What is not an ordinary path costs
// more, but nothing here allocates, and the time is bounded by readings (8) * len(path) * len(pattern).
func (c *Config) MatchRoute(method, path string) (route *Route, ok bool) {
	if len(c.Routes) == 0 {
		return nil, true
	}
	path = cutQuery(path)
	found := len(c.Routes)
	present := readingsOf(path)
	for r := present; ; r = (r - 1) & present {
		var tail pathTail
		tail.fill(path, r)
		found = matchTail(c.Routes[:found], method, &tail)
		if r == 0 {
			break
		}
	}
	if found == len(c.Routes) {
		return nil, false
	}
	return &c.Routes[found], true
}

// matchTail is the index of the first route that matches, or len(routes).
func matchTail(routes []Route, method string, tail *pathTail) int {
	for i := range routes {
		r := &routes[i]
		if (r.Method == "" || equalFold(r.Method, method)) && tail.matches(r.Segments) {
			return i
		}
	}
	return len(routes)
}

// A pathTail is the last segments of a path, the last one first.
type pathTail struct {
	segments [maxRouteSegments]string
	n        int
}

func (t *pathTail) fill(path string, r reading) {
	w := segmentWalk{path: path, reading: r}
	for t.n < maxRouteSegments && w.back() {
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
