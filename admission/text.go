package admission

// What the package needs of package strings, which would link a tenth of the wasm module's own code for it. Three of these,
// and equalFold, stay out of line: inlined wherever they are called they would be 11 KB of the module.

// indexOf is the position of sub in s, or -1.
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

func lastIndexByte(s string, c byte) int {
	i := len(s) - 1
	for i >= 0 && s[i] != c {
		i--
	}
	return i
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

// anyRune reports whether is holds for a character of s.
func anyRune(s string, is func(rune) bool) bool {
	for _, c := range s {
		if is(c) {
			return true
		}
	}
	return false
}

func containsAny(s, set string) bool {
	return anyRune(s, func(c rune) bool { return c < 0x80 && indexByte(set, byte(c)) >= 0 })
}

// split cuts s at each sep.
func split(s string, sep byte) []string {
	var parts []string
	for {
		i := indexByte(s, sep)
		if i < 0 {
			return append(parts, s)
		}
		parts, s = append(parts, s[:i]), s[i+1:]
	}
}

func join(parts []string, sep string) string {
	var b []byte
	for i, p := range parts {
		if i > 0 {
			b = append(b, sep...)
		}
		b = append(b, p...)
	}
	return string(b)
}
