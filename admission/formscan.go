package admission

// A formScan is a multipart form being searched for one part. Model APIs use forms for audio and images; the model's part
// is short and in the window, or it isn't found.
type formScan struct {
	boundary string
	kept     []byte // the window's worth of the body so far
	scanned  int    // how much was kept when the parts were last looked for
}

// maxBoundary is RFC 2046's bound on a boundary's length.
const maxBoundary = 70

// formBoundary is the boundary of a multipart/form-data content type; ok is false for any other.
func formBoundary(contentType string) (boundary string, ok bool) {
	const form = "multipart/form-data"
	if len(contentType) < len(form) || !equalFold(contentType[:len(form)], form) {
		return "", false
	}
	boundary, ok = parameter(contentType[len(form):], "boundary")
	return string([]byte(boundary)), ok && boundary != "" && len(boundary) <= maxBoundary
}

// parameter is the value of a parameter behind a header's value: ; name=value or ; name="value".
func parameter(rest, name string) (value string, ok bool) {
	for len(rest) > 0 {
		var field string
		field, rest = cutField(rest)
		for len(field) > 0 && (field[0] == ' ' || field[0] == '\t') {
			field = field[1:]
		}
		if len(field) <= len(name) || field[len(name)] != '=' || !equalFold(field[:len(name)], name) {
			continue
		}
		value = field[len(name)+1:]
		if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
			value = value[1 : len(value)-1]
		}
		return value, true
	}
	return "", false
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

// takeForm keeps the piece. The parts are looked for each time what is kept has doubled, so that a form that comes byte by
// byte costs no more than twice one that comes at once.
func (b *BodyScan) takeForm(piece []byte) {
	f := &b.form
	f.kept = append(f.kept, piece...)
	if len(f.kept) >= 2*f.scanned {
		b.scanForm()
	}
}

// scanForm looks at the parts that are whole by now.
func (b *BodyScan) scanForm() {
	f := &b.form
	f.scanned = len(f.kept)
	b.document.seen, b.valid, b.value = 0, false, nil
	rest, mark := string(f.kept), "--"+f.boundary
	for at := indexOf(rest, mark); at >= 0; {
		rest = rest[at+len(mark):]
		end := indexOf(rest, "\r\n"+mark)
		if end < 0 {
			b.over = b.over || len(rest) >= 2 && rest[:2] == "--"
			return
		}
		b.part(rest[:end])
		at = end + len("\r\n")
	}
}

// part looks at one part: its headers, an empty line, its content.
func (b *BodyScan) part(text string) {
	end := indexOf(text, "\r\n\r\n")
	if end < 0 {
		return
	}
	for head := text[:end+2]; head != ""; {
		line := head
		if i := indexOf(head, "\r\n"); i >= 0 {
			line, head = head[:i], head[i+2:]
		} else {
			head = ""
		}
		const disposition = "content-disposition:"
		if len(line) < len(disposition) || !equalFold(line[:len(disposition)], disposition) {
			continue
		}
		_, parameters := cutField(line)
		if name, ok := parameter(parameters, "name"); ok && name == b.key {
			b.value = []byte(text[end+4:])
			b.found(len(b.value) <= maxScanned)
		}
	}
}
