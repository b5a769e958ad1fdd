package rig

// unlimited stands for no circuit breaker where Envoy has no word for it.
const unlimited = 1_000_000

// Cluster is a cluster of one address on this machine, whose circuit breakers don't get in the way. Port 0 gives a cluster
// without an endpoint.
func Cluster(name string, port int) Object {
	endpoints := []Object{}
	if port != 0 {
		endpoints = append(endpoints, Object{"endpoint": Object{"address": address(port)}})
	}
	return Object{
		"@type":           "type.googleapis.com/envoy.config.cluster.v3.Cluster",
		"name":            name,
		"type":            "STATIC",
		"connect_timeout": "1s",
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
