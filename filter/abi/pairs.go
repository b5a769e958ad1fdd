package abi

// Pairs is a header map as proxy-wasm serialises it: the number of pairs, the sizes of all names and values, then each
// name and value with a NUL behind it. Numbers have 32 bits, little endian.
type Pairs []byte

// Len returns the number of pairs, or 0 if the bytes can't be a whole map.
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

// A Cursor goes through Pairs. A function that is called for each pair would be slower: calls are expensive in a wasm
// module of standard Go.
type Cursor struct {
	pairs Pairs
	left  int
	sizes int // the index of the next pair's sizes
	at    int // the index of its name
	Name  []byte
	Value []byte
}

// Cursor returns a cursor that stands before the first pair. Its Name and Value are valid as long as p is.
func (p Pairs) Cursor() Cursor {
	n := p.Len()
	return Cursor{pairs: p, left: n, sizes: 4, at: 4 + 8*n}
}

// Next moves to the next pair. It returns false if there is none.
func (c *Cursor) Next() bool { return c.Seek(^uint64(0), " ") }

// Seek moves to the next pair whose name has one of some lengths, or begins with a prefix that is not empty. A length
// is a bit of lengths, modulo 64. Seek returns false if there is none.
func (c *Cursor) Seek(lengths uint64, prefix string) bool {
	p, from, sizes := c.pairs, c.at, c.sizes
	for left := c.left - 1; left >= 0; left-- {
		both := twoWords(p[sizes:])
		n := int(uint32(both))
		name := from + n
		value := name + 1 + int(both>>32)
		if value < name || value+1 > len(p) {
			break
		}
		found := lengths&(1<<(n&63)) != 0
		if !found && n >= len(prefix) && p[from] == prefix[0] {
			found = string(p[from:from+len(prefix)]) == prefix
		}
		if found {
			c.left, c.sizes, c.at = left, sizes+8, value+1
			c.Name, c.Value = p[from:name:name], p[name+1:value:value]
			return true
		}
		sizes, from = sizes+8, value+1
	}
	c.left = 0
	return false
}

// AppendPairs appends serialised pairs of a name and a value to dst.
func AppendPairs(dst []byte, pairs ...[2]string) []byte {
	dst = appendWord(dst, len(pairs))
	for _, p := range pairs {
		dst = appendWord(appendWord(dst, len(p[0])), len(p[1]))
	}
	for _, p := range pairs {
		for i := range p {
			dst = append(append(dst, p[i]...), 0)
		}
	}
	return dst
}

// appendWord appends n as a 32-bit number.
func appendWord(b []byte, n int) []byte {
	return append(b, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
}
