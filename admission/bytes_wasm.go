package admission

import "unsafe"

// As in bytes.go. WebAssembly is little endian and reads numbers at any address, but Go's compiler makes one load of
// each byte there: docs/rationale.md says what that costs.

func get16(b []byte) uint16 { _ = b[1]; return *(*uint16)(unsafe.Pointer(unsafe.SliceData(b))) }

func get32(b []byte) uint32 { _ = b[3]; return *(*uint32)(unsafe.Pointer(unsafe.SliceData(b))) }

func get64(b []byte) uint64 { _ = b[7]; return *(*uint64)(unsafe.Pointer(unsafe.SliceData(b))) }

func put16(b []byte, v uint16) { _ = b[1]; *(*uint16)(unsafe.Pointer(unsafe.SliceData(b))) = v }

func put32(b []byte, v uint32) { _ = b[3]; *(*uint32)(unsafe.Pointer(unsafe.SliceData(b))) = v }

func put64(b []byte, v uint64) { _ = b[7]; *(*uint64)(unsafe.Pointer(unsafe.SliceData(b))) = v }
