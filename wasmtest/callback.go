package wasmtest

import "github.com/tetratelabs/wazero/api"

// callback numbers the exports a host may call.
type callback int

const (
	onContextCreate callback = iota
	onVMStart
	onConfigure
	onTick
	onQueueReady
	onRequestHeaders
	onRequestBody
	onRequestTrailers
	onResponseHeaders
	onResponseBody
	onResponseTrailers
	onLog
	onDone
	onDelete
	onHTTPCallResponse
	callbackCount
)

// noCallback stands for "the guest is not in a callback" (start-up, memory allocation).
const noCallback callback = -1

type callbackDefinition struct {
	name    string
	params  int
	returns bool
}

// callbackDefinitions is indexed by callback. A module that exports one of the names with another shape is refused at
// Compile, as the real host refuses to link it.
var callbackDefinitions = [callbackCount]callbackDefinition{
	onContextCreate:    {"proxy_on_context_create", 2, false},
	onVMStart:          {"proxy_on_vm_start", 2, true},
	onConfigure:        {"proxy_on_configure", 2, true},
	onTick:             {"proxy_on_tick", 1, false},
	onQueueReady:       {"proxy_on_queue_ready", 2, false},
	onRequestHeaders:   {"proxy_on_request_headers", 3, true},
	onRequestBody:      {"proxy_on_request_body", 3, true},
	onRequestTrailers:  {"proxy_on_request_trailers", 2, true},
	onResponseHeaders:  {"proxy_on_response_headers", 3, true},
	onResponseBody:     {"proxy_on_response_body", 3, true},
	onResponseTrailers: {"proxy_on_response_trailers", 2, true},
	onLog:              {"proxy_on_log", 1, false},
	onDone:             {"proxy_on_done", 1, true},
	onDelete:           {"proxy_on_delete", 1, false},
	onHTTPCallResponse: {"proxy_on_http_call_response", 5, false},
}

func (c callback) String() string {
	if c < 0 || c >= callbackCount {
		return ""
	}
	return callbackDefinitions[c].name
}

// frame reports whether the callback handles a piece of a stream (headers, body, trailers), whose return value the host
// overrides when a local reply was asked for meanwhile.
func (c callback) frame() bool { return c >= onRequestHeaders && c <= onResponseTrailers }

func (d callbackDefinition) fits(f api.FunctionDefinition) bool {
	results := 0
	if d.returns {
		results = 1
	}
	if len(f.ParamTypes()) != d.params || len(f.ResultTypes()) != results {
		return false
	}
	for _, t := range f.ParamTypes() {
		if t != api.ValueTypeI32 {
			return false
		}
	}
	return true
}
