package rig

import (
	"encoding/json"
	"maps"
)

const typePrefix = "type.googleapis.com/"

// Filter is an Envoy HTTP filter by name, with the message type of its configuration and its fields.
func Filter(name, messageType string, fields Object) Object {
	config := Object{"@type": typePrefix + messageType}
	maps.Copy(config, fields)
	return Object{"name": name, "typed_config": config}
}

// WasmFilter is a proxy-wasm module as an HTTP filter. Equal vmID and module mean the same VM.
func WasmFilter(name, vmID, module, configuration string) Object {
	return Filter("envoy.filters.http.wasm", "envoy.extensions.filters.http.wasm.v3.Wasm", Object{"config": Object{
		"name":                            name,
		"root_id":                         "headgate",
		"allow_on_headers_stop_iteration": true,
		"failure_policy":                  "FAIL_RELOAD",
		"configuration": Object{"@type": typePrefix + "google.protobuf.StringValue",
			"value": configuration},
		"vm_config": Object{"vm_id": vmID, "runtime": "envoy.wasm.runtime.v8",
			"code": Object{"local": Object{"filename": module}}},
	}})
}

var router = Filter("envoy.filters.http.router", "envoy.extensions.filters.http.router.v3.Router", nil)

// Route sends what begins with the prefix to a cluster, without a timeout.
func Route(prefix, cluster string) Object {
	return Object{"match": Object{"prefix": prefix}, "route": Object{"cluster": cluster, "timeout": "0s"}}
}

// HTTPListener is a listener for HTTP/1.1 and h2c with these filters before the router. Fields of connectionManager
// replace or join those of the connection manager.
func HTTPListener(name string, port int, filters, routes []Object, connectionManager Object) Object {
	manager := Object{
		"@type": typePrefix +
			"envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
		"stat_prefix":            name,
		"codec_type":             "AUTO",
		"stream_idle_timeout":    "0s",
		"http2_protocol_options": Object{"max_concurrent_streams": 10_000},
		"route_config": Object{"name": name, "virtual_hosts": []Object{{"name": name, "domains": []string{"*"},
			"routes": routes}}},
		"http_filters": append(append([]Object{}, filters...), router),
	}
	maps.Copy(manager, connectionManager)
	return Object{
		"@type":   typePrefix + "envoy.config.listener.v3.Listener",
		"name":    name,
		"address": address(port),
		"filter_chains": []Object{{"filters": []Object{{"name": "envoy.filters.network.http_connection_manager",
			"typed_config": manager}}}},
	}
}

func encode(value any) (string, error) {
	text, err := json.Marshal(value)
	return string(text), err
}
