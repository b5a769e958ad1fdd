// Package abi binds standard Go to a proxy-wasm 0.2.1 host.
//
// The contexts are the interfaces of the Go SDK's types package; the calls to the host are the functions here. In the
// wasm build they go straight to the host's imports. In a native build the same functions stand on the SDK, so that a
// filter also runs under the SDK's proxytest.
//
// What the binding guarantees:
//
//   - A panic in a callback is recovered, logged and handed to the context (see Recoverer); the VM lives on.
//   - OnHttpStreamDone is called once for each stream, however it ends, from proxy_on_done: upstream filters get no
//     proxy_on_log.
//   - Only the callbacks that this package exports cost a call; see export_wasm.go.
//   - Bytes that a call returns are the host's copy in one static buffer. They are valid until the next call of any
//     function of this package that returns bytes: copy what is to be kept.
//   - No function here allocates in the wasm build, but for values larger than the static buffer (64 KiB).
package abi

import "github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

// A Status is what a host call returns.
type Status uint32

// The statuses that a caller may want to tell apart.
const (
	StatusOK          Status = 0
	StatusNotFound    Status = 1
	StatusBadArgument Status = 2
	StatusEmpty       Status = 7
	StatusCasMismatch Status = 8
	StatusInternal    Status = 10
)

// A LogLevel is the level of a log line.
type LogLevel uint32

// The log levels.
const (
	LogInfo  LogLevel = 2
	LogWarn  LogLevel = 3
	LogError LogLevel = 4
)

// CreateIfAbsent is a compare-and-swap number that no stored value has: with it SetShared creates a key that doesn't
// exist and fails on one that does. Zero would overwrite blindly.
const CreateIfAbsent uint32 = 0xFFFFFFFF

// A MetricKind is the kind of a metric.
type MetricKind uint32

// The metric kinds.
const (
	KindCounter   MetricKind = 0
	KindGauge     MetricKind = 1
	KindHistogram MetricKind = 2
)

// ActionPauseBody answers a body callback: stop here, let the sender feel back-pressure, and refuse nothing.
// The SDK has no name for it. types.ActionPause would buffer the body up to the host's limit and then answer 413.
const ActionPauseBody types.Action = 2

// A Recoverer is a context that wants to know of a panic in one of its callbacks; the action is what a headers or body
// callback answers then. Contexts that aren't Recoverers go on: their callback answers types.ActionContinue.
type Recoverer interface {
	Recovered(what string) types.Action
}
