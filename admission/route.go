package admission

// parseRoute stores a pattern of governed requests: [METHOD ]/path[:N][@group]. In the last segment `@` always begins the
// group, and `:` the limit when a digit, a sign, a dot or nothing follows; any other `:` belongs to the path.
func (c *Config) parseRoute(n *node) *ConfigError {
	method, path, found := cut(n.text, " ")
	if !found {
		method, path = "", method
	} else if !isName(method, maxTextBytes, tokenBytes) {
		return n.refuse("begins with no method (want e.g. \"POST /chat/completions\")")
	}
	group, limit := "", -1
	if before, after, found := cutInLast(path, '@'); found {
		path, group = before, after
		if !isName(group, maxNameBytes, "_-.") {
			return n.refuse("has no good group after '@' (want letters, digits, '_', '-' and '.')")
		}
	}
	if before, after, found := cutInLast(path, ':'); found {
		if after == "" || indexByte("+-.0123456789", after[0]) >= 0 {
			digits, rest := cutDigits(after)
			number, ok := parseDigits(digits, MaxLimit)
			if !ok || rest != "" || digits == "" || digits[0] == '0' && digits != "0" {
				return n.refuse(around("has no limit after ':' (want 0 to ", MaxLimit, ")"))
			}
			path, limit = before, int(number)
		}
	}
	method = otherCase(method, 'a')
	name := path
	if method != "" {
		name = method + " " + path
	}
	if group != "" {
		name = "@" + group
	}
	segments, problem := cutPattern(path)
	for i := 0; i < len(c.Routes) && problem == ""; i++ {
		earlier := &c.Routes[i]
		if earlier.Method == method && equalFolds(earlier.Segments, segments) {
			problem = around("repeats routes[", i, "], which would always match first")
		} else if group != "" && earlier.Group == group && earlier.Limit != limit {
			problem = around("disagrees with routes[", i, "] on the limit of group "+quoteValue(name))
		}
	}
	if problem != "" {
		return n.refuse(problem)
	}
	c.Routes = append(c.Routes, Route{Method: method, Segments: segments, Limit: limit, Group: group, Name: name})
	return nil
}

// cutPattern is the segments of a pattern's path, which is written decoded and normalised, or what is wrong with it.
func cutPattern(path string) (segments []string, problem string) {
	if !hasPrefix(path, "/") {
		return nil, "has no path that begins with '/'"
	}
	for i := range len(path) {
		if indexByte(" \"#%;<>?\\^`{|}", path[i]) >= 0 {
			return nil, "holds " + quoteValue(path[i:i+1]) + " (want a decoded path; '*' stands for any run of characters in a segment)"
		}
	}
	for rest, more := path[1:], true; more; {
		var s string
		if s, rest, more = cut(rest, "/"); s == "" || s == "." || s == ".." {
			return nil, "has an empty, '.' or '..' segment"
		}
		segments = putText(segments, s)
	}
	if len(segments) > maxRouteSegments {
		return nil, around("has more than ", maxRouteSegments, " segments")
	}
	return segments, ""
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
