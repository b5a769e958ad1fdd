package main

import (
	"encoding/json"
	"io"
	"strings"
)

// writeConfig writes what the flags become: the plugin's configuration in each stage, and the settings of Envoy that
// they decide.
func (p *runPlan) writeConfig(w io.Writer) error {
	if p.sample {
		p.upstream = &upstream{host: "127.0.0.1", port: unknownSamplePort}
	}
	bootstrap, err := p.renderBootstrap()
	if err != nil {
		return err
	}
	e := editYAML(bootstrap)
	plugins := map[string]json.RawMessage{}
	for stage, filters := range p.renderedStages() {
		if stage == "admin" { // it has the same pools, and decides nothing
			continue
		}
		plugins[stage] = json.RawMessage(e.text(filters[0] + "configuration/value"))
	}
	settings := map[string]any{}
	for name, path := range map[string]string{
		"bind":                         listenerPath + "address",
		"stream_idle_timeout":          connectionPath + "stream_idle_timeout",
		"admin":                        adminListenerPath + "/address",
		"retry_policy":                 retryPath,
		"retry_body_bytes":             retriedRoute + "/per_request_buffer_limit_bytes",
		"upstream":                     endpointPath + "address",
		"common_http_protocol_options": clusterPath + protocolOptions + "common_http_protocol_options",
	} {
		if value, found := e.value(path); found {
			settings[name] = value
		}
	}
	if p.retries.enabled() && p.retries.minDelay > 0 {
		first, last := p.retries.delays()
		settings["retry_in_seconds"] = map[string]any{"after_the_first_tries": first, "then": last}
	}
	settings["concurrency"] = p.workers
	if e.err != nil {
		return e.err
	}
	_, err = io.WriteString(w, indentedJSON(map[string]any{"plugin": plugins, "envoy": settings}))
	return err
}

// unknownSamplePort stands in the printed configuration for the port that the sample gets when it runs.
const unknownSamplePort = 1

// value returns the value at path. found is false if there is none, which is no failure.
func (e *yamlEdit) value(path string) (value any, found bool) {
	if e.err != nil {
		return nil, false
	}
	node, err := e.find(strings.TrimSuffix(path, "/"), false)
	if err != nil {
		return nil, false
	}
	e.err = node.Decode(&value)
	return value, true
}
