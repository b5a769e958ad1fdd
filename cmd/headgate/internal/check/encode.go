package check

import (
	"encoding/json"
	"sort"
)

// An encoded is a tree as JSON, and where each value of the tree begins in it.
type encoded struct {
	bytes  []byte
	starts []start // in the order of their offsets
}

type start struct {
	offset int
	value  *value
}

// encode writes a tree as JSON.
func encode(v *value) *encoded {
	t := &encoded{}
	t.put(v)
	return t
}

func (t *encoded) mark(v *value) { t.starts = append(t.starts, start{len(t.bytes), v}) }

func (t *encoded) put(v *value) {
	t.mark(v)
	switch v.kind {
	case kindText:
		t.bytes = append(t.bytes, jsonText(v.text)...)
	case kindList, kindMap:
		brackets := "[]"
		if v.kind == kindMap {
			brackets = "{}"
		}
		t.bytes = append(t.bytes, brackets[0])
		for i, c := range v.present() {
			if i > 0 {
				t.bytes = append(t.bytes, ',')
			}
			if v.kind == kindMap {
				t.mark(c)
				t.bytes = append(append(t.bytes, jsonText(c.key)...), ':')
			}
			t.put(c)
		}
		t.bytes = append(t.bytes, brackets[1])
	default:
		t.bytes = append(t.bytes, v.text...)
	}
}

// at returns the value that begins at an offset, or the last one that begins before it.
func (t *encoded) at(offset int) *value {
	i := sort.Search(len(t.starts), func(i int) bool { return t.starts[i].offset > offset })
	return t.starts[max(i-1, 0)].value
}

// jsonText returns s as JSON writes it.
func jsonText(s string) []byte {
	written, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always has a JSON form
	}
	return written
}

// jsonNumber returns a number as JSON writes it. isNumber is false for infinity and what is no number.
func jsonNumber(number any) (written string, isNumber bool) {
	b, err := json.Marshal(number)
	return string(b), err == nil
}
