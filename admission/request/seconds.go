package request

import (
	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/internal/text"
)

// parseSeconds reads a decimal number of seconds, perhaps with a fraction: "600", "4.5". What is below a nanosecond is
// dropped. A number that is too large becomes admission.MaxDuration.
func parseSeconds(value string) (d admission.Duration, ok bool) {
	return parseDecimal(value, admission.Second)
}

// parseDecimal reads a decimal number of a unit, perhaps with a fraction.
func parseDecimal(value string, unit admission.Duration) (d admission.Duration, ok bool) {
	digits, rest := text.CutDigits(value)
	if digits == "" {
		return 0, false
	}
	d = saturate(digits, unit)
	if rest == "" {
		return d, true
	}
	fraction, rest := text.CutDigits(rest[1:])
	if value[len(digits)] != '.' || fraction == "" || rest != "" {
		return 0, false
	}
	for i := 0; i < len(fraction) && unit >= 10; i++ {
		unit /= 10
		d += admission.Duration(fraction[i]-'0') * unit
		if d < 0 {
			return admission.MaxDuration, true
		}
	}
	return d, true
}
