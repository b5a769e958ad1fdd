package admission_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/admission"
)

// A worker whose own beat is late by more than half its lease declares nobody dead with it.
func TestALateBeatDeclaresNobodyDead(t *testing.T) {
	const start = 1000
	for beat, dead := range map[int64]int{start + 5: 0, start + 6: 1, start + 7: 0, start + 12: 0} {
		var table admission.WorkerTable
		me, ok := table.Claim(1, start, 12)
		require.True(t, ok)
		_, ok = table.Claim(2, start, 5) // dead at start + 6
		require.True(t, ok)
		require.True(t, table.Beat(me, beat, 12))
		require.Len(t, table.AppendDead(nil), dead, "a beat at %d", beat-start)
		require.True(t, table.Beat(me, beat+1, 12))
		if beat > start+5 {
			require.Len(t, table.AppendDead(nil), 1, "the next beat is not late")
		}
	}
}
