package filter

import "testing"

// A status is read from digits alone, and from no more than a status has.
func TestDecimal(t *testing.T) {
	for text, want := range map[string]int{"": 0, "0": 0, "7": 7, "200": 200, "599": 599, "1001": 1001, "9999": 9999,
		"20a": 0, "a20": 0, "2 0": 0, "-1": 0, "+1": 0, "20/": 0, "20:": 0, "99999999999999999999": 0} {
		if got := decimal([]byte(text)); got != want {
			t.Errorf("%q is %d, want %d", text, got, want)
		}
	}
}
