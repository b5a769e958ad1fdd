package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate/admission/config"
)

// A pattern is one value of --limit: its text, and the route that it means.
type pattern struct {
	text  string
	route config.Route
}

// parsePattern reads [METHOD ]/path[:N][@group].
func parsePattern(text string) (pattern, error) {
	route, err := config.ParseRoute(text)
	if err != nil {
		return pattern{}, fmt.Errorf("%w: want [METHOD ]/path[:N][@group], e.g. \"POST /chat/completions:4\"", err)
	}
	return pattern{text, route}, nil
}

// withLimit is the pattern's text with its own limit, or with n where it has none.
func (p *pattern) withLimit(n int) string {
	if p.route.Limit >= 0 {
		return p.text
	}
	if p.route.Group == "" {
		return p.text + ":" + strconv.Itoa(n)
	}
	group := "@" + p.route.Group
	return strings.TrimSuffix(p.text, group) + ":" + strconv.Itoa(n) + group
}

// routes are the governed patterns: those of --limit, or the well-known ones where no --limit was given.
func (g *gateway) routes() []string {
	if len(g.limits) == 0 {
		return wellKnownRoutes()
	}
	routes := make([]string, len(g.limits))
	for i := range g.limits {
		routes[i] = g.limits[i].withLimit(g.concurrency)
	}
	return routes
}

// greatestLimit is the greatest limit that a route has.
func (g *gateway) greatestLimit() int {
	if len(g.limits) == 0 {
		return g.concurrency
	}
	greatest := 0
	for i := range g.limits {
		limit := g.limits[i].route.Limit
		if limit < 0 {
			limit = g.concurrency
		}
		greatest = max(greatest, limit)
	}
	return greatest
}

// routeIndex is how an error of the plugin configuration names a route.
var routeIndex = regexp.MustCompile(`routes\[(\d+)\]`)

// explainRefusal turns a refusal of the plugin configuration into one that names the flag.
func (g *gateway) explainRefusal(err error) error {
	var refused *config.Error
	if len(g.limits) == 0 || !errors.As(err, &refused) || !routeIndex.MatchString(refused.Field) {
		return usageError{fmt.Errorf("these flags make no plugin configuration: %w", err)}
	}
	return usageError{errors.New(routeIndex.ReplaceAllStringFunc(refused.Error(), func(at string) string {
		i, _ := strconv.Atoi(at[len("routes[") : len(at)-1])
		return "--limit " + strconv.Quote(g.limits[i].text)
	}))}
}

// A methodPaths has the governed paths of one method. The method "" stands for every method.
type methodPaths struct {
	method string
	paths  []string // regular expressions
}

// pathsByMethod groups the governed patterns by their methods, in the order in which the methods first appear. Without
// patterns every request is governed.
func pathsByMethod(routes []config.Route) []methodPaths {
	if len(routes) == 0 {
		return []methodPaths{{}}
	}
	var grouped []methodPaths
	for i := range routes {
		route := &routes[i]
		at := slices.IndexFunc(grouped, func(m methodPaths) bool { return m.method == route.Method })
		if at < 0 {
			at, grouped = len(grouped), append(grouped, methodPaths{method: route.Method})
		}
		grouped[at].paths = append(grouped[at].paths, pathExpression(route.Segments))
	}
	return grouped
}

// slash is a separator of a path as clients write it.
const slash = `(?:/|%2F)`

// pathExpression is a regular expression for the end of a path. It knows the usual spellings. Headgate governs more of
// them, which are then not retried: dot segments, and other escapes than those of slashes and colons.
func pathExpression(segments []string) string {
	expressions := make([]string, len(segments))
	for i, segment := range segments {
		expression := strings.ReplaceAll(regexp.QuoteMeta(segment), `\*`, `[^/?]*`)
		expressions[i] = strings.ReplaceAll(expression, ":", `(?::|%3A)`)
	}
	return strings.Join(expressions, slash+"+")
}

// expression is a regular expression for a request's path and query. It matches when the path ends with one of the
// paths, or always where there are none.
func (m *methodPaths) expression() string {
	if len(m.paths) == 0 {
		return ".*"
	}
	return `(?i)[^?]*` + slash + `(?:` + strings.Join(m.paths, "|") + `)` + slash + `*(?:\?.*)?`
}
