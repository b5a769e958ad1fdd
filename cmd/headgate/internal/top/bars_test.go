package top

import (
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/cmd/headgate/internal/adminapi"
)

func barOf(key adminapi.Key, width int) string {
	t := themeOf(false, true)
	return ansi.Strip(t.bar(&palette{}, &Key{Key: key}, width))
}

func TestABarShowsWhoHasThePermits(t *testing.T) {
	tenants := []adminapi.Tenant{{Tenant: "acme", Inflight: 5}, {Tenant: "zeta", Inflight: 2}, {Tenant: "idle"}}
	require.Equal(t, "acme 5   │   │▒▒····", barOf(adminapi.Key{Limit: 10, Inflight: 7, OnHold: 1, Tenants: tenants}, 20))
	require.Equal(t, "acme 5          │zeta 2│", barOf(adminapi.Key{Limit: 4, Inflight: 7, Tenants: tenants}, 24),
		"more than the limit run: the bar is what runs")
	require.Equal(t, "acme 5             │4 on hold ▒▒▒▒▒▒····", barOf(adminapi.Key{Limit: 10, Inflight: 5, OnHold: 4, Tenants: tenants[:1]}, 40),
		"a label where there is room")
	require.Equal(t, "acme 5   │4 hold ▒··", barOf(adminapi.Key{Limit: 10, Inflight: 5, OnHold: 4, Tenants: tenants[:1]}, 20))
	require.Equal(t, "··········", barOf(adminapi.Key{Limit: 4}, 10))
	require.Equal(t, "··········", barOf(adminapi.Key{}, 10), "closed")
	require.Equal(t, "acme 5   │ot…rs 4│", barOf(adminapi.Key{Limit: 9, Inflight: 9, Tenants: tenants[:1]}, 18),
		"tenants that are not listed")
	require.Equal(t, "9       │·", barOf(adminapi.Key{Limit: 10, Inflight: 9}, 10), "no tenants")
	require.Equal(t, "1·········", barOf(adminapi.Key{Limit: 1_000_000, Inflight: 1, Tenants: tenants[:0]}, 10),
		"one of a million still has a cell")
}

// However many there are, the segments fill the bar exactly, and each that has anything gets a cell while there are any.
func TestABarIsAsLongAsItShouldBe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := &Key{Key: adminapi.Key{Limit: rapid.IntRange(0, 50).Draw(t, "limit"), OnHold: rapid.IntRange(0, 9).Draw(t, "hold")}}
		for range rapid.IntRange(0, 12).Draw(t, "tenants") {
			n := rapid.IntRange(0, 9).Draw(t, "n")
			key.Inflight += n
			key.Tenants = append(key.Tenants, adminapi.Tenant{Tenant: rapid.StringN(0, 20, 40).Draw(t, "name"), Inflight: n})
		}
		width := rapid.IntRange(0, 60).Draw(t, "width")
		for _, colours := range []bool{true, false} {
			bar := themeOf(colours, true).bar(&palette{given: map[string]int{}}, key, width)
			require.Equal(t, width, widthOf(bar), "%q", bar)
		}
	})
}

func TestSparksHaveTheirTimes(t *testing.T) {
	waits := adminapi.Waits{SlotMillis: 10_000, Slots: []adminapi.Slot{
		{AgeMillis: 0, N: 1, P50: 800}, {AgeMillis: 10_000, N: 1, P50: 100}, {AgeMillis: 590_000, N: 1, P50: 400},
		{AgeMillis: 600_000, N: 1, P50: 800}, {AgeMillis: 300_000}}}
	p50 := percentiles[0].of
	line := []rune(spark(waits, p50, 800, 60))
	require.Len(t, line, 60)
	require.Equal(t, "▅·", string(line[:2]))
	require.Equal(t, "·▂█", string(line[57:]))
	require.Equal(t, '·', line[30], "a slot without a wait")
	half := []rune(spark(waits, p50, 800, 30))
	require.Equal(t, "▅·", string(half[:2]))
	require.Equal(t, "·█", string(half[28:]), "of two slots the higher counts")
	require.Equal(t, "▁▁▁", string([]rune(spark(waits, func(adminapi.Slot) int64 { return 0 }, 0, 180))[177:]))
}
