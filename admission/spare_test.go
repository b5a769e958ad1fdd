package admission_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/admission"
)

// What a worker's requests used without a step moves the mean as their releases would have, and so that of 16 at most.
func TestAReconcileTellsLocalUses(t *testing.T) {
	after := func(uses int) (r admission.Record) {
		var m admission.Machine
		me := admission.Worker{Seat: 1, Epoch: 1 << 32}
		target := admission.Target{Now: ms, Me: me, Limit: 9}
		op := admission.Acquire(target, admission.Request{Weight: 1, Seq: 1})
		state, _ := m.Step(nil, &op)
		target.Now = 5 * ms
		op = admission.Reconcile(target, admission.Truth{Uses: uses, Use: 8 * admission.Second,
			Inflight: []admission.TenantInflight{{Weight: 1, Inflight: 1}}})
		if next, e := new(admission.Machine).Step(state, &op); e.Changed {
			state = next
		}
		require.NoError(t, r.Decode(state))
		return r
	}
	require.Zero(t, after(0).MeanUse)
	require.Equal(t, ms, after(0).LastMove)
	require.Equal(t, int64(8*admission.Second), after(1).MeanUse)
	require.Equal(t, 5*ms, after(1).LastMove)
	require.Equal(t, after(16), after(1_000_000))
}

// By the number of free permits: when a worker comes to keep spares, and when they are called back.
func TestMarksComeLateAndGoLate(t *testing.T) {
	var m [2]admission.Machine
	var state []byte
	turn := 0
	step := func(seat uint16, seq uint32) *admission.Effect {
		target := admission.Target{Now: ms, Me: admission.Worker{Seat: seat, Epoch: 1 << 32}, Limit: 10, Ahead: true}
		op := admission.Acquire(target, admission.Request{Weight: 1, Seq: seq, Budget: 0})
		next, e := m[turn].Step(state, &op)
		if e.Changed {
			state, turn = next, 1-turn
		}
		return e
	}
	require.True(t, step(0, 1).Ahead, "9 free, 1 worker")
	require.True(t, step(1, 1).Ahead, "8 free, 2 workers")
	require.False(t, step(2, 1).Ahead, "7 free, 3 workers: no more than 1 and twice as many")
	for seq := range uint32(4) {
		require.Empty(t, step(0, 2+seq).Recalls, "at least as many free as workers")
	}
	e := step(2, 2)
	require.Len(t, e.Recalls, 2, "2 free, 3 workers")
	require.False(t, step(2, 3).Ahead)
	require.Equal(t, admission.VerdictGranted, step(2, 4).Verdict)
	require.Equal(t, admission.VerdictRecalling, step(2, 5).Verdict, "a spare may come back")
}
