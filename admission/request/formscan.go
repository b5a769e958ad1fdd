package request

import (
	"unicode/utf8"

	"github.com/headgate/headgate/admission/internal/text"
)

// A formScan is the state of reading a multipart form piece by piece, line by line. Model APIs use forms for audio and
// images.
//
// Readers of forms differ in what they accept: docs/security.md has a table. This one accepts only what they read
// alike. Anything else makes the whole form name nothing:
//   - the boundary's text in any other place than a boundary;
//   - anything but empty lines before the first boundary and behind the last one;
//   - a line end other than CR LF, except in the content of other parts;
//   - a header line that has control characters, is not UTF-8, or ends with a blank;
//   - a part without a disposition, or with two of them, or with one that readParameters refuses;
//   - a part whose name some readers take for the one that is searched for;
//   - a part with encoded content, in another charset than UTF-8, or that is a form itself;
//   - for the part that is searched for: a file name, a content type other than text/plain, more than one line.
type formScan struct {
	boundary       string
	line           []byte // the current line so far, or its end if it is long
	cr             bool   // a CR has come, which may begin the line's end
	plain          bool   // the line is not long, and is the first or stands behind CR LF
	atBoundary     bool   // the line begins with a boundary
	state          formState
	hasDisposition bool // the part has its disposition
	wanted         bool // the part has the name that is searched for
	doubtful       bool // the part is a file for some readers
	hasValue       bool // the part's line of content is in BodyScan.value
}

// A formState is where in a form the next line is.
type formState uint8

const (
	formPreamble formState = iota // before the first part
	formHead                      // in a part's headers
	formContent                   // in a part's content
	formEnd                       // behind the last boundary
)

const (
	// maxBoundary is the greatest length of a boundary in RFC 2046.
	maxBoundary = 70

	// maxFormLine is how long a line is before it is long: one byte longer than a usable value.
	maxFormLine = maxScanned + 1

	// boundaryDashes is how many dashes stand before a boundary, and behind the last one.
	boundaryDashes = 2
)

// startForm begins the search in a form. kind is its content type, without the parameters.
func (b *BodyScan) startForm(kind, parameters string) {
	b.isForm = true
	b.form.plain = true
	b.form.boundary = b.readParameters(parameters, "boundary", "-_.+")
	if b.form.boundary == "" || !text.EqualFold(kind, "multipart/form-data") {
		b.giveUp()
	}
}

// readParameters reads what stands behind the first semicolon of a header's value, and returns the parameter that is
// named key. That one has ASCII letters, digits and bytes of allowed. It accepts only that one, UTF-8 as charset, and
// file names behind it. It gives the body up if readers could differ about them: quotes, backslashes, blanks, repeated
// parameters.
func (b *BodyScan) readParameters(s, key, allowed string) (value string) {
	for more := true; more; {
		var field string
		field, s, more = text.Cut(s, ";")
		name, v, _ := text.Cut(field, "=")
		name, _ = text.CutPrefix(name, " ")
		if end := len(v) - 1; end > 0 && v[0] == '"' && v[end] == '"' {
			v = v[1:end]
		}
		accepted := false
		switch {
		case text.EqualFold(name, key):
			accepted = value == "" && text.IsName(v, maxBoundary, allowed)
			value = v
		case text.EqualFold(name, "charset"):
			accepted = text.EqualFold(v, "utf-8") || text.EqualFold(v, "utf8")
		case text.EqualFold(name, "filename") || text.EqualFold(name, "filename*"):
			accepted = value != "" && text.IndexByte(v, '"') < 0 && text.IndexByte(v, '\\') < 0
			b.form.doubtful = true
		}
		if !accepted {
			b.giveUp()
		}
	}
	return value
}

// scanForm searches the next piece of a form.
func (b *BodyScan) scanForm(piece []byte) {
	f := &b.form
	for i := 0; i < len(piece) && !b.over; i++ {
		c := piece[i]
		if f.cr && c != '\n' {
			b.endLine(false)
		}
		switch {
		case c == '\r':
			f.cr = true
		case c == '\n':
			b.endLine(f.cr)
		default:
			b.scanInLine(c)
		}
	}
}

// scanInLine handles a byte of a line.
func (b *BodyScan) scanInLine(c byte) {
	f := &b.form
	if len(f.line) == maxFormLine {
		f.line = f.line[:copy(f.line, f.line[maxFormLine-maxBoundary:])]
		f.plain = false
	}
	f.line = append(f.line, c)
	n := len(f.line) - len(f.boundary)
	switch {
	case f.state == formEnd:
		b.giveUp()
	case f.atBoundary:
		if c != '-' {
			b.giveUp()
		} else if n == 2*boundaryDashes {
			b.endPart(formEnd)
		}
	case n >= 0 && c == f.boundary[len(f.boundary)-1] && string(f.line[n:]) == f.boundary:
		f.atBoundary = true
		if n != boundaryDashes || f.line[0] != '-' || f.line[1] != '-' || !f.plain {
			b.giveUp()
		}
	}
}

// endLine handles a line when its end has come. crlf says that this is CR LF.
func (b *BodyScan) endLine(crlf bool) {
	f := &b.form
	plain := f.plain && crlf
	n := len(f.line) - len(f.boundary)
	switch {
	case f.state == formContent && !f.atBoundary:
		if f.wanted {
			b.value = append(b.value[:0], f.line...)
			if !plain || f.hasValue {
				b.giveUp()
			}
			f.hasValue = true
		}
	case !plain || f.atBoundary && n == boundaryDashes+1 || f.state == formPreamble && !f.atBoundary && len(f.line) > 0:
		b.giveUp()
	case f.state == formEnd:
	case f.atBoundary:
		b.endPart(formHead)
	case f.state == formHead:
		b.readHeader(string(f.line))
	}
	f.line, f.cr, f.plain, f.atBoundary = f.line[:0], false, crlf, false
}

// readHeader handles a line of a part's head.
func (b *BodyScan) readHeader(line string) {
	f := &b.form
	if line == "" {
		f.state = formContent
		if !f.hasDisposition || f.wanted && (f.doubtful || b.seen > 0) {
			b.giveUp()
		}
		return
	}
	name, value, whole := text.Cut(line, ":")
	value = text.Trim(value, " \t")
	kind, parameters, _ := text.Cut(value, ";")
	switch {
	case !whole || !text.IsName(name, maxFormLine, "-") || !isPlainLine(line):
		b.giveUp()
	case text.EqualFold(name, "content-disposition"):
		part := b.readParameters(parameters, "name", "-_.[]")
		base, _, _ := text.Cut(part, "[")
		base = text.Trim(base, "]")
		f.wanted = part == b.key
		if f.hasDisposition || !text.EqualFold(kind, "form-data") || part == "_charset_" ||
			!f.wanted && (base == "" || text.EqualFold(base, b.key)) {
			b.giveUp()
		}
		f.hasDisposition = true
	case text.EqualFold(name, "content-type"):
		f.doubtful = f.doubtful || !text.EqualFold(kind, "text/plain")
		b.expect(!containsFold(value, "multipart") && !containsFold(value, "urlencoded"))
		b.checkCharset(value)
	case text.EqualFold(name, "content-transfer-encoding"):
		if !text.EqualFold(value, "7bit") && !text.EqualFold(value, "8bit") && !text.EqualFold(value, "binary") {
			b.giveUp()
		}
	}
}

// isPlainLine reports whether all readers accept the bytes of a line that is not empty: UTF-8 without control
// characters, and no blank at its end.
func isPlainLine(line string) bool {
	for i := range len(line) {
		if c := line[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return line[len(line)-1] > ' ' && utf8.ValidString(line)
}

// endPart ends the part before a boundary. The line end before the boundary belongs to the boundary.
func (b *BodyScan) endPart(next formState) {
	f := &b.form
	if f.state == formHead {
		b.giveUp()
	}
	if f.wanted {
		usable := f.hasValue && len(b.value) <= maxScanned
		for _, c := range b.value {
			usable = usable && (' ' <= c && c <= '~' || c == '\t')
		}
		b.noteKey(usable)
	}
	f.state, f.hasDisposition, f.wanted, f.doubtful, f.hasValue = next, false, false, false, false
}
