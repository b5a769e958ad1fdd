package config

import (
	"errors"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/internal/text"
)

// MaxRouteSegments is how many segments, from the end of a path, a pattern can name.
const MaxRouteSegments = 16

// ParseRoute reads a pattern of governed requests: [METHOD ]/path[:N][@group]. In the last segment `@` begins the
// group. `:` begins the limit when a digit, a sign, a dot or nothing follows; any other `:` belongs to the path. The
// error says what is wrong with the pattern, and does not repeat it.
func ParseRoute(pattern string) (Route, error) {
	problem := textProblem(pattern)
	var route Route
	if problem == "" {
		route, problem = parseRoute(pattern)
	}
	if problem != "" {
		return Route{}, errors.New(problem)
	}
	return route, nil
}

// parseRoute is ParseRoute for a pattern that is a text, with the problem as a string.
func parseRoute(pattern string) (r Route, problem string) {
	method, path, found := text.Cut(pattern, " ")
	if !found {
		method, path = "", method
	} else if !text.IsName(method, maxTextBytes, tokenBytes) {
		return r, `begins with no method (want e.g. "POST /chat/completions")`
	}
	r.Limit = -1
	if before, after, found := text.CutInLast(path, '@'); found {
		path, r.Group = before, after
		if !text.IsName(r.Group, maxNameBytes, "_-.") {
			return r, "has no good group after '@' (want letters, digits, '_', '-' and '.')"
		}
	}
	if before, after, found := text.CutInLast(path, ':'); found {
		if after == "" || text.IndexByte("+-.0123456789", after[0]) >= 0 {
			digits, rest := text.CutDigits(after)
			number, ok := text.ParseDigits(digits, admission.MaxLimit)
			if !ok || rest != "" || digits == "" || digits[0] == '0' && digits != "0" {
				return r, text.Around("has no limit after ':' (want 0 to ", admission.MaxLimit, ")")
			}
			path, r.Limit = before, int(number)
		}
	}
	r.Method = text.ChangeCase(method, text.ToUpper)
	r.Name = path
	if r.Method != "" {
		r.Name = r.Method + " " + path
	}
	if r.Group != "" {
		r.Name = "@" + r.Group
	}
	r.Segments, problem = cutPattern(path)
	return r, problem
}

// storeRoute parses a pattern and stores it. It refuses one that contradicts a pattern before it.
func (c *Config) storeRoute(n *node) *Error {
	r, problem := parseRoute(n.text)
	for i := 0; i < len(c.Routes) && problem == ""; i++ {
		earlier := &c.Routes[i]
		if earlier.Method == r.Method && text.EqualFolds(earlier.Segments, r.Segments) {
			problem = text.Around("repeats routes[", i, "], which would always match first")
		} else if r.Group != "" && earlier.Group == r.Group && earlier.Limit != r.Limit {
			problem = text.Around("disagrees with routes[", i, "] on the limit of group "+quoteValue(r.Name))
		}
	}
	if problem != "" {
		return n.refuseValue(problem)
	}
	c.Routes = append(c.Routes, r)
	return nil
}

// cutPattern returns the segments of a pattern's path, or what is wrong with it. A pattern is written as a path is
// after decoding and normalising.
func cutPattern(path string) (segments []string, problem string) {
	if !text.HasPrefix(path, "/") {
		return nil, "has no path that begins with '/'"
	}
	for i := range len(path) {
		if text.IndexByte(" \"#%;<>?\\^`{|}", path[i]) >= 0 {
			return nil, "holds " + quoteValue(path[i:i+1]) +
				" (want a decoded path; '*' stands for any run of characters in a segment)"
		}
	}
	for rest, more := path[1:], true; more; {
		var s string
		if s, rest, more = text.Cut(rest, "/"); s == "" || s == "." || s == ".." {
			return nil, "has an empty, '.' or '..' segment"
		}
		segments = text.PutText(segments, s)
	}
	if len(segments) > MaxRouteSegments {
		return nil, text.Around("has more than ", MaxRouteSegments, " segments")
	}
	return segments, ""
}
