package filter

import (
	"strconv"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/request"
	"github.com/headgate/headgate/filter/abi"
)

// A reason is why a request is refused.
type reason uint8

const (
	reasonNone reason = iota
	reasonRejected
	reasonExpired
	reasonAmbiguous
	reasonBreaker
)

// A refusal is what the client of a refused request is told.
type refusal struct {
	_ incomparable

	reason     reason
	pool       string
	retryAfter int // seconds
}

// A Reply is how clients and the access log see a refusal of one reason.
type Reply struct {
	Status  uint32 // of HTTP
	Reason  string // the header x-headgate-reason, and the code in the JSON error
	Kind    string // the type in the JSON error
	Message string // the message in the JSON error, or in the status of a gRPC request
	Details string // %RESPONSE_CODE_DETAILS% in Envoy's access log
	Outcome string // the outcome in filter state wasm.headgate
	GRPC    int32  // the status of a gRPC request
}

// replies has the reply for each reason.
var replies = [...]Reply{
	reasonRejected: {429, "ADMISSION_REJECTED", "rate_limited",
		"No permit is free and there is no place in the queue. Try again later.", "headgate_rejected", "rejected", 8},
	reasonExpired: {429, "ADMISSION_WAIT_DEADLINE_EXCEEDED", "rate_limited",
		"No permit came free in the time this request could wait. Try again later.", "headgate_expired", "expired", 8},
	reasonBreaker: {503, "BREAKER_OPEN", "unavailable",
		"The upstream has failed or pushed back too often, so it is given time to recover. Try again later.",
		"headgate_breaker_open", "breaker", 14},
	reasonAmbiguous: {400, "AMBIGUOUS_IDENTITY", "invalid_request_error",
		"A header that decides the tenant, the model, the class or the deadline was sent more than once.",
		"headgate_ambiguous", "ambiguous", 3},
}

// Replies returns what Headgate can refuse a request with: one reply for each reason. The tables in the documents are
// tested against it.
func Replies() []Reply { return append([]Reply(nil), replies[reasonNone+1:]...) }

// refuseNow refuses the request. The stream has to be the one that host calls are about: in a callback of its own, or
// after SetEffectiveContext.
func (s *stream) refuseNow() {
	p, f := s.plugin, &s.refusal
	r := &replies[f.reason]
	s.publish(r.Outcome, f.pool)
	pairs := [...][2]string{{"content-type", "application/json"}, {"x-headgate-reason", r.Reason},
		{"x-headgate-pool", f.pool}, {"retry-after", strconv.Itoa(max(f.retryAfter, 1))}, {"x-envoy-ratelimited", "true"}}
	n := len(pairs) // which of them the reply has depends on its status
	switch r.Status {
	case 400:
		n = 2
	case 503:
		n = 4
	}
	headers := abi.AppendPairs(nil, pairs[:n]...)
	body := `{"error":{"message":"` + r.Message + `","type":"` + r.Kind + `","code":"` + r.Reason + `","param":null}}`
	if s.grpc {
		body = r.Message // the host makes it the grpc-message
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
	if s.asked != nil {
		s.publish("admitted", s.asked.Name)
	}
	if s.shadow() || s.deadline == 0 || s.waited < millisecond && s.inherited == inheritedNothing {
		return
	}
	for i := range s.deadlines {
		h := &s.deadlines[i]
		p.out = request.AppendDeadline(p.out[:0], h.name, view(s.kept(h.original)), admission.Duration(s.deadline-p.turn.now))
		abi.ReplaceRequestHeader(h.name, p.out)
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
	b = append(append(b, `{"outcome":"`...), outcome...)
	b = append(append(b, `","pool":"`...), pool...)
	b = strconv.AppendInt(append(b, `","wait_ms":`...), waitMillis, 10)
	b = strconv.AppendInt(append(b, `,"attempts":`...), attempts, 10)
	return append(b, '}')
}
