package admission_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/admissiontest"
)

// The permits of a dead worker are free at once, or stay on hold as long as is configured. Its tickets are gone in any case,
// and a worker that was taken for dead by mistake keeps what it runs: nobody else is granted until there is room for both.
func TestReapedPermitsStayOnHold(t *testing.T) {
	for _, hold := range []admission.Duration{0, 3 * admission.Second} {
		t.Run(hold.String(), func(t *testing.T) {
			var m admission.Machine
			var state []byte
			now := 1000 * ms
			dead, alive := admission.Worker{Seat: 0, Epoch: 1 << 32}, admission.Worker{Seat: 1, Epoch: 2 << 32}
			step := func(op admission.Op) *admission.Effect {
				next, e := m.Step(state, &op)
				if e.Changed {
					state = slices.Clone(next)
				}
				return e
			}
			target := func(me admission.Worker) admission.Target {
				return admission.Target{Now: now, Name: "k", Me: me, Limit: 2, Shaping: &admission.Shaping{ReapHold: hold}}
			}
			seq := uint32(0)
			ask := func(me admission.Worker) *admission.Effect {
				seq++
				return step(admission.Acquire(target(me), admission.Request{Weight: 1, Seq: seq, Queue: 9, Budget: admission.Hour}))
			}
			require.Equal(t, admission.VerdictGranted, ask(dead).Verdict)
			require.Equal(t, admission.VerdictGranted, ask(dead).Verdict)
			require.Equal(t, admission.VerdictWaiting, ask(dead).Verdict)
			require.Equal(t, admission.VerdictWaiting, ask(alive).Verdict)

			e := step(admission.Maintain(target(alive), false, admissiontest.Alive(alive)))
			require.Equal(t, 3, e.Reaped)
			if hold == 0 {
				require.Equal(t, 1, e.Inflight, "the waiter has one of the permits")
				require.Zero(t, e.OnHold)
				return
			}
			require.Equal(t, 2, e.OnHold)
			require.Zero(t, e.Inflight)
			require.Equal(t, 1, e.Queued)

			// It lives after all, and counts anew what it runs: two permits, above the holds.
			back := admission.Worker{Seat: 0, Epoch: 3 << 32}
			e = step(admission.Reconcile(target(back), admission.Truth{Inflight: []admission.TenantInflight{{Weight: 1, Inflight: 2}}}))
			require.Equal(t, 2, e.Inflight)
			now += int64(hold) + 10*ms
			require.Empty(t, step(admission.Maintain(target(alive), false, nil)).Grants, "both permits are used")
			e = step(admission.Release(target(back), 0, 1, admission.Finish{}))
			require.Equal(t, []admission.Grant{{Worker: alive, Seq: 4}}, e.Grants)
		})
	}
}
