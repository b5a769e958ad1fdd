package main

import (
	"errors"
	"net/url"
	"strings"
)

var errOriginForm = errors.New("want the origin of a page, SCHEME://HOST[:PORT], e.g. https://app.example.com, " +
	"or * for any")

// parseOrigin reads the origin of pages, as browsers send it.
func parseOrigin(text string) (string, error) {
	if text == "*" {
		return text, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != text || text != strings.ToLower(text) {
		return "", errOriginForm
	}
	return text, nil
}

const (
	corsFilter = "envoy.filters.http.cors"
	corsAPI    = "type.googleapis.com/envoy.extensions.filters.http.cors.v3."
)

// allowOrigins has Envoy tell browsers that pages of these origins may read the answers, refusals too. Its filter
// stands before Headgate's, since it has to see the requests that are refused.
func allowOrigins(e *yamlEdit, origins []string) {
	if len(origins) == 0 {
		return
	}
	var matchers []any
	for _, origin := range origins {
		matcher := map[string]any{"exact": origin}
		if origin == "*" {
			matcher = map[string]any{"safe_regex": map[string]any{"regex": ".*"}}
		}
		matchers = append(matchers, matcher)
	}
	e.set(hostPath+"typed_per_filter_config", map[string]any{corsFilter: map[string]any{
		"@type":                     corsAPI + "CorsPolicy",
		"allow_origin_string_match": matchers,
		"allow_methods":             "GET, HEAD, POST, PUT, PATCH, DELETE",
		"allow_headers":             "*, authorization", // * does not mean authorization
		"expose_headers":            "*, retry-after, x-headgate-reason, x-headgate-pool, x-should-retry, x-request-id",
		"max_age":                   "600",
	}})
	e.insert(connectionPath+"http_filters/0", map[string]any{
		"name": corsFilter, "typed_config": map[string]any{"@type": corsAPI + "Cors"},
	})
}
