package check

import (
	"fmt"
	"strconv"
	"strings"
)

// defaultThreshold is Envoy's circuit breaker where the configuration says nothing.
const defaultThreshold = 1024

// A need is how many requests at once a cluster must take.
type need struct {
	requests int
	by       *filter
}

// need notes that the filter lets requests run to a cluster.
func (e *envoy) need(cluster *value, by *filter) {
	if _, known := e.needs[cluster]; !known {
		e.needed = append(e.needed, cluster)
	}
	if n, _ := by.plugin.atOnce(); n >= e.needs[cluster].requests {
		e.needs[cluster] = need{n, by}
	}
}

// warnOfClusters warns of clusters whose circuit breakers let less through than Headgate.
func (e *envoy) warnOfClusters() {
	for _, cluster := range e.needed {
		need := e.needs[cluster]
		thresholds := thresholdsOf(cluster)
		names := []string{"max_requests", "max_connections", "max_pending_requests"}
		if isHTTP2(cluster) {
			names = names[:1] // one connection carries many requests
		}
		var low []string
		for _, name := range names {
			limit, given := thresholds.field(name).count()
			switch {
			case !given && defaultThreshold < need.requests:
				low = append(low, fmt.Sprintf("%s (%d by default)", name, defaultThreshold))
			case given && limit < need.requests:
				low = append(low, fmt.Sprintf("%s (%d)", name, limit))
			}
		}
		if low != nil {
			e.report.warn("circuit-breakers", thresholds.lineOr(cluster.line), "", "circuit_breakers of cluster %q: %s is "+
				"below the %d requests that the filter %q can let run at once: Envoy answers 503 first",
				cluster.field("name").str(), strings.Join(low, ", "), need.requests, need.by.name)
		}
	}
}

// thresholdsOf returns the circuit breakers that count for usual requests, or nil.
func thresholdsOf(cluster *value) *value {
	for _, t := range cluster.field("circuit_breakers/thresholds").items() {
		if p := t.field("priority").str(); p == "" || p == "DEFAULT" {
			return t
		}
	}
	return nil
}

// isHTTP2 reports whether the requests of a cluster share connections.
func isHTTP2(cluster *value) bool {
	for _, options := range cluster.field("typed_extension_protocol_options").members() {
		if options.field("explicit_http_config/http2_protocol_options") != nil {
			return true
		}
	}
	return cluster.field("http2_protocol_options") != nil
}

// count returns a whole number. ok is false for anything else.
func (v *value) count() (n int, ok bool) {
	if v == nil || v.kind != kindNumber && v.kind != kindText {
		return 0, false
	}
	n, err := strconv.Atoi(v.text)
	return n, err == nil
}
