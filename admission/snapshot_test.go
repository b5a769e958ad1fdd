package admission_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/admission"
)

// read is what a display shows of the record.
func (b *stepBench) read() *admission.Snapshot {
	b.t.Helper()
	var s admission.Snapshot
	target := b.target(3)
	require.True(b.t, b.machine.Read(b.state, &target, &s))
	return &s
}

// run grants a permit and gives it back with a failure.
func (b *stepBench) run(seq uint32, limit int, f admission.Finish) {
	b.t.Helper()
	target := b.target(3)
	target.Limit = limit
	e := b.step(admission.Acquire(target, admission.Request{Weight: 1, Seq: seq}))
	require.Equal(b.t, admission.VerdictGranted, e.Verdict)
	f.BreakerGen = e.BreakerGen
	b.step(admission.Release(target, 0, seq, f))
}

func TestReadingWhatIsNone(t *testing.T) {
	b := &stepBench{t: t, now: int64(admission.Second)}
	b.run(1, 4, admission.Finish{})
	var s admission.Snapshot
	for name, state := range map[string][]byte{"nothing": nil, "noise": []byte("noise"), "half": b.state[:len(b.state)-1]} {
		require.False(t, b.machine.Read(state, &admission.Target{Now: b.now}, &s), name)
	}
	require.False(t, b.machine.Read(b.state, &admission.Target{Now: b.now, Gen: 1}, &s), "another generation's")
	b.step(admission.Retire(b.now, 0))
	require.False(t, b.machine.Read(b.state, &admission.Target{Now: b.now}, &s), "retired")
	_, _, ok := admission.InForce([]byte("noise"))
	require.False(t, ok)
}

// A display sees holds, penalties and the breaker as they are at its time, though no step has been made since.
func TestReadingGoesByTheTime(t *testing.T) {
	b := &stepBench{t: t, now: int64(admission.Second), shaping: admission.Shaping{Breaker: &admission.Breaker{
		Failures: 2, Window: admission.Minute, Open: admission.Second, MaxOpen: admission.Second,
		Penalty: 2 * admission.Second, MaxPenalty: 8 * admission.Second}}}
	b.run(1, 4, admission.Finish{Outcome: admission.OutcomeFailure})
	b.now += int64(admission.Second)
	s := b.read()
	require.Equal(t, []int{4, 3, 0, 1}, []int{s.Limit, s.Usable, s.Inflight, s.OnHold})
	require.Equal(t, admission.Second, s.PenaltyEnd)
	require.Equal(t, admission.Second, s.HoldEnd)
	b.run(2, 4, admission.Finish{Outcome: admission.OutcomeFailure})
	s = b.read()
	require.Equal(t, []int{2, 2}, []int{s.Usable, s.OnHold})
	require.Equal(t, admission.Second, s.HoldEnd, "the first")
	require.Equal(t, 4*admission.Second, s.PenaltyEnd, "the last")
	require.Equal(t, admission.BreakerOpen, s.Breaker)
	require.Equal(t, admission.Second, s.BreakerChange)
	before := string(b.state)
	b.now += int64(admission.Second)
	s = b.read()
	require.Equal(t, []int{3, 1}, []int{s.Usable, s.OnHold})
	require.Equal(t, admission.BreakerHalfOpen, s.Breaker)
	require.Zero(t, s.BreakerChange)
	require.Equal(t, before, string(b.state))
	b.now += int64(admission.Minute)
	s = b.read()
	require.Equal(t, []int{4, 0}, []int{s.Usable, s.OnHold})
	require.Zero(t, s.PenaltyEnd+s.HoldEnd)
}

// A hold is no penalty where no penalty is configured.
func TestReadingHolds(t *testing.T) {
	b := &stepBench{t: t, now: int64(admission.Second), shaping: admission.Shaping{Hold: admission.Hold{Failure: admission.Second}}}
	b.run(1, 4, admission.Finish{Outcome: admission.OutcomeFailure})
	s := b.read()
	require.Equal(t, []int{4, 1}, []int{s.Usable, s.OnHold})
	require.Equal(t, []admission.Duration{0, admission.Second}, []admission.Duration{s.PenaltyEnd, s.HoldEnd})
}

// The headroom is what a provider's pushback has left of the limit in force, which may be an override.
func TestReadingHeadroom(t *testing.T) {
	for _, aimd := range []bool{false, true} {
		b := &stepBench{t: t, now: int64(admission.Second),
			shaping: admission.Shaping{Headroom: &admission.Headroom{AIMD: aimd, Window: 5 * admission.Second, Min: 2}}}
		target := b.target(3)
		target.Override = admission.Override{Source: admission.FromKey, Limit: 10}
		b.step(admission.Retune(target, true))
		b.run(1, 4, admission.Finish{Outcome: admission.OutcomeFailure, Pushback: true})
		b.now += int64(admission.Second)
		s, left := b.read(), 9
		if aimd {
			left = 8
		}
		require.Equal(t, []int{10, left}, []int{s.Limit, s.Usable})
		require.Equal(t, 4*admission.Second, s.HeadroomChange)
		target.Override.Limit = 3
		b.step(admission.Retune(target, true))
		require.Equal(t, 2, b.read().Usable)
		b.now += int64(admission.Minute)
		s = b.read()
		require.Zero(t, s.HeadroomChange)
		require.Equal(t, map[bool]int{true: 2, false: 3}[aimd], s.Usable, "only a success raises an aimd limit")
	}
}

func TestReadingTicketsAndTenants(t *testing.T) {
	b := &stepBench{t: t, now: int64(admission.Second)}
	for i, tenant := range []uint64{7, 8, 8} {
		b.step(admission.Acquire(b.target(uint16(i)), admission.Request{Tenant: tenant, Weight: uint32(tenant), Seq: 1, Queue: 9,
			Budget: admission.Minute}))
		b.now += int64(admission.Second)
	}
	s := b.read()
	require.Equal(t, []int{1, 1, 2}, []int{s.Limit, s.Inflight, s.Queued})
	require.Equal(t, 2*admission.Second, s.OldestWait)
	require.Equal(t, []admission.TenantShare{{ID: 7, Inflight: 1, Weight: 7}, {ID: 8, Queued: 2, Weight: 8}}, s.Tenants)
}
