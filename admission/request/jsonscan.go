package request

import (
	"unicode/utf8"

	"github.com/headgate/headgate/admission/internal/text"
)

// A jsonScan is the state of reading one JSON object piece by piece. Only the top level is understood; what is nested is
// passed over by counting brackets outside strings, so a document that is no JSON may be taken for one: its upstream will
// refuse it.
type jsonScan struct {
	at     jsonPlace
	depth  int // of brackets open inside the value that is passed over
	escape jsonEscape
	digits int  // of a \u escape still to come
	unit   rune // the \u escape so far
	high   rune // a high surrogate waiting for its low one; 0: none
	match  int  // bytes of the current key that agree with the one searched for, but for case; -1: it is another key
	folded bool // case differs
	target bool // the value to come is the one searched for
	text   bool // in a string of a nested value
	bom    int  // bytes of a byte order mark passed
}

type jsonPlace uint8

const (
	jsonStart   jsonPlace = iota // before the object
	jsonKeyAt                    // before a key or the object's end
	jsonKey                      // in a key
	jsonColon                    // before the colon
	jsonValueAt                  // before a value
	jsonText                     // in a string value of the top level
	jsonPlain                    // in a number or word of the top level
	jsonNested                   // in an object or array
	jsonComma                    // behind a value
)

type jsonEscape uint8

const (
	escapeNone jsonEscape = iota
	escapeBegun
	escapeUnit
)

const byteOrderMark = "\xef\xbb\xbf"

func (b *BodyScan) takeJSON(piece []byte) {
	d := &b.document
	for i := 0; i < len(piece) && !b.over; i++ {
		c := piece[i]
		switch d.at {
		case jsonKey, jsonText:
			b.inString(c)
		case jsonNested:
			i += d.skip(piece[i:]) - 1
		default:
			b.between(c)
		}
	}
}

// between handles a byte of the top level that is in no string.
func (b *BodyScan) between(c byte) {
	d := &b.document
	if c == ' ' || c == '\t' || c == '\n' || c == '\r' {
		if d.at == jsonPlain {
			d.at = jsonComma
		}
		return
	}
	switch d.at {
	case jsonStart:
		b.begin(c)
	case jsonKeyAt:
		d.at, d.match, d.folded = jsonKey, 0, false
		b.over = c != '"' // the end of the object, or no JSON
	case jsonColon:
		d.at = jsonValueAt
		b.over = c != ':'
	case jsonValueAt:
		b.beginValue(c)
	case jsonPlain, jsonComma:
		switch c {
		case ',':
			d.at = jsonKeyAt
		case '}':
			b.over = true
		default:
			b.over = d.at == jsonComma
		}
	}
}

func (b *BodyScan) begin(c byte) {
	d := &b.document
	switch {
	case c == '{' && d.bom%len(byteOrderMark) == 0:
		d.at = jsonKeyAt
	case d.bom < len(byteOrderMark) && c == byteOrderMark[d.bom]:
		d.bom++
	default:
		b.over = true
	}
}

func (b *BodyScan) beginValue(c byte) {
	d := &b.document
	switch {
	case c == '"':
		d.at = jsonText
		if d.target {
			b.value = b.value[:0]
		}
		return
	case c == '{' || c == '[':
		d.at, d.depth, d.text = jsonNested, 1, false
	default:
		d.at = jsonPlain
	}
	if d.target { // it is there, but no string
		d.target = false
		b.found(false)
	}
}

// inString handles a byte of a key or of a string value of the top level.
func (b *BodyScan) inString(c byte) {
	d := &b.document
	switch {
	case d.escape == escapeUnit:
		b.unitDigit(c)
	case d.escape == escapeBegun:
		b.escaped(c)
	case c == '\\':
		d.escape = escapeBegun
	case c == '"':
		b.lone()
		b.endString()
	default:
		b.lone()
		b.char(c)
	}
}

// char is one byte of a decoded string.
func (b *BodyScan) char(c byte) {
	d := &b.document
	switch {
	case d.at == jsonKey && d.match >= 0:
		if d.match < len(b.key) && text.Lower(b.key[d.match]) == text.Lower(c) {
			d.folded = d.folded || b.key[d.match] != c
			d.match++
		} else {
			d.match = -1
		}
	case d.at == jsonText && d.target && len(b.value) <= maxScanned:
		b.value = append(b.value, c)
	}
}

func (b *BodyScan) endString() {
	d := &b.document
	if d.at == jsonKey {
		d.target = d.match == len(b.key)
		d.at = jsonColon
		if d.target && (d.folded || b.seen > 0) { // some readers take Model for model
			d.target = false
			b.found(false)
		}
		return
	}
	d.at = jsonComma
	if d.target {
		d.target = false
		b.found(len(b.value) <= maxScanned && utf8.Valid(b.value))
	}
}

func (b *BodyScan) escaped(c byte) {
	d := &b.document
	d.escape = escapeNone
	if c == 'u' {
		d.escape, d.digits, d.unit = escapeUnit, 4, 0
		return
	}
	b.lone()
	i := text.IndexByte(text.JSONEscapes, c)
	if i < 0 {
		b.over = true
		return
	}
	b.char(text.JSONEscaped[i&7])
}

func (b *BodyScan) unitDigit(c byte) {
	d := &b.document
	v := text.HexDigit(c)
	if v < 0 {
		b.over = true
		return
	}
	d.unit = d.unit<<4 | rune(v)
	if d.digits--; d.digits > 0 {
		return
	}
	d.escape = escapeNone
	switch {
	case d.high != 0 && 0xDC00 <= d.unit && d.unit < 0xE000:
		b.rune(0x10000 + (d.high-0xD800)<<10 + (d.unit - 0xDC00))
		d.high = 0
	case 0xD800 <= d.unit && d.unit < 0xDC00:
		b.lone()
		d.high = d.unit
	default:
		b.lone()
		b.rune(d.unit)
	}
}

// lone decodes a surrogate that stays without its other half as every JSON reader does that accepts it.
func (b *BodyScan) lone() {
	if b.document.high != 0 {
		b.document.high = 0
		b.rune(utf8.RuneError)
	}
}

func (b *BodyScan) rune(r rune) {
	var buf [utf8.UTFMax]byte
	for _, c := range buf[:utf8.EncodeRune(buf[:], r)] {
		b.char(c)
	}
}

// skip passes over bytes of a nested value; it returns how many belong to it.
func (d *jsonScan) skip(b []byte) int {
	for i, c := range b {
		switch {
		case d.escape == escapeBegun:
			d.escape = escapeNone
		case d.text && c == '\\':
			d.escape = escapeBegun
		case c == '"':
			d.text = !d.text
		case d.text:
		case c == '{' || c == '[':
			d.depth++
		case c == '}' || c == ']':
			if d.depth--; d.depth == 0 {
				d.at = jsonComma
				return i + 1
			}
		}
	}
	return len(b)
}
