package rig

// bootstrap is an Envoy with nothing but an admin listener and two files to discover the rest from.
func bootstrap(e *Envoy) Object {
	return Object{
		"node":  Object{"id": "rig", "cluster": "rig"},
		"admin": Object{"address": address(e.Admin)},
		"dynamic_resources": Object{
			"lds_config": fileSource(e.listeners.path),
			"cds_config": fileSource(e.clusters.path),
		},
	}
}

func fileSource(path string) Object {
	return Object{"resource_api_version": "V3", "path_config_source": Object{"path": path}}
}

func address(port int) Object {
	return Object{"socket_address": Object{"address": "127.0.0.1", "port_value": port}}
}
