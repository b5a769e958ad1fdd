package filter_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Some providers say it in milliseconds, perhaps beside Retry-After. The longer one counts.
func TestFinding_B5_RetryAfterInMilliseconds(t *testing.T) {
	for want, headers := range map[time.Duration][]string{
		5 * second: {"retry-after-ms", "4500"},
		7 * second: {"retry-after-ms", "1500", "retry-after", "7"},
		9 * second: {"retry-after", "1", "retry-after-ms", "8001"},
		second:     {"retry-after-ms", "soon"},
	} {
		g := start(t, 2, config(pool("model", 1, "queue", 1, "max_wait", "1h", "hold", object{"failure": "1s"})))
		a, w := g.sendModel(0, "m"), g.sendModel(1, "m")
		answer(429, headers...)(a)
		require.Equal(t, want, g.after("the waiter runs", func() bool { return runs(w) }), headers)
	}
}

func TestCase_O25_RetryAfterValues(t *testing.T) {
	date := func(d time.Duration) func(*gateway) string {
		return func(g *gateway) string { return g.host.WallTime().Add(d).Format(http.TimeFormat) }
	}
	value := func(s string) func(*gateway) string { return func(*gateway) string { return s } }
	for name, c := range map[string]struct {
		value func(*gateway) string
		want  time.Duration
	}{
		"none of ours":     {value(""), second},
		"longer":           {value("30"), 30 * second},
		"with spaces":      {value(" 30 "), 30 * second},
		"shorter":          {value("1"), second},
		"0":                {value("0"), second},
		"000":              {value("000"), second},
		"negative":         {value("-1"), second},
		"-0":               {value("-0"), second},
		"a fraction":       {value("5.5"), 6 * second},
		"half a fraction":  {value("5."), second},
		"a small fraction": {value("0.001"), second},
		"a unit":           {value("5s"), second},
		"nonsense":         {value("soon"), second},
		"not ASCII":        {value("٣٠"), second},
		"10 minutes":       {value("600"), 10 * minute},
		"more":             {value("601"), 10 * minute},
		"huge":             {value("999999999"), 10 * minute},
		"2^63":             {value("9223372036854775808"), 10 * minute},
		"2^64 and more":    {value("99999999999999999999999999999999"), 10 * minute},
		"a date":           {date(90 * second), 90 * second},
		"a date in a year": {date(365 * 24 * time.Hour), 10 * minute},
		"a date just gone": {date(-second), second},
		"a date long gone": {value("Sun, 06 Nov 1994 08:49:37 GMT"), second},
		"a date of now":    {date(0), second},
		"no such date":     {value("Sun, 99 Nov 2094 08:49:37 GMT"), second},
		"a cut date":       {value("Sun, 06 Nov 2094 08:49:37"), second},
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, 2, config(pool("model", 1, "queue", 1, "max_wait", "1h", "hold", object{"failure": "1s"})))
			a, w := g.sendModel(0, "m"), g.sendModel(1, "m")
			g.host.Run(second - g.host.Elapsed()) // a whole second of the wall clock
			answer(429, "retry-after", c.value(g))(a)
			g.host.StepWallClock(8 * time.Hour) // the hold itself is on the other clock
			require.Equal(t, c.want, g.after("the waiter runs", func() bool { return runs(w) }))
		})
	}
}
