// Package text replaces the functions of package strings that the packages around it need. Package strings would add a
// tenth to the wasm module's own code. A function that is called from many places is not inlined: a call is smaller
// than a copy. docs/rationale.md has the figures.
package text

import "strconv"

// Index returns the position of the first sub in s, or -1. sub is not empty.
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

// IndexByte returns the position of the first c in s, or -1.
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

// CutInLast splits a path around the last sep in its last segment. Without one, before is the whole path.
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

// Cut splits s around the first sep, which is not empty. Without one, before is s.
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

// CutPrefix returns s without the prefix, or s where it doesn't begin with it.
func CutPrefix(s, prefix string) (rest string, found bool) {
	if HasPrefix(s, prefix) {
		return s[len(prefix):], true
	}
	return s, false
}

// WithoutSlashAtEnd returns s without one slash at its end.
func WithoutSlashAtEnd(s string) string {
	if s != "" && s[len(s)-1] == '/' {
		return s[:len(s)-1]
	}
	return s
}

// Trim returns s without the bytes of set at both ends.
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

// Put appends s to b. It is smaller than append where much is appended.
//
//go:noinline
func Put(b []byte, s string) []byte { return append(b, s...) }

// PutText appends s to texts, for the same reason as Put.
//
//go:noinline
func PutText(texts []string, s string) []string { return append(texts, s) }

// Around returns n as a decimal number between two texts.
//
//go:noinline
func Around(before string, n int, after string) string {
	return before + strconv.Itoa(n) + after
}

// EqualFold compares without regard to the case of ASCII letters. strings.EqualFold also takes a Kelvin sign for a k.
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

// EqualFolds compares each element as EqualFold does.
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

// Lower returns c in lower case where it is an ASCII letter, otherwise c.
func Lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c |= 0x20
	}
	return c
}

// What ChangeCase does: the first of the 26 letters that it changes.
const (
	ToLower byte = 'A'
	ToUpper byte = 'a'
)

// ChangeCase returns s with its ASCII letters in lower or upper case. It is one function because two would be larger.
func ChangeCase(s string, to byte) string {
	b := Put(nil, s)
	for i := range b {
		if b[i]-to < 26 {
			b[i] ^= 0x20
		}
	}
	return string(b)
}

// FirstRune returns the first character of s and its length, or utf8.RuneError and 1 where s doesn't begin with a whole
// character. It uses the decoding of Go's range loop, which the module has anyway. utf8.DecodeRuneInString would add
// code.
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

// HexDigit returns the value of a hexadecimal digit, or -1.
func HexDigit(c byte) int {
	switch {
	case IsDigit(c):
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

// The escapes of a JSON string, except \u: the bytes behind the backslash, and the character that each one means. Both
// have 8 bytes, so that an index &7 needs no check of its bounds.
const (
	JSONEscapes = `"\/bfnrt`
	JSONEscaped = "\"\\/\b\f\n\r\t"
)

// CutDigits splits s behind the ASCII digits at its beginning.
//
//go:noinline
func CutDigits(s string) (digits, rest string) {
	n := 0
	for n < len(s) && IsDigit(s[n]) {
		n++
	}
	return s[:n], s[n:]
}

// ParseDigits returns the value of a string of ASCII digits; ok is false when it is above most. No digits are 0.
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

// IsName reports whether s is 1 to most bytes: ASCII letters, digits and bytes of more.
func IsName(s string, most int, more string) bool {
	for i := range len(s) {
		c := s[i]
		if letter := Lower(c); (letter < 'a' || letter > 'z') && !IsDigit(c) && IndexByte(more, c) < 0 {
			return false
		}
	}
	return s != "" && len(s) <= most
}
