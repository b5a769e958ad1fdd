package main

import (
	_ "embed"
	"fmt"
	"math"
	"strconv"
	"time"
)

// A retries is how often and when a failed try is repeated, by Envoy's own router.
type retries struct {
	count     int // unlimited: as often as Envoy counts
	maxBodyMB int
	minDelay  time.Duration
	waitMin   time.Duration
	waitMax   time.Duration
	skip429   bool
}

const (
	unlimited  = math.MaxUint32
	maxBodyMB  = 1024
	maxBackoff = time.Hour
)

func defaultRetries() retries {
	return retries{unlimited, 5, time.Second, 500 * time.Millisecond, 30 * time.Second, true}
}

func (r *retries) flags(f *flagSet) {
	value(f, &r.count, "retry", "unlimited", "`N` times a request is sent again after 5xx or no answer; or unlimited; 0: never", parseRetry)
	value(f, &r.maxBodyMB, "retry-max-body-mb", strconv.Itoa(r.maxBodyMB), "`N` MiB of a request's body are kept for that; a longer one is sent once", numberTo(0, maxBodyMB))
	f.duration(&r.minDelay, "retry-min-delay", 0, maxBackoff, "`DURATION` between an answer and the next try, at least")
	f.duration(&r.waitMin, "retry-wait-min", time.Millisecond, maxBackoff, "`DURATION` of the first wait, doubled with each try ...")
	f.duration(&r.waitMax, "retry-wait-max", time.Millisecond, maxBackoff, "... up to this `DURATION`")
	f.onOff(&r.skip429, "retry-skip-429", "not after the upstream's 429 (`true|false`)")
	f.Lookup("retry-skip-429").DefValue = strconv.FormatBool(r.skip429)
}

func parseRetry(text string) (int, error) {
	if text == "unlimited" {
		return unlimited, nil
	}
	n, err := wholeNumber(0)(text)
	if err != nil {
		return 0, fmt.Errorf("%w, or unlimited", err)
	}
	return n, nil
}

func (r *retries) settle(f *flagSet) error {
	if err := f.order("retry-wait-min", &r.waitMin, "retry-wait-max", &r.waitMax); err != nil {
		return err
	}
	return f.order("retry-min-delay", &r.minDelay, "retry-wait-max", &r.waitMax)
}

// on reports whether anything is ever sent twice, and so whether tries have permits of their own.
func (r *retries) on() bool { return r.count > 0 }

func (r *retries) bodyBytes() int64 { return int64(r.maxBodyMB) << 20 }

// delays are the seconds to wait after the first tries that were answered, and after all further ones. Envoy adds up to half
// of each, so the last is two thirds of the longest wait.
func (r *retries) delays() (first []int, last int) {
	least := int((r.minDelay + time.Second - 1) / time.Second)
	last = max(least, int(r.waitMax*2/3/time.Second))
	for wait := r.waitMin; ; wait *= 2 {
		seconds := int((wait + time.Second - 1) / time.Second)
		if len(first) > 0 && seconds >= last {
			return first, last
		}
		first = append(first, max(least, min(seconds, last)))
	}
}

// Where envoy.yaml keeps what is for retries only.
const (
	hostPath   = connectionPath + "route_config/virtual_hosts/0/"
	routesPath = hostPath + "routes/"
	retryPath  = routePath + "retry_policy/"
)

// bootstrapComments are the comments that replace some of envoy.yaml's where a bootstrap has no retries or no least delay.
//
//go:embed comments.yaml
var bootstrapComments []byte

// set makes the bootstrap retry what routes govern.
func (r *retries) set(e *yamlEdit, routes []string) error {
	if !r.on() {
		r.remove(e)
		return nil
	}
	e.set(routesPath+"0/per_request_buffer_limit_bytes", r.bodyBytes())
	e.set(retryPath+"num_retries", r.count)
	if !r.skip429 {
		e.set(retryPath+"retry_on", e.text(retryPath+"retry_on")+",retriable-status-codes")
		e.set(retryPath+"retriable_status_codes", []int{429})
	}
	base := max(r.waitMin, r.minDelay)
	e.set(retryPath+"retry_back_off/base_interval", envoyDuration(base))
	e.set(retryPath+"retry_back_off/max_interval", envoyDuration(max(r.waitMax, base)))
	e.set(retryPath+"rate_limited_retry_back_off/max_interval", envoyDuration(max(5*time.Minute, r.waitMax)))
	r.setDelays(e)
	return r.setRoutes(e, routes)
}

// remove leaves one filter, one route and no second try.
func (r *retries) remove(e *yamlEdit) {
	e.remove(upstreamFilters)
	e.remove(routesPath + "1")
	e.remove(routesPath + "0/match/headers")
	e.remove(routesPath + "0/per_request_buffer_limit_bytes")
	e.remove(routePath + "retry_policy")
	e.comment(routesPath+"0", "")
	e.remove(hostPath + "include_request_attempt_count")
	e.remove(hostPath + "response_headers_to_remove")
	takeComment(e, connectionPath+"http_filters/0", "without_retries/filter")
	takeComment(e, filterPath+"configuration", "without_retries/configuration")
}

// takeComment replaces the comment above the value at path by the text that comments.yaml has at key.
func takeComment(e *yamlEdit, path, key string) {
	comments := editYAML(bootstrapComments)
	e.comment(path, comments.text(key))
	e.fail(comments.err)
}

// setDelays sets the table by which tries that were answered wait. Its unit is a second; without a least delay Envoy's own
// back-off serves, which is finer.
func (r *retries) setDelays(e *yamlEdit) {
	if r.minDelay == 0 {
		e.remove(upstreamFilters + "/1")
		e.remove(hostPath + "include_request_attempt_count")
		e.remove(hostPath + "response_headers_to_remove")
		e.remove(retryPath + "rate_limited_retry_back_off/reset_headers/1")
		takeComment(e, retryPath+"rate_limited_retry_back_off", "without_least_delay/rate_limited_retry_back_off")
		return
	}
	const matcher = upstreamFilters + "/1/typed_config/xds_matcher/"
	first, last := r.delays()
	table := map[string]any{}
	for i, seconds := range first {
		table[strconv.Itoa(i+1)] = retryIn(seconds)
	}
	e.set(matcher+"matcher_tree/exact_match_map/map", table)
	e.set(matcher+"on_no_match", retryIn(last))
}

// retryIn makes an answer say, to Envoy's router only, when to try again.
func retryIn(seconds int) map[string]any {
	const api = "type.googleapis.com/envoy.extensions.filters.http."
	header := map[string]any{"key": "x-envoy-retry-in", "value": strconv.Itoa(seconds)}
	set := map[string]any{"append": map[string]any{"append_action": "OVERWRITE_IF_EXISTS_OR_ADD", "header": header}}
	mutation := map[string]any{
		"@type":     api + "header_mutation.v3.HeaderMutation",
		"mutations": map[string]any{"response_mutations": []any{set}},
	}
	execute := map[string]any{
		"@type":        api + "composite.v3.ExecuteFilterAction",
		"typed_config": map[string]any{"name": "envoy.filters.http.header_mutation", "typed_config": mutation},
	}
	return map[string]any{"action": map[string]any{"name": "retry-in", "typed_config": execute}}
}

// setRoutes makes a route of Envoy's for each method that is governed, all alike but for what they match.
func (r *retries) setRoutes(e *yamlEdit, routes []string) error {
	methods, err := byMethod(routes)
	if err != nil {
		return err
	}
	for range len(methods) - 1 {
		e.double(routesPath + "0")
	}
	for i := range methods {
		e.set(routesPath+strconv.Itoa(i)+"/match/headers", r.matchers(&methods[i]))
	}
	return nil
}

// matchers are what a request's headers must be to be retried: path and method governed, and a body, where its length is
// known, that can be kept.
func (r *retries) matchers(m *methodPaths) []any {
	path := map[string]any{"safe_regex": map[string]any{"regex": m.expression()}}
	all := []any{
		map[string]any{"name": ":path", "string_match": path},
		map[string]any{
			"name":                          "content-length",
			"range_match":                   map[string]any{"start": r.bodyBytes() + 1, "end": int64(math.MaxInt64)},
			"treat_missing_header_as_empty": true,
			"invert_match":                  true,
		},
	}
	if m.method != "" {
		all = append(all, map[string]any{"name": ":method", "string_match": map[string]any{"exact": m.method}})
	}
	return all
}
