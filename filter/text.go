package filter

import (
	"unsafe"

	"github.com/headgate/headgate/admission/config"
)

// A span is a part of stream.text.
type span struct{ from, to uint32 }

// keepRaw copies a value into the stream's text.
//
//go:noinline // as trimmed
func (s *stream) keepRaw(b []byte) span {
	from := uint32(len(s.text))
	s.text = append(s.text, b...)
	return span{from, uint32(len(s.text))}
}

// keep copies a value into the stream's text, and makes it fit to be a name: bounded, and without control characters.
func (s *stream) keep(b []byte) span {
	at := s.keepRaw(b)
	for i := at.from; i < at.to; i++ {
		if s.text[i] < ' ' || s.text[i] == 0x7f {
			s.text[i] = '?'
		}
	}
	if at.to-at.from > config.MaxValue {
		s.text = shorten(s.text, int(at.from), config.MaxValue)
		at.to = uint32(len(s.text))
	}
	return at
}

// trimmed returns b without the white space at its ends. Some upstreams trim what they compare. So a name with white
// space around it is the same name here: otherwise a client could have many keys for one model.
//
//go:noinline // called from many places
func trimmed(b []byte) []byte {
	for len(b) > 0 && isSpace(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && isSpace(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

// put appends a text to b.
//
//go:noinline // as trimmed
func put(b []byte, text string) []byte { return append(b, text...) }

// isSpace reports whether c is ASCII white space.
func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

// kept returns a value that was kept. It is valid as long as the stream.
func (s *stream) kept(at span) []byte { return s.text[at.from:at.to] }

// shorten cuts b[from:] to n bytes. The last 17 of them are a tilde and a hash of what stood there, so that different
// values stay different.
func shorten(b []byte, from, n int) []byte {
	h := hash(b[from:])
	b = append(b[:from+n-17], '~')
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, "0123456789abcdef"[h>>shift&15])
	}
	return b
}

// hash returns the 64-bit FNV-1a hash of b, but never 0: that is the tenant in pools that aren't fair by tenant.
func hash(b []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return max(h, 1)
}

// view returns b as a string, without a copy. It is valid as long as b doesn't change.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// bytesOf returns the bytes of s, without a copy. Nothing may write to them.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// incomparable makes a struct that begins with it one that can't be compared, so that no code is made for it that
// nobody calls: some hundred bytes of module for each.
type incomparable [0]func()
