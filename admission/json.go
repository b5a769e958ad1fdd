package admission

import (
	"strconv"
	"unicode/utf8"
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
)

// A jsonValue is one parsed value. Numbers stay text, so that whoever knows the field judges them exactly.
type jsonValue struct {
	kind    jsonKind
	text    string // a string's content; a number, bool or null as written
	items   []*jsonValue
	members []jsonMember
}

type jsonMember struct {
	name  string
	value *jsonValue
}

// A jsonReader reads one RFC 8259 text, more strictly than most: no duplicate names, no invalid UTF-8, no lone
// surrogates. The first failure sticks and moves the position to the end, so that every loop comes to its own end.
type jsonReader struct {
	text string
	pos  int
	err  *ConfigError
}

// parseJSON returns the one value that data holds. An error names the line and column, counted from 1 in characters.
func parseJSON(data []byte) (*jsonValue, *ConfigError) {
	if len(data) > maxJSONBytes {
		return &jsonValue{}, &ConfigError{Problem: "is longer than " + strconv.Itoa(maxJSONBytes) + " bytes"}
	}
	r := &jsonReader{text: string(data)}
	v := r.value(1)
	if c := r.next(); c != 0 || r.pos < len(r.text) {
		r.unexpected("the end")
	}
	return v, r.err
}

func (r *jsonReader) value(depth int) *jsonValue {
	c := r.next()
	switch {
	case depth > maxJSONDepth && (c == '{' || c == '['):
		r.fail("is nested deeper than " + strconv.Itoa(maxJSONDepth))
		return &jsonValue{}
	case c == '{':
		return r.object(depth)
	case c == '[':
		return r.array(depth)
	case c == '"':
		return &jsonValue{kind: jsonString, text: r.string()}
	case c == '-' || isDigit(c):
		return &jsonValue{kind: jsonNumber, text: r.number()}
	}
	return r.word()
}

func (r *jsonReader) object(depth int) *jsonValue {
	v := &jsonValue{kind: jsonObject}
	seen := map[string]bool{}
	r.pos++
	if r.skip('}') {
		return v
	}
	for r.err == nil {
		if r.next() != '"' {
			r.unexpected(`a name in '"'`)
			break
		}
		at := r.pos
		name := r.string()
		if seen[name] {
			r.pos = at
			r.fail("the name " + quoteValue(name) + " is there twice in one object")
		}
		seen[name] = true
		r.want(':')
		v.members = append(v.members, jsonMember{name, r.value(depth + 1)})
		if r.skip('}') {
			break
		}
		r.want(',')
	}
	return v
}

func (r *jsonReader) array(depth int) *jsonValue {
	v := &jsonValue{kind: jsonArray}
	r.pos++
	if r.skip(']') {
		return v
	}
	for r.err == nil {
		v.items = append(v.items, r.value(depth+1))
		if r.skip(']') {
			break
		}
		r.want(',')
	}
	return v
}

func (r *jsonReader) word() *jsonValue {
	for _, w := range [...]jsonValue{{kind: jsonNull, text: "null"}, {kind: jsonBool, text: "true"}, {kind: jsonBool, text: "false"}} {
		if hasPrefix(r.text[r.pos:], w.text) {
			r.pos += len(w.text)
			return &w
		}
	}
	r.unexpected("a value")
	return &jsonValue{}
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
	if r.err != nil {
		return ""
	}
	return r.text[start:r.pos]
}

func (r *jsonReader) digits() {
	if !isDigit(r.peek()) {
		r.unexpected("a digit")
	}
	for isDigit(r.peek()) {
		r.pos++
	}
}

func (r *jsonReader) string() string {
	r.pos++
	start := r.pos
	var out []byte // what came before start, once there was an escape
	for r.err == nil {
		switch c := r.peek(); {
		case c == '"':
			s := r.text[start:r.pos]
			r.pos++
			return string(out) + s
		case c == '\\':
			out = append(out, r.text[start:r.pos]...)
			out = r.escape(out)
			start = r.pos
		case c < ' ':
			r.unexpected(`'"' or a character of a string`)
		case c < utf8.RuneSelf:
			r.pos++
		default:
			r.rune()
		}
	}
	return ""
}

func (r *jsonReader) rune() {
	c, n := utf8.DecodeRuneInString(r.text[r.pos:])
	if c == utf8.RuneError && n == 1 {
		r.fail("is not valid UTF-8")
		return
	}
	r.pos += n
}

const (
	jsonEscapes  = `"\/bfnrt`
	jsonUnescape = "\"\\/\b\f\n\r\t"
)

// escape appends the character that the escape at pos stands for.
func (r *jsonReader) escape(out []byte) []byte {
	start := r.pos
	r.pos++
	c := r.peek()
	if i := indexByte(jsonEscapes, c); i >= 0 {
		r.pos++
		return append(out, jsonUnescape[i])
	}
	if c != 'u' {
		r.unexpected("an escape")
		return out
	}
	u := r.unit()
	if u>>10 == 0xD800>>10 && hasPrefix(r.text[r.pos:], `\u`) {
		r.pos++
		if low := r.unit(); low>>10 == 0xDC00>>10 {
			return utf8.AppendRune(out, 0x10000+(u&0x3FF)<<10+low&0x3FF)
		}
	}
	if u>>11 == 0xD800>>11 && r.err == nil {
		r.pos = start
		r.fail("holds half of a surrogate pair")
	}
	return utf8.AppendRune(out, u)
}

// unit reads uXXXX.
func (r *jsonReader) unit() (u rune) {
	r.pos++
	for range 4 {
		d := hexDigit(r.peek())
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

func (r *jsonReader) peek() byte {
	if r.pos >= len(r.text) {
		return 0
	}
	return r.text[r.pos]
}

// take steps over the next byte if it is one of set.
func (r *jsonReader) take(set string) bool {
	if r.pos >= len(r.text) || indexByte(set, r.text[r.pos]) < 0 {
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

func (r *jsonReader) want(c byte) {
	if !r.skip(c) {
		r.unexpected(quoteValue(string(rune(c))))
	}
}

func (r *jsonReader) unexpected(want string) {
	got := "the text ends"
	if r.pos < len(r.text) {
		_, n := utf8.DecodeRuneInString(r.text[r.pos:])
		got = quoteValue(r.text[r.pos:r.pos+n]) + " is not JSON here"
	}
	r.fail(got + " (want " + want + ")")
}

func (r *jsonReader) fail(problem string) {
	if r.err != nil {
		return
	}
	before := r.text[:r.pos]
	column := utf8.RuneCountInString(before[lastIndexByte(before, '\n')+1:]) + 1
	place := "line " + strconv.Itoa(len(split(before, '\n'))) + ", column " + strconv.Itoa(column)
	r.err = &ConfigError{Field: place, Problem: problem}
	r.pos = len(r.text)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// hexDigit is the value of a hexadecimal digit, or -1.
func hexDigit(c byte) int {
	switch {
	case isDigit(c):
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}
