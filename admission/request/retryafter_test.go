package request

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/admission"
)

func TestParseRetryAfter(t *testing.T) {
	wall := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]admission.Duration{
		"":                              0,
		"0":                             0,
		"1":                             admission.Second,
		" 120 ":                         2 * admission.Minute,
		"600":                           10 * admission.Minute,
		"601":                           10 * admission.Minute,
		"999999999999999999999999":      10 * admission.Minute,
		"-1":                            0,
		"1.5":                           2 * admission.Second,
		"4.000":                         4 * admission.Second,
		"0.0001":                        admission.Second,
		"599.5":                         10 * admission.Minute,
		"1.":                            0,
		"1.5s":                          0,
		"1,5":                           0,
		"soon":                          0,
		"Sun, 01 Mar 2026 12:00:07 GMT": 7 * admission.Second,
		"Sun, 01 Mar 2026 12:00:00 GMT": 0,
		"Sat, 28 Feb 2026 12:00:00 GMT": 0,
		"Fri, 01 Jan 2100 00:00:00 GMT": 10 * admission.Minute,
		"Sun, 01 Foo 2026 12:00:07 GMT": 0,
		"Sun, 01 Mar 2026 12:00:07 CET": 0,
		"Sun, 0x Mar 2026 12:00:07 GMT": 0,
	} {
		require.Equal(t, want, ParseRetryAfter(value, wall.Unix()), "%q", value)
	}
}

func TestFinding_B5_RetryAfterInMilliseconds(t *testing.T) {
	for value, want := range map[string]admission.Duration{"4500": 5 * admission.Second, "1": admission.Second, "0": 0, " 2000 ": 2 * admission.Second,
		"1500.25": 2 * admission.Second, "99999999999999999999": 10 * admission.Minute, "": 0, "-1": 0, "soon": 0, "1e3": 0} {
		require.Equal(t, want, ParseRetryAfterMillis(value), "%q", value)
	}
}

func TestHTTPDatesAgreeWithTheStandardLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "at"), 0).UTC()
		got, ok := parseHTTPDate(at.Format(http.TimeFormat))
		require.True(t, ok)
		require.Equal(t, at.Unix(), got)
	})
}

func FuzzParseRetryAfter(f *testing.F) {
	f.Add("1", int64(0))
	f.Add("Sun, 06 Nov 1994 08:49:37 GMT", int64(784111770))
	f.Fuzz(func(t *testing.T, value string, wall int64) {
		d := ParseRetryAfter(value, wall)
		require.True(t, d >= 0 && d <= admission.MaxHold)
	})
}
