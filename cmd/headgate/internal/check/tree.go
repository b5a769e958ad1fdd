package check

import (
	"strings"
	"time"
)

// MaxBytes is how long a file may be.
const MaxBytes = 16 << 20

// Bounds of what a file holds. A value counts as often as YAML aliases repeat it.
const (
	maxValues    = 1 << 20
	maxDocuments = 1000
	maxDepth     = 200
)

type kind uint8

const (
	kindNull kind = iota
	kindBool
	kindNumber
	kindText
	kindList
	kindMap
)

// A value is one value of a file, in a tree. All methods that ask work on nil, which has nothing.
type value struct {
	content
	line   int    // in the file. Of a member that is a list or a map it is the line of its key
	block  bool   // a text that stands line for line below the line
	parent *value // the list or map around it
}

// A content is what a value is. A repair changes it.
type content struct {
	kind     kind
	key      string // of a map's member
	text     string // a text's content; a number, bool or null as JSON writes it
	children []*value
	repaired bool // this is no longer what the file has
	gone     bool // the value counts as not there
}

// add appends a child.
func (v *value) add(child *value) {
	child.parent = v
	v.children = append(v.children, child)
}

// member returns the member of that name, or nil.
func (v *value) member(name string) *value {
	if v == nil || v.kind != kindMap {
		return nil
	}
	for _, c := range v.children {
		if c.key == name && !c.gone {
			return c
		}
	}
	return nil
}

// field returns what is at a path of names in Envoy's configuration, such as "vm_config/vm_id", or nil. Envoy takes
// vm_id and vmId alike.
func (v *value) field(path string) *value {
	for name := range strings.SplitSeq(path, "/") {
		next := v.member(name)
		if next == nil {
			next = v.member(camelCase(name))
		}
		v = next
	}
	return v
}

func camelCase(name string) string {
	words := strings.Split(name, "_")
	for i, w := range words[1:] {
		if w != "" {
			words[i+1] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, "")
}

// items returns the elements of a list.
func (v *value) items() []*value {
	if v == nil || v.kind != kindList {
		return nil
	}
	return v.present()
}

// members returns the members of a map.
func (v *value) members() []*value {
	if v == nil || v.kind != kindMap {
		return nil
	}
	return v.present()
}

// present returns what is in a list or map.
func (v *value) present() []*value {
	var there []*value
	for _, c := range v.children {
		if !c.gone {
			there = append(there, c)
		}
	}
	return there
}

// str returns the content of a text, or "".
func (v *value) str() string {
	if v == nil || v.kind != kindText {
		return ""
	}
	return v.text
}

// isTrue reports whether v is true.
func (v *value) isTrue() bool { return v != nil && v.kind == kindBool && v.text == "true" }

// seconds returns a duration as Envoy writes it, such as "1.5s". ok is false for anything else.
func (v *value) seconds() (d time.Duration, ok bool) {
	text := v.str()
	if !strings.HasSuffix(text, "s") {
		return 0, false
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d >= 0
}

// lineOr returns the line of v, or another one if v is nil.
func (v *value) lineOr(line int) int {
	if v == nil {
		return line
	}
	return v.line
}

// isAbove reports whether v is around other, or is other.
func (v *value) isAbove(other *value) bool {
	for ; other != nil; other = other.parent {
		if other == v {
			return true
		}
	}
	return false
}

// isWhole reports whether nothing in v was repaired.
func (v *value) isWhole() bool {
	if v == nil {
		return true
	}
	for _, c := range v.children {
		if !c.isWhole() {
			return false
		}
	}
	return !v.repaired
}

// visit calls f with v and everything in it.
func (v *value) visit(f func(*value)) {
	if v == nil {
		return
	}
	f(v)
	for _, c := range v.children {
		c.visit(f)
	}
}

// typeOf returns the last part of the type that a value of Envoy's configuration says it has, e.g. "Wasm".
func (v *value) typeOf() string {
	name := v.member("@type").str()
	return name[strings.LastIndexAny(name, "./")+1:]
}

// lines says in which line of the file each byte of a text is.
type lines struct {
	first  int
	breaks []int // offsets of the line breaks
}

// linesOf is for a text that begins in line first and has its own line breaks in the file.
func linesOf(text string, first int) lines {
	l := lines{first: first}
	for i := range len(text) {
		if text[i] == '\n' {
			l.breaks = append(l.breaks, i)
		}
	}
	return l
}

// linesIn returns the lines of the text of v. Where it is not written line for line, all of it counts as one line.
func linesIn(v *value) lines {
	if v.block {
		return linesOf(v.text, v.line+1)
	}
	return lines{first: v.line}
}

func (l lines) at(offset int) int {
	low, high := 0, len(l.breaks)
	for low < high {
		if middle := (low + high) / 2; l.breaks[middle] < offset {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return l.first + low
}
