package admission_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/admission"
)

// A stepBench steps one record, as several workers.
type stepBench struct {
	t       *testing.T
	machine admission.Machine
	state   []byte
	now     int64
	shaping admission.Shaping
}

func (b *stepBench) target(seat uint16) admission.Target {
	return admission.Target{Now: b.now, Me: admission.Worker{Seat: seat, Epoch: uint64(seat+1) << 32}, Limit: 1, Shaping: &b.shaping}
}

func (b *stepBench) step(op admission.Op) *admission.Effect {
	next, e := b.machine.Step(b.state, &op)
	if e.Changed {
		b.state = slices.Clone(next)
	}
	return e
}

func (b *stepBench) record() *admission.Record {
	b.t.Helper()
	var r admission.Record
	require.NoError(b.t, r.Decode(b.state))
	return &r
}

// The breaker's probe is named to the worker that runs it. To others its number could be that of one of their own
// tickets.
func TestAProbeIsNamedToItsWorkerAlone(t *testing.T) {
	b := &stepBench{t: t, now: int64(admission.Second), shaping: admission.Shaping{Breaker: &admission.Breaker{
		Failures: 1, Window: admission.Second, Open: admission.Second, MaxOpen: admission.Second}}}
	acquire := func(seat uint16, seq uint32) *admission.Effect {
		return b.step(admission.Acquire(b.target(seat), admission.Request{Weight: 1, Seq: seq}))
	}
	require.Equal(t, admission.VerdictGranted, acquire(3, 7).Verdict)
	e := b.step(admission.Release(b.target(3), 0, 7, admission.Finish{Outcome: admission.OutcomeFailure}))
	require.Zero(t, e.Probe, "there is none")
	require.Equal(t, admission.VerdictOpen, acquire(3, 8).Verdict)
	b.now += int64(admission.Second)
	e = acquire(3, 9)
	require.Equal(t, admission.VerdictGranted, e.Verdict)
	require.Equal(t, uint32(9), e.Probe)
	e = acquire(4, 9)
	require.Equal(t, admission.VerdictOpen, e.Verdict)
	require.Zero(t, e.Probe, "it is another worker's ticket 9")
	e = acquire(3, 10)
	require.Equal(t, admission.VerdictOpen, e.Verdict)
	require.Equal(t, uint32(9), e.Probe, "it runs yet")
}

// A permit that a reconcile takes out of the record has come free, and retry-after goes by it.
func TestARepairIsAReleaseToo(t *testing.T) {
	b := &stepBench{t: t, now: int64(admission.Second)}
	e := b.step(admission.Acquire(b.target(3), admission.Request{Weight: 1, Seq: 1}))
	require.Equal(t, admission.VerdictGranted, e.Verdict)
	b.now += int64(admission.Second)
	b.step(admission.Reconcile(b.target(3), admission.Truth{Inflight: []admission.TenantInflight{{Weight: 1, Inflight: 1}}}))
	require.Equal(t, b.now-int64(admission.Second), b.record().LastMove, "nothing was given back")
	b.step(admission.Reconcile(b.target(3), admission.Truth{}))
	require.Equal(t, b.now, b.record().LastMove)
	require.Zero(t, b.record().Inflight())
}

// A slot without a key keeps its place and its generation, wherever it stands: a key that comes into it must not meet
// the record of the one before under the same generation.
func TestDirectoryKeepsVacatedSlots(t *testing.T) {
	var d, again admission.Directory
	d.Add("a")
	d.Add("b")
	d.Add("c")
	d.Vacate(0)
	d.Vacate(2)
	again.Decode(d.Append(nil))
	require.Equal(t, 3, again.Len())
	for slot := range 3 {
		name, place := d.At(slot)
		sameName, samePlace := again.At(slot)
		require.Equal(t, name, sameName)
		require.Equal(t, place, samePlace)
	}
}

// A tenant that only waited leaves nothing behind, even if it was the only one: records stay small.
func TestATenantThatOnlyWaitedLeavesNothing(t *testing.T) {
	b := &stepBench{t: t, now: int64(admission.Second), state: []byte("no record")}
	target := b.target(3)
	target.QuietTime = admission.Minute // a record made anew admits nobody for a while
	op := admission.Acquire(target, admission.Request{Tenant: 5, Weight: 1, Seq: 1, Queue: 4, Budget: admission.Minute})
	require.Equal(t, admission.VerdictWaiting, b.step(op).Verdict)
	require.Len(t, b.record().Tenants, 1)
	b.step(admission.Cancel(b.target(3), 5, 1))
	require.Empty(t, b.record().Tenants)
	require.Empty(t, b.record().Columns)
}

// A step of several operations has a verdict for each, and none for those behind one that is refused.
func TestEachOperationHasAVerdict(t *testing.T) {
	b := &stepBench{t: t, now: int64(admission.Second)}
	acquire := func(seq uint32) *admission.Op {
		op := admission.Acquire(b.target(3), admission.Request{Weight: 1, Seq: seq, Queue: 1, Budget: admission.Second})
		return &op
	}
	granted, waiting, full := admission.VerdictGranted, admission.VerdictWaiting, admission.VerdictFull
	next, e := b.machine.Steps(nil, []*admission.Op{acquire(1), acquire(2), acquire(3), acquire(4)})
	require.Equal(t, []admission.Verdict{granted, waiting, full, full}, e.Verdicts)
	require.Equal(t, full, e.Verdict)
	b.state = slices.Clone(next)
	_, e = b.machine.Steps(b.state, []*admission.Op{acquire(5)})
	require.Equal(t, []admission.Verdict{full}, e.Verdicts)
	fenced := admission.Release(b.target(4), 0, 9, admission.Finish{}) // a worker without a column
	fenced.Expect = true
	_, e = b.machine.Steps(b.state, []*admission.Op{&fenced, acquire(6)})
	require.Equal(t, admission.VerdictFenced, e.Verdict)
	require.Empty(t, e.Verdicts)
	require.False(t, e.Changed)
}
