package request

import (
	"unicode/utf8"

	"github.com/headgate/headgate/admission/internal/text"
)

// A formScan is the state of reading a multipart form piece by piece, line by line. Model APIs use forms for audio and
// images.
//
// Readers of forms differ in what they forgive. This one forgives nothing where that matters, in the lines of a boundary
// and in the heads of the parts: what isn't plainly RFC 7578 there makes the whole form name nothing. So it is for line
// ends other than CR LF, lines that go on from a boundary, folded headers, two dispositions or two names of one part,
// backslashes, extended parameters and encoded content.
type formScan struct {
	delimiter string
	line      []byte // the current line so far, at most maxFormLine of it
	cr        bool   // a CR may be the beginning of its end
	clean     bool   // it begins behind CR LF, or is the first
	at        formPlace
	disposed  bool // the part has its disposition
	here      bool // the part is the one searched for
}

type formPlace uint8

const (
	formPreamble formPlace = iota // before the first part
	formHead                      // in a part's headers
	formContent                   // in its content
)

const (
	// maxBoundary is RFC 2046's bound on a boundary's length.
	maxBoundary = 70

	// maxFormLine is how much of a line is kept: more than a value may have.
	maxFormLine = maxScanned + 1
)

// formBoundary is the boundary of a multipart/form-data content type; ok is false for any other, or if it isn't plain
// which one it is.
func formBoundary(contentType string) (boundary string, ok bool) {
	kind, parameters := cutField(contentType)
	boundary, ok = parameter(parameters, "boundary")
	return boundary, ok && text.EqualFold(text.Trim(kind, " \t"), "multipart/form-data") && boundary != "" && len(boundary) <= maxBoundary
}

// parameter is the value of a parameter behind a header's value: ; name=value or ; name="value"; empty if there is none.
// ok is false if readers could differ about it.
func parameter(rest, name string) (value string, ok bool) {
	if text.IndexByte(rest, '\\') >= 0 {
		return "", false
	}
	for found := false; rest != ""; {
		var field string
		field, rest = cutField(rest)
		key, v, whole := text.Cut(field, "=")
		key, v = text.Trim(key, " \t"), text.Trim(v, " \t")
		if n := len(v); n >= 2 && v[0] == '"' && v[n-1] == '"' {
			v = v[1 : n-1]
		}
		plain, _, extended := text.Cut(key, "*")
		same := text.EqualFold(plain, name)
		empty := !whole && key == "" && rest == "" // behind a last semicolon
		if same && (extended || found) || !whole && !empty || text.IndexByte(v, '"') >= 0 || key != "" && !text.IsName(key, len(key), "-*_.") {
			return "", false
		}
		if same {
			value, found = v, true
		}
	}
	return value, true
}

// cutField cuts at the next semicolon that is in no quotes.
func cutField(s string) (field, rest string) {
	quoted := false
	for i := range len(s) {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case s[i] == ';' && !quoted:
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

func (b *BodyScan) takeForm(piece []byte) {
	f := &b.form
	for i := 0; i < len(piece) && !b.over; i++ {
		c := piece[i]
		if f.cr && c != '\n' {
			b.endLine("\r")
		}
		switch {
		case c == '\r':
			f.cr = true
		case c == '\n' && f.cr:
			b.endLine("\r\n")
		case c == '\n':
			b.endLine("\n")
		case len(f.line) < maxFormLine:
			f.line = append(f.line, c)
			b.lookForEnd()
		}
	}
}

// lookForEnd sees the form's end as soon as it is there: no line end need follow it.
func (b *BodyScan) lookForEnd() {
	f := &b.form
	n := len(f.delimiter)
	if len(f.line) != n+2 || f.line[n] != '-' || f.line[n+1] != '-' || string(f.line[:n]) != f.delimiter {
		return
	}
	if !f.clean {
		b.unclear()
		return
	}
	b.endPart()
	b.over = true
}

// endLine handles the line that has come to the given end.
func (b *BodyScan) endLine(end string) {
	f := &b.form
	n := len(f.delimiter)
	strange := end != "\r\n" || len(f.line) == maxFormLine
	switch {
	case len(f.line) >= n && string(f.line[:n]) == f.delimiter:
		if strange || !f.clean || text.Trim(string(f.line[n:]), " \t") != "" {
			b.unclear()
			return
		}
		b.endPart()
		f.at = formHead
	case f.at == formHead:
		if strange || len(f.line) > 0 && (f.line[0] == ' ' || f.line[0] == '\t') {
			b.unclear()
			return
		}
		b.header(string(f.line))
	case f.here && len(b.value) <= maxScanned+len("\r\n"):
		b.value = append(append(b.value, f.line...), end...)
	}
	f.line, f.cr, f.clean = f.line[:0], false, end == "\r\n"
}

// header handles a line of a part's head.
func (b *BodyScan) header(line string) {
	f := &b.form
	if line == "" {
		f.at = formContent
		if f.here && b.seen > 0 {
			b.unclear()
		}
		return
	}
	name, value, whole := text.Cut(line, ":")
	value = text.Trim(value, " \t")
	switch {
	case !whole || !text.IsName(name, len(name), "-_."):
		b.unclear()
	case text.EqualFold(name, "content-disposition"):
		kind, parameters := cutField(value)
		part, ok := parameter(parameters, "name")
		if f.disposed || !ok || !text.EqualFold(text.Trim(kind, " \t"), "form-data") {
			b.unclear()
		}
		f.disposed, f.here = true, part == b.key
	case text.EqualFold(name, "content-transfer-encoding"):
		if !text.EqualFold(value, "7bit") && !text.EqualFold(value, "8bit") && !text.EqualFold(value, "binary") {
			b.unclear()
		}
	}
}

// endPart ends the part before a boundary. The line end before the boundary belongs to that.
func (b *BodyScan) endPart() {
	f := &b.form
	if f.here && f.at == formContent {
		b.value = b.value[:max(len(b.value)-len("\r\n"), 0)]
		b.found(len(b.value) <= maxScanned && utf8.Valid(b.value))
	}
	f.disposed, f.here = false, false
}
