package filter

import (
	"strconv"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/request"
	"github.com/headgate/headgate/filter/abi"
)

// refuseNow refuses the request. The stream has to be the one that host calls are about: in a callback of its own, or
// after SetEffectiveContext.
func (s *stream) refuseNow() {
	p, f := s.plugin, &s.refusal
	r := &replies[f.reason]
	s.publish(r.Outcome, f.pool)
	after := strconv.Itoa(f.secondsToWait())
	pairs := [...][2]string{{"content-type", "application/json"}, {"x-headgate-reason", r.Reason},
		{"x-headgate-pool", f.pool}, {"retry-after", after}, {"x-envoy-ratelimited", "true"}, {"x-should-retry", "false"}}
	n := len(pairs) // which of them the reply has depends on why it is made
	switch f.reason {
	case reasonAmbiguous:
		n = 2
	case reasonBreaker:
		n = 4
	case reasonFull, reasonExpired, reasonFailed:
		n = 5
	}
	headers := abi.AppendPairs(nil, pairs[:n]...)
	body := f.message(after, s.attempt)
	if !s.grpc { // of a gRPC request the host makes it the grpc-message
		path, _ := abi.Property("request\x00path")
		body = errorBody(request.APIOf(view(path)), r, body)
	}
	p.turn.actions++
	abi.SendLocalReply(r.Status, r.Details, bytesOf(body), headers, r.GRPC)
}

// reply refuses a waiting request from outside its callbacks.
func (s *stream) reply() {
	p := s.plugin
	if abi.SetEffectiveContext(s.id) != abi.StatusOK {
		return
	}
	s.refuseNow()
	abi.SetEffectiveContext(p.id)
}

// resume lets a waiting request go on, which has all its permits. If the stream is gone, it gives the permits back.
func (s *stream) resume() {
	p := s.plugin
	if abi.SetEffectiveContext(s.id) != abi.StatusOK {
		s.releaseAll(admission.OutcomeNone)
		return
	}
	s.announce()
	s.paused, s.resumed = false, p.turn.now
	p.turn.actions++
	abi.ContinueRequest()
	abi.SetEffectiveContext(p.id)
}

// announce tells the upstream the rest of the deadline, and the access log that the request was admitted.
func (s *stream) announce() {
	p := s.plugin
	s.handOver(true)
	s.answer.Sent = true
	switch {
	case s.shadow():
		s.publishVirtual()
	case s.asked != nil:
		s.publish("admitted", s.asked.Name)
	}
	if s.shadow() || s.deadline == 0 || s.waited < millisecond && s.inherited == inheritedNothing {
		return
	}
	for i := range s.deadlines {
		h := &s.deadlines[i]
		left := admission.Duration(s.deadline - p.turn.now)
		p.out = request.AppendDeadline(p.out[:0], h.header, view(s.kept(h.original)), left)
		abi.ReplaceRequestHeader(h.header.Name, p.out)
	}
}

// publish puts the decision into filter state wasm.headgate, a JSON object, where the host's access log can print it.
func (s *stream) publish(outcome, pool string) {
	p := s.plugin
	if s.waited < millisecond && s.refusal.reason == reasonNone && s.asked != nil && s.attempt <= 1 {
		abi.SetProperty("headgate", s.asked.admittedAtOnce)
		return
	}
	p.out = appendOutcome(p.out[:0], outcome, pool, s.waited/millisecond, max(s.attempt, 1))
	abi.SetProperty("headgate", p.out)
}

// appendOutcome appends the JSON object for the access log.
func appendOutcome(b []byte, outcome, pool string, waitMillis, attempts int64) []byte {
	b = put(put(b, `{"outcome":"`), outcome)
	b = put(put(b, `","pool":"`), pool)
	b = strconv.AppendInt(put(b, `","wait_ms":`), waitMillis, 10)
	b = strconv.AppendInt(put(b, `,"attempts":`), attempts, 10)
	return put(b, "}")
}
