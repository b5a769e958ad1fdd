package filter

import (
	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/config"
	"github.com/headgate/headgate/admission/request"
	"github.com/headgate/headgate/filter/abi"
)

// An answer is what is known of how a request was answered and how it ended. It is read in several steps: a host call
// takes time, so a property is read only where it decides something. Package request reads what Envoy says of the
// cause, and package admission has the policy, in Judge.
type answer struct {
	admission.Ending
	retryAfter admission.Duration // when a client may come back, as the provider said
	retryIn    int                // attempt: in how many seconds the router would try again; 0: nothing says
	final      bool               // the provider has said that trying again is no use
	whoseKnown bool               // Local has been read
	refused    bool               // by the stage attempt, before anything went to the upstream
	outcome    admission.Outcome  // what its end says; OutcomeNone until then
}

const statusHeader = ":status"

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
	if s.answer.Status < 400 && len(forged) == 0 && !isProbe && !s.grpc {
		return types.ActionContinue // who answered is read at the end, and not at all if the answer comes whole
	}
	s.readWhose() // for gRPC, Envoy's own answers have status 200 too
	s.plugin.hasHeardGRPC = s.plugin.hasHeardGRPC || s.grpc && !s.answer.Local
	s.answer.Unheard = s.grpc && !s.plugin.hasHeardGRPC
	if !s.answer.Local {
		for _, name := range forged { // an upstream can't speak for Headgate
			abi.RemoveResponseHeader(name)
		}
	}
	if isProbe {
		s.reportProbe()
	}
	if s.answer.Status >= 400 {
		s.proposeRetry()
	}
	return types.ActionContinue
}

// readAnswer reads the status, and of an answer that may be a failure also when a client may come back. It returns the
// names of the headers that only Headgate may send.
func (s *stream) readAnswer(headers abi.Pairs) (forged []string) {
	a := &s.answer
	l := &s.plugin.lookups
	l.refused = l.refused[:0]
	for c := headers.Cursor(); c.Seek(1<<len(statusHeader), ownPrefix); {
		switch {
		case is(c.Name, statusHeader):
			a.Status = decimal(c.Value)
		case hasPrefix(c.Name, ownPrefix) && (!s.shadow() || is(c.Name, retryHeader)):
			l.refuse(c.Name)
		}
	}
	if a.Status < 400 {
		return l.refused
	}
	for c := headers.Cursor(); c.Next(); {
		switch {
		case is(c.Name, "retry-after"):
			a.retryAfter, a.RateLimited = max(a.retryAfter, request.ParseRetryAfter(view(c.Value), abi.Wall())), true
		case is(c.Name, "retry-after-ms"):
			a.retryAfter, a.RateLimited = max(a.retryAfter, request.ParseRetryAfterMillis(view(c.Value))), true
		case hasPrefix(c.Name, "x-ratelimit-"):
			a.RateLimited = true
		case is(c.Name, "x-should-retry"):
			a.final = view(c.Value) == "false"
		case is(c.Name, delayHeader):
			a.retryIn = decimal(c.Value)
		}
	}
	return l.refused
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
	s.publishVirtual()
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

// readWhose reads whose the answer is, once. An attempt sees answers of the provider only. Elsewhere Envoy may have
// answered, or another filter.
func (s *stream) readWhose() {
	a := &s.answer
	if a.whoseKnown {
		return
	}
	a.whoseKnown = true
	if s.plugin.cfg.Stage == config.StageAttempt {
		return
	}
	details, _ := abi.Property("response\x00code_details")
	if view(details) == viaUpstream {
		return
	}
	a.Local, a.retryAfter, a.refused = true, 0, hasPrefix(details, ownDetails)
	a.Cause = request.CauseOfDetails(view(details))
	if a.Cause == admission.CauseUnknown {
		a.Cause = admission.CauseProxy
	}
}

const (
	viaUpstream = "via_upstream" // the response code details of an answer of the upstream's
	ownDetails  = "headgate_"    // how the details of our own refusals begin
)

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

// judgeEnd reads how the request ended, and notes what that says.
func (s *stream) judgeEnd() {
	if s.answer.Sent {
		s.answer.Unheard = s.grpc && !s.plugin.hasHeardGRPC
		s.readEnding()
		s.answer.outcome = admission.Judge(s.answer.Ending)
	}
}

// countEnds counts the request's end in every pool of which it holds a permit.
func (s *stream) countEnds() {
	for i := 0; s.answer.Sent && i < len(s.held); i++ {
		if h := &s.held[i]; h.permit.Key != nil {
			s.countEnd(&h.pool.stats, s.answer.outcome)
		}
	}
}

// statusSwitchingProtocols is the status of an upgrade. The answer of one has no end of its own.
const statusSwitchingProtocols = 101

// readEnding reads the properties that decide how the request ended, and no others.
func (s *stream) readEnding() {
	a := &s.answer
	a.Attempt = s.plugin.cfg.Stage == config.StageAttempt
	if a.Status == statusSwitchingProtocols {
		return
	}
	if a.Status > 0 { // otherwise it would be an earlier try's
		a.Whole = hasProperty("response\x00backend_latency") // the upstream's last byte has come
	}
	if a.Failed() || a.Completed() || a.Local {
		return
	}
	flags, _ := abi.Integer("response\x00flags")
	a.Cause = request.CauseOfFlags(flags)
	if a.Cause == admission.CauseUnknown {
		details, _ := abi.Property("response\x00code_details")
		a.Cause = request.CauseOfDetails(view(details))
	}
	if a.Attempt && a.Cause == admission.CauseUnknown {
		a.Cause = s.causeOfCut()
	}
}

// causeOfCut reads why an attempt ended, of which Envoy's flags and details say nothing: they are the call's.
func (s *stream) causeOfCut() admission.Cause {
	if hasProperty("request\x00duration") {
		return admission.CauseClient // the call had ended before
	}
	if s.answer.Status == 0 && hasProperty("response\x00code") {
		return admission.CauseProxy // another attempt has answered
	}
	if s.answer.Status == 0 && !hasProperty("upstream\x00local_address") {
		return admission.CauseUnreachable
	}
	return admission.CauseProvider
}

func hasProperty(path string) bool {
	_, status := abi.Property(path)
	return status == abi.StatusOK
}

// leavesUpstreamBusy reports whether the upstream may still be at work on a request that has ended: Envoy has yet to
// reset it there, or to write the reset.
func (s *stream) leavesUpstreamBusy() bool {
	a := &s.answer
	switch {
	case !a.Sent, a.Whole, a.refused, a.Cause == admission.CauseReset, a.Cause == admission.CauseUnreachable:
		return false
	case a.Local, a.Cause == admission.CauseProxy && !a.Attempt:
		return hasProperty("upstream\x00local_address") // it had a connection
	}
	return true
}

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

// is reports whether b is that text.
//
//go:noinline // as trimmed
func is(b []byte, text string) bool { return view(b) == text }

func hasPrefix(b []byte, prefix string) bool {
	return len(b) >= len(prefix) && view(b[:len(prefix)]) == prefix
}
