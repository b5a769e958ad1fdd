//go:build wasip1

package abi

import "unsafe"

// The imports. All pointers are to Go memory. Before it returns, the host reads it or writes 32 or 64 bits to it. No
// import is marked noescape, since one that returns bytes calls proxy_on_memory_allocate of this module first.

//go:wasmimport env proxy_log
func proxyLog(level uint32, p unsafe.Pointer, n uint32) uint32

//go:wasmimport env proxy_get_property
func proxyGetProperty(p unsafe.Pointer, n uint32, ptr, size unsafe.Pointer) uint32

//go:wasmimport env proxy_set_property
func proxySetProperty(kp unsafe.Pointer, kn uint32, vp unsafe.Pointer, vn uint32) uint32

//go:wasmimport env proxy_get_header_map_pairs
func proxyGetHeaderMapPairs(kind uint32, ptr, size unsafe.Pointer) uint32

//go:wasmimport env proxy_replace_header_map_value
func proxyReplaceHeaderMapValue(kind uint32, kp unsafe.Pointer, kn uint32, vp unsafe.Pointer, vn uint32) uint32

//go:wasmimport env proxy_remove_header_map_value
func proxyRemoveHeaderMapValue(kind uint32, kp unsafe.Pointer, kn uint32) uint32

//go:wasmimport env proxy_get_buffer_bytes
func proxyGetBufferBytes(kind, start, n uint32, ptr, size unsafe.Pointer) uint32

//go:wasmimport env proxy_continue_stream
func proxyContinueStream(kind uint32) uint32

//go:wasmimport env proxy_send_local_response
func proxySendLocalResponse(code uint32, dp unsafe.Pointer, dn uint32, bp unsafe.Pointer, bn uint32,
	hp unsafe.Pointer, hn uint32, grpc int32) uint32

//go:wasmimport env proxy_get_shared_data
func proxyGetSharedData(kp unsafe.Pointer, kn uint32, ptr, size, cas unsafe.Pointer) uint32

//go:wasmimport env proxy_set_shared_data
func proxySetSharedData(kp unsafe.Pointer, kn uint32, vp unsafe.Pointer, vn, cas uint32) uint32

//go:wasmimport env proxy_register_shared_queue
func proxyRegisterSharedQueue(p unsafe.Pointer, n uint32, id unsafe.Pointer) uint32

//go:wasmimport env proxy_resolve_shared_queue
func proxyResolveSharedQueue(vp unsafe.Pointer, vn uint32, p unsafe.Pointer, n uint32, id unsafe.Pointer) uint32

//go:wasmimport env proxy_enqueue_shared_queue
func proxyEnqueueSharedQueue(id uint32, p unsafe.Pointer, n uint32) uint32

//go:wasmimport env proxy_dequeue_shared_queue
func proxyDequeueSharedQueue(id uint32, ptr, size unsafe.Pointer) uint32

//go:wasmimport env proxy_set_tick_period_milliseconds
func proxySetTickPeriodMilliseconds(ms uint32) uint32

//go:wasmimport env proxy_set_effective_context
func proxySetEffectiveContext(id uint32) uint32

//go:wasmimport env proxy_define_metric
func proxyDefineMetric(kind uint32, p unsafe.Pointer, n uint32, id unsafe.Pointer) uint32

//go:wasmimport env proxy_increment_metric
func proxyIncrementMetric(id uint32, by int64) uint32

//go:wasmimport env proxy_record_metric
func proxyRecordMetric(id uint32, value uint64) uint32

//go:wasmimport env proxy_get_metric
func proxyGetMetric(id uint32, value unsafe.Pointer) uint32

//go:wasmimport wasi_snapshot_preview1 clock_time_get
func clockTimeGet(id uint32, precision uint64, t unsafe.Pointer) uint32

//go:wasmimport wasi_snapshot_preview1 random_get
func randomGet(p unsafe.Pointer, n uint32) uint32

// What host calls write their results to. These are package variables, because what a host call points to must not
// move, and allocating it would cost time. Calls don't nest, so one of each is enough.
var (
	outPtr, outSize, outWord uint32
	outTime                  int64 // 64 bits: a time, a metric's value
)

// arena is where the host puts the bytes that a call returns. No call returns two values. A value that is larger than
// the arena goes to large, which is used again as long as it is not larger than mostKept.
var (
	arena [64 << 10]byte
	large []byte
)

// mostKept is how much of large is kept for the next large value, such as a record with thousands of waiters.
const mostKept = 4 << 20

// allocate returns memory for the bytes that a host call returns.
func allocate(size uint32) unsafe.Pointer {
	if size <= uint32(len(arena)) {
		return unsafe.Pointer(&arena)
	}
	if uint32(len(large)) < size || len(large) > mostKept {
		large = make([]byte, size+size/4)
	}
	return unsafe.Pointer(unsafe.SliceData(large))
}

// str returns a string as a host call takes it.
func str(s string) (unsafe.Pointer, uint32) {
	return unsafe.Pointer(unsafe.StringData(s)), uint32(len(s))
}

// raw returns bytes as a host call takes them.
func raw(b []byte) (unsafe.Pointer, uint32) {
	return unsafe.Pointer(unsafe.SliceData(b)), uint32(len(b))
}

// out returns where a host call writes the address and the size of the bytes that it returns. It clears both.
func out() (ptr, size unsafe.Pointer) {
	outPtr, outSize = 0, 0
	return unsafe.Pointer(&outPtr), unsafe.Pointer(&outSize)
}

// returned returns the bytes that the last host call has returned.
func returned() []byte {
	if outPtr == 0 || outSize == 0 {
		return nil
	}
	if outSize <= uint32(len(arena)) {
		return arena[:outSize]
	}
	return large[:outSize]
}

// Log writes a line to the host's log.
func Log(level LogLevel, line string) {
	p, n := str(line)
	proxyLog(uint32(level), p, n)
}

// Monotonic returns the time of a clock that all workers share and that never goes back, in nanoseconds. It returns
// false if the host has no such clock.
func Monotonic() (int64, bool) {
	outTime = 0
	if clockTimeGet(1, 1, unsafe.Pointer(&outTime)) != 0 {
		return 0, false
	}
	return outTime, true
}

// WallMillis returns the time of day in milliseconds since 1970, or 0 if the host has none. It can go back.
func WallMillis() int64 {
	outTime = 0
	if clockTimeGet(0, 1, unsafe.Pointer(&outTime)) != 0 {
		return 0
	}
	return outTime / 1e6
}

// Wall returns the same in seconds.
func Wall() int64 { return WallMillis() / 1000 }

// Random fills b with random bytes. It returns false if the host has none.
func Random(b []byte) bool {
	p, n := raw(b)
	return randomGet(p, n) == 0
}

// Property reads a property. NUL separates the parts of its path.
func Property(path string) ([]byte, Status) {
	p, n := str(path)
	ptr, size := out()
	s := Status(proxyGetProperty(p, n, ptr, size))
	return returned(), s
}

// SetProperty sets a property of the current stream. In Envoy that is filter state under "wasm." and the path.
func SetProperty(path string, value []byte) Status {
	kp, kn := str(path)
	vp, vn := raw(value)
	return Status(proxySetProperty(kp, kn, vp, vn))
}

// The kinds of header maps and buffers.
const (
	requestHeaders  = 0
	responseHeaders = 2

	requestBody         = 0
	pluginConfiguration = 7
)

// RequestHeaders returns all request headers, serialised.
func RequestHeaders() (Pairs, Status) { return headers(requestHeaders) }

// ResponseHeaders returns all response headers, serialised.
func ResponseHeaders() (Pairs, Status) { return headers(responseHeaders) }

//go:noinline // many bytes in two places
func headers(kind uint32) (Pairs, Status) {
	ptr, size := out()
	s := Status(proxyGetHeaderMapPairs(kind, ptr, size))
	return Pairs(returned()), s
}

// ReplaceRequestHeader sets a request header to one value.
func ReplaceRequestHeader(name string, value []byte) Status {
	return replaceHeader(requestHeaders, name, value)
}

// RemoveRequestHeader removes a request header.
func RemoveRequestHeader(name string) Status {
	p, n := str(name)
	return Status(proxyRemoveHeaderMapValue(requestHeaders, p, n))
}

// ReplaceResponseHeader sets a response header to one value.
func ReplaceResponseHeader(name string, value []byte) Status {
	return replaceHeader(responseHeaders, name, value)
}

//go:noinline // as headers
func replaceHeader(kind uint32, name string, value []byte) Status {
	kp, kn := str(name)
	vp, vn := raw(value)
	return Status(proxyReplaceHeaderMapValue(kind, kp, kn, vp, vn))
}

// RemoveResponseHeader removes a response header.
func RemoveResponseHeader(name string) Status {
	p, n := str(name)
	return Status(proxyRemoveHeaderMapValue(responseHeaders, p, n))
}

// PluginConfiguration reads the plugin's configuration. It is there in OnPluginStart only.
func PluginConfiguration() ([]byte, Status) { return buffer(pluginConfiguration, 0, 1<<31-1) }

// RequestBody reads n bytes of the part of the request's body that the callback is about, from start on. It is there in
// OnHttpRequestBody only.
func RequestBody(start, n int) ([]byte, Status) { return buffer(requestBody, start, n) }

//go:noinline // as headers
func buffer(kind uint32, start, n int) ([]byte, Status) {
	ptr, size := out()
	s := Status(proxyGetBufferBytes(kind, uint32(start), uint32(n), ptr, size))
	return returned(), s
}

// ContinueRequest resumes the current stream's paused request.
func ContinueRequest() Status { return Status(proxyContinueStream(0)) }

// SendLocalReply answers the current stream's request. headers are serialised, see AppendPairs. grpc is the status of
// the answer to a gRPC request; with -1 the host chooses it.
func SendLocalReply(code uint32, details string, body, headers []byte, grpc int32) Status {
	dp, dn := str(details)
	bp, bn := raw(body)
	hp, hn := raw(headers)
	return Status(proxySendLocalResponse(code, dp, dn, bp, bn, hp, hn, grpc))
}

// SetEffectiveContext makes a stream or plugin the current one for the calls that follow. It returns StatusBadArgument
// if that one is gone.
func SetEffectiveContext(id uint32) Status { return Status(proxySetEffectiveContext(id)) }

// GetShared reads a key of the data that all workers share, and its compare-and-swap number.
func GetShared(key string) ([]byte, uint32, Status) {
	p, n := str(key)
	ptr, size := out()
	outWord = 0
	s := Status(proxyGetSharedData(p, n, ptr, size, unsafe.Pointer(&outWord)))
	return returned(), outWord, s
}

// SetShared stores a key if its compare-and-swap number is still cas, and otherwise returns StatusCasMismatch. It
// creates a missing key whatever cas is, and with cas 0 overwrites any value. For a key that GetShared didn't find, cas
// is CreateIfAbsent.
func SetShared(key string, value []byte, cas uint32) Status {
	kp, kn := str(key)
	vp, vn := raw(value)
	return Status(proxySetSharedData(kp, kn, vp, vn, cas))
}

// RegisterQueue makes the current plugin context the one that the host tells of messages in a queue. It returns the
// queue's id.
func RegisterQueue(name string) (uint32, Status) {
	p, n := str(name)
	outWord = 0
	s := Status(proxyRegisterSharedQueue(p, n, unsafe.Pointer(&outWord)))
	return outWord, s
}

// ResolveQueue returns the id of a queue that a plugin context has registered.
func ResolveQueue(vmID, name string) (uint32, Status) {
	vp, vn := str(vmID)
	p, n := str(name)
	outWord = 0
	s := Status(proxyResolveSharedQueue(vp, vn, p, n, unsafe.Pointer(&outWord)))
	return outWord, s
}

// Enqueue puts a message into a queue.
func Enqueue(id uint32, message []byte) Status {
	p, n := raw(message)
	return Status(proxyEnqueueSharedQueue(id, p, n))
}

// Dequeue removes a message from a queue and returns it, or StatusEmpty if there is none.
func Dequeue(id uint32) ([]byte, Status) {
	ptr, size := out()
	s := Status(proxyDequeueSharedQueue(id, ptr, size))
	return returned(), s
}

// SetTick sets the period of the current plugin context's ticks in milliseconds. 0 stops them.
func SetTick(ms uint32) { proxySetTickPeriodMilliseconds(ms) }

// DefineMetric defines a metric, or finds the one of that name, and returns its id. All workers share a metric.
func DefineMetric(kind MetricKind, name string) (uint32, Status) {
	for i := range counters.all {
		if counters.all[i].name == name {
			return isCounter + uint32(i), StatusOK
		}
	}
	p, n := str(name)
	outWord = 0
	s := Status(proxyDefineMetric(uint32(kind), p, n, unsafe.Pointer(&outWord)))
	if kind == KindCounter && s == StatusOK {
		counters.all = append(counters.all, counter{name: name, metric: outWord})
		return isCounter + uint32(len(counters.all)-1), StatusOK
	}
	return outWord, s
}

// Increment adds to a counter or gauge. by can be negative for a gauge. The host learns of a gauge at once, and of a
// counter when HandOver is called.
//
//go:noinline // called from many places
func Increment(metric uint32, by int64) {
	if metric < isCounter {
		proxyIncrementMetric(metric, by)
		return
	}
	counters.count(metric, by)
}

// Metric reads a gauge or a counter: what the host has been told.
func Metric(metric uint32) int64 {
	if metric >= isCounter {
		metric = counters.all[metric-isCounter].metric
	}
	outTime = 0
	proxyGetMetric(metric, unsafe.Pointer(&outTime))
	return outTime
}

// Record adds a value to a histogram.
func Record(metric uint32, value uint64) { proxyRecordMetric(metric, value) }
