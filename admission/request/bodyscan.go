package request

import (
	"github.com/headgate/headgate/admission/internal/text"
)

// A BodyScan finds one value in a request body as it comes, without building the document: the string value of one key
// of the top-level JSON object, or the part of that name in a multipart form. It holds next to nothing of either.
//
// A body that names two models, or that two readers could read differently, names none: or a client would be counted for
// one model and served another. A search is over when the document is, when the window is used up, or when what comes
// can't be such a document. What is behind the window is not known: a second key there goes unseen.
type BodyScan struct {
	key      string
	left     int  // bytes of the window not yet used up
	over     bool // nothing more is looked at
	valid    bool // the key was found, once, with a usable value
	seen     int  // how often it was found
	value    []byte
	multi    bool
	form     formScan
	document jsonScan
}

// maxScanned is how long a value may be to be usable.
const maxScanned = 4096

// Start begins the search for key in a body of the given content type, in its first window bytes.
func (b *BodyScan) Start(key, contentType string, window int) {
	*b = BodyScan{key: key, left: window}
	switch {
	case hasPrefixFold(contentType, "multipart/"):
		boundary, ok := formBoundary(contentType)
		b.multi, b.over = true, !ok
		b.form = formScan{delimiter: "--" + boundary, clean: true}
	case hasPrefixFold(contentType, "application/x-www-form-urlencoded"):
		b.over = true // even if it looks like JSON
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
	if !b.valid {
		return nil
	}
	return b.value
}

// found notes an occurrence of the key, whose value is in b.value if it is usable.
func (b *BodyScan) found(usable bool) {
	b.seen++
	b.valid = usable && b.seen == 1 && len(b.value) > 0
	b.over = b.over || b.seen > 1
}

// unclear ends the search in a body that could be read in several ways: it names nothing.
func (b *BodyScan) unclear() { b.valid, b.over = false, true }

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && text.EqualFold(s[:len(prefix)], prefix)
}
