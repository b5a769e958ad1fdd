package abi

// Uint64 reads an integer as the host writes it: 8 bytes, little endian. b has at least 8.
func Uint64(b []byte) uint64 { return twoWords(b) }

// AppendUint64 appends such an integer to dst.
func AppendUint64(dst []byte, v uint64) []byte {
	return appendWord(appendWord(dst, int(uint32(v))), int(uint32(v>>32)))
}

// Integer reads a property that is an integer. It returns false if it isn't there.
func Integer(path string) (uint64, bool) {
	b, status := Property(path)
	if status != StatusOK || len(b) != 8 {
		return 0, false
	}
	return Uint64(b), true
}
