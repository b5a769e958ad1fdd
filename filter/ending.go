package filter

import (
	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/config"
	"github.com/headgate/headgate/admission/request"
	"github.com/headgate/headgate/filter/abi"
)

// An answer is what is known of a request's answer and end. Each host call costs, so a property is read only where it decides;
// admission.Judge has the policy.
type answer struct {
	admission.Ending
	retryAfter admission.Duration // what the provider said about coming back
	asked      bool               // By is known
}

// OnHttpResponseHeaders looks at the provider's answer.
func (s *stream) OnHttpResponseHeaders(int, bool) types.Action {
	if !s.answer.Sent {
		return types.ActionContinue
	}
	if s.modelPending {
		s.evaluateLate()
	}
	headers, _ := abi.ResponseHeaders()
	forged := s.readAnswer(headers)
	probes := s.probes()
	if s.answer.Status < 400 && len(forged) == 0 && !probes {
		return types.ActionContinue // whose answer it is can be told at its end, for nothing if it comes whole
	}
	s.askAnsweredBy()
	if s.answer.By == admission.ByProvider {
		for _, name := range forged { // an upstream can't speak for Headgate
			abi.RemoveResponseHeader(name)
		}
	}
	if probes {
		s.reportProbe()
	}
	return types.ActionContinue
}

// readAnswer reads the status, and of an answer that may be a failure when to come back. It returns the names of the headers
// that only Headgate may send.
func (s *stream) readAnswer(headers abi.Pairs) (forged []string) {
	a := &s.answer
	forged = s.plugin.lookups.own[:0]
	for c := headers.Cursor(); c.Next(); {
		switch {
		case view(c.Name) == ":status":
			a.Status = decimal(c.Value)
		case hasPrefix(c.Name, ownPrefix) && !s.shadow():
			forged = append(forged, string(c.Name))
		}
	}
	if a.Status < 400 {
		return forged
	}
	for c := headers.Cursor(); c.Next(); {
		switch {
		case view(c.Name) == "retry-after":
			a.retryAfter, a.RateLimited = request.ParseRetryAfter(view(c.Value), abi.Wall()), true
		case hasPrefix(c.Name, "x-ratelimit-"):
			a.RateLimited = true
		}
	}
	return forged
}

// evaluateLate takes an attempt in shadow through the pools when its answer begins: by then its body has passed, and with it
// the model.
func (s *stream) evaluateLate() {
	s.plugin.begin()
	s.inherit()
	s.modelPending = false
	if s.dims[config.DimensionModel].to == s.dims[config.DimensionModel].from {
		s.setModel(bytesOf(unknownModel))
	}
	s.choosePools()
	s.askPools()
}

// probes reports whether the request is a breaker's probe.
func (s *stream) probes() bool {
	for i := range s.held {
		if s.held[i].permit.IsProbe() {
			return true
		}
	}
	return false
}

// askAnsweredBy finds out whose the answer is. An attempt sees the provider's only. What Envoy answers for a reset or a
// timeout tells of the provider's failure; what it answers because of its own limits, or a filter, does not.
func (s *stream) askAnsweredBy() {
	a := &s.answer
	if a.asked {
		return
	}
	a.asked = true
	if s.plugin.cfg.Stage == config.StageAttempt {
		return
	}
	details, _ := abi.Property("response\x00code_details")
	switch {
	case view(details) == "via_upstream":
		return
	case hasPrefix(details, "response_timeout"),
		hasPrefix(details, "upstream_") && view(details) != "upstream_reset_before_response_started{overflow}":
		a.By = admission.ByProxyForFailure
	default:
		a.By = admission.ByProxy
	}
	a.retryAfter = 0
}

// reportProbe tells the record how its breaker's probe ends as soon as that is known: the stream may go on for hours.
func (s *stream) reportProbe() {
	p := s.plugin
	outcome := admission.JudgeAnswer(s.answer.Ending)
	for i := range s.held {
		if h := &s.held[i]; h.permit.IsProbe() && outcome != admission.OutcomeNone {
			p.begin()
			p.records.Report(&h.permit, outcome)
		}
	}
}

// conclude finds out how the request ended, and counts it in every pool that it holds a permit of.
func (s *stream) conclude() admission.Outcome {
	if !s.answer.Sent {
		return admission.OutcomeNone
	}
	s.readEnding()
	outcome := admission.Judge(s.answer.Ending)
	for i := range s.held {
		if h := &s.held[i]; h.permit.Key != nil {
			s.countEnd(&h.pool.stats, outcome)
		}
	}
	return outcome
}

const statusSwitchingProtocols = 101

// readEnding reads what decides how the request ended, and no more.
func (s *stream) readEnding() {
	a := &s.answer
	if a.Status == statusSwitchingProtocols {
		return
	}
	_, status := abi.Property("response\x00backend_latency") // there once the upstream's last byte has come
	a.Whole = status == abi.StatusOK
	if !a.Completed() && a.Status > 0 && a.Status < 400 {
		s.askAnsweredBy()
	}
	if a.Failed() || a.Completed() {
		return
	}
	a.Attempt = s.plugin.cfg.Stage == config.StageAttempt
	flags, _ := abi.Integer("response\x00flags")
	a.ClientLeft = flags&noVerdict != 0
	if a.Attempt && a.Status == 0 && !a.ClientLeft {
		_, status := abi.Property("response\x00code")
		a.Superseded = status == abi.StatusOK
	}
}

// noVerdict are the response flags of endings that say nothing about the provider: the client closed its connection (Envoy's
// DC), broke its protocol (DPE) or reset its stream (DR); or a timer for idle (SI) or long (DT) streams ended it, which a
// client that stops reading can bring about.
const noVerdict = 1<<14 | 1<<18 | 1<<28 | 1<<16 | 1<<22

func (s *stream) countEnd(stats *poolStats, outcome admission.Outcome) {
	a := &s.answer
	switch {
	case a.Pushback():
		abi.Increment(stats.provider429, 1)
	case outcome == admission.OutcomeFailure:
		abi.Increment(stats.providerFailure, 1)
	}
	if a.Completed() {
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
