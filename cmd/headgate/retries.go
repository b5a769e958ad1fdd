package main

import (
	_ "embed"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/headgate/headgate/admission/config"
)

// A retries says how often and when Envoy's router repeats a failed try.
type retries struct {
	count     int // unlimited: the greatest number that Envoy takes
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
	return retries{2, 5, time.Second, 500 * time.Millisecond, 30 * time.Second, true}
}

func (r *retries) addFlags(f *flagSet) {
	f.startSection(sectionRetries)
	addFlag(f, &r.count, "retry", strconv.Itoa(r.count),
		"After a 5xx or no answer, send a request again, at most `N` times. unlimited: no bound. 0: never.", parseRetry)
	addFlag(f, &r.maxBodyMB, "retry-max-body-mb", strconv.Itoa(r.maxBodyMB),
		"Keep a request's body of up to `N` MiB for a retry. A request with a longer body is sent once.",
		wholeNumberBetween(0, maxBodyMB))
	f.addDuration(&r.minDelay, "retry-min-delay", 0, maxBackoff,
		"Wait for at least `DURATION` between an answer and the next try.")
	f.addDuration(&r.waitMin, "retry-wait-min", shortest, maxBackoff,
		"Wait for `DURATION` before the first retry, and twice as long before each further one.")
	f.addDuration(&r.waitMax, "retry-wait-max", shortest, maxBackoff,
		"Let the wait before a retry grow to at most `DURATION`.")
	f.addSwitch(&r.skip429, "retry-skip-429",
		"Pass the upstream's 429 on to the client instead of sending the request again.")
}

func parseRetry(text string) (int, error) {
	if text == "unlimited" {
		return unlimited, nil
	}
	n, err := wholeNumberFrom(0)(text)
	if err != nil {
		return 0, fmt.Errorf("%w, or unlimited", err)
	}
	return n, nil
}

// resolveConflicts changes a default that contradicts a given flag, and refuses given flags that contradict each other.
func (r *retries) resolveConflicts(f *flagSet) error {
	if err := f.ensureOrder("retry-wait-min", &r.waitMin, "retry-wait-max", &r.waitMax); err != nil {
		return err
	}
	return f.ensureOrder("retry-min-delay", &r.minDelay, "retry-wait-max", &r.waitMax)
}

// enabled reports whether Envoy repeats failed tries. Only then does each try have a permit of its own.
func (r *retries) enabled() bool { return r.count > 0 }

func (r *retries) bodyBytes() int64 { return int64(r.maxBodyMB) << 20 }

// delays returns how many seconds Envoy waits after an answer: one number for each of the first tries, and last for all
// further ones. Envoy adds up to half of each, so last is two thirds of the longest wait.
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

// The parts of envoy.yaml that are for retries only.
const (
	hostPath     = connectionPath + "route_config/virtual_hosts/0/"
	routesPath   = hostPath + "routes/"
	retriedRoute = routesPath + "1" // the first of those that setRoutes makes
	retryPath    = routePath + "retry_policy/"
)

// bootstrapComments are the comments that replace some of envoy.yaml's where a bootstrap has no retries or no least
// delay.
//
//go:embed comments.yaml
var bootstrapComments []byte

// editBootstrap makes the bootstrap retry the requests that the routes govern.
func (r *retries) editBootstrap(e *yamlEdit, routes []config.Route) {
	if !r.enabled() {
		r.removeRetries(e)
		return
	}
	e.set(retriedRoute+"/per_request_buffer_limit_bytes", r.bodyBytes())
	e.set(retryPath+"num_retries", r.count)
	if !r.skip429 {
		e.duplicate(retryPath + "retriable_headers/0")
		e.set(retryPath+"retriable_headers/1/string_match/exact", "429")
	}
	base := max(r.waitMin, r.minDelay)
	e.set(retryPath+"retry_back_off/base_interval", envoyDuration(base))
	e.set(retryPath+"retry_back_off/max_interval", envoyDuration(max(r.waitMax, base)))
	e.set(retryPath+"rate_limited_retry_back_off/max_interval", envoyDuration(max(5*time.Minute, r.waitMax)))
	r.setDelays(e)
	r.setRoutes(e, routes)
}

// removeRetries leaves the bootstrap with one Headgate filter, and with routes that send a request once.
func (r *retries) removeRetries(e *yamlEdit) {
	for _, cluster := range clusterPaths {
		e.remove(cluster + clusterFilters)
	}
	e.remove(routesPath + "2")
	e.remove(retriedRoute + "/match/headers")
	e.remove(retriedRoute + "/per_request_buffer_limit_bytes")
	e.remove(routePath + "retry_policy")
	e.setComment(retriedRoute, "")
	e.remove(hostPath + "include_request_attempt_count")
	e.remove(hostPath + "response_headers_to_remove")
	e.insert(connectionPath+"route_config/request_headers_to_remove/0", "x-envoy-attempt-count")
	takeComment(e, connectionPath+"http_filters/0", "without_retries/filter")
	takeComment(e, filterPath+"configuration", "without_retries/configuration")
}

// takeComment replaces the comment above the value at path by the text that comments.yaml has at key.
func takeComment(e *yamlEdit, path, key string) {
	comments := editYAML(bootstrapComments)
	e.setComment(path, comments.text(key))
	e.fail(comments.err)
}

// setDelays sets the table of waits after an answer. The table's unit is a second, so without a least delay Envoy's own
// back-off, which is finer, takes the table's place.
func (r *retries) setDelays(e *yamlEdit) {
	if r.minDelay == 0 {
		e.remove(upstreamFilters + "/1")
		e.remove(hostPath + "include_request_attempt_count")
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

// retryIn is the action of Envoy's that puts a header into an answer: the seconds until the next try. Envoy's router
// reads it, and clients never see it.
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

// setRoutes gives Envoy one retried route for each method of the governed routes. They differ in what they match only.
func (r *retries) setRoutes(e *yamlEdit, routes []config.Route) {
	methods := pathsByMethod(routes)
	for range len(methods) - 1 {
		e.duplicate(retriedRoute)
	}
	for i := range methods {
		e.set(routesPath+strconv.Itoa(1+i)+"/match/headers", r.matchers(&methods[i]))
	}
}

// matchers are the conditions on a request's headers for a retry: its path and method are governed, and its body is not
// known to be too long to be kept.
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
