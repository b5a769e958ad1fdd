package check

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/admission/config"
	"github.com/headgate/headgate/admission/request"
)

// What Envoy takes where its configuration says nothing.
const (
	defaultStreamIdle   = 5 * time.Minute
	defaultRouteTimeout = 15 * time.Second
)

// warnOfEnvoy warns of what Envoy does not allow, or lets pass.
func (r *Report) warnOfEnvoy(root *value, filters []*filter) {
	if admin := root.field("admin/address"); admin != nil && !isLoopback(admin) {
		r.warn("public-admin", admin.line, "", "Envoy's admin interface is open to other machines: whoever reaches it can "+
			"stop Envoy (want the address 127.0.0.1)")
	}
	e := &envoy{report: r, filters: filters, clusters: findClusters(root), needs: map[*value]need{}}
	e.told = map[*value]bool{}
	for _, f := range filters {
		if f.config() == nil || f.config().Mode == config.ModeDisabled {
			continue
		}
		if f.is(config.StageAdmin) {
			r.warnOfExposedAdmin(f)
			continue
		}
		if f.is(config.StageAttempt) && f.cluster != nil {
			e.need(f.cluster, f)
		}
		if f.manager != nil && (f.is(config.StageRequest) || f.is(config.StageInvocation)) {
			e.warnOfManager(f)
		}
	}
	e.warnOfClusters()
}

// warnOfExposedAdmin warns of a filter of stage admin on a listener that others than this machine can reach.
func (r *Report) warnOfExposedAdmin(f *filter) {
	address := f.listener.field("address")
	if address == nil || isLoopback(address) {
		return
	}
	what := `the filter refuses whoever comes from there, unless its configuration has "admin": {"expose": true}`
	if f.config().Admin.Expose {
		what = "whoever reaches it sees who asks for what, and can change the limits"
	}
	r.warn("exposed-admin", address.line, "", "the listener of the filter %q with stage \"admin\" is open to "+
		"other machines: %s (want the address 127.0.0.1)", f.name, what)
}

// An envoy is a configuration of Envoy, as far as the file has it.
type envoy struct {
	report   *Report
	filters  []*filter
	clusters map[string]*value
	needed   []*value        // the clusters of needs, in the order of the file
	needs    map[*value]need // of clusters
	told     map[*value]bool // routes and the like that were warned of
}

// findClusters returns the clusters of a file by their names.
func findClusters(root *value) map[string]*value {
	found := map[string]*value{}
	root.visit(func(v *value) {
		inList := v.parent != nil && v.parent.kind == kindList && v.parent.key == "clusters"
		if v.kind == kindMap && (inList && v.field("name") != nil || v.typeOf() == "Cluster") {
			if name := v.field("name").str(); v.field("weight") == nil && found[name] == nil {
				found[name] = v
			}
		}
	})
	return found
}

// attemptOf returns the filter of stage attempt that a cluster has, or nil.
func (e *envoy) attemptOf(cluster *value) *filter {
	for _, f := range e.filters {
		if cluster != nil && f.cluster == cluster && f.is(config.StageAttempt) {
			return f
		}
	}
	return nil
}

// warnOfManager warns of an HTTP connection manager whose requests Headgate governs.
func (e *envoy) warnOfManager(f *filter) {
	patterns := withoutMethods(f.config().Routes)
	for _, route := range routesOf(f.manager) {
		if !route.isGoverned(patterns) {
			continue
		}
		for _, name := range route.clusters {
			if attempt := e.attemptOf(e.clusters[name.str()]); attempt != nil {
				f.plugin.tryWait = max(f.plugin.tryWait, attempt.plugin.longestWait())
			}
		}
		e.warnOfRoute(f, route)
	}
	e.warnOfTimeouts(f, time.Duration(f.plugin.longestWait()+f.plugin.tryWait))
}

// warnOfTimeouts warns of Envoy's timeouts that end waiting requests, and of their absence.
func (e *envoy) warnOfTimeouts(f *filter, wait time.Duration) {
	m := f.manager
	idle, given := m.field("stream_idle_timeout").seconds()
	if !given {
		idle = defaultStreamIdle
	}
	duration := m.field("common_http_protocol_options/max_stream_duration")
	longest, _ := duration.seconds()
	whole, _ := m.field("request_timeout").seconds()
	if idle == 0 && longest == 0 {
		e.report.warn("no-stream-limit", m.field("stream_idle_timeout").lineOr(m.line), "", "stream_idle_timeout is off and "+
			"there is no max_stream_duration: a request that waits in a VM that died stays for ever")
	}
	for _, t := range []struct {
		name  string
		limit time.Duration
		at    *value
	}{
		{"stream_idle_timeout", idle, m.field("stream_idle_timeout")}, {"max_stream_duration", longest, duration},
		{"request_timeout", whole, m.field("request_timeout")},
	} {
		if t.limit > 0 && t.limit <= wait {
			e.report.warn("short-timeout", t.at.lineOr(m.line), "", "%s is %s, and a request may wait %s: Envoy ends it with a "+
				"504 or 408 (want it longer)", t.name, t.limit, wait)
		}
	}
}

// A route is a route of an HTTP connection manager that sends requests to clusters.
type route struct {
	entry    *value
	action   *value
	clusters []*value // names
	around   []*value // what has settings for the route: itself, its virtual host, the whole
}

// routesOf returns the routes that a connection manager has itself.
func routesOf(manager *value) (routes []route) {
	all := manager.field("route_config")
	for _, host := range all.field("virtual_hosts").items() {
		for _, entry := range host.field("routes").items() {
			action := entry.field("route")
			if action == nil {
				continue
			}
			r := route{entry, action, nil, []*value{action, host, all}}
			if name := action.field("cluster"); name != nil {
				r.clusters = append(r.clusters, name)
			}
			for _, weighted := range action.field("weighted_clusters/clusters").items() {
				if name := weighted.field("name"); name != nil {
					r.clusters = append(r.clusters, name)
				}
			}
			routes = append(routes, r)
		}
	}
	return routes
}

// setting returns the value nearest to a route that has the name, or nil.
func (r route) setting(name string) *value {
	for _, v := range r.around {
		if s := v.field(name); s != nil {
			return s
		}
	}
	return nil
}

// isGoverned reports whether Headgate may govern requests that take the route.
func (r route) isGoverned(patterns []config.Route) bool {
	path := r.entry.field("match/path").str()
	_, governed := request.MatchRoute(patterns, "", path)
	return governed || path == ""
}

// withoutMethods returns patterns that match requests with any method.
func withoutMethods(patterns []config.Route) []config.Route {
	patterns = slices.Clone(patterns)
	for i := range patterns {
		patterns[i].Method = ""
	}
	return patterns
}

// warnOfRoute warns of a route that lets requests pass Headgate, or ends them.
func (e *envoy) warnOfRoute(f *filter, route route) {
	guarded := len(route.clusters) > 0
	for _, name := range route.clusters {
		cluster := e.clusters[name.str()]
		if cluster == nil {
			continue
		}
		e.need(cluster, f)
		attempt := e.attemptOf(cluster)
		guarded = guarded && attempt != nil
		if attempt == nil && f.is(config.StageInvocation) && e.hasAttempts() {
			e.warnOnce("unguarded-cluster", name, "cluster %q has no filter of stage attempt: what is sent there, a retry too, "+
				"takes no permit of the pools with per: attempt", name.str())
		}
	}
	if mirror := route.setting("request_mirror_policies"); mirror != nil {
		e.warnOnce("extra-requests", mirror, "mirrored requests take no permits: more than the limit reaches their cluster")
	}
	hedge := route.setting("hedge_policy").field("hedge_on_per_try_timeout")
	if hedge.isTrue() && !guarded {
		e.warnOnce("extra-requests", hedge, "hedging sends a request more than once at the same time, on one permit (want a "+
			"filter of stage attempt in the cluster, where each try takes its own)")
	}
	e.warnOfRouteTimeout(f, route)
}

// warnOfRouteTimeout warns of a route whose timeout ends answers or waiting tries.
func (e *envoy) warnOfRouteTimeout(f *filter, route route) {
	given := route.action.field("timeout")
	limit, ok := given.seconds()
	switch {
	case given == nil && route.action.field("max_stream_duration") == nil:
		e.warnOnce("short-timeout", route.action, "the route has no timeout, so Envoy ends each answer after %s (want "+
			"timeout: 0s, or more than the longest answer)", defaultRouteTimeout)
	case ok && limit > 0:
		for _, name := range route.clusters {
			attempt := e.attemptOf(e.clusters[name.str()])
			if attempt == nil || f.config().Mode != config.ModeEnforce {
				continue
			}
			if wait := time.Duration(attempt.plugin.longestWait()); limit <= wait {
				e.warnOnce("short-timeout", given, "the route's timeout is %s, and a try may wait %s in the cluster: Envoy ends "+
					"it with a 504 (want it longer)", limit, wait)
			}
		}
	}
}

// hasAttempts reports whether a filter of stage attempt is anywhere.
func (e *envoy) hasAttempts() bool {
	for _, f := range e.filters {
		if f.is(config.StageAttempt) {
			return true
		}
	}
	return false
}

// warnOnce warns of a value, and not again when another filter's requests take the same route.
func (e *envoy) warnOnce(name string, at *value, format string, args ...any) {
	if !e.told[at] {
		e.told[at] = true
		e.report.warn(name, at.line, "", format, args...)
	}
}

// isLoopback reports whether an address of Envoy's can't be reached from other machines.
func isLoopback(address *value) bool {
	socket := address.field("socket_address/address")
	if socket == nil {
		return true // a pipe, or nothing to judge
	}
	ip, err := netip.ParseAddr(socket.str())
	return err == nil && ip.IsLoopback() || strings.EqualFold(socket.str(), "localhost")
}
