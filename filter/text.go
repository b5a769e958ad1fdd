package filter

import (
	"unsafe"

	"github.com/headgate/headgate/admission/config"
)

// A span is a piece of stream.text.
type span struct{ from, to int }

func (s *stream) keepRaw(b []byte) span {
	from := len(s.text)
	s.text = append(s.text, b...)
	return span{from, len(s.text)}
}

// keep copies a value, made safe to be a name: bounded, and without control characters.
func (s *stream) keep(b []byte) span {
	at := s.keepRaw(b)
	for i := at.from; i < at.to; i++ {
		if s.text[i] < ' ' || s.text[i] == 0x7f {
			s.text[i] = '?'
		}
	}
	if at.to-at.from > config.MaxValue {
		s.text = shorten(s.text, at.from, config.MaxValue)
		at.to = len(s.text)
	}
	return at
}

func (s *stream) kept(at span) []byte { return s.text[at.from:at.to] }

// shorten cuts what follows from in b to n bytes, of which the last 17 are a tilde and a hash of the whole.
func shorten(b []byte, from, n int) []byte {
	h := hash(b[from:])
	b = append(b[:from+n-17], '~')
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, "0123456789abcdef"[h>>shift&15])
	}
	return b
}

// hash is FNV-1a in 64 bits, never 0: that is the tenant of pools that aren't fair by tenant.
func hash(b []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return max(h, 1)
}

// view is b as a string without a copy: valid as long as b is neither changed nor reused.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// bytesOf is s as bytes without a copy: not to be written to.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
