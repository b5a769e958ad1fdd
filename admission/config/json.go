package config

import (
	"unicode/utf8"

	"github.com/headgate/headgate/admission/internal/text"
)

// Bounds of a configuration's JSON text.
const (
	maxJSONBytes = 1 << 20
	maxJSONDepth = 32
)

type jsonKind uint8

const (
	jsonNull jsonKind = iota
	jsonBool
	jsonNumber
	jsonString
	jsonArray
	jsonObject
	jsonMap // an object with any names: set by check, since the text looks like any other object
)

// A node is one value of the text, in a tree. A number stays text: only the rule of its field says how to read it.
type node struct {
	kind   jsonKind
	name   string // of an object's member
	text   string // a string's content; a number, bool or null as written
	parent *node  // the array or object around it
	first  *node  // its first element or member
	next   *node  // the element or member behind it
	at     int    // the byte of the text where the value begins

	// What check reads.
	known  bool    // a rule names the member
	number int64   // as in field
	fields []field // of an object, in the order of its rules
}

// A jsonReader reads one RFC 8259 text, and is stricter than most readers: it accepts no duplicate names, no invalid
// UTF-8 and no surrogate without its other half. It keeps the first failure and then moves to the end of the text, so
// that every loop ends. docs/rationale.md says why it is not encoding/json.
type jsonReader struct {
	text string
	pos  int
	err  *Error
}

// parseJSON returns the one value that data holds. An error names the line and the column in characters, both from 1.
func parseJSON(data []byte) (*node, *Error) {
	root := &node{}
	if len(data) > maxJSONBytes {
		return root, refusal("", text.Around("is longer than ", maxJSONBytes, " bytes"))
	}
	r := &jsonReader{text: string(data)}
	r.readValue(root, 1)
	if r.skipSpace(); r.pos < len(r.text) {
		r.failUnexpected("the end")
	}
	return root, r.err
}

var jsonWords = [...]struct {
	text string
	kind jsonKind
}{{"null", jsonNull}, {"true", jsonBool}, {"false", jsonBool}}

// readValue reads the next value into n.
func (r *jsonReader) readValue(n *node, depth int) {
	written := ""
	c := r.skipSpace()
	n.at = r.pos
	switch {
	case c == '{' || c == '[':
		n.kind = jsonArray
		if c == '{' {
			n.kind = jsonObject
		}
		r.readChildren(n, c+2, depth) // '{' + 2 is '}', '[' + 2 is ']'
	case c == '"':
		n.kind = jsonString
		written = r.readString()
	case c == '-' || text.IsDigit(c):
		n.kind = jsonNumber
		written = r.readNumber()
	default:
		for i := range jsonWords {
			if w := &jsonWords[i]; text.HasPrefix(r.text[r.pos:], w.text) {
				n.kind, written = w.kind, w.text
			}
		}
		if r.pos += len(written); written == "" {
			r.failUnexpected("a value")
		}
	}
	n.text = written
}

// readChildren reads the elements or members of n up to its closing bracket.
func (r *jsonReader) readChildren(n *node, closing byte, depth int) {
	if depth > maxJSONDepth {
		r.fail(text.Around("is nested deeper than ", maxJSONDepth, ""))
		return
	}
	r.pos++
	if r.acceptToken(closing) {
		return
	}
	seen := map[string]bool{}
	for end := &n.first; r.err == nil; {
		child := &node{parent: n}
		if n.kind == jsonObject {
			r.readName(child, seen)
		}
		r.readValue(child, depth+1)
		*end, end = child, &child.next
		if r.acceptToken(closing) {
			return
		}
		r.expect(",")
	}
}

// readName reads a member's name and the colon behind it.
func (r *jsonReader) readName(n *node, seen map[string]bool) {
	if r.skipSpace() != '"' {
		r.failUnexpected(`a name in '"'`)
		return
	}
	at := r.pos
	n.name = r.readString()
	if seen[n.name] {
		r.pos = at
		r.fail("the name " + quoteValue(n.name) + " is there twice in one object")
	}
	seen[n.name] = true
	r.expect(":")
}

// readNumber reads -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)? and returns it as written.
func (r *jsonReader) readNumber() string {
	start := r.pos
	r.accept("-")
	if !r.accept("0") {
		r.readDigits()
	}
	if r.accept(".") {
		r.readDigits()
	}
	if r.accept("eE") {
		r.accept("+-")
		r.readDigits()
	}
	return r.text[start:r.pos]
}

// readDigits reads one digit or more.
func (r *jsonReader) readDigits() {
	const digits = "0123456789"
	if !r.accept(digits) {
		r.failUnexpected("a digit")
	}
	for r.accept(digits) {
	}
}

// readString reads a string and returns its content.
func (r *jsonReader) readString() string {
	r.pos++
	var out []byte
	for r.err == nil {
		rest := r.text[r.pos:]
		c, n := text.FirstRune(rest)
		switch {
		case c == '"':
			r.pos++
			return string(out)
		case c == '\\':
			out = r.readEscape(out)
		case c < ' ':
			r.failUnexpected(`'"' or a character of a string`)
		case c == utf8.RuneError && n == 1:
			r.fail("is not valid UTF-8")
		default:
			out = text.Put(out, rest[:n])
			r.pos += n
		}
	}
	return ""
}

// readEscape reads an escape and appends the character that it stands for.
func (r *jsonReader) readEscape(out []byte) []byte {
	start := r.pos
	r.pos++
	c := r.peek()
	u := rune(0)
	if i := text.IndexByte(text.JSONEscapes, c); i >= 0 {
		r.pos++
		u = rune(text.JSONEscaped[i&7])
	} else if c == 'u' {
		u = r.readUnit()
		if u>>10 == 0xD800>>10 && text.HasPrefix(r.text[r.pos:], `\u`) {
			r.pos++
			if low := r.readUnit(); low>>10 == 0xDC00>>10 {
				u = 0x10000 + (u&0x3FF)<<10 + low&0x3FF
			}
		}
		if u>>11 == 0xD800>>11 && r.err == nil {
			r.pos = start
			r.fail("holds half of a surrogate pair")
		}
	} else {
		r.failUnexpected("an escape")
	}
	char := make([]byte, utf8.UTFMax)
	return text.Put(out, string(char[:utf8.EncodeRune(char, u)]))
}

// readUnit reads uXXXX, one UTF-16 unit.
func (r *jsonReader) readUnit() (u rune) {
	r.pos++
	for range 4 {
		d := text.HexDigit(r.peek())
		if d < 0 {
			r.failUnexpected("a hexadecimal digit")
			return 0
		}
		u = u<<4 + rune(d)
		r.pos++
	}
	return u
}

// skipSpace steps over white space and returns the byte behind it, or 0 at the end.
func (r *jsonReader) skipSpace() byte {
	for r.accept(" \t\r\n") {
	}
	return r.peek()
}

// peek returns the next byte, or 0 at the end.
//
//go:noinline
func (r *jsonReader) peek() byte {
	if r.pos >= len(r.text) {
		return 0
	}
	return r.text[r.pos]
}

// accept steps over the next byte if it is one of set.
func (r *jsonReader) accept(set string) bool {
	if r.pos >= len(r.text) || text.IndexByte(set, r.text[r.pos]) < 0 {
		return false
	}
	r.pos++
	return true
}

// acceptToken steps over white space and then over c, if c is there.
func (r *jsonReader) acceptToken(c byte) bool {
	if r.skipSpace() != c {
		return false
	}
	r.pos++
	return true
}

// expect steps over white space and c, or fails.
func (r *jsonReader) expect(c string) {
	if r.skipSpace(); !r.accept(c) {
		r.failUnexpected(quoteValue(c))
	}
}

// failUnexpected fails because the next character is not what is wanted.
func (r *jsonReader) failUnexpected(want string) {
	got := "the text ends"
	if rest := r.text[r.pos:]; rest != "" {
		_, n := text.FirstRune(rest)
		got = quoteValue(rest[:n]) + " is not JSON here"
	}
	r.fail(got + " (want " + want + ")")
}

// fail keeps the first problem, with its line and column, and ends the reading.
func (r *jsonReader) fail(problem string) {
	if r.err != nil {
		return
	}
	line, column := 1, 1
	for _, c := range r.text[:r.pos] {
		column++
		if c == '\n' {
			line, column = line+1, 1
		}
	}
	r.err = refusal(text.Around(text.Around("line ", line, ", column "), column, ""), problem)
	r.err.At = r.pos
	r.pos = len(r.text)
}
