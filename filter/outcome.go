package filter

import (
	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/filter/abi"
)

// An answer is what is known of a request's answer while and after it passes.
type answer struct {
	sent     bool // the request has gone on to the upstream
	status   int  // 0: no answer yet
	foreign  bool // it came from Envoy or another filter, not from the provider
	failed   bool // it is a failure of the provider
	pushback bool // it is the provider's 429
	left     bool // the client left while the upstream was at it

	retryAfter admission.Duration
}

// OnHttpResponseHeaders looks at the provider's answer.
func (s *stream) OnHttpResponseHeaders(int, bool) types.Action {
	if !s.answer.sent {
		return types.ActionContinue
	}
	if s.later {
		s.evaluateLate()
	}
	headers, _ := abi.ResponseHeaders()
	forged := s.plugin.reads.own[:0]
	for c := headers.Cursor(); c.Next(); {
		switch {
		case view(c.Name) == ":status":
			s.answer.status = decimal(c.Value)
		case hasPrefix(c.Name, ownPrefix) && !s.shadow():
			forged = append(forged, string(c.Name))
		}
	}
	if s.answer.status >= 400 {
		s.readFailure(headers)
	}
	probes := s.probes()
	if s.answer.status < 400 && len(forged) == 0 && !probes {
		return types.ActionContinue // whose answer it is can be told at its end, for nothing if it comes whole
	}
	if s.byProvider() {
		for _, name := range forged { // an upstream can't speak for Headgate
			abi.RemoveResponseHeader(name)
		}
	}
	if probes {
		s.reportProbe()
	}
	return types.ActionContinue
}

// evaluateLate takes an attempt in shadow through the pools when its answer begins: by then its body has passed, and with it
// the model.
func (s *stream) evaluateLate() {
	s.plugin.begin()
	s.inherit()
	s.later = false
	if s.dims[admission.DimensionModel].to == s.dims[admission.DimensionModel].from {
		s.setModel(bytesOf(unknownModel))
	}
	s.choose()
	s.proceed()
}

// probes reports whether the request is a breaker's probe.
func (s *stream) probes() bool {
	for i := range s.held {
		if h := &s.held[i]; h.key != nil && h.key.probe == h.seq {
			return true
		}
	}
	return false
}

// readFailure finds out whether an answer that is no success is the provider's failure.
func (s *stream) readFailure(headers abi.Pairs) {
	a := &s.answer
	after, limited := retryHeaders(headers)
	switch {
	case a.status == 429:
		a.failed, a.pushback = true, true
	case a.status == 403:
		a.failed = limited // a bare 403 is the client's own error
	case a.status >= 500:
		a.failed = true
	}
	a.retryAfter = after
}

// byProvider reports whether the answer is the provider's. One made by Envoy or a filter, be it our own attempt stage, tells
// of the provider's failure if that is a reset or a timeout, but not if Envoy's own limits kept the request from being sent.
func (s *stream) byProvider() bool {
	if s.plugin.cfg.Stage == admission.StageAttempt {
		return true // an attempt sees no others
	}
	details, _ := abi.Property("response\x00code_details")
	if view(details) == "via_upstream" {
		return true
	}
	a := &s.answer
	a.foreign, a.pushback, a.retryAfter = true, false, 0
	a.failed = hasPrefix(details, "response_timeout") ||
		hasPrefix(details, "upstream_") && view(details) != "upstream_reset_before_response_started{overflow}"
	return false
}

// retryHeaders reads when to come back, and whether the answer speaks of a rate limit at all.
func retryHeaders(headers abi.Pairs) (after admission.Duration, limited bool) {
	for c := headers.Cursor(); c.Next(); {
		switch {
		case view(c.Name) == "retry-after":
			after, limited = admission.ParseRetryAfter(view(c.Value), abi.Wall()), true
		case hasPrefix(c.Name, "x-ratelimit-"):
			limited = true
		}
	}
	return after, limited
}

// reportProbe tells the record how its breaker's probe ends as soon as that is known: the stream may go on for hours.
func (s *stream) reportProbe() {
	p := s.plugin
	for i := range s.held {
		h := &s.held[i]
		if h.key == nil || h.key.probe != h.seq || s.answer.foreign && !s.answer.failed {
			continue
		}
		p.begin()
		op := p.prepare(&p.op, admission.OpReport, h.key)
		op.Expect, op.Seq, op.Outcome = true, h.seq, admission.OutcomeSuccess
		if s.answer.failed {
			op.Outcome = admission.OutcomeFailure
		}
		h.key.probe = 0
		if p.step(h.key) == nil {
			p.failed(h.key)
		}
	}
}

// judge is how the request ended for the provider, once it has ended.
func (s *stream) judge() (o admission.Outcome, whole bool) {
	a := &s.answer
	if !a.sent {
		return admission.OutcomeNone, false
	}
	if a.status == 101 {
		return admission.OutcomeSuccess, true // an upgrade lasts as long as it lasts
	}
	_, status := abi.Property("response\x00backend_latency") // there once the upstream's last byte has come
	whole = status == abi.StatusOK && !a.foreign
	if !whole && a.status > 0 && a.status < 400 {
		s.byProvider()
	}
	switch {
	case a.failed:
		return admission.OutcomeFailure, whole
	case whole:
		return admission.OutcomeSuccess, true
	case s.clientLeft():
		a.left = true
		return admission.OutcomeCancel, false
	case a.foreign:
		return admission.OutcomeNone, false
	case a.status > 0:
		return admission.OutcomeFailure, false // cut in the middle
	case s.plugin.cfg.Stage != admission.StageAttempt:
		return admission.OutcomeNone, false
	}
	if _, status := abi.Property("response\x00code"); status == abi.StatusOK {
		return admission.OutcomeCancel, false // another attempt has won
	}
	return admission.OutcomeFailure, false // reset, or out of time
}

// noVerdict are the response flags of endings that say nothing about the provider. The client closed its connection (Envoy's
// DC), broke its protocol (DPE) or reset its stream (DR); or a timer for idle (SI) or long (DT) streams ended it, which a
// client that stops reading can bring about.
const noVerdict = 1<<14 | 1<<18 | 1<<28 | 1<<16 | 1<<22

// clientLeft reports whether the request was ended from the client's side, or by a timer on its stream.
func (s *stream) clientLeft() bool {
	f, status := abi.Property("response\x00flags")
	return status == abi.StatusOK && len(f) == 8 && (uint32(f[0])|uint32(f[1])<<8|uint32(f[2])<<16|uint32(f[3])<<24)&noVerdict != 0
}

// conclude counts how the request ended, in every pool that it holds a permit of.
func (s *stream) conclude() admission.Outcome {
	outcome, whole := s.judge()
	if !s.answer.sent {
		return outcome
	}
	for i := range s.held {
		if k := s.held[i].key; k != nil {
			s.countEnd(&k.pool.stats, outcome, whole)
		}
	}
	return outcome
}

func (s *stream) countEnd(stats *poolStats, outcome admission.Outcome, whole bool) {
	switch {
	case s.answer.pushback:
		abi.Increment(stats.provider429, 1)
	case outcome == admission.OutcomeFailure:
		abi.Increment(stats.providerFailure, 1)
	}
	if whole {
		abi.Increment(stats.completed, 1)
	} else {
		abi.Increment(stats.aborted, 1)
	}
}

func decimal(b []byte) int {
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' || n > 1000 {
			return 0
		}
		n = n*10 + int(c-'0')
	}
	return n
}

func hasPrefix(b []byte, prefix string) bool {
	return len(b) >= len(prefix) && view(b[:len(prefix)]) == prefix
}
