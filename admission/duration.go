package admission

import (
	"strconv"
)

const maxDuration = Duration(1<<63 - 1)

// The units of Go's duration syntax, each name before the names that it begins with.
var durationUnits = [...]struct {
	name string
	unit Duration
}{
	{"ns", 1}, {"us", Microsecond}, {"µs", Microsecond}, {"μs", Microsecond}, {"ms", Millisecond},
	{"s", Second}, {"m", Minute}, {"h", Hour},
}

// The outcomes of parseDuration.
type durationProblem uint8

const (
	durationFine     durationProblem = iota
	durationNone                     // not a duration at all
	durationNegative                 // a duration below zero
	durationHuge                     // a duration that no Duration can hold
)

// parseDuration reads Go's duration syntax, e.g. "1h30m", "1.5s", "250ms", "0". A plus sign is refused.
func parseDuration(s string) (Duration, durationProblem) {
	rest, negative := cutPrefix(s, "-")
	if rest == "0" {
		return 0, durationFine
	}
	total, problem := parseDurationParts(rest)
	if negative && problem != durationNone && (problem == durationHuge || total > 0) {
		return 0, durationNegative
	}
	return total, problem
}

// parseDurationParts reads one or more numbers with their units and adds them up.
func parseDurationParts(s string) (total Duration, problem durationProblem) {
	if s == "" {
		return 0, durationNone
	}
	for s != "" {
		d, rest, p := parseDurationPart(s)
		if p == durationNone {
			return 0, durationNone
		}
		if p == durationHuge || total > maxDuration-d {
			problem, d = durationHuge, 0 // what follows may still be no duration
		}
		total, s = total+d, rest
	}
	if problem != durationFine {
		return 0, problem
	}
	return total, durationFine
}

// parseDurationPart reads one number and its unit off the front of s.
func parseDurationPart(s string) (d Duration, rest string, problem durationProblem) {
	whole, s := cutDigits(s)
	fraction := ""
	if hasPrefix(s, ".") {
		fraction, s = cutDigits(s[1:])
	}
	if whole+fraction == "" {
		return 0, "", durationNone
	}
	for _, u := range durationUnits {
		if rest, ok := cutPrefix(s, u.name); ok {
			d, problem = scaleDuration(whole, fraction, u.unit)
			return d, rest, problem
		}
	}
	return 0, "", durationNone
}

// scaleDuration is (whole + 0.fraction) * unit, rounded down to a nanosecond.
func scaleDuration(whole, fraction string, unit Duration) (Duration, durationProblem) {
	n, ok := parseDigits(whole, maxDuration/unit)
	if !ok {
		return 0, durationHuge
	}
	part := fractionOf(fraction, unit)
	if n*unit > maxDuration-part {
		return 0, durationHuge
	}
	return n*unit + part, durationFine
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
func (d Duration) String() string { return string(appendDuration(nil, d)) }

func appendDuration(dst []byte, d Duration) []byte {
	rest := uint64(d)
	if d < 0 {
		dst, rest = append(dst, '-'), -rest
	}
	if rest == 0 {
		return append(dst, "0s"...)
	}
	for _, u := range [...]struct {
		name string
		unit uint64
	}{{"h", uint64(Hour)}, {"m", uint64(Minute)}} {
		if rest >= u.unit {
			dst = append(strconv.AppendUint(dst, rest/u.unit, 10), u.name...)
			rest %= u.unit
		}
	}
	return appendSeconds(dst, rest)
}

// appendSeconds renders less than a minute in the largest unit that leaves a whole part; nothing for 0.
func appendSeconds(dst []byte, nanos uint64) []byte {
	for _, u := range [...]struct {
		name string
		unit uint64
	}{{"s", uint64(Second)}, {"ms", uint64(Millisecond)}, {"us", uint64(Microsecond)}, {"ns", 1}} {
		if nanos >= u.unit {
			dst = strconv.AppendUint(dst, nanos/u.unit, 10)
			dst = appendFraction(dst, nanos%u.unit, u.unit)
			return append(dst, u.name...)
		}
	}
	return dst
}

// appendFraction renders part/unit as a decimal fraction without trailing zeros; nothing for 0.
func appendFraction(dst []byte, part, unit uint64) []byte {
	if part > 0 {
		dst = append(dst, '.')
	}
	for part > 0 {
		part *= 10
		dst = append(dst, '0'+byte(part/unit))
		part %= unit
	}
	return dst
}
