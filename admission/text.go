package admission

import "strconv"

// What the package needs of package strings, which would link a tenth of the wasm module's own code for it. What is called
// from many places is not inlined, here and in the rest of the parser of configurations: a call is smaller than a copy.

// indexOf is the position of sub in s, or -1.
//
//go:noinline
func indexOf(s, sub string) int {
	for i := 0; i+len(sub) <= len(s); i++ {
		if s[i] == sub[0] && s[i:i+len(sub)] == sub {
			return i
		}
	}
	return -1
}

//go:noinline
func indexByte(s string, c byte) int {
	for i := range len(s) {
		if s[i] == c {
			return i
		}
	}
	return -1
}

// cutInLast splits a path around the last sep of its last segment.
//
//go:noinline
func cutInLast(path string, sep byte) (before, after string, found bool) {
	for i := len(path) - 1; i >= 0 && path[i] != '/'; i-- {
		if path[i] == sep {
			return path[:i], path[i+1:], true
		}
	}
	return path, "", false
}

// cut splits s around the first sep, which is not empty.
//
//go:noinline
func cut(s, sep string) (before, after string, found bool) {
	if i := indexOf(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func hasPrefix(s, prefix string) bool { return len(s) >= len(prefix) && s[:len(prefix)] == prefix }

func cutPrefix(s, prefix string) (rest string, found bool) {
	if hasPrefix(s, prefix) {
		return s[len(prefix):], true
	}
	return s, false
}

// withoutSlashAtEnd cuts one slash off the end of s.
func withoutSlashAtEnd(s string) string {
	if s != "" && s[len(s)-1] == '/' {
		return s[:len(s)-1]
	}
	return s
}

// trim cuts the bytes of set off both ends of s.
//
//go:noinline
func trim(s, set string) string {
	for s != "" && indexByte(set, s[0]) >= 0 {
		s = s[1:]
	}
	for s != "" && indexByte(set, s[len(s)-1]) >= 0 {
		s = s[:len(s)-1]
	}
	return s
}

// put appends s to b, for those who append a lot.
//
//go:noinline
func put(b []byte, s string) []byte { return append(b, s...) }

//go:noinline
func putText(texts []string, s string) []string { return append(texts, s) }

// around is a text around a number.
//
//go:noinline
func around(before string, n int, after string) string {
	return before + strconv.Itoa(n) + after
}
