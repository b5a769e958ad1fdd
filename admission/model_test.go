package admission_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/headgate/headgate/admission"
)

// model is the core once more, written for clarity alone: plain maps, no encoding, every count counted anew, every
// choice a search through all.
type model struct {
	exists, retired bool
	provisional     bool // no limit has been asserted since the record was lost
	gen             uint32
	limit           int
	source          admission.Source // of the limit
	inflight        map[admission.Worker]map[uint64]int
	queue           []modelTicket
	holds           []modelHold
	weight          map[uint64]uint32
	lastGrant       map[uint64]uint64
	grants          uint64
	ahead           map[admission.Worker]bool
	recallUntil     int64
}

type modelTicket struct {
	worker   admission.Worker
	seq      uint32
	tenant   uint64
	deadline int64
}

type modelHold struct {
	until   int64
	tenant  uint64
	charged bool
}

type modelEffect struct {
	verdict         admission.Verdict
	grants          []admission.Grant
	expired, unseen []uint32
	recalls         []admission.Worker
}

func (m *model) clone() *model {
	c := *m
	c.inflight = map[admission.Worker]map[uint64]int{}
	for w, tenants := range m.inflight {
		c.inflight[w] = maps.Clone(tenants)
	}
	c.queue, c.holds = slices.Clone(m.queue), slices.Clone(m.holds)
	c.weight, c.lastGrant, c.ahead = maps.Clone(m.weight), maps.Clone(m.lastGrant), maps.Clone(m.ahead)
	return &c
}

func (m *model) clear(op *admission.Op) {
	limit, provisional := op.Limit, op.Kind == admission.OpReconcile
	if provisional {
		limit = 0
	}
	*m = model{exists: true, gen: op.Gen, limit: limit, provisional: provisional,
		inflight: map[admission.Worker]map[uint64]int{}, weight: map[uint64]uint32{}, lastGrant: map[uint64]uint64{},
		ahead: map[admission.Worker]bool{}}
	if !provisional {
		m.tune(op)
	}
}

// tune gives the record an override, or the configured limit where that is none.
func (m *model) tune(op *admission.Op) {
	m.source, m.limit = op.Override.Source, op.Limit
	if m.source != admission.FromConfig {
		m.limit = op.Override.Limit
	}
}

// total is how many permits are granted.
func (m *model) total() int {
	n := 0
	for _, tenants := range m.inflight {
		for _, k := range tenants {
			n += k
		}
	}
	return n
}

// load is how many permits a tenant has inflight, and on hold at its expense.
func (m *model) load(tenant uint64) int {
	n := 0
	for _, tenants := range m.inflight {
		n += tenants[tenant]
	}
	for _, h := range m.holds {
		if h.charged && h.tenant == tenant {
			n++
		}
	}
	return n
}

func (m *model) idle() bool { return m.total() == 0 && len(m.queue) == 0 && len(m.holds) == 0 }

// columns are the workers that have something here.
func (m *model) columns() map[admission.Worker]bool {
	c := map[admission.Worker]bool{}
	for w, tenants := range m.inflight {
		for _, n := range tenants {
			if n > 0 {
				c[w] = true
			}
		}
	}
	for _, t := range m.queue {
		c[t.worker] = true
	}
	return c
}

func (m *model) reap(w admission.Worker) {
	delete(m.inflight, w)
	m.queue = slices.DeleteFunc(m.queue, func(t modelTicket) bool { return t.worker == w })
}

// step is the sequential specification of Machine.Step. A verdict from VerdictStale on changes nothing.
func (m *model) step(op *admission.Op, alive func(admission.Worker) bool) modelEffect {
	was := m.clone()
	var e modelEffect
	if !m.exists {
		m.clear(op)
	}
	m.holds = slices.DeleteFunc(m.holds, func(h modelHold) bool { return h.until <= op.Now })
	if e.verdict = m.admit(op); e.verdict == admission.VerdictDone {
		m.apply(op, alive, &e)
		m.settle(op, &e)
	}
	if e.verdict >= admission.VerdictStale {
		*m = *was
	}
	return e
}

func (m *model) admit(op *admission.Op) admission.Verdict {
	if op.Kind == admission.OpRetire {
		return admission.VerdictDone
	}
	if m.gen != op.Gen || m.retired {
		if m.gen >= op.Gen || !m.idle() {
			return admission.VerdictStale
		}
		m.clear(op)
	}
	for w := range m.columns() {
		if w.Seat == op.Me.Seat && w.Epoch != op.Me.Epoch && op.Me.Epoch != 0 {
			if w.Epoch>>32 > op.Me.Epoch>>32 {
				return admission.VerdictFenced
			}
			m.reap(w)
		}
	}
	if op.Expect && op.Kind != admission.OpReconcile && !m.columns()[op.Me] {
		return admission.VerdictFenced
	}
	return admission.VerdictDone
}

func (m *model) apply(op *admission.Op, alive func(admission.Worker) bool, e *modelEffect) {
	if op.Kind == admission.OpRetire {
		switch {
		case m.retired && m.gen >= op.Gen:
		case !m.idle() || m.gen > op.Gen || m.source == admission.FromKey:
			e.verdict = admission.VerdictBusy
		default:
			limit := m.limit
			m.clear(op)
			m.retired, m.limit = true, limit
		}
		return
	}
	if op.Assert && m.source == admission.FromConfig {
		m.limit, m.provisional = op.Limit, false
	}
	if op.Live != nil {
		for w := range m.columns() {
			if w != op.Me && !alive(w) {
				m.reap(w)
			}
		}
	}
	switch op.Kind {
	case admission.OpAcquire:
		m.acquire(op, e)
		return
	case admission.OpRelease:
		m.release(op, holdOf(op))
	case admission.OpCancel:
		before := len(m.queue)
		m.queue = slices.DeleteFunc(m.queue, func(t modelTicket) bool { return t.worker == op.Me && t.seq == op.Seq })
		if len(m.queue) == before {
			m.release(op, 0)
			e.verdict = admission.VerdictGranted
		}
	case admission.OpExpire:
		m.queue = slices.DeleteFunc(m.queue, func(t modelTicket) bool {
			over := t.worker == op.Me && t.deadline <= op.Now
			if over {
				e.expired = append(e.expired, t.seq)
			}
			return over
		})
	case admission.OpReconcile:
		m.reconcile(op, e)
	case admission.OpRetune:
		if m.source != admission.FromKey || op.Own {
			m.tune(op)
			m.provisional = false
		}
	}
	m.dispatch(op, e)
}

func (m *model) acquire(op *admission.Op, e *modelEffect) {
	if m.limit == 0 {
		e.verdict = admission.VerdictClosed
		return
	}
	queued := 0 // of the same tenant
	for _, t := range m.queue {
		if t.tenant == op.Tenant {
			queued++
		}
	}
	room := op.Budget > 0 && len(m.queue) < op.Queue && (!op.Fair || queued < max(1, op.Queue-len(m.queue)))
	deadline := op.Now + int64(max(op.Budget, 1))
	m.weight[op.Tenant] = op.Weight
	m.queue = append(m.queue, modelTicket{op.Me, op.Seq, op.Tenant, deadline})
	m.dispatch(op, e)
	e.verdict = admission.VerdictGranted
	for i, t := range m.queue {
		if t.worker == op.Me && t.seq == op.Seq {
			if e.verdict = admission.VerdictWaiting; !room {
				if e.verdict = admission.VerdictFull; len(m.ahead) > 0 || op.Now < m.recallUntil {
					e.verdict = admission.VerdictRecalling
				}
				m.queue = slices.Delete(m.queue, i, i+1)
			}
			break
		}
	}
	e.grants = slices.DeleteFunc(e.grants, func(g admission.Grant) bool { return g.Worker == op.Me && g.Seq == op.Seq })
}

// holdOf is how long a released permit is on hold. The success's hold is charged to the tenant, the failure's isn't.
func holdOf(op *admission.Op) admission.Duration {
	switch {
	case op.Shaping == nil:
		return 0
	case op.Outcome == admission.OutcomeSuccess:
		return op.Shaping.Hold.Success
	}
	return op.Shaping.Hold.Failure
}

func (m *model) release(op *admission.Op, hold admission.Duration) {
	if m.inflight[op.Me][op.Tenant] == 0 {
		return
	}
	m.inflight[op.Me][op.Tenant]--
	if hold > 0 && m.limit-len(m.holds)-1 >= op.Shaping.MinActive {
		until := op.Now + int64(min(hold, 10*admission.Minute))
		for until%int64(10*admission.Millisecond) != 0 {
			until++
		}
		m.holds = append(m.holds, modelHold{until, op.Tenant, op.Outcome == admission.OutcomeSuccess})
	}
}

func (m *model) reconcile(op *admission.Op, e *modelEffect) {
	lost := !m.columns()[op.Me]
	inflight := map[uint64]int{}
	for _, s := range op.Inflight {
		inflight[s.Tenant] += int(s.Inflight)
		if s.Inflight > 0 {
			m.weight[s.Tenant] = s.Weight
		}
	}
	waits := map[uint32]bool{}
	for _, w := range op.Waiting {
		waits[w.Seq] = true
		of := op.Inflight[w.Tenant]
		switch {
		case lost:
			m.weight[of.Tenant] = of.Weight
			m.queue = append(m.queue, modelTicket{op.Me, w.Seq, of.Tenant, w.Deadline})
		case !m.waits(op.Me, w.Seq):
			m.weight[of.Tenant] = of.Weight
			inflight[of.Tenant]++
			e.unseen = append(e.unseen, w.Seq)
		}
	}
	m.queue = slices.DeleteFunc(m.queue, func(t modelTicket) bool { return t.worker == op.Me && !waits[t.seq] })
	m.inflight[op.Me] = inflight
	if !op.Ahead {
		delete(m.ahead, op.Me)
	}
	if m.provisional && lost {
		m.limit = max(m.limit, min(op.Limit, max(m.total(), 1)))
	}
}

// waits says whether a worker's ticket is in the queue.
func (m *model) waits(w admission.Worker, seq uint32) bool {
	return slices.ContainsFunc(m.queue, func(t modelTicket) bool { return t.worker == w && t.seq == seq })
}

func (m *model) dispatch(op *admission.Op, e *modelEffect) {
	for m.limit-m.total()-len(m.holds) > 0 {
		best := -1
		for i, t := range m.queue { // oldest first, so a tie within a tenant goes to the older
			if t.deadline > op.Now && (best < 0 || m.first(t.tenant, m.queue[best].tenant)) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		t := m.queue[best]
		m.queue = slices.Delete(m.queue, best, best+1)
		if m.inflight[t.worker] == nil {
			m.inflight[t.worker] = map[uint64]int{}
		}
		m.inflight[t.worker][t.tenant]++
		m.grants++
		m.lastGrant[t.tenant] = m.grants
		e.grants = append(e.grants, admission.Grant{Worker: t.worker, Seq: t.seq})
	}
}

// first says whether tenant a is strictly ahead of tenant b.
func (m *model) first(a, b uint64) bool {
	x, y := m.load(a)*int(m.weight[b]), m.load(b)*int(m.weight[a])
	switch {
	case x != y:
		return x < y
	case m.lastGrant[a] != m.lastGrant[b]:
		return m.lastGrant[a] < m.lastGrant[b]
	}
	return a < b
}

// differs says how a record differs from the model, or nil.
func (m *model) differs(state []byte) error {
	if state == nil {
		if m.exists {
			return fmt.Errorf("no record, model %+v", m)
		}
		return nil
	}
	var r admission.Record
	if err := r.Decode(state); err != nil {
		return err
	}
	if err := m.marksDiffer(&r); err != nil {
		return err
	}
	if r.Gen != m.gen || r.Retired != m.retired || int(r.Limit) != m.limit || r.Source != m.source ||
		r.Provisional != m.provisional {
		return fmt.Errorf("record gen %d retired %v limit %d from %d (%v), model %d %v %d from %d (%v)",
			r.Gen, r.Retired, r.Limit, r.Source, r.Provisional, m.gen, m.retired, m.limit, m.source, m.provisional)
	}
	inflight := map[admission.Worker]map[uint64]int{}
	worker := map[uint16]admission.Worker{}
	for _, c := range r.Columns {
		worker[c.Seat] = c.Worker
	}
	for _, h := range r.Holders {
		w := worker[h.Seat]
		if inflight[w] == nil {
			inflight[w] = map[uint64]int{}
		}
		inflight[w][r.Tenants[h.Tenant].ID] += int(h.Inflight)
	}
	for w, tenants := range m.inflight {
		maps.DeleteFunc(tenants, func(_ uint64, n int) bool { return n == 0 })
		if len(tenants) == 0 {
			delete(m.inflight, w)
		}
	}
	if !maps.EqualFunc(inflight, m.inflight, func(a, b map[uint64]int) bool { return maps.Equal(a, b) }) {
		return fmt.Errorf("record inflight %v, model %v", inflight, m.inflight)
	}
	var queue []modelTicket
	for i := range r.Queue.Len() {
		t := r.Queue.At(i)
		queue = append(queue, modelTicket{worker[t.Seat], t.Seq, r.Tenants[t.Tenant].ID, t.Deadline})
	}
	if !slices.Equal(queue, m.queue) {
		return fmt.Errorf("record queues %v, model %v", queue, m.queue)
	}
	return m.tenantsDiffer(&r)
}

func (m *model) tenantsDiffer(r *admission.Record) error {
	holds := map[modelHold]int{}
	for _, p := range r.Holds {
		h := modelHold{until: p.Until}
		if p.Tenant != admission.NoTenant {
			h.tenant, h.charged = r.Tenants[p.Tenant].ID, true
		}
		holds[h] += int(p.Count)
	}
	for _, h := range m.holds {
		if !h.charged {
			h.tenant = 0
		}
		if holds[h]--; holds[h] == 0 {
			delete(holds, h)
		}
	}
	if len(holds) > 0 {
		return fmt.Errorf("record's holds differ by %v from the model's %v", holds, m.holds)
	}
	seen := map[uint64]bool{}
	for _, t := range r.Tenants {
		if t.Weight == 0 {
			continue
		}
		if t.Weight != m.weight[t.ID] || t.LastGrant != m.lastGrant[t.ID] {
			return fmt.Errorf("record's tenant %+v, model's weight %d, last grant %d",
				t, m.weight[t.ID], m.lastGrant[t.ID])
		}
		seen[t.ID] = true
	}
	for id, last := range m.lastGrant {
		if last > 0 && !seen[id] {
			return fmt.Errorf("record forgot tenant %d", id)
		}
	}
	return nil
}
