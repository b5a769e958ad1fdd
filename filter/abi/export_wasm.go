//go:build wasip1

package abi

import (
	"unsafe"

	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"
)

// SetVMContext sets the module's VM context. It is called from an init function, since main does not run.
func SetVMContext(vm types.VMContext) { contexts.vm = vm }

// The exports are the callbacks that the contexts need, and no others: the host calls each one for every stream. A
// filter that needs another one, such as response bodies, adds it here.

//go:wasmexport proxy_abi_version_0_2_1
func proxyABIVersion() {}

//go:wasmexport proxy_on_memory_allocate
func proxyOnMemoryAllocate(size uint32) unsafe.Pointer { return allocate(size) }

//go:wasmexport proxy_on_context_create
func proxyOnContextCreate(id, parent uint32) {
	defer guard("proxy_on_context_create", nil, nil)
	contexts.create(id, parent)
}

//go:wasmexport proxy_on_vm_start
func proxyOnVMStart(_, size uint32) (ok uint32) {
	defer guard("proxy_on_vm_start", nil, nil)
	if contexts.vm != nil && contexts.vm.OnVMStart(int(size)) == types.OnVMStartStatusOK {
		ok = 1
	}
	return ok
}

//go:wasmexport proxy_on_configure
func proxyOnConfigure(id, size uint32) (ok uint32) {
	defer guard("proxy_on_configure", nil, nil)
	if p := contexts.plugins[id]; p != nil && p.OnPluginStart(int(size)) == types.OnPluginStartStatusOK {
		ok = 1
	}
	return ok
}

//go:wasmexport proxy_on_tick
func proxyOnTick(id uint32) {
	p := contexts.plugins[id]
	defer guard("proxy_on_tick", p, nil)
	if p != nil {
		p.OnTick()
	}
}

//go:wasmexport proxy_on_queue_ready
func proxyOnQueueReady(id, queue uint32) {
	p := contexts.plugins[id]
	defer guard("proxy_on_queue_ready", p, nil)
	if p != nil {
		p.OnQueueReady(queue)
	}
}

//go:wasmexport proxy_on_request_headers
func proxyOnRequestHeaders(id, n, end uint32) (action uint32) {
	s := contexts.stream(id)
	defer guard("proxy_on_request_headers", s, &action)
	if s != nil {
		action = uint32(s.OnHttpRequestHeaders(int(n), end != 0))
	}
	return action
}

//go:wasmexport proxy_on_request_body
func proxyOnRequestBody(id, size, end uint32) (action uint32) {
	s := contexts.stream(id)
	defer guard("proxy_on_request_body", s, &action)
	if s != nil {
		action = uint32(s.OnHttpRequestBody(int(size), end != 0))
	}
	return action
}

//go:wasmexport proxy_on_request_trailers
func proxyOnRequestTrailers(id, n uint32) (action uint32) {
	s := contexts.stream(id)
	defer guard("proxy_on_request_trailers", s, &action)
	if s != nil {
		action = uint32(s.OnHttpRequestTrailers(int(n)))
	}
	return action
}

//go:wasmexport proxy_on_response_headers
func proxyOnResponseHeaders(id, n, end uint32) (action uint32) {
	s := contexts.stream(id)
	defer guard("proxy_on_response_headers", nil, nil)
	if s != nil {
		action = uint32(s.OnHttpResponseHeaders(int(n), end != 0))
		counters.tell(s)
	}
	return action
}

//go:wasmexport proxy_on_done
func proxyOnDone(id uint32) (done uint32) {
	done = 1
	s := contexts.stream(id)
	defer guard("proxy_on_done", s, nil)
	if !contexts.done(id) {
		done = 0
	}
	return done
}

// guard is deferred by each export. It turns a panic into a log line and an answer, since a trap would end the VM.
func guard(callback string, context any, action *uint32) {
	if v := recover(); v != nil {
		a := recovered(callback, context, v)
		if action != nil {
			*action = uint32(a)
		}
	}
	counters.tell(context)
}
