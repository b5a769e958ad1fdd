package admission

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestDurationParse(t *testing.T) {
	for _, c := range []struct {
		text string
		want Duration
		p    DurationProblem
	}{
		{"5s", 5 * Second, 0},
		{"250ms", 250 * Millisecond, 0},
		{"1h30m", 90 * Minute, 0},
		{"1.5s", 1500 * Millisecond, 0},
		{".5s", 500 * Millisecond, 0},
		{"1.s", Second, 0},
		{"1us", Microsecond, 0}, {"1µs", Microsecond, 0}, {"1μs", Microsecond, 0},
		{"0", 0, 0}, {"0s", 0, 0}, {"-0", 0, 0}, {"-0s", 0, 0},
		{"2562047h47m16.854775807s", math.MaxInt64, 0},
		{"2562047h47m16.854775808s", 0, DurationHuge},
		{"2562047h48m", 0, DurationHuge},
		{"9223372036.9s", 0, DurationHuge},
		{"9999999999999h", 0, DurationHuge},
		{"99999999999999999999999999999999s", 0, DurationHuge},
		{"9999999999999h1x", 0, DurationNone},
		{"-9999999999999h", 0, DurationNegative},
		{"-5s", 0, DurationNegative},
		{"", 0, DurationNone}, {"5", 0, DurationNone}, {"s", 0, DurationNone}, {".s", 0, DurationNone}, {"-", 0, DurationNone},
		{"5 s", 0, DurationNone}, {" 5s", 0, DurationNone}, {"5parsecs", 0, DurationNone}, {"5S", 0, DurationNone}, {"+5s", 0, DurationNone},
		{"--5s", 0, DurationNone}, {"5s-1s", 0, DurationNone}, {"5s0", 0, DurationNone}, {"1e3s", 0, DurationNone}, {"٥s", 0, DurationNone}, {"soon", 0, DurationNone},
	} {
		d, p := ParseDuration(c.text)
		require.Equal(t, c.p, p, c.text)
		require.Equal(t, c.want, d, c.text)
	}
}

func TestDurationString(t *testing.T) {
	for want, d := range map[string]Duration{
		"0s": 0, "5s": 5 * Second, "1h30m": 90 * Minute, "24h": 24 * Hour, "250ms": 250 * Millisecond, "1.5s": 1500 * Millisecond, "1h1ms": Hour + Millisecond,
		"1us": Microsecond, "1ns": 1, "-5s": -5 * Second, "2562047h47m16.854775807s": math.MaxInt64, "-2562047h47m16.854775808s": math.MinInt64,
	} {
		require.Equal(t, want, d.String())
	}
}

func TestDurationRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Duration(rapid.Int64Min(0).Draw(t, "d"))
		got, p := ParseDuration(d.String())
		require.Equal(t, DurationFine, p, d.String())
		require.Equal(t, d, got)
		std, err := time.ParseDuration(d.String())
		require.NoError(t, err)
		require.Equal(t, int64(d), int64(std))
	})
}

// FuzzDuration holds the parser against time.ParseDuration, whose fractions are off by a nanosecond at times.
func FuzzDuration(f *testing.F) {
	for _, s := range []string{"1h30m", "1.5s", "-3ms", "2562047h47m16.854775808s", "0", "1µs", "1.0000000000000000000000000001h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, p := ParseDuration(s)
		require.GreaterOrEqual(t, d, Duration(0))
		std, err := time.ParseDuration(s)
		switch {
		case err != nil:
			require.NotEqual(t, DurationFine, p)
		case s[0] == '+':
			require.Equal(t, DurationNone, p)
		case std < 0:
			require.Equal(t, DurationNegative, p)
		case p == DurationFine:
			require.InDelta(t, int64(std), int64(d), float64(len(s)))
		default:
			require.Greater(t, int64(std), int64(MaxDuration)-int64(len(s)), "refused: %q", s)
		}
	})
}
