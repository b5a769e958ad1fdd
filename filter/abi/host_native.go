//go:build !wasip1

package abi

import (
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm"
	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"
)

// These functions do with the SDK what those in host_wasm.go do with the host. Their full documentation is there.

// SetVMContext sets the module's VM context.
func SetVMContext(vm types.VMContext) { proxywasm.SetVMContext(vm) }

var started = time.Now()

// Monotonic returns the time since the process started, in nanoseconds and never 0.
func Monotonic() (int64, bool) { return int64(time.Since(started)) + 1, true }

// WallMillis returns the time of day in milliseconds since 1970.
func WallMillis() int64 { return time.Now().UnixMilli() }

// Wall returns the same in seconds.
func Wall() int64 { return WallMillis() / 1000 }

// Random fills b with random bytes.
func Random(b []byte) bool { _, err := rand.Read(b); return err == nil }

// Log writes a line to the host's log.
func Log(level LogLevel, line string) {
	switch level {
	case LogError:
		proxywasm.LogError(line)
	case LogWarn:
		proxywasm.LogWarn(line)
	default:
		proxywasm.LogInfo(line)
	}
}

// status returns the status of an error of the SDK.
func status(err error) Status {
	switch {
	case err == nil:
		return StatusOK
	case errors.Is(err, types.ErrorStatusNotFound):
		return StatusNotFound
	case errors.Is(err, types.ErrorStatusBadArgument):
		return StatusBadArgument
	case errors.Is(err, types.ErrorStatusEmpty):
		return StatusEmpty
	case errors.Is(err, types.ErrorStatusCasMismatch):
		return StatusCasMismatch
	}
	return StatusInternal
}

// Property reads a property.
func Property(path string) ([]byte, Status) {
	b, err := proxywasm.GetProperty(strings.Split(path, "\x00"))
	return b, status(err)
}

// SetProperty sets a property.
func SetProperty(path string, value []byte) Status {
	return status(proxywasm.SetProperty(strings.Split(path, "\x00"), value))
}

// RequestHeaders returns all request headers, serialised.
func RequestHeaders() (Pairs, Status) {
	hs, err := proxywasm.GetHttpRequestHeaders()
	return AppendPairs(nil, hs...), status(err)
}

// ResponseHeaders returns all response headers, serialised.
func ResponseHeaders() (Pairs, Status) {
	hs, err := proxywasm.GetHttpResponseHeaders()
	return AppendPairs(nil, hs...), status(err)
}

// ReplaceRequestHeader sets a request header.
func ReplaceRequestHeader(name string, value []byte) Status {
	return status(proxywasm.ReplaceHttpRequestHeader(name, string(value)))
}

// RemoveRequestHeader removes a request header.
func RemoveRequestHeader(name string) Status {
	return status(proxywasm.RemoveHttpRequestHeader(name))
}

// ReplaceResponseHeader sets a response header to one value.
func ReplaceResponseHeader(name string, value []byte) Status {
	return status(proxywasm.ReplaceHttpResponseHeader(name, string(value)))
}

// RemoveResponseHeader removes a response header.
func RemoveResponseHeader(name string) Status {
	return status(proxywasm.RemoveHttpResponseHeader(name))
}

// PluginConfiguration reads the plugin's configuration.
func PluginConfiguration() ([]byte, Status) {
	b, err := proxywasm.GetPluginConfiguration()
	return b, status(err)
}

// RequestBody reads a part of the request's body.
func RequestBody(start, n int) ([]byte, Status) {
	b, err := proxywasm.GetHttpRequestBody(start, n)
	return b, status(err)
}

// ContinueRequest resumes the current stream's request.
func ContinueRequest() Status { return status(proxywasm.ResumeHttpRequest()) }

// SendLocalReply answers the current stream's request.
func SendLocalReply(code uint32, _ string, body, headers []byte, grpc int32) Status {
	var hs [][2]string
	for c := Pairs(headers).Cursor(); c.Next(); {
		hs = append(hs, [2]string{string(c.Name), string(c.Value)})
	}
	return status(proxywasm.SendHttpResponse(code, hs, body, grpc))
}

// SetEffectiveContext makes a context the current one for the calls that follow.
func SetEffectiveContext(id uint32) Status { return status(proxywasm.SetEffectiveContext(id)) }

// GetShared reads a shared key.
func GetShared(key string) ([]byte, uint32, Status) {
	b, cas, err := proxywasm.GetSharedData(key)
	return append([]byte(nil), b...), cas, status(err) // the caller may change it, as in the wasm build
}

// SetShared stores a shared key by compare-and-swap.
func SetShared(key string, value []byte, cas uint32) Status {
	return status(proxywasm.SetSharedData(key, value, cas))
}

// RegisterQueue registers a queue and returns its id.
func RegisterQueue(name string) (uint32, Status) {
	id, err := proxywasm.RegisterSharedQueue(name)
	return id, status(err)
}

// ResolveQueue returns the id of a queue.
func ResolveQueue(vmID, name string) (uint32, Status) {
	id, err := proxywasm.ResolveSharedQueue(vmID, name)
	return id, status(err)
}

// Enqueue puts a message into a queue.
func Enqueue(id uint32, message []byte) Status {
	return status(proxywasm.EnqueueSharedQueue(id, message))
}

// Dequeue removes a message from a queue and returns it.
func Dequeue(id uint32) ([]byte, Status) {
	b, err := proxywasm.DequeueSharedQueue(id)
	return b, status(err)
}

// SetTick sets the period of the context's ticks.
func SetTick(ms uint32) { _ = proxywasm.SetTickPeriodMilliSeconds(ms) }

// metrics has the SDK's metrics by this package's ids. The SDK hides the host's ids.
var metrics []any

// DefineMetric defines a metric and returns its id.
func DefineMetric(kind MetricKind, name string) (uint32, Status) {
	switch kind {
	case KindCounter:
		metrics = append(metrics, proxywasm.DefineCounterMetric(name))
	case KindGauge:
		metrics = append(metrics, proxywasm.DefineGaugeMetric(name))
	default:
		metrics = append(metrics, proxywasm.DefineHistogramMetric(name))
	}
	return uint32(len(metrics) - 1), StatusOK
}

// Increment adds to a counter or gauge.
func Increment(metric uint32, by int64) {
	switch m := metrics[metric].(type) {
	case proxywasm.MetricCounter:
		m.Increment(uint64(by))
	case proxywasm.MetricGauge:
		m.Add(by)
	}
}

// HandOver has nothing to do: Increment tells the host at once.
func HandOver() {}

// Metric reads a gauge or a counter.
func Metric(metric uint32) int64 {
	switch m := metrics[metric].(type) {
	case proxywasm.MetricGauge:
		return m.Value()
	case proxywasm.MetricCounter:
		return int64(m.Value())
	}
	return 0
}

// Record adds a value to a histogram.
func Record(metric uint32, value uint64) {
	if m, ok := metrics[metric].(proxywasm.MetricHistogram); ok {
		m.Record(value)
	}
}
