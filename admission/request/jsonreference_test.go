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
//     anything else up to whitespace, a comma or a closing brace. Control characters are allowed in strings.
//   - The document is read up to its end or up to the first byte that can't stand there by this grammar. What was named
//     before that byte counts. So an invalid document can name a model, but only one that stood in a whole string value
//     of a whole key of the top level, with everything before it well-formed by this grammar.
//   - A key counts as found at its value's last byte if that is a string, at its value's first byte otherwise, and at
//     its own last byte if it is not the first one or differs in ASCII case. Found twice, or unusable, it names
//     nothing.
func referenceJSON(doc []byte, key string) string {
	r := &reference{doc: doc, key: key}
	r.object()
	if r.seen != 1 || !r.usable || r.value == "" || len(r.value) > maxScanned || !utf8.ValidString(r.value) {
		return ""
	}
	return r.value
}

type reference struct {
	doc    []byte
	key    string
	seen   int
	usable bool
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

func (r *reference) eat(c byte) bool {
	if r.space() != c || len(r.doc) == 0 {
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
	for first := true; r.eat(map[bool]byte{true: '{', false: ','}[first]); first = false {
		name, ok := r.string()
		if !ok {
			return
		}
		same := strings.EqualFold(name, r.key) && len(name) == len(r.key)
		early := same && (name != r.key || r.seen > 0)
		if early {
			r.seen, r.usable = r.seen+1, false
		}
		if r.seen > 1 || !r.eat(':') {
			return
		}
		if !r.member(same && !early) {
			return
		}
	}
}

func (r *reference) member(wanted bool) bool {
	c := r.space()
	if len(r.doc) == 0 {
		return false
	}
	if c == '"' {
		v, ok := r.string()
		if ok && wanted {
			r.seen, r.usable, r.value = r.seen+1, true, v
		}
		return ok
	}
	if wanted {
		r.seen++
	}
	if c == '{' || c == '[' {
		return r.nested()
	}
	n := bytes.IndexAny(r.doc[1:], jsonSpace+",}")
	if n < 0 {
		return false
	}
	r.doc = r.doc[1+n:]
	return true
}

func (r *reference) nested() bool {
	depth := 0
	for len(r.doc) > 0 {
		c := r.doc[0]
		r.doc = r.doc[1:]
		switch c {
		case '"':
			for len(r.doc) > 0 && r.doc[0] != '"' {
				r.doc = r.doc[min(len(r.doc), 1+bytes.Count(r.doc[:1], []byte{'\\'})):]
			}
			if len(r.doc) == 0 {
				return false
			}
			r.doc = r.doc[1:]
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return true
			}
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
			if len(d) < 6 {
				return "", false
			}
			if _, err := fmt.Sscanf(string(d[2:6]), "%04x", &u); err != nil || strings.Trim(string(d[2:6]), "0123456789abcdefABCDEF") != "" {
				return "", false
			}
			units, d = append(units, u), d[6:]
		case len(d) > 1 && strings.IndexByte(`"\/bfnrt`, d[1]) >= 0:
			flush()
			out, d = append(out, "\"\\/\b\f\n\r\t"[strings.IndexByte(`"\/bfnrt`, d[1])]), d[2:]
		default:
			return "", false
		}
	}
	return "", false
}
