package admission

import (
	"strconv"

	"github.com/headgate/headgate/admission/internal/text"
)

// A Duration is a span of monotonic time in nanoseconds. It stands in for time.Duration, which would link the time
// package's timers into the wasm module.
type Duration int64

// Units of Duration.
const (
	Microsecond Duration = 1000
	Millisecond          = 1000 * Microsecond
	Second               = 1000 * Millisecond
	Minute               = 60 * Second
	Hour                 = 60 * Minute
)

// MaxDuration is the longest Duration.
const MaxDuration = Duration(1<<63 - 1)

// The units of Go's duration syntax from the largest. A name comes after those that it begins with.
var durationUnits = [...]struct {
	name string
	unit Duration
}{
	{"h", Hour}, {"m", Minute}, {"s", Second}, {"ms", Millisecond},
	{"us", Microsecond}, {"µs", Microsecond}, {"μs", Microsecond}, {"ns", 1},
}

// A DurationProblem is what is wrong with the text of a duration.
type DurationProblem uint8

// The problems.
const (
	DurationFine     DurationProblem = iota // nothing
	DurationNone                            // not a duration at all
	DurationNegative                        // a duration below zero
	DurationHuge                            // a duration that no Duration can hold
)

// ParseDuration reads Go's duration syntax, e.g. "1h30m", "1.5s", "250ms", "0": numbers with their units, which it adds
// up. A plus sign is refused.
func ParseDuration(s string) (total Duration, problem DurationProblem) {
	s, minus := text.CutPrefix(s, "-")
	if s == "0" {
		return 0, DurationFine
	}
	if s == "" {
		return 0, DurationNone
	}
	for s != "" {
		var whole, fraction string
		if whole, s = text.CutDigits(s); text.HasPrefix(s, ".") {
			fraction, s = text.CutDigits(s[1:])
		}
		unit, length := Duration(0), 0
		for i := range durationUnits {
			if u := &durationUnits[i]; text.HasPrefix(s, u.name) {
				unit, length = u.unit, len(u.name)
			}
		}
		s = s[length:]
		if unit == 0 || whole == "" && fraction == "" {
			return 0, DurationNone
		}
		number, ok := text.ParseDigits(whole, int64(MaxDuration/unit))
		n := Duration(number)
		part := fractionOf(fraction, unit)
		if !ok || n*unit > MaxDuration-part || total > MaxDuration-part-n*unit {
			problem = DurationHuge // what follows may still be no duration
			total = 0
			continue
		}
		total += n*unit + part
	}
	if minus && (problem == DurationHuge || total > 0) {
		return 0, DurationNegative
	}
	if problem != DurationFine {
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

// String is d as configuration writes it, shortest form: "1h30m", "5s", "1.5s", "250ms", "0s". Parsing it gives d back.
// Less than a minute is written in the largest unit that leaves a whole part.
func (d Duration) String() string {
	rest := uint64(d)
	var b []byte
	if d < 0 {
		b, rest = text.Put(b, "-"), -rest
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
			b = text.Put(b, ".")
			for ; rest > 0; rest %= unit {
				rest *= 10
				b = strconv.AppendUint(b, rest/unit, 10)
			}
		}
		b = text.Put(b, u.name)
	}
	return string(b)
}
