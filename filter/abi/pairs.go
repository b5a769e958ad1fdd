package abi

// Pairs is a serialised header map as proxy-wasm has it: the number of pairs, the sizes of all names and values, then
// each name and value with a NUL behind it; numbers are 32 bits, little endian.
type Pairs []byte

// Len is the number of pairs; 0 if the bytes are not a whole map.
func (p Pairs) Len() int {
	if len(p) < 4 {
		return 0
	}
	n := word(p)
	if n > uint32(len(p)-4)/8 {
		return 0
	}
	return int(n)
}

// Each calls f for each pair in order until it returns false. Name and value are valid as long as p is.
func (p Pairs) Each(f func(name, value []byte) bool) {
	n := p.Len()
	at := uint64(4 + 8*n)
	for i := range n {
		sizes := p[4+8*i:]
		name, value := uint64(word(sizes)), uint64(word(sizes[4:]))
		end := at + name + 1 + value + 1
		if end > uint64(len(p)) {
			return
		}
		if !f(p[at:at+name:at+name], p[at+name+1:end-1:end-1]) {
			return
		}
		at = end
	}
}

// AppendPairs serialises name-value pairs behind dst.
func AppendPairs(dst []byte, pairs ...[2]string) []byte {
	dst = appendWord(dst, len(pairs))
	for _, p := range pairs {
		dst = appendWord(appendWord(dst, len(p[0])), len(p[1]))
	}
	for _, p := range pairs {
		dst = append(append(append(append(dst, p[0]...), 0), p[1]...), 0)
	}
	return dst
}

func word(b []byte) uint32 {
	_ = b[3]
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

func appendWord(b []byte, n int) []byte {
	return append(b, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
}
