package request

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/config"
)

const millisHeader = "x-request-timeout-ms"

func named(header string) *config.DeadlineHeader { return &config.DeadlineHeader{Name: header} }

func TestDeadlineForms(t *testing.T) {
	const bad = admission.Duration(-1)
	for _, c := range []struct {
		header, value string
		want          admission.Duration
	}{
		{millisHeader, "400", 400 * admission.Millisecond},
		{millisHeader, "0", 0},
		{millisHeader, "007", 7 * admission.Millisecond},
		{millisHeader, "10s", 10 * admission.Second},
		{millisHeader, "250ms", 250 * admission.Millisecond},
		{millisHeader, "1h30m", 90 * admission.Minute},
		{millisHeader, "10S", 10 * admission.Second},
		{millisHeader, "10H", 10 * admission.Hour},
		{millisHeader, "10M", 10 * admission.Minute},
		{millisHeader, "10u", 10 * admission.Microsecond},
		{millisHeader, "10n", 10},
		{millisHeader, "5m", 5 * admission.Minute},
		{millisHeader, "0s", 0},
		{millisHeader, "-5s", bad}, {millisHeader, "-0", bad}, {millisHeader, "-0s", bad}, {millisHeader, "+5", bad}, {millisHeader, "0x10", bad},
		{millisHeader, "500,600", bad}, {millisHeader, "5 00", bad}, {millisHeader, "12 parsecs", bad}, {millisHeader, "abc", bad}, {millisHeader, "123456789S", bad},
		{"grpc-timeout", "400m", 400 * admission.Millisecond},
		{"grpc-timeout", "4S", 4 * admission.Second},
		{"grpc-timeout", "5m", 5 * admission.Millisecond},
		{"grpc-timeout", "7u", 7 * admission.Microsecond},
		{"grpc-timeout", "7n", 7},
		{"grpc-timeout", "2M", 2 * admission.Minute},
		{"grpc-timeout", "2H", 2 * admission.Hour},
		{"grpc-timeout", "0m", 0},
		{"grpc-timeout", "99999999S", 99999999 * admission.Second},
		{"grpc-timeout", "400", bad}, {"grpc-timeout", "123456789S", bad}, {"grpc-timeout", "12X", bad}, {"grpc-timeout", "S", bad},
		{"grpc-timeout", "10s", bad}, {"grpc-timeout", "1.5S", bad}, {"grpc-timeout", "-1S", bad}, {"grpc-timeout", "5ms", bad}, {"grpc-timeout", "", bad},
	} {
		d, ok := ParseDeadline(named(c.header), c.value)
		require.Equal(t, c.want != bad, ok, "%s: %q", c.header, c.value)
		if ok {
			require.Equal(t, c.want, d, "%s: %q", c.header, c.value)
		}
	}
}

func TestCase_O09_DeadlineNeverWraps(t *testing.T) {
	for _, huge := range []string{"9223372036854775807", "9223372036854775808", "99999999999999", "999999999999999999999999999999", "99999999H", "9999999999h", "2562047h48m"} {
		d, ok := ParseDeadline(named(millisHeader), huge)
		require.True(t, ok, huge)
		require.Greater(t, d, 1000*24*admission.Hour, huge)
		require.LessOrEqual(t, d, MaxDeadline, huge)
	}
	d, ok := ParseDeadline(named("grpc-timeout"), "99999999H")
	require.True(t, ok)
	require.Equal(t, MaxDeadline, d)
	for _, bad := range []string{"-1", "", " ", "1e9", "1.5", "٥٠٠", "５００", "-9223372036854775808", "500\x00", "NaN"} {
		_, ok := ParseDeadline(named(millisHeader), bad)
		require.False(t, ok, "%q", bad)
	}
	for value, want := range map[string]admission.Duration{"0": 0, " 500 ": 500 * admission.Millisecond, "\t500": 500 * admission.Millisecond, "500ms": 500 * admission.Millisecond} {
		d, ok := ParseDeadline(named(millisHeader), value)
		require.True(t, ok, "%q", value)
		require.Equal(t, want, d, "%q", value)
	}
}

func TestDeadlineAppend(t *testing.T) {
	for _, c := range []struct {
		header, original string
		remaining        admission.Duration
		want             string
	}{
		{millisHeader, "4000", 3700*admission.Millisecond + 999*admission.Microsecond, "3700"},
		{millisHeader, "4000", 1, "1"},
		{millisHeader, "4000", 0, "0"},
		{millisHeader, "4000", -admission.Second, "0"},
		{millisHeader, "99999999999999999", MaxDeadline, "2305843009213"},
		{millisHeader, "4s", 3700 * admission.Millisecond, "3700ms"},
		{millisHeader, "5m", 2 * admission.Minute, "120000ms"},
		{millisHeader, "4S", 3700*admission.Millisecond + 1, "3700000u"},
		{millisHeader, "200S", 199*admission.Second + 1, "199S"},
		{millisHeader, "4S", 10, "1000u"},
		{millisHeader, "4S", 0, "0u"},
		{millisHeader, "junk", 1500 * admission.Millisecond, "1500"},
		{"grpc-timeout", "4S", 3700*admission.Millisecond + 999, "3700m"},
		{"grpc-timeout", "4S", 1, "1m"},
		{"grpc-timeout", "4S", 0, "0m"},
		{"grpc-timeout", "99H", 99_999_999 * admission.Millisecond, "99999999m"},
		{"grpc-timeout", "99H", 100_000_000 * admission.Millisecond, "100000S"},
		{"grpc-timeout", "99999999S", 99_999_999*admission.Second + 999*admission.Millisecond, "99999999S"},
		{"grpc-timeout", "99999999M", 100_000_000 * admission.Second, "1666666M"},
		{"grpc-timeout", "99999999H", admission.MaxDuration, "2562047H"},
		{"grpc-timeout", "junk", admission.Second, "1000m"},
	} {
		require.Equal(t, "x"+c.want, string(AppendDeadline([]byte("x"), named(c.header), c.original, c.remaining)), "%s: %s, %v left", c.header, c.original, c.remaining)
	}
}

// FuzzParseDeadline: what is rendered parses as the same form, and never as more than what was left (1 ms at least).
func FuzzParseDeadline(f *testing.F) {
	for _, s := range []string{"400", "4S", "400m", "1.5s", "1h", "99999999H", "9223372036854775808", " 500 ", "-1", "1e9", "٥"} {
		f.Add(s, int64(1500*admission.Millisecond))
	}
	f.Fuzz(func(t *testing.T, value string, left int64) {
		for _, header := range []string{millisHeader, "grpc-timeout"} {
			d, form, ok := parseDeadline(named(header), value)
			require.GreaterOrEqual(t, d, admission.Duration(0))
			if !ok {
				continue
			}
			d, _ = ParseDeadline(named(header), value)
			require.LessOrEqual(t, d, MaxDeadline)
			remaining := min(admission.Duration(left), d)
			out := string(AppendDeadline(nil, named(header), value, remaining))
			got, again, ok := parseDeadline(named(header), out)
			require.True(t, ok, out)
			require.Equal(t, form, again, out)
			switch {
			case remaining <= 0:
				require.Zero(t, got, out)
			case remaining < admission.Millisecond:
				require.Equal(t, admission.Millisecond, got, out)
			default:
				require.LessOrEqual(t, got, remaining, out)
				require.Greater(t, got, remaining-max(admission.Millisecond, remaining/90), out)
			}
		}
	})
}

func TestDeadlineGRPCFormIsLegal(t *testing.T) {
	legal := regexp.MustCompile(`^\d{1,8}[HMSmun]$`)
	rapid.Check(t, func(t *rapid.T) {
		d := admission.Duration(rapid.Int64().Draw(t, "left"))
		require.Regexp(t, legal, string(AppendDeadline(nil, named("grpc-timeout"), "1S", d)))
		require.Regexp(t, legal, string(AppendDeadline(nil, named(millisHeader), "1S", d)))
	})
}

// Some clients write seconds: OpenAI's and Anthropic's in x-stainless-read-timeout.
func TestFinding_C12_DeadlinesInSeconds(t *testing.T) {
	h := &config.DeadlineHeader{Name: "x-stainless-read-timeout", Seconds: true}
	for value, want := range map[string]admission.Duration{"600": 10 * admission.Minute, "0": 0, "4.5": 4500 * admission.Millisecond,
		"0.0005": 500 * admission.Microsecond, "1.1234567899": 1_123_456_789, " 60 ": admission.Minute, "99999999999999999999": MaxDeadline,
		"9223372036.854775807": MaxDeadline, "9223372036.999": MaxDeadline, "250ms": 250 * admission.Millisecond, "10S": 10 * admission.Second} {
		d, ok := ParseDeadline(h, value)
		require.True(t, ok, value)
		require.Equal(t, want, d, value)
	}
	for _, value := range []string{"", ".", "5.", ".5", "1.2.3", "-1", "-0", "1e3", "1,5", "4.5x", "not_given"} {
		_, ok := ParseDeadline(h, value)
		require.False(t, ok, value)
	}
	left := 3_456_789 * admission.Microsecond
	for original, want := range map[string]string{"600": "3.456", "600.5": "3.456", "10m": "3456ms", "60S": "3456789u"} {
		require.Equal(t, want, string(AppendDeadline(nil, h, original, left)), original)
	}
	require.Equal(t, "0.001", string(AppendDeadline(nil, h, "600", 1)))
	require.Equal(t, "0.000", string(AppendDeadline(nil, h, "600", 0)))
}
