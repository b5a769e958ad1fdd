package admission

// A BodyScan finds one value in a request body as it comes, without building the document: the string value of one key
// of the top-level JSON object, or the part of that name in a multipart form. It holds the window's worth of a form and
// next to nothing of a JSON document.
//
// The key has to be there once: a body that names two models could be read either way upstream, so it names none. A
// search is over when the document is, when the window is used up, or when what comes can't be such a document.
type BodyScan struct {
	key      string
	left     int  // bytes of the window not yet used up
	over     bool // nothing more is looked at
	valid    bool // the key was found, once, with a usable value
	value    []byte
	form     formScan
	multi    bool
	document jsonScan
}

// Start begins the search for key in a body of the given content type, in its first window bytes.
func (b *BodyScan) Start(key, contentType string, window int) {
	*b = BodyScan{key: key, left: window}
	if boundary, ok := formBoundary(contentType); ok {
		b.multi = true
		b.form = formScan{boundary: boundary}
	}
}

// Take looks at the next piece of the body; true when the search is over. The piece is not kept.
func (b *BodyScan) Take(piece []byte) bool {
	if b.over {
		return true
	}
	if len(piece) > b.left {
		piece = piece[:b.left]
	}
	b.left -= len(piece)
	if b.multi {
		b.takeForm(piece)
	} else {
		b.takeJSON(piece)
	}
	b.over = b.over || b.left == 0
	return b.over
}

// Value is what was found so far; nil if nothing, or nothing usable. It is valid until the next Start.
func (b *BodyScan) Value() []byte {
	if b.multi && b.form.scanned < len(b.form.kept) {
		b.scanForm()
	}
	if !b.valid {
		return nil
	}
	return b.value
}

// found notes an occurrence of the key.
func (b *BodyScan) found(usable bool) {
	b.document.seen++ // of a form too
	b.valid = usable && b.document.seen == 1 && len(b.value) > 0
	if b.document.seen > 1 {
		b.over = true
	}
}
