package admission_test

import (
	"testing"

	"github.com/headgate/headgate/admission"
)

func TestDirectory(t *testing.T) {
	var d admission.Directory
	a, b := d.Add("a"), d.Add("b")
	if a.Slot != 0 || b.Slot != 1 || a.Gen == 0 || b.Gen <= a.Gen {
		t.Fatalf("%v %v", a, b)
	}
	d.Decode(d.Append(nil))
	if p, ok := d.Lookup("b"); !ok || p != b || d.Len() != 2 {
		t.Fatalf("%v %v", p, ok)
	}
	d.RaiseGen(100) // a record has been seen at that
	c := d.Assign(0, "c")
	if c.Slot != 0 || c.Gen != 101 {
		t.Errorf("%v", c)
	}
	if _, ok := d.Lookup("a"); ok {
		t.Error("a still has its place")
	}
	d.Vacate(1)
	if _, ok := d.Lookup("b"); ok {
		t.Error("b still has its place")
	}
	if name, p := d.At(1); name != "" || p.Gen != 102 || d.Len() != 2 {
		t.Errorf("%q %v", name, p)
	}
	if n := d.CountUnconfigured(map[string]int{"c": 1}); n != 1 {
		t.Errorf("%d unconfigured keys", n)
	}
	bytes := d.Append(nil)
	for n := range bytes {
		d.Decode(bytes[:n])
	}
	bytes[0]++
	if d.Decode(bytes); d.Len() != 0 {
		t.Error("another version's directory was read")
	}
}
