package config

import (
	"unicode/utf8"

	"github.com/headgate/headgate/admission/internal/text"
)

// maxShown is how many bytes of a value an error shows.
const maxShown = 40

// quoteValue returns s in quotes for an error. It cuts s, and escapes what could start a new line or be invisible.
// strconv.Quote would link its tables of printable characters, and those of unicode, into the wasm module.
func quoteValue(s string) string {
	quoted := text.Put(nil, `"`)
	for s = cutText(s); s != ""; {
		c, n := text.FirstRune(s)
		char := s[:n]
		s = s[n:]
		switch {
		case c == '"' || c == '\\':
			quoted = text.Put(quoted, `\`)
		case c == '\n':
			char = `\n`
		case c < ' ' || isHidden(c) || c == utf8.RuneError && n == 1:
			char = hexEscaped(char)
		}
		quoted = text.Put(quoted, char)
	}
	return string(text.Put(quoted, `"`))
}

// hexEscaped returns each byte of s as \xXX.
func hexEscaped(s string) string {
	const digits = "0123456789abcdef"
	var b []byte
	for i := range len(s) {
		b = append(b, '\\', 'x', digits[s[i]>>4], digits[s[i]&15])
	}
	return string(b)
}

// isHidden reports whether a character is invisible, or changes the direction of the text behind it.
func isHidden(r rune) bool {
	return 0x7F <= r && r < 0xA0 || r == 0xAD || 0x200B <= r && r <= 0x200F || 0x2028 <= r && r <= 0x202E ||
		0x2060 <= r && r <= 0x206F || r == 0xFEFF || 0xFFF9 <= r && r <= 0xFFFB || r >= 0xE0000
}

// cutText returns s, or its beginning and an ellipsis where s is longer than an error shows.
func cutText(s string) string {
	if len(s) <= maxShown {
		return s
	}
	n := maxShown
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}
