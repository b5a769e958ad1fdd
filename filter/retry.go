package filter

import (
	"strconv"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/config"
	"github.com/headgate/headgate/filter/abi"
)

// What the stage attempt tells Envoy's router about a failed answer: whether to try again, and when. The router looks
// at the headers of an answer only. It throws away the body of one that it tries again after, so whoever finds out
// then that the next try can't have a permit has nothing left to give to the client. So it is found out before.

const (
	// retryHeader is there if another try makes sense: "5xx" or "429". envoy/envoy.yaml lets the router retry on it.
	retryHeader = "x-headgate-retry"
	// delayHeader says after how many seconds the router tries again. A filter of envoy/envoy.yaml sets it by the
	// number of the try; here it grows to when a permit is likely to be free. The router adds up to a half of it.
	delayHeader = "x-envoy-retry-in"

	statusNotImplemented = 501
)

// proposeRetry tells the router whether another try makes sense after a failed answer of the provider's.
func (s *stream) proposeRetry() {
	p, a := s.plugin, &s.answer
	kind := ""
	switch {
	case p.cfg.Stage != config.StageAttempt || a.Local || a.final || a.Status == statusNotImplemented:
	case a.Status >= 500:
		kind = "5xx"
	case a.Pushback():
		kind = "429"
	}
	if kind == "" {
		return
	}
	after := 0
	if !s.shadow() {
		p.begin()
		var hopeless bool
		if after, hopeless = s.foreseeRetry(); hopeless {
			return
		}
	}
	if after = after * 2 / 3; after > a.retryIn {
		p.out = strconv.AppendInt(p.out[:0], int64(after), 10)
		abi.ReplaceResponseHeader(delayHeader, p.out)
	}
	abi.ReplaceResponseHeader(retryHeader, bytesOf(kind))
}

// foreseeRetry returns in how many seconds another try is likely to have its permits; hopeless: not in the time that it
// may wait, or the breaker is open then.
func (s *stream) foreseeRetry() (after int, hopeless bool) {
	p := s.plugin
	finish := s.finish(admission.JudgeAnswer(s.answer.Ending))
	for i := range s.held {
		h := &s.held[i]
		if h.permit.Key == nil {
			continue
		}
		verdict, seconds := p.records.Foresee(&h.permit, finish)
		budget := h.pool.MaxWait
		if s.deadline > 0 {
			budget = min(budget, admission.Duration(s.deadline-p.turn.now))
		}
		switch verdict {
		case admission.VerdictGranted:
		case admission.VerdictFull:
			after = max(after, seconds)
			hopeless = hopeless || admission.Duration(seconds-1)*admission.Second >= budget
		default:
			hopeless = true
		}
	}
	return after, hopeless
}
