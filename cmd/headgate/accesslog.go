package main

// accessLog is the access log of --access-log: a JSON object for each request, in a line on standard output. The path
// stands there without its query, in which some clients send their keys. What clients choose is cut.
func accessLog() []any {
	const api = "type.googleapis.com/envoy.extensions."
	line := map[string]any{
		"time":           "%START_TIME%",
		"client":         "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
		"method":         "%REQ(:METHOD):20%",
		"path":           "%REQ_WITHOUT_QUERY(:PATH):300%",
		"request_id":     "%REQ(X-REQUEST-ID):100%",
		"status":         "%RESPONSE_CODE%",
		"details":        "%RESPONSE_CODE_DETAILS%",
		"duration_ms":    "%DURATION%",
		"bytes_received": "%BYTES_RECEIVED%",
		"bytes_sent":     "%BYTES_SENT%",
		"headgate":       "%FILTER_STATE(wasm.headgate:PLAIN)%",
	}
	return []any{map[string]any{
		"name": "envoy.access_loggers.stdout",
		"typed_config": map[string]any{
			"@type": api + "access_loggers.stream.v3.StdoutAccessLog",
			"log_format": map[string]any{
				"json_format": line,
				"formatters": []any{map[string]any{
					"name":         "envoy.formatter.req_without_query",
					"typed_config": map[string]any{"@type": api + "formatter.req_without_query.v3.ReqWithoutQuery"},
				}},
			},
		},
	}}
}
