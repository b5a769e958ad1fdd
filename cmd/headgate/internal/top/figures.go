package top

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// millis is a duration in a few characters: 740ms, 1.2s, 12s, 3m, 2h.
func millis(ms int64) string {
	switch {
	case ms < 0:
		return "0ms"
	case ms < 1000:
		return strconv.FormatInt(ms, 10) + "ms"
	case ms < 9950:
		return strconv.FormatFloat(float64(ms)/1000, 'f', 1, 64) + "s"
	case ms < 120_000:
		return strconv.FormatInt((ms+500)/1000, 10) + "s"
	case ms < 120*60_000:
		return strconv.FormatInt(ms/60_000, 10) + "m"
	}
	return strconv.FormatInt(ms/3_600_000, 10) + "h"
}

// until is how long it takes to something, in words: 120 ms, 12 s, 3 min. Parts of a second or minute count as a whole
// one.
func until(ms int64) string {
	switch ms = max(0, ms); {
	case ms < 1000:
		return fmt.Sprintf("%d ms", ms)
	case ms < 120_000:
		return fmt.Sprintf("%d s", (ms+999)/1000)
	}
	return fmt.Sprintf("%d min", (ms+59_999)/60_000)
}

// lasted is how long something has taken, in words: 740 ms, 2.5 s, 12 s.
func lasted(ms int64) string {
	text := millis(ms)
	unit := strings.TrimLeft(text, "0123456789.")
	number := strings.TrimSuffix(text, unit)
	if unit == "m" {
		unit = "min"
	}
	return number + " " + unit
}

// counted is a number of things.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return grouped(uint64(max(0, n))) + " " + thing + "s"
}

// grouped is a number with a comma before each three digits.
func grouped(n uint64) string {
	text := strconv.FormatUint(n, 10)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// clock is a time of day.
func clock(t time.Time) string { return t.Format("15:04:05") }
