// Package text has what the packages around it need of package strings, which would link a tenth of the module's own code into
// it. What is called from many places is not inlined: a call is smaller than a copy.
package text

import "strconv"

// Index is the position of sub in s, or -1.
//
//go:noinline
func Index(s, sub string) int {
	for i := 0; i+len(sub) <= len(s); i++ {
		if s[i] == sub[0] && s[i:i+len(sub)] == sub {
			return i
		}
	}
	return -1
}

// IndexByte is the position of c in s, or -1.
//
//go:noinline
func IndexByte(s string, c byte) int {
	for i := range len(s) {
		if s[i] == c {
			return i
		}
	}
	return -1
}

// CutInLast splits a path around the last sep of its last segment.
//
//go:noinline
func CutInLast(path string, sep byte) (before, after string, found bool) {
	for i := len(path) - 1; i >= 0 && path[i] != '/'; i-- {
		if path[i] == sep {
			return path[:i], path[i+1:], true
		}
	}
	return path, "", false
}

// Cut splits s around the first sep, which is not empty.
//
//go:noinline
func Cut(s, sep string) (before, after string, found bool) {
	if i := Index(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// HasPrefix reports whether s begins with prefix.
func HasPrefix(s, prefix string) bool { return len(s) >= len(prefix) && s[:len(prefix)] == prefix }

// CutPrefix is s without prefix, if it begins with it.
func CutPrefix(s, prefix string) (rest string, found bool) {
	if HasPrefix(s, prefix) {
		return s[len(prefix):], true
	}
	return s, false
}

// WithoutSlashAtEnd cuts one slash off the end of s.
func WithoutSlashAtEnd(s string) string {
	if s != "" && s[len(s)-1] == '/' {
		return s[:len(s)-1]
	}
	return s
}

// Trim cuts the bytes of set off both ends of s.
//
//go:noinline
func Trim(s, set string) string {
	for s != "" && IndexByte(set, s[0]) >= 0 {
		s = s[1:]
	}
	for s != "" && IndexByte(set, s[len(s)-1]) >= 0 {
		s = s[:len(s)-1]
	}
	return s
}

// Put appends s to b, for those who append a lot.
//
//go:noinline
func Put(b []byte, s string) []byte { return append(b, s...) }

// PutText appends s to texts, as Put does.
//
//go:noinline
func PutText(texts []string, s string) []string { return append(texts, s) }

// Around is a text around a number.
//
//go:noinline
func Around(before string, n int, after string) string {
	return before + strconv.Itoa(n) + after
}

// EqualFold compares without regard to ASCII case only: unlike strings.EqualFold, never a letter k to a Kelvin sign.
//
//go:noinline
func EqualFold(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if Lower(a[i]) != Lower(b[i]) {
			return false
		}
	}
	return true
}

// EqualFolds compares element by element as EqualFold does.
func EqualFolds(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !EqualFold(a[i], b[i]) {
			return false
		}
	}
	return true
}

// Lower is c in lower case, if it is an ASCII letter.
func Lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c |= 0x20
	}
	return c
}

// OtherCase is s with the case of its letters turned that are from, an 'a' or an 'A', to its z.
func OtherCase(s string, from byte) string {
	b := Put(nil, s)
	for i := range b {
		if b[i]-from < 26 {
			b[i] ^= 0x20
		}
	}
	return string(b)
}

// FirstRune is the first character of s and its length; utf8.RuneError and 1 where there is none. Package utf8's own
// would be linked into the wasm module for this alone; the loop's is there anyway.
//
//go:noinline
func FirstRune(s string) (first rune, n int) {
	for i, c := range s {
		if i > 0 {
			return first, i
		}
		first = c
	}
	return first, len(s)
}

// IsDigit reports whether c is an ASCII digit.
func IsDigit(c byte) bool { return '0' <= c && c <= '9' }

// HexDigit is the value of a hexadecimal digit, or -1.
func HexDigit(c byte) int {
	switch {
	case IsDigit(c):
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

// The escapes of a JSON string, but for \u: what stands behind the backslash, and the characters that they mean. Each has 8
// bytes: an index &7 needs no check.
const (
	JSONEscapes = `"\/bfnrt`
	JSONEscaped = "\"\\/\b\f\n\r\t"
)

// CutDigits splits s after its leading ASCII digits.
//
//go:noinline
func CutDigits(s string) (digits, rest string) {
	n := 0
	for n < len(s) && IsDigit(s[n]) {
		n++
	}
	return s[:n], s[n:]
}

// ParseDigits is the value of a string of ASCII digits; ok is false when it is above most. No digits are 0.
func ParseDigits(digits string, most int64) (n int64, ok bool) {
	for i := range len(digits) {
		d := int64(digits[i] - '0')
		if n > (most-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

// IsName reports whether s is 1 to most ASCII letters, digits and bytes of more.
func IsName(s string, most int, more string) bool {
	for i := range len(s) {
		c := s[i]
		if letter := Lower(c); (letter < 'a' || letter > 'z') && !IsDigit(c) && IndexByte(more, c) < 0 {
			return false
		}
	}
	return s != "" && len(s) <= most
}
