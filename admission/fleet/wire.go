package fleet

import (
	"strconv"
	"unicode/utf8"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/internal/text"
)

// A writer writes a call.
type writer struct{ text []byte }

func (w *writer) begin(set *Settings, number int64) {
	w.string(`{"domain":`, set.Domain)
	w.string(`,"replica":`, set.Replica)
	w.number(`,"call":`, number)
	w.number(`,"ttl_ms":`, int64(set.Lease/admission.Millisecond))
	w.text = text.Put(w.text, `,"pools":[`)
}

func (w *writer) ask(k *key, isFirst bool) {
	if !isFirst {
		w.text = append(w.text, ',')
	}
	w.string(`{"pool":`, k.pool)
	w.string(`,"key":`, wireKey(k.key))
	w.number(`,"limit":`, int64(k.sentLimit))
	w.number(`,"keep":`, int64(k.sentKeep))
	w.number(`,"wants":`, int64(k.sentWants))
	w.text = append(w.text, '}')
}

func (w *writer) end() []byte { return text.Put(w.text, "]}") }

//go:noinline
func (w *writer) number(before string, n int64) {
	w.text = strconv.AppendInt(text.Put(w.text, before), n, 10)
}

const hexDigits = "0123456789abcdef"

//go:noinline
func (w *writer) string(before, s string) {
	w.text = append(text.Put(w.text, before), '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ' || c == 0x7F:
			w.text = append(text.Put(w.text, `\u00`), hexDigits[c>>4], hexDigits[c&15])
			continue
		case c == '"' || c == '\\':
			w.text = append(w.text, '\\')
		}
		w.text = append(w.text, s[i])
	}
	w.text = append(w.text, '"')
}

// maxPlainKey is the longest key that the service is told as it is.
const maxPlainKey = 256

// wireKey is a key's name at the service: the key itself, or where that is long or no valid UTF-8, a tilde and a hash.
func wireKey(s string) string {
	if len(s) <= maxPlainKey && utf8.ValidString(s) && !text.HasPrefix(s, "~") {
		return s
	}
	out := []byte{'~'}
	for _, seed := range [...]uint64{0xcbf29ce484222325, 0x9e3779b97f4a7c15} {
		h := seed // FNV-1a, with a last mixing, twice
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * 0x100000001b3
		}
		h ^= h >> 32
		h *= 0xd6e8feb86659fd93
		h ^= h >> 32
		for shift := 60; shift >= 0; shift -= 4 {
			out = append(out, hexDigits[h>>shift&15])
		}
	}
	return string(out)
}

// An answer is what the service says of one key.
type answer struct{ grant, target, safe int }

// A reply is what the service says besides.
type reply struct{ ttl, learning Duration }

// readReply reads the answer to a call for these keys. ok is false where anything is not as it should be.
func readReply(body string, asked []*key) (answers []answer, about reply, ok bool) {
	r := reader{text: body}
	answers = make([]answer, 0, len(asked))
	hasPools := false
	r.object(func(field string) {
		switch field {
		case "ttl_ms":
			about.ttl = Duration(r.number(int64(admission.Hour/admission.Millisecond))) * admission.Millisecond
		case "learning_ms":
			about.learning = Duration(r.number(int64(admission.Hour/admission.Millisecond))) * admission.Millisecond
		case "pools":
			r.bad = r.bad || hasPools
			hasPools = true
			r.array(func() { answers = r.answer(answers, asked) })
		default:
			r.skip(maxDepth)
		}
	})
	r.space()
	ok = !r.bad && r.at == len(body) && hasPools && len(answers) == len(asked) && about.ttl > 0
	return answers, about, ok
}

// answer reads what the service says of the next key.
func (r *reader) answer(answers []answer, asked []*key) []answer {
	if len(answers) == len(asked) {
		r.bad = true
		return answers
	}
	k := asked[len(answers)]
	a := answer{-1, -1, -1}
	pool, of := "", "\x00"
	r.object(func(field string) {
		switch field {
		case "pool":
			pool = r.string()
		case "key":
			of = r.string()
		case "grant":
			a.grant = int(r.number(admission.MaxLimit))
		case "target":
			a.target = int(r.number(admission.MaxLimit))
		case "safe":
			a.safe = int(r.number(admission.MaxLimit))
		default:
			r.skip(maxDepth)
		}
	})
	r.bad = r.bad || pool != k.pool || of != wireKey(k.key) || a.grant < 0 || a.target < 0 || a.safe < 0
	return append(answers, a)
}

// maxDepth is how deep what is passed over may be nested.
const maxDepth = 8

// A reader reads JSON of a known form. Once something is wrong it reads nothing more.
type reader struct {
	text string
	at   int
	bad  bool
}

func (r *reader) space() {
	for r.at < len(r.text) && text.IndexByte(" \t\r\n", r.text[r.at]) >= 0 {
		r.at++
	}
}

// accept steps over white space and c, if c is there.
func (r *reader) accept(c byte) bool {
	r.space()
	if r.bad || r.at == len(r.text) || r.text[r.at] != c {
		return false
	}
	r.at++
	return true
}

// expect steps over white space and c.
func (r *reader) expect(c byte) { r.bad = !r.accept(c) || r.bad }

// object reads an object. each reads a member's value.
func (r *reader) object(each func(field string)) {
	r.expect('{')
	for more := !r.accept('}'); more && !r.bad; {
		field := r.string()
		r.expect(':')
		if r.bad {
			return
		}
		each(field)
		if more = r.accept(','); !more {
			r.expect('}')
		}
	}
}

// array reads an array. each reads an element.
func (r *reader) array(each func()) {
	r.expect('[')
	for more := !r.accept(']'); more && !r.bad; {
		each()
		if more = r.accept(','); !more {
			r.expect(']')
		}
	}
}

// number reads a whole number from 0 to most.
func (r *reader) number(most int64) int64 {
	r.space()
	if r.bad {
		return 0
	}
	digits, _ := text.CutDigits(r.text[r.at:])
	n, ok := text.ParseDigits(digits, most)
	r.at += len(digits)
	r.bad = !ok || digits == "" || r.at < len(r.text) && text.IndexByte(".eE", r.text[r.at]) >= 0
	return n
}

// string reads a string.
func (r *reader) string() string {
	r.expect('"')
	var out []byte
	for !r.bad && r.at < len(r.text) {
		c := r.text[r.at]
		r.at++
		switch {
		case c == '"':
			return string(out)
		case c == '\\':
			out = r.escape(out)
		case c < ' ':
			r.bad = true
		default:
			out = append(out, c)
		}
	}
	r.bad = true
	return ""
}

// escape reads what is behind a backslash.
func (r *reader) escape(out []byte) []byte {
	if r.at == len(r.text) {
		r.bad = true
		return out
	}
	c := r.text[r.at]
	r.at++
	if i := text.IndexByte(text.JSONEscapes, c); i >= 0 {
		return append(out, text.JSONEscaped[i&7])
	}
	if c != 'u' {
		r.bad = true
		return out
	}
	u := r.unit()
	if u>>10 == 0xD800>>10 && text.HasPrefix(r.text[r.at:], `\u`) {
		r.at += 2
		u = 0x10000 + (u&0x3FF)<<10 + r.unit()&0x3FF
	}
	var char [utf8.UTFMax]byte
	return append(out, char[:utf8.EncodeRune(char[:], u)]...)
}

// unit reads four hexadecimal digits.
func (r *reader) unit() (u rune) {
	for range 4 {
		d := -1
		if r.at < len(r.text) {
			d = text.HexDigit(r.text[r.at])
		}
		if d < 0 {
			r.bad = true
			return 0
		}
		u = u<<4 + rune(d)
		r.at++
	}
	return u
}

// skip passes over a value.
func (r *reader) skip(depth int) {
	r.space()
	switch {
	case r.bad || r.at == len(r.text) || depth == 0:
		r.bad = true
	case r.text[r.at] == '{':
		r.object(func(string) { r.skip(depth - 1) })
	case r.text[r.at] == '[':
		r.array(func() { r.skip(depth - 1) })
	case r.text[r.at] == '"':
		r.string()
	default:
		start := r.at
		for r.at < len(r.text) && (text.IsDigit(r.text[r.at]) || text.IndexByte("+-.", r.text[r.at]) >= 0 ||
			'a' <= text.Lower(r.text[r.at]) && text.Lower(r.text[r.at]) <= 'z') {
			r.at++
		}
		r.bad = r.at == start
	}
}
