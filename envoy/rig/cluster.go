package rig

import "maps"

// unlimited stands for no circuit breaker where Envoy has no word for it.
const unlimited = 1_000_000

// Cluster is a cluster of one address on this machine, whose circuit breakers don't get in the way. Port 0 gives a
// cluster without an endpoint.
func Cluster(name string, port int) Object {
	endpoints := []Object{}
	if port != 0 {
		endpoints = append(endpoints, Object{"endpoint": Object{"address": address(port)}})
	}
	return Object{
		"@type":           "type.googleapis.com/envoy.config.cluster.v3.Cluster",
		"name":            name,
		"type":            "STATIC",
		"connect_timeout": "60s",
		"circuit_breakers": Object{"thresholds": []Object{{"max_connections": unlimited, "max_pending_requests": unlimited,
			"max_requests": unlimited, "max_retries": unlimited}}},
		"load_assignment": Object{"cluster_name": name, "endpoints": []Object{{"lb_endpoints": endpoints}}},
	}
}

// WithMaxRequests gives a cluster a circuit breaker that lets n requests run and none wait.
func WithMaxRequests(cluster Object, n int) Object {
	cluster["circuit_breakers"] = Object{"thresholds": []Object{{"max_requests": n}}}
	return cluster
}

const protocolOptions = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

// WithHTTP2 makes a cluster speak HTTP/2 (h2c) to its upstream.
func WithHTTP2(cluster Object) Object {
	options := optionsOf(cluster)
	options["explicit_http_config"] = Object{"http2_protocol_options": Object{}}
	return cluster
}

// withUpstreamFilter is the cluster with a filter that every try of the router passes.
func withUpstreamFilter(cluster, filter Object) Object {
	cluster = maps.Clone(cluster)
	cluster["typed_extension_protocol_options"] = maps.Clone(protocolOptionsOf(cluster))
	options := maps.Clone(optionsOf(cluster))
	options["http_filters"] = []Object{filter, upstreamCodec}
	cluster["typed_extension_protocol_options"].(Object)[protocolOptions] = options
	return cluster
}

var upstreamCodec = Filter("envoy.filters.http.upstream_codec",
	"envoy.extensions.filters.http.upstream_codec.v3.UpstreamCodec", nil)

func protocolOptionsOf(cluster Object) Object {
	all, ok := cluster["typed_extension_protocol_options"].(Object)
	if !ok {
		all = Object{}
		cluster["typed_extension_protocol_options"] = all
	}
	return all
}

func optionsOf(cluster Object) Object {
	all := protocolOptionsOf(cluster)
	options, ok := all[protocolOptions].(Object)
	if !ok {
		options = Object{"@type": typePrefix + protocolOptions,
			"explicit_http_config": Object{"http_protocol_options": Object{}}}
		all[protocolOptions] = options
	}
	return options
}

// Aggregate is a cluster that tries others in their order: what fails in one is retried in the next, where the route's
// retry policy says so with PreviousPriorities.
func Aggregate(name string, clusters ...string) Object {
	return Object{
		"@type":           typePrefix + "envoy.config.cluster.v3.Cluster",
		"name":            name,
		"connect_timeout": "60s",
		"lb_policy":       "CLUSTER_PROVIDED",
		"circuit_breakers": Object{"thresholds": []Object{{"max_connections": unlimited, "max_pending_requests": unlimited,
			"max_requests": unlimited, "max_retries": unlimited}}},
		"cluster_type": Object{"name": "envoy.clusters.aggregate", "typed_config": Object{
			"@type": typePrefix + "envoy.extensions.clusters.aggregate.v3.ClusterConfig", "clusters": clusters}},
	}
}

// PreviousPriorities makes a retry go to the next priority that was not tried.
var PreviousPriorities = Object{"name": "envoy.retry_priorities.previous_priorities", "typed_config": Object{
	"@type": typePrefix +
		"envoy.extensions.retry.priority.previous_priorities.v3.PreviousPrioritiesConfig", "update_frequency": 1}}

// InTurn chooses the cluster of a route by the try: the first one's is the first. The route's retry policy has to say
// refresh_cluster_on_retry.
func InTurn(clusters ...string) Object {
	groups := make([]Object, len(clusters))
	for i, name := range clusters {
		groups[i] = Object{"name": name, "clusters": []Object{{"cluster_name": name, "weight": 1}}}
	}
	return Object{"extension": Object{"name": "envoy.router.cluster_specifier_plugin.priority_group",
		"typed_config": Object{
			"@type": typePrefix +
				"envoy.extensions.router.cluster_specifiers.priority_group.v3.PriorityGroupClusterSpecifier",
			"priority_groups": groups}}}
}
