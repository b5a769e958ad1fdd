package admissiontest

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/headgate/headgate/admission"
)

// A Watch follows the record of one pool key. The zero Watch is ready.
type Watch struct {
	before, after admission.Record
	// overtaken counts grants by the pair of a tenant that waits with nothing running, and the tenant that was granted.
	overtaken map[[2]uint64]int
}

// Step judges one step: state and op are what the core was given, next and e what it returned. The error says which
// invariant is broken, and how; all that are broken are in it.
func (w *Watch) Step(state []byte, op *admission.Op, next []byte, e *admission.Effect) error {
	if !e.Changed {
		next = state
	}
	fresh := w.before.Decode(state) != nil
	if fresh {
		w.before = admission.Record{Limit: uint32(max(op.Limit, 0))}
	}
	if len(next) == 0 {
		return nil // there is no record yet
	}
	if err := w.after.Decode(next); err != nil {
		return fmt.Errorf("I11: the step wrote what is no record: %w", err)
	}
	if e.Verdict >= admission.VerdictStale {
		if e.Changed {
			return fmt.Errorf("verdict %d with a new state", e.Verdict)
		}
		return nil
	}
	if !fresh && w.before.Gen != w.after.Gen {
		if !w.before.Idle() {
			return errors.New("I9: a record in use changed its generation")
		}
		w.before = admission.Record{Limit: w.after.Limit}
		fresh = true
	}
	if fresh {
		w.overtaken = nil
	}
	s := &step{Watch: w, op: op, effect: e, now: op.Now, fresh: fresh}
	s.findGrants()
	return errors.Join(s.encoding(next), s.sums(), s.deltas(), s.limit(), s.outstanding(), s.workConserving(),
		s.tickets(), s.rule(), s.overtaking(), s.marks())
}

type step struct {
	*Watch
	op     *admission.Op
	effect *admission.Effect
	now    int64
	grants []grant // in order; the acquire's own, whose place in the order is unknown, is last
	own    bool
	fresh  bool // there was no record, or another key's
}

type grant struct {
	admission.Ticket
	tenant uint64
}

// findGrants collects the tickets that were granted.
func (s *step) findGrants() {
	for _, g := range s.effect.Grants {
		found := grant{Ticket: admission.Ticket{Seat: g.Seat, Seq: g.Seq, Deadline: -1}}
		for i := range s.before.Queue.Len() {
			if t := s.before.Queue.At(i); t.Seat == g.Seat && t.Seq == g.Seq {
				found = grant{t, s.before.Tenants[t.Tenant].ID}
			}
		}
		if found.Deadline < 0 { // queued by this very step: a reconcile of a worker whose column was gone
			for _, t := range s.op.Waiting {
				if s.op.Me == g.Worker && t.Seq == g.Seq {
					found.Deadline, found.tenant = t.Deadline, s.op.Inflight[t.Tenant].Tenant
				}
			}
		}
		s.grants = append(s.grants, found)
	}
	if s.op.Kind == admission.OpAcquire && s.effect.Verdict == admission.VerdictGranted {
		s.own = true
		own := admission.Ticket{Seat: s.op.Me.Seat, Seq: s.op.Seq, Deadline: s.now + 1}
		s.grants = append(s.grants, grant{own, s.op.Tenant})
	}
}

func (s *step) encoding(next []byte) error {
	if again := s.after.Append(nil); !bytes.Equal(again, next) {
		return fmt.Errorf("I11: the record doesn't survive decoding: % x, then % x", next, again)
	}
	return nil
}

// sums checks that every count kept beside its parts is their sum (I3).
func (s *step) sums() error {
	r := &s.after
	inflight, queued, onHold := map[uint16]uint32{}, map[uint16]uint32{}, map[uint16]uint32{}
	permits, tickets := map[uint16]uint32{}, map[uint16]uint32{}
	for _, h := range r.Holders {
		inflight[h.Tenant] += h.Inflight
		permits[h.Seat] += h.Inflight
	}
	for i := range r.Queue.Len() {
		t := r.Queue.At(i)
		queued[t.Tenant]++
		tickets[t.Seat]++
	}
	for _, h := range r.Holds {
		onHold[h.Tenant] += h.Count
	}
	var errs []error
	for _, c := range r.Columns {
		if permits[c.Seat] != c.Inflight || tickets[c.Seat] != c.Tickets {
			errs = append(errs, fmt.Errorf("I3: column %+v has %d permits and %d tickets",
				c, permits[c.Seat], tickets[c.Seat]))
		}
		delete(permits, c.Seat)
		delete(tickets, c.Seat)
	}
	if len(permits)+len(tickets) > 0 {
		errs = append(errs, fmt.Errorf("I3: no column for permits %v, tickets %v", permits, tickets))
	}
	for i, t := range r.Tenants {
		if at := uint16(i); inflight[at] != t.Inflight || queued[at] != t.Queued || onHold[at] != t.OnHold {
			errs = append(errs, fmt.Errorf("I3: tenant %+v has inflight %d, queued %d, on hold %d",
				t, inflight[at], queued[at], onHold[at]))
		}
	}
	return errors.Join(errs...)
}

func (s *step) deltas() error {
	e, r := s.effect, &s.after
	if e.Inflight != r.Inflight() || e.Queued != r.Queue.Len() || e.OnHold != r.OnHold() {
		return fmt.Errorf("I3: effect %+v, record inflight %d queued %d on hold %d",
			e, r.Inflight(), r.Queue.Len(), r.OnHold())
	}
	b := &s.before
	if e.Inflight-e.InflightDelta != b.Inflight() || e.Queued-e.QueuedDelta != b.Queue.Len() ||
		e.OnHold-e.OnHoldDelta != b.OnHold() {
		return fmt.Errorf("I3: deltas of %+v don't add up", e)
	}
	return nil
}

// limit checks I1.
func (s *step) limit() error {
	r := &s.after
	if s.op.Assert && r.Source == admission.FromConfig && int(r.Limit) != s.op.Limit {
		return fmt.Errorf("I9: limit %d, asserted %d", r.Limit, s.op.Limit)
	}
	if err := s.override(); err != nil {
		return err
	}
	if len(s.grants) > 0 && r.Inflight()+r.OnHold() > int(r.Limit) {
		return fmt.Errorf("I1: granted %v, and now %d inflight + %d on hold > limit %d",
			s.grants, r.Inflight(), r.OnHold(), r.Limit)
	}
	return nil
}

// override checks I9: nothing but a retune changes a record's override, and one that isn't about the key's own leaves
// that alone. A record with one is not given up.
func (s *step) override() error {
	b, r := &s.before, &s.after
	if s.fresh && s.op.Kind != admission.OpRetune {
		return nil
	}
	source, limit := b.Source, b.Limit
	switch own := source == admission.FromKey; {
	case own && r.Retired:
		return errors.New("I9: a record with an override of its key's own is retired")
	case r.Retired:
		return nil
	case s.op.Kind != admission.OpRetune || own && !s.op.Own:
		if source == admission.FromConfig && r.Source == source {
			return nil
		}
	case s.op.Override.Source == admission.FromConfig:
		source, limit = admission.FromConfig, uint32(s.op.Limit)
	default:
		source, limit = s.op.Override.Source, uint32(s.op.Override.Limit)
	}
	if r.Source != source || r.Limit != limit {
		return fmt.Errorf("I9: limit %d from %d, and it should be %d from %d", r.Limit, r.Source, limit, source)
	}
	return nil
}

// outstanding checks I9: maintaining a record, or another limit, takes nothing from living workers.
func (s *step) outstanding() error {
	if s.op.Kind != admission.OpMaintain && s.op.Kind != admission.OpRetune || s.effect.Reaped > 0 {
		return nil
	}
	before, after := s.before.Inflight()+s.before.Queue.Len(), s.after.Inflight()+s.after.Queue.Len()
	if s.after.Inflight() < s.before.Inflight() || after < before {
		return fmt.Errorf("I9: %d permits and %d tickets were outstanding, and %d and %d are",
			s.before.Inflight(), s.before.Queue.Len(), s.after.Inflight(), s.after.Queue.Len())
	}
	return nil
}

// workConserving checks I4.
func (s *step) workConserving() error {
	r := &s.after
	if free := int(r.Limit) - r.Inflight() - r.OnHold(); free > 0 {
		for i := range r.Queue.Len() {
			if t := r.Queue.At(i); t.Deadline > s.now {
				return fmt.Errorf("I4: %d permits free and %+v waits", free, t)
			}
		}
	}
	return nil
}

// tickets checks how the queue changed (I2, I7). A ticket that left it:
//
//   - was granted in time;
//   - or belongs to the operation's own worker, which withdrew it;
//   - or belongs to a dead worker that was reaped.
//
// The others are still there, in the same order.
func (s *step) tickets() error {
	type id struct {
		seat uint16
		seq  uint32
	}
	granted := map[id]bool{}
	var errs []error
	for _, g := range s.grants {
		if granted[id{g.Seat, g.Seq}] {
			errs = append(errs, fmt.Errorf("I2: %+v granted twice", g))
		}
		granted[id{g.Seat, g.Seq}] = true
		if g.Deadline <= s.now {
			errs = append(errs, fmt.Errorf("I7: %+v granted at %d", g, s.now))
		}
	}
	var was, is []id
	there := map[id]bool{}
	for i := range s.after.Queue.Len() {
		t := s.after.Queue.At(i)
		v := id{t.Seat, t.Seq}
		if there[v] || granted[v] {
			errs = append(errs, fmt.Errorf("I2: %+v is in the queue twice, or granted", t))
		}
		there[v] = true
		if epoch(&s.before, t.Seat) == epoch(&s.after, t.Seat) {
			is = append(is, v)
		}
	}
	expired := map[uint32]bool{}
	for _, seq := range s.effect.Expired {
		expired[seq] = true
	}
	for i := range s.before.Queue.Len() {
		t := s.before.Queue.At(i)
		v := id{t.Seat, t.Seq}
		reaped := s.effect.Reaped > 0 && epoch(&s.before, t.Seat) != epoch(&s.after, t.Seat)
		own := t.Seat == s.op.Me.Seat && (s.op.Kind == admission.OpCancel && t.Seq == s.op.Seq ||
			s.op.Kind == admission.OpReconcile || s.op.Kind == admission.OpExpire && expired[t.Seq])
		switch {
		case there[v] && epoch(&s.before, t.Seat) == epoch(&s.after, t.Seat):
			was = append(was, v)
		case granted[v] || own || reaped:
		default:
			errs = append(errs, fmt.Errorf("I2: %+v is lost", t))
		}
		if s.op.Kind == admission.OpExpire && expired[t.Seq] && t.Seat == s.op.Me.Seat && t.Deadline > s.now {
			errs = append(errs, fmt.Errorf("I7: %+v expired at %d", t, s.now))
		}
	}
	for i := range was {
		if is[i] != was[i] {
			errs = append(errs, fmt.Errorf("I5: the queue was %v and is %v", was, is))
			break
		}
	}
	return errors.Join(errs...)
}

// rule checks I5: each grant went to the tenant with the least inflight per weight, to its oldest ticket.
func (s *step) rule() error {
	var err error
	for at := len(s.grants); at >= 0; at-- { // the own grant may have come at any place among the others
		order := s.grants
		if s.own {
			if at == len(s.grants) {
				continue
			}
			last := len(order) - 1
			order = append(append(append([]grant{}, order[:at]...), order[last]), order[at:last]...)
		}
		if err = s.ruleFor(order); err == nil || !s.own {
			return err
		}
	}
	return err
}

type share struct {
	load, weight, last uint64 // load: inflight and on hold
	waiting            int
}

func (s *step) ruleFor(order []grant) error {
	shares := map[uint64]*share{}
	for _, t := range s.after.Tenants {
		if t.Weight != 0 {
			load := uint64(t.Inflight) + uint64(t.OnHold)
			shares[t.ID] = &share{load: load, weight: uint64(t.Weight), last: s.before.Forgotten}
		}
	}
	for _, t := range s.before.Tenants {
		if sh := shares[t.ID]; sh != nil && t.Weight != 0 {
			sh.last = t.LastGrant
		}
	}
	oldest := map[uint64]int{} // the first ticket still waiting of each tenant
	for i := range s.after.Queue.Len() {
		t := s.after.Queue.At(i)
		if id := s.after.Tenants[t.Tenant].ID; t.Deadline > s.now {
			if shares[id].waiting++; shares[id].waiting == 1 {
				oldest[id] = s.position(t)
			}
		}
	}
	for _, g := range order {
		sh := shares[g.tenant]
		if sh == nil {
			return nil // counted under the shared tenant: this check can't tell
		}
		sh.load--
		sh.waiting++
		if first, ok := oldest[g.tenant]; ok && first < s.position(g.Ticket) {
			return fmt.Errorf("I5: %+v was granted before an older ticket of its tenant", g)
		}
	}
	seq := s.before.GrantSeq
	for _, g := range order {
		sh := shares[g.tenant]
		for id, other := range shares {
			if other.waiting > 0 && before(other, id, sh, g.tenant) {
				return fmt.Errorf("I5: %+v was granted before tenant %d: %+v against %+v", g, id, *sh, *other)
			}
		}
		seq++
		sh.waiting--
		sh.load++
		sh.last = seq
	}
	return nil
}

// position is a ticket's place among those there were before the step; new ones come last.
func (s *step) position(t admission.Ticket) int {
	same := epoch(&s.before, t.Seat) == epoch(&s.after, t.Seat)
	for i := range s.before.Queue.Len() {
		if b := s.before.Queue.At(i); same && b.Seat == t.Seat && b.Seq == t.Seq {
			return i
		}
	}
	return s.before.Queue.Len() + int(t.Seq)
}

// epoch is the incarnation that has a column under a seat; 0: there is none.
func epoch(r *admission.Record, seat uint16) uint64 {
	for _, c := range r.Columns {
		if c.Seat == seat {
			return c.Epoch
		}
	}
	return 0
}

func before(a *share, aID uint64, b *share, bID uint64) bool {
	x, y := a.load*b.weight, b.load*a.weight
	switch {
	case x != y:
		return x < y
	case a.last != b.last:
		return a.last < b.last
	}
	return aID < bID
}

// overtaking checks I6.
func (s *step) overtaking() error {
	if s.overtaken == nil {
		s.overtaken = map[[2]uint64]int{}
	}
	starving := func(r *admission.Record) map[uint64]bool {
		m := map[uint64]bool{}
		for i := range r.Queue.Len() {
			t := r.Queue.At(i)
			if at := &r.Tenants[t.Tenant]; t.Deadline > s.now && at.Inflight+at.OnHold == 0 {
				m[at.ID] = true
			}
		}
		return m
	}
	was, is := starving(&s.before), starving(&s.after)
	for pair := range s.overtaken {
		if !is[pair[0]] || !was[pair[0]] {
			delete(s.overtaken, pair)
		}
	}
	var errs []error
	for _, g := range s.grants {
		for id := range is {
			if !was[id] || id == g.tenant {
				continue
			}
			pair := [2]uint64{id, g.tenant}
			if s.overtaken[pair]++; s.overtaken[pair] > 1 {
				errs = append(errs, fmt.Errorf("I6: tenant %d waits with nothing running and was overtaken %d times by tenant %d",
					id, s.overtaken[pair], g.tenant))
			}
		}
	}
	return errors.Join(errs...)
}
