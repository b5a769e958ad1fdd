package admin

import (
	"strconv"
	"unicode/utf8"
)

// A writer writes JSON. Members and elements get their commas by themselves.
type writer struct{ b []byte }

// raw appends a text as it is.
//
//go:noinline // what is called from many places stays one piece of the module
func (w *writer) raw(s string) { w.b = append(w.b, s...) }

// next appends a comma if something stands before.
//
//go:noinline // as raw
func (w *writer) next() {
	if n := len(w.b); n > 0 && w.b[n-1] != '{' && w.b[n-1] != '[' {
		w.b = append(w.b, ',')
	}
}

// name begins a member.
//
//go:noinline // as raw
func (w *writer) name(name string) {
	w.next()
	w.b = append(w.b, '"')
	w.raw(name)
	w.raw(`":`)
}

// open begins a member that is an object or array.
func (w *writer) open(name, bracket string) {
	w.name(name)
	w.raw(bracket)
}

//go:noinline // as raw
func (w *writer) number(name string, n int64) {
	w.name(name)
	w.b = strconv.AppendInt(w.b, n, 10)
}

//go:noinline // as raw
func (w *writer) boolean(name string, is bool) {
	w.name(name)
	if is {
		w.raw("true")
	} else {
		w.raw("false")
	}
}

//go:noinline // as raw
func (w *writer) text(name, s string) {
	w.name(name)
	w.quote(s)
}

// present is text if there is one.
func (w *writer) present(name, s string) {
	if s != "" {
		w.text(name, s)
	}
}

// quote appends a string. What is not UTF-8 in it becomes U+FFFD.
func (w *writer) quote(s string) {
	const digits = "0123456789abcdef"
	b := append(w.b, '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', byte(c))
		case c < ' ' || c == 0x7f:
			b = append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			b = utf8.AppendRune(b, c)
		}
	}
	w.b = append(b, '"')
}
