package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate/admission"
)

// A pattern is one value of --limit: a route as the plugin configuration has it, and what it means.
type pattern struct {
	text  string
	route admission.Route
}

// parsePattern reads [METHOD ]/path[:N][@group].
func parsePattern(text string) (pattern, error) {
	route, err := parseRoute(text)
	if err != nil {
		return pattern{}, err
	}
	return pattern{text, route}, nil
}

// parseRoute leaves the judgement to the one who will read the configuration.
func parseRoute(text string) (admission.Route, error) {
	config, err := json.Marshal(map[string]any{"routes": []string{text}, "pools": []pluginPool{{Name: "any", Limit: 1}}})
	if err != nil {
		return admission.Route{}, err
	}
	parsed, err := admission.ParseConfig(config)
	var refused *admission.ConfigError
	if errors.As(err, &refused) {
		_, problem, _ := strings.Cut(refused.Problem, `" `)
		return admission.Route{}, fmt.Errorf("%s: want [METHOD ]/path[:N][@group], e.g. \"POST /chat/completions:4\"", cmp.Or(problem, refused.Problem))
	}
	if err != nil {
		return admission.Route{}, err
	}
	return parsed.Routes[0], nil
}

// withLimit is the pattern's text with a limit: its own, else the default one.
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

// routes are the governed patterns: those of --limit, else the well-known ones that the template has.
func (g *gateway) routes(wellKnown []string) []string {
	if len(g.limits) == 0 {
		return wellKnown
	}
	routes := make([]string, len(g.limits))
	for i := range g.limits {
		routes[i] = g.limits[i].withLimit(g.concurrency)
	}
	return routes
}

// greatestLimit is the most requests of one route that run at once.
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

// explain says a refusal of the plugin configuration in words of the flags.
func (g *gateway) explain(err error) error {
	var refused *admission.ConfigError
	if len(g.limits) == 0 || !errors.As(err, &refused) || !routeIndex.MatchString(refused.Field) {
		return fmt.Errorf("these flags make no plugin configuration: %w", err)
	}
	return errors.New(routeIndex.ReplaceAllStringFunc(refused.Error(), func(at string) string {
		i, _ := strconv.Atoi(at[len("routes[") : len(at)-1])
		return "--limit " + strconv.Quote(g.limits[i].text)
	}))
}

// A methodPaths is the paths that are governed for one method; "" is any.
type methodPaths struct {
	method string
	paths  []string // regular expressions
}

// byMethod sorts the governed patterns by their methods, as expressions for Envoy.
func byMethod(routes []string) ([]methodPaths, error) {
	var sorted []methodPaths
	for _, text := range routes {
		route, err := parseRoute(text)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(sorted, func(m methodPaths) bool { return m.method == route.Method })
		if i < 0 {
			i, sorted = len(sorted), append(sorted, methodPaths{method: route.Method})
		}
		path := regexp.QuoteMeta(strings.Join(route.Segments, "/"))
		sorted[i].paths = append(sorted[i].paths, strings.ReplaceAll(path, `\*`, `[^/?]*`))
	}
	return sorted, nil
}

// expression matches a request's path, with its query, whose last segments are one of the paths.
func (m *methodPaths) expression() string {
	return `(?i)[^?]*/(?:` + strings.Join(m.paths, "|") + `)(?:\?.*)?`
}
