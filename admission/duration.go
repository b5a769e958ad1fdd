package admission

import "strconv"

const maxDuration = Duration(1<<63 - 1)

// The units of Go's duration syntax from the largest. A name comes after those that it begins with.
var durationUnits = [...]struct {
	name string
	unit Duration
}{
	{"h", Hour}, {"m", Minute}, {"s", Second}, {"ms", Millisecond},
	{"us", Microsecond}, {"µs", Microsecond}, {"μs", Microsecond}, {"ns", 1},
}

// The outcomes of parseDuration.
type durationProblem uint8

const (
	durationFine     durationProblem = iota
	durationNone                     // not a duration at all
	durationNegative                 // a duration below zero
	durationHuge                     // a duration that no Duration can hold
)

// parseDuration reads Go's duration syntax, e.g. "1h30m", "1.5s", "250ms", "0": numbers with their units, which it adds
// up. A plus sign is refused.
func parseDuration(s string) (total Duration, problem durationProblem) {
	s, minus := cutPrefix(s, "-")
	if s == "0" {
		return 0, durationFine
	}
	if s == "" {
		return 0, durationNone
	}
	for s != "" {
		var whole, fraction string
		if whole, s = cutDigits(s); hasPrefix(s, ".") {
			fraction, s = cutDigits(s[1:])
		}
		unit, length := Duration(0), 0
		for i := range durationUnits {
			if u := &durationUnits[i]; hasPrefix(s, u.name) {
				unit, length = u.unit, len(u.name)
			}
		}
		s = s[length:]
		if unit == 0 || whole == "" && fraction == "" {
			return 0, durationNone
		}
		n, ok := parseDigits(whole, maxDuration/unit)
		part := fractionOf(fraction, unit)
		if !ok || n*unit > maxDuration-part || total > maxDuration-part-n*unit {
			problem = durationHuge // what follows may still be no duration
			total = 0
			continue
		}
		total += n*unit + part
	}
	if minus && (problem == durationHuge || total > 0) {
		return 0, durationNegative
	}
	if problem != durationFine {
		total = 0
	}
	return total, problem
}

// fractionOf is 0.digits * unit, rounded down. Horner's rule from the last digit: rounding each step down rounds the
// whole down, and nothing grows above 10 * unit.
func fractionOf(digits string, unit Duration) (d Duration) {
	for i := len(digits) - 1; i >= 0; i-- {
		d = (d + Duration(digits[i]-'0')*unit) / 10
	}
	return d
}

// cutDigits splits s after its leading ASCII digits.
//
//go:noinline
func cutDigits(s string) (digits, rest string) {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return s[:n], s[n:]
}

// parseDigits is the value of a string of ASCII digits; ok is false when it is above most. No digits are 0.
func parseDigits(digits string, most Duration) (n Duration, ok bool) {
	for i := range len(digits) {
		d := Duration(digits[i] - '0')
		if n > (most-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

// String is d as configuration writes it, shortest form: "1h30m", "5s", "1.5s", "250ms", "0s". Parsing it gives d back.
func (d Duration) String() string { return durationText(d) }

// durationText writes less than a minute in the largest unit that leaves a whole part.
func durationText(d Duration) string {
	rest := uint64(d)
	var b []byte
	if d < 0 {
		b, rest = put(b, "-"), -rest
	}
	if rest == 0 {
		return "0s"
	}
	for i := range durationUnits {
		u := &durationUnits[i]
		unit := uint64(u.unit)
		if rest < unit {
			continue
		}
		b = strconv.AppendUint(b, rest/unit, 10)
		if rest %= unit; rest > 0 && u.unit <= Second {
			b = put(b, ".")
			for ; rest > 0; rest %= unit {
				rest *= 10
				b = strconv.AppendUint(b, rest/unit, 10)
			}
		}
		b = put(b, u.name)
	}
	return string(b)
}
