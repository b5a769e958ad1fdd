// Package abi binds standard Go to a proxy-wasm 0.2.1 host.
//
// A filter implements the context interfaces of package types of the Go SDK, and calls the host with the functions
// here. In the wasm build these functions call the host's imports. In a native build they call the SDK, so that a
// filter also runs under the SDK's proxytest.
//
// What the binding guarantees:
//
//   - A panic in a callback is recovered, logged and handed to the context (see Recoverer). The VM stays usable.
//   - OnHttpStreamDone is called once for each stream, however it ends. proxy_on_done calls it, since the host calls no
//     proxy_on_log for upstream filters.
//   - Only the callbacks that this package exports cost a call; see export_wasm.go.
//   - Bytes that a call returns are in one static buffer, into which the host has copied them. They are valid until the
//     next call of a function of this package that returns bytes.
//   - A counter is counted here, and the host is told by HandOver. Other metrics it is told at once.
//   - No function here allocates in the wasm build, except for a value larger than the static buffer (64 KiB).
package abi

import "github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

// A Status says how a host call ended.
type Status uint32

// The statuses that callers tell apart.
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

// CreateIfAbsent is a compare-and-swap number that no stored value has. With it SetShared creates a key that doesn't
// exist, and fails on one that does. Zero would overwrite any value.
const CreateIfAbsent uint32 = 0xFFFFFFFF

// A MetricKind is the kind of a metric.
type MetricKind uint32

// The metric kinds.
const (
	KindCounter   MetricKind = 0
	KindGauge     MetricKind = 1
	KindHistogram MetricKind = 2
)

// ActionPauseBody is a body callback's answer that holds the body back: the host stops reading from the client when its
// buffer is full. With types.ActionPause it would answer 413 then. The SDK has no name for this one.
const ActionPauseBody types.Action = 2

// A Debtor is a context that is told after one of its callbacks when something has been counted that HandOver has yet
// to tell the host. One is told between two calls of HandOver.
type Debtor interface {
	// Owes makes sure that HandOver is called.
	Owes()
}

// A Recoverer is a context that is told of a panic in one of its callbacks.
type Recoverer interface {
	// Recovered returns what the callback answers, if it is one for request headers, body or trailers. The callback of a
	// context without this method answers types.ActionContinue.
	Recovered(what string) types.Action
}
