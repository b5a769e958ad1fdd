package main

import "unsafe"

// What the host writes to and reads from is in package variables: those never move.
var (
	memory []byte
	out    struct{ pointer, size, number uint32 }
	value  []byte
	kept   string
)

//go:wasmexport proxy_on_memory_allocate
func allocate(size uint32) uint32 {
	memory = make([]byte, size)
	return address(memory)
}

// taken is what the host has just given.
func taken() []byte { return memory[:out.size] }

func at(p *uint32) uint32 { return uint32(uintptr(unsafe.Pointer(p))) }

func address(b []byte) uint32 { return uint32(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

func text(s string) uint32 {
	kept = s
	return uint32(uintptr(unsafe.Pointer(unsafe.StringData(s))))
}

func length(s string) uint32 { return uint32(len(s)) }

//go:wasmimport env proxy_get_buffer_bytes
func getBuffer(t, start, length, rp, rs uint32) uint32

//go:wasmimport env proxy_continue_stream
func continueStream(t uint32) uint32

//go:wasmimport env proxy_set_effective_context
func setEffective(id uint32) uint32

//go:wasmimport env proxy_get_shared_data
func getData(kp, ks, rp, rs, cas uint32) uint32

//go:wasmimport env proxy_set_shared_data
func setData(kp, ks, vp, vs, cas uint32) uint32

//go:wasmimport env proxy_register_shared_queue
func registerQueue(np, ns, r uint32) uint32

//go:wasmimport env proxy_resolve_shared_queue
func resolveQueue(vp, vs, np, ns, r uint32) uint32

//go:wasmimport env proxy_enqueue_shared_queue
func enqueue(id, p, s uint32) uint32

//go:wasmimport env proxy_dequeue_shared_queue
func dequeue(id, rp, rs uint32) uint32
