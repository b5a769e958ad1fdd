//go:build !wasip1

package abi

// word reads the 32-bit number at the beginning of b.
func word(b []byte) uint32 {
	_ = b[3]
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

// twoWords reads two such numbers, the first one in the lower half.
func twoWords(b []byte) uint64 { return uint64(word(b)) | uint64(word(b[4:]))<<32 }
