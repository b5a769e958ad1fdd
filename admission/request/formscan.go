package request

import (
	"unicode/utf8"

	"github.com/headgate/headgate/admission/internal/text"
)

// A formScan is the state of reading a multipart form piece by piece, line by line. Model APIs use forms for audio and
// images.
//
// Readers of forms differ in what they accept. In the lines of a boundary and in the heads of the parts this one
// accepts only what is plainly RFC 7578. Anything else there makes the whole form name nothing:
//   - a line end other than CR LF;
//   - a boundary with more text in its line;
//   - a folded header;
//   - two dispositions or two names of one part;
//   - a backslash or an extended parameter;
//   - encoded content.
type formScan struct {
	delimiter      string
	line           []byte // the current line so far, at most maxFormLine of it
	cr             bool   // a CR has come, which may begin the line's end
	lineStart      bool   // the line is the first, or stands behind CR LF: a boundary may stand in it
	state          formState
	hasDisposition bool // the part has its disposition
	wanted         bool // the part has the name that is searched for
}

// A formState is where in a form the next line is.
type formState uint8

const (
	formPreamble formState = iota // before the first part
	formHead                      // in a part's headers
	formContent                   // in a part's content
)

const (
	// maxBoundary is the greatest length of a boundary in RFC 2046.
	maxBoundary = 70

	// maxFormLine is how much of a line is kept: one byte more than a usable value has.
	maxFormLine = maxScanned + 1
)

// formBoundary returns the boundary of a multipart/form-data content type. ok is false for any other content type, or
// if readers could differ about the boundary.
func formBoundary(contentType string) (boundary string, ok bool) {
	kind, parameters := cutField(contentType)
	boundary, ok = parameter(parameters, "boundary")
	ok = ok && text.EqualFold(text.Trim(kind, " \t"), "multipart/form-data")
	return boundary, ok && boundary != "" && len(boundary) <= maxBoundary
}

// parameter returns the value of a parameter behind a header's value: ; name=value or ; name="value". It is empty if
// there is none. ok is false if readers could differ about it.
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
		if same && (extended || found) || !whole && !empty || text.IndexByte(v, '"') >= 0 ||
			key != "" && !text.IsName(key, len(key), "-*_.") {
			return "", false
		}
		if same {
			value, found = v, true
		}
	}
	return value, true
}

// cutField splits s around the first semicolon outside quotes.
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

// scanForm searches the next piece of a form.
func (b *BodyScan) scanForm(piece []byte) {
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
			b.endAtCloseDelimiter()
		}
	}
}

// endAtCloseDelimiter ends the search when the line so far is the form's last boundary, which needs no line end.
func (b *BodyScan) endAtCloseDelimiter() {
	f := &b.form
	n := len(f.delimiter)
	if len(f.line) != n+2 || f.line[n] != '-' || f.line[n+1] != '-' || string(f.line[:n]) != f.delimiter {
		return
	}
	if !f.lineStart {
		b.giveUp()
		return
	}
	b.endPart()
	b.over = true
}

// endLine handles a line when its end has come.
func (b *BodyScan) endLine(end string) {
	f := &b.form
	n := len(f.delimiter)
	strange := end != "\r\n" || len(f.line) == maxFormLine
	switch {
	case len(f.line) >= n && string(f.line[:n]) == f.delimiter:
		if strange || !f.lineStart || text.Trim(string(f.line[n:]), " \t") != "" {
			b.giveUp()
			return
		}
		b.endPart()
		f.state = formHead
	case f.state == formHead:
		if strange || len(f.line) > 0 && (f.line[0] == ' ' || f.line[0] == '\t') {
			b.giveUp()
			return
		}
		b.readHeader(string(f.line))
	case f.wanted && len(b.value) <= maxScanned+len("\r\n"):
		b.value = append(append(b.value, f.line...), end...)
	}
	f.line, f.cr, f.lineStart = f.line[:0], false, end == "\r\n"
}

// readHeader handles a line of a part's head.
func (b *BodyScan) readHeader(line string) {
	f := &b.form
	if line == "" {
		f.state = formContent
		if f.wanted && b.seen > 0 {
			b.giveUp()
		}
		return
	}
	name, value, whole := text.Cut(line, ":")
	value = text.Trim(value, " \t")
	switch {
	case !whole || !text.IsName(name, len(name), "-_."):
		b.giveUp()
	case text.EqualFold(name, "content-disposition"):
		kind, parameters := cutField(value)
		part, ok := parameter(parameters, "name")
		if f.hasDisposition || !ok || !text.EqualFold(text.Trim(kind, " \t"), "form-data") {
			b.giveUp()
		}
		f.hasDisposition, f.wanted = true, part == b.key
	case text.EqualFold(name, "content-transfer-encoding"):
		if !text.EqualFold(value, "7bit") && !text.EqualFold(value, "8bit") && !text.EqualFold(value, "binary") {
			b.giveUp()
		}
	}
}

// endPart ends the part before a boundary. The line end before the boundary belongs to the boundary.
func (b *BodyScan) endPart() {
	f := &b.form
	if f.wanted && f.state == formContent {
		b.value = b.value[:max(len(b.value)-len("\r\n"), 0)]
		b.noteKey(len(b.value) <= maxScanned && utf8.Valid(b.value))
	}
	f.hasDisposition, f.wanted = false, false
}
