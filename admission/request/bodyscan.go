package request

import "github.com/headgate/headgate/admission/internal/text"

// A BodyScan looks for one value in a request body while the body comes: the string value of one key of a JSON object,
// or the part of that name in a multipart form. It keeps the value and little more, and builds no document. In JSON it
// looks at the keys of the outermost object only.
//
// A body that names two values, or that two readers could understand differently, names none here. Otherwise a client
// could be counted for one model and be served by another.
//
// The search is over when
//   - the document has ended;
//   - the window is used up: a second key behind it is not seen;
//   - the body turns out to be no such document.
type BodyScan struct {
	key      string
	left     int  // bytes of the window not yet used up
	over     bool // the search is over
	valid    bool // the key was there once, with a usable value
	seen     int  // how often the key was there
	value    []byte
	isForm   bool
	form     formScan
	document jsonScan

	mayBePairs bool // the content type says that the body is pairs (a=b&c=d): what curl says of JSON, too
	inPairs    bool // in such a body a separator of pairs has come
	isRead     bool // in such a body the JSON document has ended
}

// maxScanned is the greatest length of a usable value in bytes.
const maxScanned = 4096

// Start begins the search for key in a body of the given content type, in its first window bytes.
func (b *BodyScan) Start(key, contentType string, window int) {
	*b = BodyScan{key: key, left: window}
	switch {
	case containsFold(contentType, "multipart"):
		kind, parameters, _ := text.Cut(contentType, ";")
		b.startForm(kind, parameters)
	default:
		b.mayBePairs = containsFold(contentType, "urlencoded")
		b.checkCharset(contentType)
	}
}

// IsIdentity reports whether a content encoding is the one that changes nothing.
func IsIdentity(contentEncoding string) bool { return text.EqualFold(contentEncoding, "identity") }

// checkCharset gives up if a content type has any charset but UTF-8.
func (b *BodyScan) checkCharset(contentType string) {
	if containsFold(contentType, "charset") {
		_, parameters, _ := text.Cut(contentType, ";")
		b.readParameters(parameters, "", "")
	}
}

// containsFold reports whether sub is in s, without regard to the case of ASCII letters.
func containsFold(s, sub string) bool {
	for ; len(s) >= len(sub); s = s[1:] {
		if text.EqualFold(s[:len(sub)], sub) {
			return true
		}
	}
	return false
}

// Take searches the next piece of the body, and returns true when the search is over. It doesn't keep the piece.
func (b *BodyScan) Take(piece []byte) bool {
	if b.over {
		return true
	}
	if len(piece) > b.left {
		piece = piece[:b.left]
	}
	b.left -= len(piece)
	switch {
	case b.isForm:
		b.scanForm(piece)
	case b.mayBePairs:
		b.scanPairs(piece)
	default:
		b.scanJSON(piece)
	}
	b.over = b.over || b.left == 0
	return b.over
}

// scanPairs searches the next piece of JSON that some readers take for pairs, as its content type says. For them a
// separator ends what JSON has begun, and a pair behind it may have the key that is searched for. So a pair behind a
// separator, anywhere in the window, makes the body one that names nothing.
func (b *BodyScan) scanPairs(piece []byte) {
	for _, c := range piece {
		if c == '&' || c == ';' {
			b.inPairs = true
		} else if c == '=' && b.inPairs {
			b.giveUp()
			return
		}
	}
	if b.isRead {
		return
	}
	b.scanJSON(piece)
	b.isRead = b.over && b.valid
	b.over = b.over && !b.valid
}

// End ends the search because the body has ended. A form without its last boundary names nothing then: some readers
// read nothing in it.
func (b *BodyScan) End() {
	if b.isForm && !b.over && b.form.state != formEnd {
		b.giveUp()
	}
}

// Value returns the value that was found so far, or nil if there is none that is usable. It is valid until the next
// Start.
func (b *BodyScan) Value() []byte {
	if !b.valid {
		return nil
	}
	return b.value
}

// noteKey counts an occurrence of the key. Its value is in b.value if it is usable.
func (b *BodyScan) noteKey(usable bool) {
	b.seen++
	b.valid = usable && b.seen == 1 && len(b.value) > 0
	b.over = b.over || b.seen > 1
}

// giveUp ends the search without a value, in a body that readers could understand differently.
func (b *BodyScan) giveUp() { b.valid, b.over = false, true }

// incomparable makes a struct that begins with it one that can't be compared, so that no code is made for it that
// nobody calls: some hundred bytes of module for each.
type incomparable [0]func()
