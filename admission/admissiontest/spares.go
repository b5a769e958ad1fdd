package admissiontest

import (
	"errors"
	"fmt"

	"github.com/headgate/headgate/admission"
)

// marks checks that spares are kept only where nobody needs them, and that whoever may have some is told when somebody
// does (I4).
func (s *step) marks() error {
	var errs []error
	r := &s.after
	free := int(r.Limit) - r.Inflight() - r.OnHold()
	recalled := map[admission.Worker]bool{}
	for _, w := range s.effect.Recalls {
		if recalled[w] || !ahead(&s.before, w) || ahead(r, w) {
			errs = append(errs, fmt.Errorf("I4: worker %+v is recalled, and had no mark, or has it still", w))
		}
		recalled[w] = true
	}
	for _, c := range r.Columns {
		own := c.Worker == s.op.Me
		switch was := ahead(&s.before, c.Worker); {
		case c.Ahead && (r.Queue.Len() > 0 || free < len(r.Columns)):
			errs = append(errs, fmt.Errorf("I4: %+v is ahead, and %d wait, %d permits are free", c, r.Queue.Len(), free))
		case c.Ahead && own && s.op.Kind == admission.OpReconcile && !s.op.Ahead:
			errs = append(errs, fmt.Errorf("I4: %+v is ahead after a reconcile", c))
		case c.Ahead && !was && (!own || !s.op.Ahead || !s.calm(free)):
			errs = append(errs, fmt.Errorf("I4: %+v has come to be ahead, and the record is not calm", c))
		case was && !c.Ahead && !recalled[c.Worker] && (!own || s.op.Kind != admission.OpReconcile):
			errs = append(errs, fmt.Errorf("I4: %+v is ahead no more, and nobody is told", c))
		}
	}
	if s.effect.Ahead != ahead(r, s.op.Me) {
		errs = append(errs, fmt.Errorf("I4: the effect says ahead %t", s.effect.Ahead))
	}
	return errors.Join(append(errs, s.recall())...)
}

// calm is whether a worker may begin to keep spares, as far as can be seen from outside.
func (s *step) calm(free int) bool {
	r, shaping := &s.after, s.op.Shaping
	return free-1 > 2*len(r.Columns) && r.Queue.Len()+len(r.Holds) == 0 && !r.Provisional &&
		(shaping == nil || shaping.Hold.Success == 0)
}

// recall checks that nobody is refused for want of a permit while one may come back, and that this is not for ever.
func (s *step) recall() error {
	e, until := s.effect, s.before.RecallUntil
	under := len(e.Recalls) > 0 || s.now < until
	switch {
	case s.after.RecallUntil != until && len(e.Recalls) == 0 && !s.after.Retired:
		return fmt.Errorf("I4: the recall lasts until %d in place of %d, and recalls nobody", s.after.RecallUntil, until)
	case len(e.Recalls) > 0 && s.after.RecallUntil <= s.now:
		return fmt.Errorf("I4: a recall at %d is over at %d", s.now, s.after.RecallUntil)
	case e.Verdict == admission.VerdictFull && under, e.Verdict == admission.VerdictRecalling && !under:
		return fmt.Errorf("I4: verdict %d at %d, recall until %d, recalled %v", e.Verdict, s.now, until, e.Recalls)
	}
	return nil
}

// ahead reports whether a worker's column has the mark.
func ahead(r *admission.Record, w admission.Worker) bool {
	for _, c := range r.Columns {
		if c.Worker == w {
			return c.Ahead
		}
	}
	return false
}
