package filter

import (
	"strconv"

	"github.com/headgate/headgate/admission/request"
	"github.com/headgate/headgate/filter/abi"
)

// A reason is why a request is refused.
type reason uint8

const (
	reasonNone   reason = iota
	reasonFull          // no permit, and no place in the queue
	reasonClosed        // the limit is 0
	reasonFailed        // the store failed
	reasonExpired
	reasonBreaker
	reasonAmbiguous
)

// A refusal is what the client of a refused request is told.
type refusal struct {
	_ incomparable

	reason     reason
	pool       string
	retryAfter int // seconds
	lastStatus int // of the breaker's pool: what the provider answered last; 0: not known
}

// A Reply is how clients and the access log see refusals of one kind.
type Reply struct {
	Status  uint32 // of HTTP
	Reason  string // the header x-headgate-reason, and the code in the JSON error
	Kind    string // the type in the JSON error
	Details string // %RESPONSE_CODE_DETAILS% in Envoy's access log
	Outcome string // the outcome in filter state wasm.headgate
	GRPC    int32  // the status of a gRPC request
}

var rejected = Reply{429, "ADMISSION_REJECTED", "rate_limited", "headgate_rejected", "rejected", 8}

// replies has the reply for each reason.
var replies = [...]Reply{
	reasonFull:   rejected,
	reasonClosed: rejected,
	reasonFailed: rejected,
	reasonExpired: {429, "ADMISSION_WAIT_DEADLINE_EXCEEDED", "rate_limited", "headgate_expired",
		"expired", 8},
	reasonBreaker:   {503, "BREAKER_OPEN", "unavailable", "headgate_breaker_open", "breaker", 14},
	reasonAmbiguous: {400, "AMBIGUOUS_IDENTITY", "invalid_request_error", "headgate_ambiguous", "ambiguous", 3},
}

// Replies returns what Headgate can refuse a request with. The tables in the documents are tested against it.
func Replies() []Reply { return append([]Reply(nil), replies[reasonFailed:]...) }

// message is what a client is told, who may never have heard of Headgate: who speaks, which pool, and when to come
// back. attempt is the number of the try, or 0. A try after another one says that there was one: the client never sees
// how that ended, and its failure may be the one that opened the breaker.
func (f *refusal) message(after string, attempt int64) string {
	says, cause, retry := "Headgate: ", `pool "`+f.pool+`"`, "; retry in "+after+" s"
	if attempt > 1 {
		says = "Headgate: an earlier try of this request failed; "
	}
	switch f.reason {
	case reasonFull:
		cause += " is full"
	case reasonClosed:
		cause, retry = cause+" is closed", ""
	case reasonFailed:
		cause += " could not be asked for a permit"
	case reasonExpired:
		cause = "no permit of " + cause + " came free in time"
	case reasonBreaker:
		last := ""
		if f.lastStatus > 0 {
			last = " (last with " + strconv.Itoa(f.lastStatus) + ")"
		}
		cause = "the upstream has failed too often" + last + ", so the breaker of " + cause + " is open"
	default:
		cause, retry = "a header that decides the tenant, the model, the class or the deadline was sent more than once", ""
	}
	return says + cause + retry
}

// errorBody is the JSON error that the clients of an API parse.
func errorBody(api request.API, r *Reply, message string) string {
	message = quoted(message)
	switch api {
	case request.APIAnthropic:
		kind := "rate_limit_error"
		switch r.Status {
		case 400:
			kind = r.Kind
		case 503:
			kind = "overloaded_error"
		}
		return `{"type":"error","error":{"type":"` + kind + `","message":` + message + `}}`
	case request.APIGoogle:
		status := "RESOURCE_EXHAUSTED"
		switch r.Status {
		case 400:
			status = "INVALID_ARGUMENT"
		case 503:
			status = "UNAVAILABLE"
		}
		return `{"error":{"code":` + strconv.Itoa(int(r.Status)) + `,"message":` + message + `,"status":"` + status + `"}}`
	}
	return `{"error":{"message":` + message + `,"type":"` + r.Kind + `","code":"` + r.Reason + `","param":null}}`
}

// quoted is a message as a JSON string. There is nothing to escape in it but quotation marks.
func quoted(message string) string {
	b := append(make([]byte, 0, len(message)+8), '"')
	for i := range len(message) {
		if message[i] == '"' {
			b = append(b, '\\')
		}
		b = append(b, message[i])
	}
	return string(append(b, '"'))
}

const (
	// longestWait is the longest retry-after in seconds.
	longestWait = 60
	// longestEstimate leaves room for the jitter below longestWait.
	longestEstimate = longestWait * 2 / 3
)

// secondsToWait is the retry-after of a refusal: the estimate, put off by up to a half of it, so that those who are
// refused together don't come back together.
func (f *refusal) secondsToWait() int {
	if f.reason == reasonClosed {
		return longestWait
	}
	seconds := min(max(f.retryAfter, 1), longestEstimate)
	var b [8]byte
	abi.Random(b[:])
	return seconds + int(abi.Uint64(b[:])%uint64(max(seconds/2, 1)+1))
}
