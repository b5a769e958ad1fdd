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
	jsonMap // an object whose names are free: only check can tell
)

// A node is one value of the text, in a tree. Numbers stay text, so that whoever knows the field judges them exactly.
type node struct {
	kind jsonKind
	name string // of a member
	text string // a string's content; a number, bool or null as written
	up   *node  // the array or object around it
	kids *node  // its first element or member
	next *node  // the element or member behind it

	// What check finds; see there.
	known  bool
	number int64
	fields []field
}

// A jsonReader reads one RFC 8259 text, more strictly than most: no duplicate names, no invalid UTF-8, no lone
// surrogates. The first failure sticks and moves the position to the end, so that every loop comes to its own end.
type jsonReader struct {
	text string
	pos  int
	err  *Error
}

// parseJSON returns the one value that data holds. An error names the line and column, counted from 1 in characters.
func parseJSON(data []byte) (*node, *Error) {
	root := &node{}
	if len(data) > maxJSONBytes {
		return root, refusal("", text.Around("is longer than ", maxJSONBytes, " bytes"))
	}
	r := &jsonReader{text: string(data)}
	r.value(root, 1)
	if r.next(); r.pos < len(r.text) {
		r.unexpected("the end")
	}
	return root, r.err
}

var jsonWords = [...]struct {
	text string
	kind jsonKind
}{{"null", jsonNull}, {"true", jsonBool}, {"false", jsonBool}}

func (r *jsonReader) value(n *node, depth int) {
	written := ""
	switch c := r.next(); {
	case c == '{' || c == '[':
		n.kind = jsonArray
		if c == '{' {
			n.kind = jsonObject
		}
		r.inside(n, c+2, depth) // '{' + 2 is '}', '[' + 2 is ']'
	case c == '"':
		n.kind = jsonString
		written = r.string()
	case c == '-' || text.IsDigit(c):
		n.kind = jsonNumber
		written = r.number()
	default:
		for i := range jsonWords {
			if w := &jsonWords[i]; text.HasPrefix(r.text[r.pos:], w.text) {
				n.kind, written = w.kind, w.text
			}
		}
		if r.pos += len(written); written == "" {
			r.unexpected("a value")
		}
	}
	n.text = written
}

// inside reads the elements or members of n up to its closing bracket.
func (r *jsonReader) inside(n *node, closing byte, depth int) {
	if depth > maxJSONDepth {
		r.fail(text.Around("is nested deeper than ", maxJSONDepth, ""))
		return
	}
	r.pos++
	if r.skip(closing) {
		return
	}
	seen := map[string]bool{}
	for end := &n.kids; r.err == nil; {
		kid := &node{up: n}
		if n.kind == jsonObject {
			r.name(kid, seen)
		}
		r.value(kid, depth+1)
		*end, end = kid, &kid.next
		if r.skip(closing) {
			return
		}
		r.want(",")
	}
}

// name reads a member's name and the colon behind it.
func (r *jsonReader) name(n *node, seen map[string]bool) {
	if r.next() != '"' {
		r.unexpected(`a name in '"'`)
		return
	}
	at := r.pos
	n.name = r.string()
	if seen[n.name] {
		r.pos = at
		r.fail("the name " + quoteValue(n.name) + " is there twice in one object")
	}
	seen[n.name] = true
	r.want(":")
}

// number reads -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)? and returns it as written.
func (r *jsonReader) number() string {
	start := r.pos
	r.take("-")
	if !r.take("0") {
		r.digits()
	}
	if r.take(".") {
		r.digits()
	}
	if r.take("eE") {
		r.take("+-")
		r.digits()
	}
	return r.text[start:r.pos]
}

func (r *jsonReader) digits() {
	const digits = "0123456789"
	if !r.take(digits) {
		r.unexpected("a digit")
	}
	for r.take(digits) {
	}
}

func (r *jsonReader) string() string {
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
			out = r.escape(out)
		case c < ' ':
			r.unexpected(`'"' or a character of a string`)
		case c == utf8.RuneError && n == 1:
			r.fail("is not valid UTF-8")
		default:
			out = text.Put(out, rest[:n])
			r.pos += n
		}
	}
	return ""
}

// escape appends the character that the escape at pos stands for.
func (r *jsonReader) escape(out []byte) []byte {
	start := r.pos
	r.pos++
	c := r.peek()
	u := rune(0)
	if i := text.IndexByte(text.JSONEscapes, c); i >= 0 {
		r.pos++
		u = rune(text.JSONEscaped[i&7])
	} else if c == 'u' {
		u = r.unit()
		if u>>10 == 0xD800>>10 && text.HasPrefix(r.text[r.pos:], `\u`) {
			r.pos++
			if low := r.unit(); low>>10 == 0xDC00>>10 {
				u = 0x10000 + (u&0x3FF)<<10 + low&0x3FF
			}
		}
		if u>>11 == 0xD800>>11 && r.err == nil {
			r.pos = start
			r.fail("holds half of a surrogate pair")
		}
	} else {
		r.unexpected("an escape")
	}
	char := make([]byte, utf8.UTFMax)
	return text.Put(out, string(char[:utf8.EncodeRune(char, u)]))
}

// unit reads uXXXX.
func (r *jsonReader) unit() (u rune) {
	r.pos++
	for range 4 {
		d := text.HexDigit(r.peek())
		if d < 0 {
			r.unexpected("a hexadecimal digit")
			return 0
		}
		u = u<<4 + rune(d)
		r.pos++
	}
	return u
}

// next is the next character after white space, or 0 at the end.
func (r *jsonReader) next() byte {
	for r.take(" \t\r\n") {
	}
	return r.peek()
}

//go:noinline
func (r *jsonReader) peek() byte {
	if r.pos >= len(r.text) {
		return 0
	}
	return r.text[r.pos]
}

// take steps over the next byte if it is one of set.
//
//go:noinline
func (r *jsonReader) take(set string) bool {
	if r.pos >= len(r.text) || text.IndexByte(set, r.text[r.pos]) < 0 {
		return false
	}
	r.pos++
	return true
}

func (r *jsonReader) skip(c byte) bool {
	if r.next() != c {
		return false
	}
	r.pos++
	return true
}

func (r *jsonReader) want(c string) {
	if r.next(); !r.take(c) {
		r.unexpected(quoteValue(c))
	}
}

func (r *jsonReader) unexpected(want string) {
	got := "the text ends"
	if rest := r.text[r.pos:]; rest != "" {
		_, n := text.FirstRune(rest)
		got = quoteValue(rest[:n]) + " is not JSON here"
	}
	r.fail(got + " (want " + want + ")")
}

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
	r.pos = len(r.text)
}
