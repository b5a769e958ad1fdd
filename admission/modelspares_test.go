package admission_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/headgate/headgate/admission"
)

// settle says who may keep spares after an operation. The pools of this model have no breaker and no headroom.
func (m *model) settle(op *admission.Op, e *modelEffect) {
	columns := m.columns()
	maps.DeleteFunc(m.ahead, func(w admission.Worker, _ bool) bool { return !columns[w] })
	free := m.limit - m.total() - len(m.holds)
	switch {
	case len(m.queue) > 0 || free < len(columns):
		for w := range m.ahead {
			e.recalls = append(e.recalls, w)
			m.recallUntil = max(m.recallUntil, op.Now+20*ms)
		}
		clear(m.ahead)
	case op.Ahead && columns[op.Me] && free > 2*len(columns)+1 && len(m.holds) == 0 && !m.provisional &&
		(op.Shaping == nil || op.Shaping.Hold.Success == 0):
		m.ahead[op.Me] = true
	}
}

// marksDiffer says how a record's marks differ from the model's, or nil.
func (m *model) marksDiffer(r *admission.Record) error {
	marked := map[admission.Worker]bool{}
	for _, c := range r.Columns {
		if c.Ahead {
			marked[c.Worker] = true
		}
	}
	if !maps.Equal(marked, m.ahead) || r.RecallUntil != m.recallUntil {
		return fmt.Errorf("record: ahead %v, recall until %d; model %v, %d", marked, r.RecallUntil, m.ahead, m.recallUntil)
	}
	return nil
}

// sameWorkers says whether two lists have the same workers, in whatever order.
func sameWorkers(a, b []admission.Worker) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(w admission.Worker) bool { return !slices.Contains(b, w) })
}

// note is what the workers make of a step: who keeps no more spares knows it, or is told.
func (g *rig) note(op *admission.Op, e *admission.Effect) {
	for _, w := range g.workers {
		if w.Worker == op.Me && e.Verdict < admission.VerdictStale {
			w.ahead = e.Ahead
			if op.Kind == admission.OpReconcile {
				w.spares = nil
			}
		}
		if slices.Contains(e.Recalls, w.Worker) {
			w.recalled = true
		}
	}
}

// keep lets a stream's permit stay with its worker.
func (w *rigWorker) keep(i int) bool {
	if !w.ahead || len(w.waiting) > 0 {
		return false
	}
	w.spares = append(w.spares, w.running[i].tenant)
	w.running = slices.Delete(w.running, i, i+1)
	return true
}

// take gives a stream a spare.
func (w *rigWorker) take(s rigStream) bool {
	i := slices.Index(w.spares, s.tenant)
	if !w.ahead || len(w.waiting) > 0 || i < 0 {
		return false
	}
	w.spares = slices.Delete(w.spares, i, i+1)
	w.running = append(w.running, s)
	return true
}

// heed is what a worker does that is told to give its spares back.
func (g *rig) heed(w *rigWorker) {
	g.t.Helper()
	w.recalled = false
	g.reconcile(w)
}
