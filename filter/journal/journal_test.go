package journal

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Each wait is in a bucket that begins at it or before, and whose width is a quarter of its beginning or less.
func TestBucketsAreNarrow(t *testing.T) {
	last := 0
	for millis := int64(0); millis < 8_000_000; millis = millis*101/100 + 1 {
		b := BucketOf(millis)
		require.GreaterOrEqual(t, b, last)
		require.Less(t, b, Buckets)
		last = b
		if b < Buckets-1 {
			require.InDelta(t, millis, BucketMillis(b), float64(millis)/8+1, "%d ms", millis)
		}
	}
	require.Equal(t, Buckets-1, BucketOf(1<<40))
	require.Zero(t, BucketOf(-1))
}

func TestEventsAreReadAsTheyWereWritten(t *testing.T) {
	text := rapid.StringN(-1, -1, 300)
	rapid.Check(t, func(t *rapid.T) {
		e := Event{Kind: Kind(rapid.IntRange(0, int(kinds)-1).Draw(t, "kind")), Seq: rapid.Uint32().Draw(t, "seq"),
			At: rapid.Int64Min(0).Draw(t, "at"), Wait: rapid.Int64Range(0, 1<<32-1).Draw(t, "wait"), Duration: rapid.Int64Range(0, 1<<32-1).Draw(t, "duration"),
			Status: rapid.IntRange(0, 999).Draw(t, "status"), Whole: rapid.Bool().Draw(t, "whole"), Limit: rapid.IntRange(0, 1000000).Draw(t, "limit"),
			Before: rapid.IntRange(0, 1000000).Draw(t, "before"), Source: rapid.Byte().Draw(t, "source"), Pool: text.Draw(t, "pool"), Key: text.Draw(t, "key"),
			Tenant: text.Draw(t, "tenant"), Model: text.Draw(t, "model"), Method: text.Draw(t, "method"), Path: text.Draw(t, "path"), Reason: text.Draw(t, "reason")}
		b := e.Append(nil)
		var read Event
		require.True(t, read.Decode(b))
		want := e
		for _, s := range want.texts() {
			*s = (*s)[:min(len(*s), mostText)]
		}
		want.Path = withoutQuery(want.Path)
		require.Equal(t, fmt.Sprint(want), fmt.Sprint(read))
		for n := range b {
			require.False(t, read.Decode(b[:n]), "a part of it")
		}
	})
}

// Of more events than it holds a journal tells the last ones, and of more than there is room for, too.
func TestAJournalTellsTheLastEvents(t *testing.T) {
	var j Journal
	seqs := func(since uint32, room int) (all []uint32) {
		r := Report{Events: j.appendEvents(nil, since, room)}
		r.EachEvent(func(b []byte) {
			var e Event
			require.True(t, e.Decode(b))
			all = append(all, e.Seq)
		})
		return all
	}
	require.Empty(t, seqs(0, 1<<20))
	for range 3 * ringSize {
		j.Note(&Event{Pool: "p"})
	}
	all := seqs(0, 1<<20)
	require.Len(t, all, ringSize)
	require.Equal(t, uint32(3*ringSize), all[ringSize-1])
	require.Equal(t, []uint32{3*ringSize - 1, 3 * ringSize}, seqs(3*ringSize-2, 1<<20))
	require.Empty(t, seqs(3*ringSize, 1<<20))
	require.Len(t, seqs(3*ringSize+7, 1<<20), ringSize, "someone speaks of an earlier journal")
	some := seqs(0, 1000)
	require.NotEmpty(t, some)
	require.Less(t, len(some), 30)
	require.Equal(t, uint32(3*ringSize), some[len(some)-1])
	j.last = 1<<32 - 3 // numbers wrap round after four thousand million
	for range 5 {
		j.Note(&Event{Pool: "p"})
	}
	require.Equal(t, []uint32{1<<32 - 1, 0, 1, 2}, seqs(1<<32-2, 1<<20))
}

// A report stays within its bounds whatever there is to tell.
func TestAReportIsBounded(t *testing.T) {
	var j Journal
	long := string(make([]byte, 300))
	for i := range 200 {
		j.AddPool(fmt.Sprintf("pool-%d", i))
		for slot := range int64(Slots) {
			for ms := int64(1); ms < 1_000_000; ms *= 3 {
				j.CountWait(i, slot*SlotNanos, ms)
			}
		}
	}
	for range ringSize {
		j.Note(&Event{Pool: long, Key: long, Tenant: long, Model: long, Path: long, Method: long, Reason: long})
	}
	for i := range uint64(tenantPlaces) {
		j.TenantSeen(i+1, []byte(long)[:mostName])
	}
	every := func(f func(uint64)) {
		for i := range uint64(tenantPlaces) {
			f(i + 1)
			f(i + 1)
		}
	}
	b := j.appendReport(nil, &place{id: 1, vm: 2}, (Slots-1)*SlotNanos, 0, every)
	require.LessOrEqual(t, len(b), mostReport)
	var r Report
	require.True(t, r.Read(b))
	seen := map[uint64]bool{}
	r.EachTenant(func(hash uint64, name string) {
		require.False(t, seen[hash])
		require.Len(t, name, mostName)
		seen[hash] = true
	})
	require.Greater(t, len(seen), 100)
	waits := 0
	EachWait(r.Waits, func(string, int64, int, uint32) { waits++ })
	require.Greater(t, waits, 1000)
	require.Greater(t, len(r.Events), 10_000)
}

func TestTenantsAreKnownByTheirHashes(t *testing.T) {
	var j Journal
	require.Nil(t, j.tenants.find(1))
	for round := range 2 {
		for i := range uint64(300) { // hashes that begin and end alike in many ways
			hash := i<<32 | i*7 + 1
			j.TenantSeen(hash, fmt.Appendf(nil, "tenant-%d", i))
			found := j.tenants.find(hash)
			require.NotNil(t, found, "round %d", round)
			require.Equal(t, fmt.Sprintf("tenant-%d", i), view(found.name[:found.n]))
		}
	}
	j.TenantSeen(5, []byte("a"))
	j.TenantSeen(5+tenantPlaces, []byte("b")) // one place in common
	require.Equal(t, "a", view(j.tenants.find(5).name[:1]))
	require.Equal(t, "b", view(j.tenants.find(5 + tenantPlaces).name[:1]))
}

// Other plugins can write what they like where reports are read.
func FuzzReport(f *testing.F) {
	var j Journal
	j.AddPool("p")
	j.CountWait(0, 5*SlotNanos, 70)
	j.Note(&Event{Kind: Refused, Pool: "p", Path: "/x?y"})
	j.TenantSeen(9, []byte("acme"))
	f.Add(j.appendReport(nil, &place{id: 1, vm: 2}, 5*SlotNanos, 0, func(g func(uint64)) { g(9) }))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Report
		if !r.Read(b) {
			return
		}
		r.EachTenant(func(uint64, string) {})
		r.EachEvent(func(event []byte) {
			var e Event
			if e.Decode(event) {
				require.Less(t, e.Kind, kinds)
			}
		})
		EachWait(r.Waits, func(_ string, _ int64, bucket int, _ uint32) { require.Less(t, bucket, Buckets) })
	})
}
