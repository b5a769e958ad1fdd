// Command puppet is a guest without a will of its own: in each callback it asks the test, through a foreign function,
// what to do next, does it, and reports the result, until it is told what to return. So one guest tests every rule of
// the host.
package main

import (
	"encoding/binary"
	"time"
	"unsafe"
)

func main() {}

// memory keeps what the host asked for until the next call that takes it.
var memory []byte

//go:wasmexport proxy_abi_version_0_2_1
func abiVersion() {}

//go:wasmexport proxy_on_memory_allocate
func allocate(size uint32) uint32 {
	memory = make([]byte, size)
	return address(memory)
}

func address(b []byte) uint32 {
	if len(b) == 0 {
		return 0
	}
	return uint32(uintptr(unsafe.Pointer(&b[0])))
}

//go:wasmexport proxy_on_context_create
func onContextCreate(id, parent uint32) { ask("context_create", id, parent) }

//go:wasmexport proxy_on_vm_start
func onVMStart(id, size uint32) uint32 { return ask("vm_start", id, size) }

//go:wasmexport proxy_on_configure
func onConfigure(id, size uint32) uint32 { return ask("configure", id, size) }

//go:wasmexport proxy_on_tick
func onTick(id uint32) { ask("tick", id) }

//go:wasmexport proxy_on_queue_ready
func onQueueReady(id, queue uint32) { ask("queue_ready", id, queue) }

//go:wasmexport proxy_on_request_headers
func onRequestHeaders(id, n, end uint32) uint32 { return ask("request_headers", id, n, end) }

//go:wasmexport proxy_on_request_body
func onRequestBody(id, n, end uint32) uint32 { return ask("request_body", id, n, end) }

//go:wasmexport proxy_on_request_trailers
func onRequestTrailers(id, n uint32) uint32 { return ask("request_trailers", id, n) }

//go:wasmexport proxy_on_response_headers
func onResponseHeaders(id, n, end uint32) uint32 { return ask("response_headers", id, n, end) }

//go:wasmexport proxy_on_response_body
func onResponseBody(id, n, end uint32) uint32 { return ask("response_body", id, n, end) }

//go:wasmexport proxy_on_response_trailers
func onResponseTrailers(id, n uint32) uint32 { return ask("response_trailers", id, n) }

//go:wasmexport proxy_on_log
func onLog(id uint32) { ask("log", id) }

//go:wasmexport proxy_on_done
func onDone(id uint32) uint32 { return ask("done", id) }

//go:wasmexport proxy_on_delete
func onDelete(id uint32) { ask("delete", id) }

//go:wasmexport proxy_on_http_call_response
func onHTTPCallResponse(id, token, headers, body, trailers uint32) {
	ask("http_call_response", id, token, headers, body, trailers)
}

// ask sends "!name\0args" and then the result of each order, and gets the next order.
func ask(name string, args ...uint32) uint32 {
	message := append(append([]byte("!"), name...), 0)
	for _, a := range args {
		message = binary.LittleEndian.AppendUint32(message, a)
	}
	for {
		order := next(message)
		if len(order) == 0 {
			return 0
		}
		script, op, rest := order[:4], order[4], order[5:]
		if op == opReturn {
			return binary.LittleEndian.Uint32(rest)
		}
		message = append([]byte("="), script...)
		message = perform(message, op, rest)
	}
}

var (
	puppetName      = []byte("puppet")
	outPtr, outSize uint32
	out32           uint32
	out64           uint64
	outSiz2         uint32
)

func next(message []byte) []byte {
	outPtr, outSize = 0, 0
	kept = append(kept[:0], message)
	foreign(address(puppetName), uint32(len(puppetName)), address(message), uint32(len(message)), at(&outPtr),
		at(&outSize))
	return taken(outSize)
}

// kept holds what the host is about to read. It also forces it onto the heap: a stack may move, and the host knows only
// the number of an address.
var kept [][]byte

func at[T any](p *T) uint32 { return uint32(uintptr(unsafe.Pointer(p))) }

// taken is a copy of what the host put into the memory it asked for.
func taken(size uint32) []byte {
	if size == 0 {
		return nil
	}
	return append([]byte(nil), memory[:size]...)
}

const (
	opReturn = iota
	opLog
	opGetProperty
	opSetProperty
	opGetHeader
	opAddHeader
	opReplaceHeader
	opRemoveHeader
	opGetPairs
	opSetPairs
	opGetHeaderSize
	opGetBuffer
	opSetBuffer
	opContinue
	opClose
	opReply
	opGetData
	opSetData
	opRegister
	opResolve
	opEnqueue
	opDequeue
	opTick
	opTime
	opEffective
	opDone
	opDefine
	opIncrement
	opRecord
	opMetric
	opHTTPCall
	opStatus
	opLogLevel
	opClock
	opRandom
	opPanic
	opWait
	opPrint
	opForeign
	opBufferStatus
	opSleep
	opExit
)

// operands reads what follows an op: numbers and byte strings.
type operands []byte

func (o *operands) number() uint64 {
	n := binary.LittleEndian.Uint64(*o)
	*o = (*o)[8:]
	return n
}

func (o *operands) u32() uint32 { return uint32(o.number()) }

func (o *operands) bytes() []byte {
	n := int(o.number())
	b := (*o)[:n]
	*o = (*o)[n:]
	kept = append(kept, append([]byte(nil), b...))
	return kept[len(kept)-1]
}

func size(b []byte) uint32 { return uint32(len(b)) }

// perform makes one host call and appends status, number and bytes of its result.
func perform(message []byte, op byte, rest []byte) []byte {
	o := operands(rest)
	outPtr, outSize, out32, out64 = 0, 0, 0, 0
	memory, kept = nil, kept[:0]
	status := call(op, &o)
	number := out64
	if number == 0 {
		number = uint64(out32)
	}
	message = binary.LittleEndian.AppendUint32(message, status)
	message = binary.LittleEndian.AppendUint64(message, number)
	if memory != nil && outSize > 0 {
		message = append(message, memory[:outSize]...)
	}
	return message
}

func call(op byte, o *operands) uint32 {
	switch op {
	case opLog:
		level, text := o.u32(), o.bytes()
		return log(level, address(text), size(text))
	case opGetProperty:
		path := o.bytes()
		return getProperty(address(path), size(path), at(&outPtr), at(&outSize))
	case opSetProperty:
		k, v := o.bytes(), o.bytes()
		return setProperty(address(k), size(k), address(v), size(v))
	case opGetHeader:
		m, k := o.u32(), o.bytes()
		return getHeader(m, address(k), size(k), at(&outPtr), at(&outSize))
	case opAddHeader:
		m, k, v := o.u32(), o.bytes(), o.bytes()
		return addHeader(m, address(k), size(k), address(v), size(v))
	case opReplaceHeader:
		m, k, v := o.u32(), o.bytes(), o.bytes()
		return replaceHeader(m, address(k), size(k), address(v), size(v))
	case opRemoveHeader:
		m, k := o.u32(), o.bytes()
		return removeHeader(m, address(k), size(k))
	case opGetPairs:
		return getPairs(o.u32(), at(&outPtr), at(&outSize))
	case opSetPairs:
		m, b := o.u32(), o.bytes()
		return setPairs(m, address(b), size(b))
	case opGetHeaderSize:
		return getHeaderSize(o.u32(), at(&out32))
	case opGetBuffer:
		return getBuffer(o.u32(), o.u32(), o.u32(), at(&outPtr), at(&outSize))
	case opBufferStatus:
		return getBufferStatus(o.u32(), at(&out32), at(&outSiz2))
	case opSetBuffer:
		t, start, length, b := o.u32(), o.u32(), o.u32(), o.bytes()
		return setBuffer(t, start, length, address(b), size(b))
	case opContinue:
		return continueStream(o.u32())
	case opClose:
		return closeStream(o.u32())
	case opReply:
		code, details, body, headers, grpc := o.u32(), o.bytes(), o.bytes(), o.bytes(), o.u32()
		return reply(code, address(details), size(details), address(body), size(body), address(headers), size(headers), grpc)
	case opGetData:
		k := o.bytes()
		return getData(address(k), size(k), at(&outPtr), at(&outSize), at(&out32))
	case opSetData:
		k, v, cas := o.bytes(), o.bytes(), o.u32()
		return setData(address(k), size(k), address(v), size(v), cas)
	case opRegister:
		n := o.bytes()
		return registerQueue(address(n), size(n), at(&out32))
	case opResolve:
		vm, n := o.bytes(), o.bytes()
		return resolveQueue(address(vm), size(vm), address(n), size(n), at(&out32))
	case opEnqueue:
		id, m := o.u32(), o.bytes()
		return enqueue(id, address(m), size(m))
	case opDequeue:
		return dequeue(o.u32(), at(&outPtr), at(&outSize))
	case opTick:
		return setTick(o.u32())
	case opTime:
		return currentTime(at(&out64))
	case opEffective:
		return setEffective(o.u32())
	case opDone:
		return done()
	case opDefine:
		t, n := o.u32(), o.bytes()
		return defineMetric(t, address(n), size(n), at(&out32))
	case opIncrement:
		return incrementMetric(o.u32(), int64(o.number()))
	case opRecord:
		return recordMetric(o.u32(), o.number())
	case opMetric:
		return getMetric(o.u32(), at(&out64))
	case opHTTPCall:
		cluster, headers, body, trailers, timeout := o.bytes(), o.bytes(), o.bytes(), o.bytes(), o.u32()
		return httpCall(address(cluster), size(cluster), address(headers), size(headers), address(body), size(body),
			address(trailers), size(trailers), timeout, at(&out32))
	case opStatus:
		return getStatus(at(&out32), at(&outPtr), at(&outSize))
	case opLogLevel:
		return getLogLevel(at(&out32))
	case opClock:
		return clock(o.u32(), 1, at(&out64))
	case opRandom:
		n := o.u32()
		memory = make([]byte, n)
		outSize = n
		return random(address(memory), n)
	case opPanic:
		panic(string(o.bytes()))
	case opWait:
		<-make(chan int)
	case opSleep:
		time.Sleep(time.Duration(o.number()))
	case opExit:
		exit(o.u32())
	case opPrint:
		print(string(o.bytes()))
	case opForeign:
		n, a := o.bytes(), o.bytes()
		return foreign(address(n), size(n), address(a), size(a), at(&outPtr), at(&outSize))
	}
	return 999
}
