package top

import (
	"strings"
	"testing"
	"unicode"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestNamesAsTheyAreShown(t *testing.T) {
	for name, want := range map[string]string{
		"":                   "",
		"gpt-4o":             "gpt-4o",
		"日本語":                "日本語",
		"été":                "été",
		"e\u0301":            "e\u0301",
		"\u0301a":            `\u0301a`,
		"🚀":                  "🚀",
		"👨‍👩":                `👨\u200d👩`,
		"❤\ufe0f":            `❤\ufe0f`,
		"a\x1b[31mb":         `a\x1b[31mb`,
		"a\nb\r\t\x00\x7f":   `a\nb\r\t\x00\x7f`,
		"\u202eabc":          `\u202eabc`,
		"\u009b1m":           `\u009b1m`,
		"\u00a0\u3000\u2028": `\u00a0\u3000\u2028`,
		"שלום":               "שלום\u200e",
		"\xff":               "�",
	} {
		require.Equal(t, want, shown(name), "%q", name)
	}
}

// All ways to count its width agree about a shown name, no character of it moves anything, and what doesn't fit is cut
// to exactly the cells that there are.
func TestShownNamesHaveTheWidthThatTheyTake(t *testing.T) {
	runes := []rune("aZ0 é日🚀👨❤שعि\u0301\u0300\u200d\ufe0f\U0001f3fb🇩🇪\u202e\u2066\x1b\x9b\n\t\x00\u200b\u00ad\u1100\u1161")
	rapid.Check(t, func(t *rapid.T) {
		name := string(rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(runes), rapid.Rune()), 0, 60).Draw(t, "name"))
		text := shown(name)
		body := strings.TrimSuffix(text, leftToRight)
		require.Equal(t, ansi.StringWidth(text), ansi.StringWidthWc(text), "%q", text)
		for _, r := range body {
			require.True(t, unicode.IsPrint(r), "%q", text)
		}
		width := rapid.IntRange(0, 40).Draw(t, "width")
		require.Equal(t, width, widthOf(fitted(text, width)), "%q in %d", text, width)
		require.LessOrEqual(t, widthOf(cutEnd(text, width)), width)
	})
}

func TestDurationsAreShort(t *testing.T) {
	for ms, want := range map[int64][2]string{
		-5:         {"0ms", "0 ms"},
		0:          {"0ms", "0 ms"},
		999:        {"999ms", "999 ms"},
		1000:       {"1.0s", "1 s"},
		9949:       {"9.9s", "10 s"},
		9950:       {"10s", "10 s"},
		12_001:     {"12s", "13 s"},
		119_999:    {"120s", "120 s"},
		120_000:    {"2m", "2 min"},
		7_199_999:  {"119m", "120 min"},
		7_200_000:  {"2h", "120 min"},
		36_000_000: {"10h", "600 min"},
	} {
		require.Equal(t, want, [2]string{millis(ms), until(ms)}, ms)
	}
	require.Equal(t, []string{"740 ms", "2.5 s", "12 s", "3 min", "2 h"},
		[]string{lasted(740), lasted(2499), lasted(12_345), lasted(200_000), lasted(7_300_000)})
	require.Equal(t, "1,234,567 keys", counted(1234567, "key"))
	require.Equal(t, "1 key", counted(1, "key"))
	require.Equal(t, "0 keys", counted(0, "key"))
}
