package request

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// referenceJSON says what a document, cut to the window, names, by the rule in plain code. The rule: the scanner
// understands the top level only.
//
//   - A value is a string; or brackets outside strings up to the one that closes the first, whatever kind they are; or
//     a word: letters, digits, plus, minus, dot. Control characters are allowed in strings.
//   - Between brackets stand strings, words, whitespace, commas and colons. No string begins directly behind a word.
//   - The document is read up to its end or the window's. A byte that can't stand there by this grammar makes the whole
//     document name nothing. A comma may stand before the document's last brace.
//   - A NUL in a key of the top level makes the whole document name nothing, and so does a byte beyond ASCII in the place
//     of a k or s of the key searched for. A NUL makes a value unusable.
//   - A key counts as found at its value's last byte if that is a string, at its value's first byte otherwise, and at
//     its own last byte if it is not the first one or differs in ASCII case. Found twice, or unusable, it names
//     nothing.
func referenceJSON(doc []byte, key string) string {
	r := &reference{doc: doc, key: key}
	r.object()
	if r.bad || r.seen != 1 || !r.usable || r.value == "" || len(r.value) > maxScanned || !utf8.ValidString(r.value) {
		return ""
	}
	return r.value
}

type reference struct {
	doc    []byte
	key    string
	seen   int
	usable bool
	bad    bool // there is a byte that can't stand there
	value  string
}

const jsonSpace = " \t\r\n"

func (r *reference) space() byte {
	r.doc = bytes.TrimLeft(r.doc, jsonSpace)
	if len(r.doc) == 0 {
		return 0
	}
	return r.doc[0]
}

// eat passes over c. Anything else but the end is bad.
func (r *reference) eat(c byte) bool {
	if r.space() != c || len(r.doc) == 0 {
		r.bad = r.bad || len(r.doc) > 0
		return false
	}
	r.doc = r.doc[1:]
	return true
}

func (r *reference) object() {
	for _, c := range []byte(byteOrderMark) {
		if r.space() == byteOrderMark[0] || c != byteOrderMark[0] && r.space() == c {
			r.doc = r.doc[1:]
			continue
		}
		if c != byteOrderMark[0] {
			return
		}
		break
	}
	if !r.eat('{') {
		return
	}
	for r.space() == '"' {
		name, ok := r.string()
		if !ok {
			return
		}
		r.bad = r.bad || strings.Contains(name, "\x00") || oddKey(name, r.key)
		same := strings.EqualFold(name, r.key) && len(name) == len(r.key)
		early := same && (name != r.key || r.seen > 0)
		if early {
			r.seen, r.usable = r.seen+1, false
		}
		if r.seen > 1 || !r.eat(':') {
			return
		}
		if !r.member(same && !early) || r.space() == '}' || !r.eat(',') {
			return
		}
	}
	r.bad = r.bad || len(r.doc) > 0 && r.doc[0] != '}'
}

// oddKey reports whether a name departs from a key by a byte beyond ASCII in the place of a k or s.
func oddKey(name, key string) bool {
	for i := range min(len(name), len(key)) {
		if n, k := strings.ToLower(name[i:i+1]), strings.ToLower(key[i:i+1]); n != k {
			return name[i] >= 0x80 && strings.Contains("ks", k)
		}
	}
	return false
}

func (r *reference) member(wanted bool) bool {
	c := r.space()
	if len(r.doc) == 0 {
		return false
	}
	if c == '"' {
		v, ok := r.string()
		if ok && wanted {
			r.seen, r.usable, r.value = r.seen+1, !strings.Contains(v, "\x00"), v
		}
		return ok
	}
	if wanted {
		r.seen++
	}
	if c == '{' || c == '[' {
		return r.nested()
	}
	rest := bytes.TrimLeft(r.doc, jsonWord)
	if len(rest) < len(r.doc) {
		r.doc = rest
		return true
	}
	r.bad = true
	return false
}

const jsonWord = "+-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

func (r *reference) nested() bool {
	depth := 0
	for word := false; len(r.doc) > 0; {
		c := r.doc[0]
		r.doc = r.doc[1:]
		behindWord := word
		word = strings.IndexByte(jsonWord, c) >= 0
		switch {
		case c == '"':
			r.bad = r.bad || behindWord
			for len(r.doc) > 0 && r.doc[0] != '"' {
				r.doc = r.doc[min(len(r.doc), 1+bytes.Count(r.doc[:1], []byte{'\\'})):]
			}
			if len(r.doc) == 0 {
				return false
			}
			r.doc = r.doc[1:]
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return true
			}
		case !word && strings.IndexByte(jsonSpace+",:", c) < 0:
			r.bad = true
		}
	}
	return false
}

// string reads a string; ok is false if it isn't one, or doesn't end.
func (r *reference) string() (s string, ok bool) {
	if r.space() != '"' {
		return "", false
	}
	var units []uint16
	var out []byte
	flush := func() { out, units = append(out, string(utf16.Decode(units))...), nil }
	for d := r.doc[1:]; len(d) > 0; {
		switch {
		case d[0] == '"':
			flush()
			r.doc = d[1:]
			return string(out), true
		case d[0] != '\\':
			flush()
			out, d = append(out, d[0]), d[1:]
		case len(d) > 1 && d[1] == 'u':
			var u uint16
			digits := string(d[2:min(len(d), 6)])
			r.bad = r.bad || strings.Trim(digits, "0123456789abcdefABCDEF") != ""
			if _, err := fmt.Sscanf(digits, "%04x", &u); r.bad || err != nil || len(digits) < 4 {
				return "", false
			}
			units, d = append(units, u), d[6:]
		case len(d) > 1 && strings.IndexByte(`"\/bfnrt`, d[1]) >= 0:
			flush()
			out, d = append(out, "\"\\/\b\f\n\r\t"[strings.IndexByte(`"\/bfnrt`, d[1])]), d[2:]
		default:
			r.bad = len(d) > 1
			return "", false
		}
	}
	return "", false
}
