//go:build wasip1

package abi

import "unsafe"

// word reads the 32-bit number at the beginning of b. WebAssembly reads it at any address, little endian; Go's compiler
// would read it byte by byte.
func word(b []byte) uint32 { _ = b[3]; return *(*uint32)(unsafe.Pointer(unsafe.SliceData(b))) }

// twoWords reads two such numbers, the first one in the lower half.
func twoWords(b []byte) uint64 { _ = b[7]; return *(*uint64)(unsafe.Pointer(unsafe.SliceData(b))) }
