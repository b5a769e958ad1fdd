package request

import (
	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/internal/text"
)

// ParseRetryAfter reads the value of a Retry-After header: seconds, which some providers write with a fraction, or a
// date in HTTP's preferred format. wall is the present time in seconds since 1970. The result is in whole seconds,
// rounded up; 0 for an empty or malformed value, a negative number and a past date. It is at most admission.MaxHold.
func ParseRetryAfter(value string, wall int64) admission.Duration {
	value = text.Trim(value, " \t")
	if value == "" {
		return 0
	}
	if text.IsDigit(value[0]) {
		return wholeSeconds(parseSeconds(value))
	}
	at, ok := parseHTTPDate(value)
	if !ok || at <= wall {
		return 0
	}
	seconds := min(at-wall, int64(admission.MaxHold/admission.Second))
	return min(admission.Duration(seconds)*admission.Second, admission.MaxHold)
}

// ParseRetryAfterMillis reads the value of a retry-after-ms header: milliseconds, perhaps with a fraction. OpenAI and
// Azure send it beside Retry-After. The result is that of ParseRetryAfter.
func ParseRetryAfterMillis(value string) admission.Duration {
	return wholeSeconds(parseDecimal(text.Trim(value, " \t"), admission.Millisecond))
}

// wholeSeconds rounds up, to admission.MaxHold at most. What could not be read is 0.
func wholeSeconds(d admission.Duration, ok bool) admission.Duration {
	if !ok {
		return 0
	}
	d = min(d, admission.MaxHold)
	return (d + admission.Second - 1) / admission.Second * admission.Second
}

// parseHTTPDate reads RFC 9110's IMF-fixdate, e.g. "Sun, 06 Nov 1994 08:49:37 GMT", into seconds since 1970.
func parseHTTPDate(s string) (seconds int64, ok bool) {
	const example = "Sun, 06 Nov 1994 08:49:37 GMT"
	if len(s) != len(example) || s[3:5] != ", " || s[7] != ' ' || s[11] != ' ' || s[16] != ' ' || s[19] != ':' ||
		s[22] != ':' || s[25:] != " GMT" {
		return 0, false
	}
	month := text.Index("JanFebMarAprMayJunJulAugSepOctNovDec", s[8:11])
	day, hour, minute, second := twoDigits(s[5:]), twoDigits(s[17:]), twoDigits(s[20:]), twoDigits(s[23:])
	year := twoDigits(s[12:])*100 + twoDigits(s[14:])
	if month%3 != 0 || day < 1 || day > 31 || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 ||
		second > 60 || year < 1970 {
		return 0, false
	}
	return ((daysBefore(year, month/3+1)+int64(day)-1)*24+int64(hour))*3600 + int64(minute)*60 + int64(second), true
}

// twoDigits returns the value of two decimal digits, or a number below the least of every field of a date.
func twoDigits(s string) int {
	if !text.IsDigit(s[0]) || !text.IsDigit(s[1]) {
		return -1000
	}
	return int(s[0]-'0')*10 + int(s[1]-'0')
}

// daysBefore returns the number of days from 1970-01-01 to the first day of a month. It counts a year from March on, so
// that a leap year's day is the last one of its year.
func daysBefore(year, month int) int64 {
	if month < 3 {
		year, month = year-1, month+12
	}
	return int64(365*year + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 - 719468)
}
