package request

import (
	"unicode/utf8"

	"github.com/headgate/headgate/admission/internal/text"
)

// A jsonScan is the state of reading one JSON object piece by piece. It reads the keys and values of that object only.
// It passes over what is nested by counting brackets outside strings.
//
// Some readers (Gson, Newtonsoft.Json, older ones in Ruby) accept more than JSON: comments, single quotes, keys without
// quotes, a semicolon for a comma. With those a client could hide a second key. So a byte that JSON has not in that
// place makes the whole document name nothing. That some other documents are taken for JSON does no harm: upstreams
// refuse them.
type jsonScan struct {
	_ incomparable

	state  jsonState
	depth  int // how many brackets are open inside the nested value
	escape escapeState
	digits int  // how many digits of a \u escape are still to come
	unit   rune // the \u escape so far
	high   rune // a high surrogate that waits for its low one; 0: none
	match  int  // how many bytes of the current key agree with the one searched for, but for case; -1: it is another key
	folded bool // the case of such a byte differs
	odd    bool // some readers understand the key or the value in another way
	wanted bool // the value to come is the one searched for
	quoted bool // in a string of a nested value
	inWord bool // in a number or word of a nested value
	bom    int  // how many bytes of a byte order mark have come
}

// A jsonState is where in a document the next byte is.
type jsonState uint8

const (
	jsonBeforeObject jsonState = iota // before the object
	jsonBeforeKey                     // before a key or the object's end
	jsonInKey                         // in a key
	jsonBeforeColon                   // before the colon
	jsonBeforeValue                   // before a value
	jsonInString                      // in a string value of the object
	jsonInWord                        // in a number or word
	jsonInNested                      // in a nested object or array
	jsonBehindValue                   // behind a value
)

// An escapeState is where in an escape the next byte is.
type escapeState uint8

const (
	escapeNone  escapeState = iota
	escapeBegun             // behind the backslash
	escapeUnit              // in the digits of a \u
)

const byteOrderMark = "\xef\xbb\xbf"

// scanJSON searches the next piece of a JSON document.
func (b *BodyScan) scanJSON(piece []byte) {
	d := &b.document
	for i := 0; i < len(piece) && !b.over; i++ {
		c := piece[i]
		switch d.state {
		case jsonInKey, jsonInString:
			b.scanString(c)
		case jsonInNested:
			i += b.skipNested(piece[i:]) - 1
		default:
			b.scanOutside(c)
		}
	}
}

// scanOutside handles a byte that is in no string and in no nested value.
func (b *BodyScan) scanOutside(c byte) {
	d := &b.document
	if c == ' ' || c == '\t' || c == '\n' || c == '\r' {
		if d.state == jsonInWord {
			d.state = jsonBehindValue
		}
		return
	}
	switch d.state {
	case jsonBeforeObject:
		b.beginObject(c)
	case jsonBeforeKey:
		d.state, d.match, d.folded, d.odd = jsonInKey, 0, false, false
		b.expect(c == '"' || c == '}')
		b.over = c != '"'
	case jsonBeforeColon:
		d.state = jsonBeforeValue
		b.expect(c == ':')
	case jsonBeforeValue:
		b.beginValue(c)
	case jsonInWord, jsonBehindValue:
		switch c {
		case ',':
			d.state = jsonBeforeKey
		case '}':
			b.over = true
		default:
			b.expect(d.state == jsonInWord && inJSONWord(c))
		}
	}
}

// expect gives up if a byte may not stand in its place.
func (b *BodyScan) expect(may bool) {
	if !may {
		b.giveUp()
	}
}

// inJSONWord reports whether c may stand in a number or in a word. NaN and Infinity are words too.
func inJSONWord(c byte) bool {
	return text.IsDigit(c) || 'a' <= text.Lower(c) && text.Lower(c) <= 'z' || c == '+' || c == '-' || c == '.'
}

// beginObject handles a byte before the object.
func (b *BodyScan) beginObject(c byte) {
	d := &b.document
	switch {
	case c == '{' && d.bom%len(byteOrderMark) == 0:
		d.state = jsonBeforeKey
	case d.bom < len(byteOrderMark) && c == byteOrderMark[d.bom]:
		d.bom++
	default:
		b.over = true
	}
}

// beginValue handles the first byte of a value.
func (b *BodyScan) beginValue(c byte) {
	d := &b.document
	switch {
	case c == '"':
		d.state = jsonInString
		if d.wanted {
			b.value = b.value[:0]
		}
		return
	case c == '{' || c == '[':
		d.state, d.depth, d.quoted, d.inWord = jsonInNested, 1, false, false
	default:
		d.state = jsonInWord
		b.expect(inJSONWord(c))
	}
	if d.wanted { // the value is no string, so it is not usable
		d.wanted = false
		b.noteKey(false)
	}
}

// scanString handles a byte of a key or of a string value of the object.
func (b *BodyScan) scanString(c byte) {
	d := &b.document
	switch {
	case d.escape == escapeUnit:
		b.scanUnit(c)
	case d.escape == escapeBegun:
		b.scanEscape(c)
	case c == '\\':
		d.escape = escapeBegun
	case c == '"':
		b.endSurrogate()
		b.endString()
	default:
		b.endSurrogate()
		b.addByte(c)
	}
}

// addByte handles a byte of a decoded string.
func (b *BodyScan) addByte(c byte) {
	d := &b.document
	if c == 0 {
		d.odd = true // readers in C may take it for the end
	}
	switch {
	case d.state == jsonInKey && d.match >= 0:
		d.matchByte(b.key, c)
	case d.state == jsonInString && d.wanted && len(b.value) <= maxScanned:
		b.value = append(b.value, c)
	}
}

// matchByte compares the next byte of a key with the one searched for.
func (d *jsonScan) matchByte(key string, c byte) {
	var next byte
	if d.match < len(key) {
		next = key[d.match]
	}
	low := text.Lower(next)
	if next != 0 && low == text.Lower(c) {
		d.folded = d.folded || next != c
		d.match++
		return
	}
	d.match = -1
	if c >= utf8.RuneSelf && (low == 'k' || low == 's') {
		d.odd = true // Go takes the Kelvin sign for a k, and the long s for an s
	}
}

// endString handles the end of a key or of a string value.
func (b *BodyScan) endString() {
	d := &b.document
	if d.state == jsonInKey {
		d.wanted = d.match == len(b.key)
		d.state = jsonBeforeColon
		b.expect(!d.odd)
		if d.wanted && (d.folded || b.seen > 0) { // some readers accept Model for model
			d.wanted = false
			b.noteKey(false)
		}
		return
	}
	d.state = jsonBehindValue
	if d.wanted {
		d.wanted = false
		b.noteKey(!d.odd && len(b.value) <= maxScanned && utf8.Valid(b.value))
	}
}

// scanEscape handles the byte behind a backslash.
func (b *BodyScan) scanEscape(c byte) {
	d := &b.document
	d.escape = escapeNone
	if c == 'u' {
		d.escape, d.digits, d.unit = escapeUnit, 4, 0
		return
	}
	b.endSurrogate()
	i := text.IndexByte(text.JSONEscapes, c)
	if i < 0 {
		b.giveUp()
		return
	}
	b.addByte(text.JSONEscaped[i&7])
}

// scanUnit handles a digit of a \u escape.
func (b *BodyScan) scanUnit(c byte) {
	d := &b.document
	v := text.HexDigit(c)
	if v < 0 {
		b.giveUp()
		return
	}
	d.unit = d.unit<<4 | rune(v)
	if d.digits--; d.digits > 0 {
		return
	}
	d.escape = escapeNone
	switch {
	case d.high != 0 && 0xDC00 <= d.unit && d.unit < 0xE000:
		b.addRune(0x10000 + (d.high-0xD800)<<10 + (d.unit - 0xDC00))
		d.high = 0
	case 0xD800 <= d.unit && d.unit < 0xDC00:
		b.endSurrogate()
		d.high = d.unit
	default:
		b.endSurrogate()
		b.addRune(d.unit)
	}
}

// endSurrogate replaces a high surrogate whose other half did not come, as every JSON reader does that accepts one.
func (b *BodyScan) endSurrogate() {
	if b.document.high != 0 {
		b.document.high = 0
		b.addRune(utf8.RuneError)
	}
}

// addRune handles a character of a decoded string.
func (b *BodyScan) addRune(r rune) {
	var buf [utf8.UTFMax]byte
	for _, c := range buf[:utf8.EncodeRune(buf[:], r)] {
		b.addByte(c)
	}
}

// skipNested passes over the bytes of a piece that belong to a nested value, and returns how many they are.
func (b *BodyScan) skipNested(piece []byte) int {
	d := &b.document
	for i, c := range piece {
		switch {
		case d.escape == escapeBegun:
			d.escape = escapeNone
		case d.quoted && c == '\\':
			d.escape = escapeBegun
		case c == '"':
			b.expect(d.quoted || !d.inWord)
			d.quoted = !d.quoted
		case d.quoted:
		case c == '{' || c == '[':
			d.depth++
			d.inWord = false
		case c == '}' || c == ']':
			if d.depth--; d.depth == 0 {
				d.state = jsonBehindValue
				return i + 1
			}
		default:
			d.inWord = inJSONWord(c)
			b.expect(d.inWord || text.IndexByte(" \t\r\n,:", c) >= 0)
		}
	}
	return len(piece)
}
