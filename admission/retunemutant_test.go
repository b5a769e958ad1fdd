package admission_test

import "github.com/headgate/headgate/admission"

// overridden changes the override of a record, and returns what it was.
func overridden(state []byte, source admission.Source, limit uint32) (changedTo []byte, wasFrom admission.Source, was uint32) {
	changedTo = changed(state, func(r *admission.Record) {
		wasFrom, was = r.Source, r.Limit
		r.Source, r.Limit = source, limit
	})
	return changedTo, wasFrom, was
}

// overrideMutants are faults of the core in what an override does.
var overrideMutants = []stepMutation{
	{"a retune does not dispatch", "I4:", func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		if op.Kind != admission.OpRetune || state == nil {
			return step(state, op)
		}
		m := admission.Maintain(op.Target, false, nil)
		next, e := step(state, &m)
		if e.Verdict >= admission.VerdictStale {
			return next, e
		}
		if !e.Changed {
			next = state
		}
		e.Changed = true
		return changed(next, func(r *admission.Record) {
			if r.Provisional = false; op.Own || r.Source != admission.FromKey {
				r.Source, r.Limit = op.Override.Source, uint32(op.Limit)
			}
			if r.Source != admission.FromConfig {
				r.Limit = uint32(op.Override.Limit)
			}
		}), e
	}},
	{"an acquire goes by the configuration under an override", "I1:", func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		_, from, _ := admission.InForce(state)
		if op.Kind != admission.OpAcquire || from == admission.FromConfig {
			return step(state, op)
		}
		plain, source, limit := overridden(state, admission.FromConfig, uint32(op.Limit))
		next, e := step(plain, op)
		next, _, _ = overridden(next, source, limit)
		return next, e
	}},
	{"a new configuration takes an override away", "I9:", func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		if op.Kind == admission.OpMaintain && op.Assert {
			state, _, _ = overridden(state, admission.FromConfig, uint32(op.Limit))
		}
		return step(state, op)
	}},
	{"an idle record with an override is retired", "I9:", func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		if op.Kind == admission.OpRetire {
			state, _, _ = overridden(state, admission.FromConfig, 1)
		}
		return step(state, op)
	}},
	{"the override of a default takes the place of a key's own", "I9:", func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		m := *op
		m.Own = true
		return step(state, &m)
	}},
	{"a lowered override takes permits back", byModel, func(op *admission.Op, step stepper, state []byte) ([]byte, *admission.Effect) {
		next, e := step(state, op)
		if op.Kind != admission.OpRetune || !e.Changed || e.Inflight <= op.Override.Limit || e.Inflight == 0 || e.Queued > 0 {
			return next, e
		}
		var r admission.Record
		if r.Decode(next) != nil {
			return next, e
		}
		h := r.Holders[0]
		var other admission.Machine
		target := op.Target
		for _, c := range r.Columns {
			if c.Seat == h.Seat {
				target.Me = c.Worker
			}
		}
		release := admission.Release(target, r.Tenants[h.Tenant].ID, 1, admission.Finish{})
		delta, grants := e.InflightDelta, e.Grants
		next, f := other.Step(next, &release)
		*e = *f
		e.InflightDelta, e.Grants = delta-1, grants
		return next, e
	}},
}
