package admission

// An Outcome is what a request's end says about its provider.
type Outcome uint8

// The outcomes.
const (
	OutcomeNone    Outcome = iota // nothing: never sent, refused elsewhere, answered by another filter
	OutcomeSuccess                // the provider gave a whole answer that is no failure
	OutcomeCancel                 // the client left, or another attempt's answer was taken
	OutcomeFailure                // the provider failed: 5xx, 429, a 403 that speaks of a rate limit, a transport error
)

// An AnsweredBy is who made an answer.
type AnsweredBy uint8

// The makers of answers.
const (
	ByProvider        AnsweredBy = iota // the provider
	ByProxy                             // the proxy or one of its filters, for a reason of its own
	ByProxyForFailure                   // the proxy, because the provider reset, could not be reached or took too long
)

// An Ending is what is known of a request when it ends. What the caller has no need to find out, because the rest
// decides already, stays zero.
type Ending struct {
	_ incomparable

	Sent        bool       // the request went on towards its provider
	Status      int        // of its answer; 0: none has begun
	RateLimited bool       // the answer's headers speak of a rate limit
	By          AnsweredBy // who made the answer
	Whole       bool       // the provider's last byte has come
	ClientLeft  bool       // the client's side ended it, or a timer on the client's stream
	Attempt     bool       // it is one try of several that its call may make
	Superseded  bool       // attempt: the call was answered by another one
}

const (
	statusSwitchingProtocols = 101
	statusForbidden          = 403
	statusTooManyRequests    = 429
)

// Judge says how a request's end counts for its provider. It is the whole policy: the first case that fits decides.
func Judge(e Ending) Outcome {
	switch {
	case !e.Sent:
		return OutcomeNone
	case e.Status == statusSwitchingProtocols:
		return OutcomeSuccess // an upgraded connection lasts as long as it lasts
	case e.Failed():
		return OutcomeFailure
	case e.Completed():
		return OutcomeSuccess
	case e.ClientLeft:
		return OutcomeCancel
	case e.By != ByProvider:
		return OutcomeNone
	case e.Status > 0:
		return OutcomeFailure // the answer was cut in the middle
	case !e.Attempt:
		return OutcomeNone
	case e.Superseded:
		return OutcomeCancel
	}
	return OutcomeFailure // an attempt that was reset, or out of time, before an answer
}

// JudgeAnswer says how an answer that has begun counts, before its end is known.
func JudgeAnswer(e Ending) Outcome {
	switch {
	case e.Failed():
		return OutcomeFailure
	case e.By != ByProvider:
		return OutcomeNone
	}
	return OutcomeSuccess
}

// Failed reports whether the answer is the provider's failure. A 403 without a word about a rate limit is the client's
// own error.
func (e *Ending) Failed() bool {
	if e.By != ByProvider {
		return e.By == ByProxyForFailure
	}
	return e.Status >= 500 || e.Status == statusTooManyRequests || e.Status == statusForbidden && e.RateLimited
}

// Completed reports whether the provider's answer came to its end.
func (e *Ending) Completed() bool {
	return e.Sent && (e.Status == statusSwitchingProtocols || e.Whole && e.By == ByProvider)
}

// Pushback reports whether the answer is the provider's 429.
func (e *Ending) Pushback() bool {
	return e.By == ByProvider && e.Status == statusTooManyRequests
}
