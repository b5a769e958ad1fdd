package filter

import (
	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/config"
	"github.com/headgate/headgate/admission/request"
	"github.com/headgate/headgate/filter/abi"
)

// An answer is what is known of how a request was answered and how it ended. It is read in several steps: a host call
// takes time, so a property is read only where it decides something. Package admission has the policy, in Judge.
type answer struct {
	admission.Ending
	retryAfter admission.Duration // when a client may come back, as the provider said
	byKnown    bool               // By has been read
}

// OnHttpResponseHeaders reads the answer's headers.
func (s *stream) OnHttpResponseHeaders(int, bool) types.Action {
	if !s.answer.Sent {
		return types.ActionContinue
	}
	if s.modelPending {
		s.askPoolsLate()
	}
	headers, _ := abi.ResponseHeaders()
	forged := s.readAnswer(headers)
	isProbe := s.isProbe()
	if s.answer.Status < 400 && len(forged) == 0 && !isProbe {
		return types.ActionContinue // who answered is read at the end, and not at all if the answer comes whole
	}
	s.readBy()
	if s.answer.By == admission.ByProvider {
		for _, name := range forged { // an upstream can't speak for Headgate
			abi.RemoveResponseHeader(name)
		}
	}
	if isProbe {
		s.reportProbe()
	}
	return types.ActionContinue
}

// readAnswer reads the status, and of an answer that may be a failure also when a client may come back. It returns the
// names of the headers that only Headgate may send.
func (s *stream) readAnswer(headers abi.Pairs) (forged []string) {
	a := &s.answer
	forged = s.plugin.lookups.ownNames[:0]
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
			a.retryAfter, a.RateLimited = max(a.retryAfter, request.ParseRetryAfter(view(c.Value), abi.Wall())), true
		case view(c.Name) == "retry-after-ms":
			a.retryAfter, a.RateLimited = max(a.retryAfter, request.ParseRetryAfterMillis(view(c.Value))), true
		case hasPrefix(c.Name, "x-ratelimit-"):
			a.RateLimited = true
		}
	}
	return forged
}

// askPoolsLate asks the pools for an attempt in shadow when its answer begins. By then its body has passed, and so its
// model is known.
func (s *stream) askPoolsLate() {
	s.plugin.begin()
	s.inherit()
	s.modelPending = false
	if s.dims[config.DimensionModel].to == s.dims[config.DimensionModel].from {
		s.setModel(bytesOf(unknownModel))
	}
	s.choosePools()
	s.askPools()
}

// isProbe reports whether the request is a breaker's probe.
func (s *stream) isProbe() bool {
	for i := range s.held {
		if s.held[i].permit.IsProbe() {
			return true
		}
	}
	return false
}

// readBy reads who answered, once. An attempt sees answers of the provider only. Elsewhere Envoy may have answered:
// after a reset or a timeout the provider has failed; after a limit of Envoy's own, or in another filter, it has not.
func (s *stream) readBy() {
	a := &s.answer
	if a.byKnown {
		return
	}
	a.byKnown = true
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

// reportProbe tells the record how its breaker's probe ends. It does so as soon as the answer says it, because the
// stream may go on for hours.
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

// conclude reads how the request ended, and counts its end in every pool of which it holds a permit.
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

// statusSwitchingProtocols is the status of an upgrade. The answer of one has no end of its own.
const statusSwitchingProtocols = 101

// readEnding reads the properties that decide how the request ended, and no others.
func (s *stream) readEnding() {
	a := &s.answer
	if a.Status == statusSwitchingProtocols {
		return
	}
	_, status := abi.Property("response\x00backend_latency") // it is there when the upstream's last byte has come
	a.Whole = status == abi.StatusOK
	if !a.Completed() && a.Status > 0 && a.Status < 400 {
		s.readBy()
	}
	if a.Failed() || a.Completed() {
		return
	}
	a.Attempt = s.plugin.cfg.Stage == config.StageAttempt
	flags, _ := abi.Integer("response\x00flags")
	a.ClientLeft = flags&flagsWithoutVerdict != 0
	if a.Attempt && a.Status == 0 && !a.ClientLeft {
		_, status := abi.Property("response\x00code")
		a.Superseded = status == abi.StatusOK
	}
}

// flagsWithoutVerdict are the response flags of endings that say nothing about the provider. In the order of the
// constant:
//   - DC: the client closed its connection;
//   - DPE: it broke the protocol;
//   - DR: it reset its stream;
//   - SI: the stream was idle for too long, perhaps because the client stopped reading;
//   - DT: the stream took too long, perhaps for the same reason.
const flagsWithoutVerdict = 1<<14 | 1<<18 | 1<<28 | 1<<16 | 1<<22

// countEnd counts the request's end in the metrics of one pool.
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

// decimal returns the value of a short decimal number, or 0 for any other text.
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
