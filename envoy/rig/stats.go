package rig

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A Stats is a reading of Envoy's stats by name: numbers as int64, whatever else as the text Envoy prints.
type Stats map[string]any

// Count returns a counter or gauge; one that Envoy doesn't have (yet) is 0.
func (s Stats) Count(name string) int64 {
	n, _ := s[name].(int64)
	return n
}

// Text returns a text readout without its quotes.
func (s Stats) Text(name string) string {
	text, _ := s[name].(string)
	return strings.Trim(text, `"`)
}

var adminClient = &http.Client{Timeout: Patience}

// admin asks the admin listener.
func (e *Envoy) admin(path string) (string, error) {
	response, err := adminClient.Get(fmt.Sprintf("http://127.0.0.1:%d%s", e.Admin, path))
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// AdminText asks the admin listener for a page.
func (e *Envoy) AdminText(t testing.TB, path string) string {
	t.Helper()
	text, err := e.admin(path)
	if err != nil {
		t.Fatalf("admin %s: %v", path, err)
	}
	return text
}

// AdminStats reads the stats whose names match the pattern, also those never used.
func (e *Envoy) AdminStats(pattern string) (Stats, error) {
	text, err := e.admin("/stats?filter=" + url.QueryEscape(pattern))
	if err != nil {
		return nil, err
	}
	return parseStats(text), nil
}

// scope is what Envoy may put before the name of a metric made by a wasm filter.
var scope = regexp.MustCompile(`^.*?(wasmcustom\.)`)

// parseStats adds up stats that differ in their scope alone. A gauge that went below zero, and so wrapped, comes out
// negative.
func parseStats(text string) Stats {
	stats := Stats{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			continue
		}
		name = scope.ReplaceAllString(name, "$1")
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			stats[name] = value
			continue
		}
		stats[name] = stats.Count(name) + int64(n)
	}
	return stats
}
