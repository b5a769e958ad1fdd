package admission_test

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/admission"
)

// Several operations as one step are what they are one after the other: the same record, the same verdict of the last, the
// same grants, expired and unseen tickets in order, and deltas that add up.
func TestStepsAreStepsInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var together, apart admission.Machine
		var state []byte
		now, seq := 1000*ms, uint32(0)
		for range rapid.IntRange(1, 12).Draw(t, "batches") {
			now += int64(rapid.IntRange(0, 300).Draw(t, "later")) * ms
			ops := drawOps(t, now, &seq)
			pointers := make([]*admission.Op, len(ops))
			for i := range ops {
				pointers[i] = &ops[i]
			}
			want, sum := inOrder(&apart, state, ops)
			next, e := together.Steps(state, pointers)
			if !e.Changed {
				next = state
			}
			if !bytes.Equal(next, want) {
				t.Fatalf("together % x\napart    % x", next, want)
			}
			if e.Verdict != sum.Verdict || e.InflightDelta != sum.InflightDelta || e.QueuedDelta != sum.QueuedDelta ||
				e.OnHoldDelta != sum.OnHoldDelta || e.BreakerTurn != sum.BreakerTurn || e.Reaped != sum.Reaped || !slices.Equal(e.Grants, sum.Grants) ||
				!slices.Equal(e.Expired, sum.Expired) || !slices.Equal(e.Unseen, sum.Unseen) {
				t.Fatalf("together %+v\napart    %+v", e, sum)
			}
			state = slices.Clone(next)
		}
	})
}

// inOrder carries operations out one by one, and nothing of them if one is refused. It returns the record and what all did.
func inOrder(m *admission.Machine, state []byte, ops []admission.Op) (next []byte, sum admission.Effect) {
	next = state
	for i := range ops {
		after, e := m.Step(next, &ops[i])
		sum.Verdict = e.Verdict
		if e.Verdict >= admission.VerdictStale {
			return state, admission.Effect{Verdict: e.Verdict}
		}
		sum.InflightDelta += e.InflightDelta
		sum.QueuedDelta += e.QueuedDelta
		sum.OnHoldDelta += e.OnHoldDelta
		sum.BreakerTurn += e.BreakerTurn
		sum.Reaped += e.Reaped
		sum.Grants = append(sum.Grants, e.Grants...)
		sum.Expired = append(sum.Expired, e.Expired...)
		sum.Unseen = append(sum.Unseen, e.Unseen...)
		if e.Changed {
			next = slices.Clone(after)
		}
	}
	return next, sum
}

// drawOps draws operations that one worker may have for one swap.
func drawOps(t *rapid.T, now int64, seq *uint32) []admission.Op {
	me := admission.Worker{Seat: uint16(rapid.IntRange(0, 2).Draw(t, "seat")), Epoch: 1 << 32}
	target := admission.Target{Now: now, Gen: 1, Name: "k", Me: me, Limit: 3, Shaping: &admission.Shaping{
		Hold:     admission.Hold{Success: admission.Duration(rapid.IntRange(0, 1).Draw(t, "hold")) * 200 * admission.Millisecond},
		Breaker:  &admission.Breaker{Failures: 2, Window: admission.Minute, Open: admission.Second, MaxOpen: admission.Minute},
		Headroom: &admission.Headroom{Window: admission.Second, Min: 1},
	}}
	var ops []admission.Op
	for range rapid.IntRange(1, 6).Draw(t, "operations") {
		tenant := uint64(rapid.IntRange(1, 3).Draw(t, "tenant"))
		earlier := uint32(rapid.IntRange(1, int(*seq)+1).Draw(t, "ticket"))
		switch rapid.IntRange(0, 6).Draw(t, "kind") {
		case 0, 1, 2:
			*seq++
			ops = append(ops, admission.Acquire(target, admission.Request{Tenant: tenant, Weight: 1, Seq: *seq, Queue: 9, Fair: true,
				Budget: admission.Duration(rapid.IntRange(0, 900).Draw(t, "budget")) * admission.Millisecond}))
		case 3, 4:
			outcome := admission.Outcome(rapid.IntRange(0, 3).Draw(t, "outcome"))
			ops = append(ops, admission.Release(target, tenant, earlier, admission.Finish{Outcome: outcome,
				Pushback: outcome == admission.OutcomeFailure && rapid.Bool().Draw(t, "pushback")}))
		case 5:
			ops = append(ops, admission.Cancel(target, tenant, earlier))
		case 6:
			ops = append(ops, admission.Expire(target))
		}
	}
	return ops
}
