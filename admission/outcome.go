package admission

// An Outcome is what a request's end says about its provider.
type Outcome uint8

// The outcomes.
const (
	OutcomeNone    Outcome = iota // nothing: never sent, refused elsewhere, answered by another filter
	OutcomeSuccess                // the provider gave a whole answer that is no failure
	OutcomeCancel                 // the client's side ended it, or another attempt's answer was taken
	OutcomeFailure                // the provider failed: 5xx, 429, a 403 that speaks of a rate limit, a transport error
)

// A Cause is why a request ended before its provider's answer was whole, or why the proxy answered in the provider's
// place.
type Cause uint8

// The causes.
const (
	// CauseUnknown: nothing tells. The proxy says why it ends a request, so its client has ended it: a reset without an
	// error leaves no trace.
	CauseUnknown     Cause = iota
	CauseReset             // the provider reset it, or closed the connection
	CauseProvider          // the provider failed in another way, such as taking too long
	CauseUnreachable       // there was no connection to the provider
	CauseClient            // the client left or broke its protocol, or a timer on the client's stream ran out
	CauseProxy             // the proxy or a filter of it had a reason of its own, or another attempt's answer was taken
)

// An Ending is what is known of a request when it ends. What the caller has no need to find out, because the rest
// decides already, stays zero.
type Ending struct {
	_ incomparable

	Sent        bool  // the request went on towards its provider
	Status      int   // of its answer; 0: none has begun
	RateLimited bool  // the answer's headers speak of a rate limit
	Local       bool  // the proxy or one of its filters made the answer
	Whole       bool  // the provider's last byte has come
	Cause       Cause // why it ended without
	Attempt     bool  // it is one try of several that its call may make
	Uploading   bool  // the client has not sent the whole request
	Unheard     bool  // it needs HTTP/2, as gRPC does, and nothing has shown yet that the provider speaks it
}

const (
	statusSwitchingProtocols = 101
	statusForbidden          = 403
	statusTooManyRequests    = 429
)

// Judge says how a request's end counts for its provider. With judgeCut it is the whole policy: the first case that
// fits decides.
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
	}
	return judgeCut(e)
}

// judgeCut says how a request counts that had no whole answer of its provider, and no failed one.
//
//go:noinline // called from many places
func judgeCut(e Ending) Outcome {
	switch e.Cause {
	case CauseUnreachable:
		return OutcomeNone // nothing was sent, so there is nothing that the provider could count, or be spared
	case CauseReset, CauseProvider:
		if e.Unheard {
			return OutcomeNone // what a provider with HTTP/1.1 only does: no request has reached it
		}
		if e.Uploading && (e.Status == 0 || e.Local) {
			return OutcomeCancel // the provider may have waited too long for a client that sends slowly
		}
		return OutcomeFailure
	case CauseProxy:
		if !e.Attempt {
			return OutcomeNone
		}
	}
	return OutcomeCancel
}

// JudgeAnswer says how an answer that has begun counts, before its end is known.
func JudgeAnswer(e Ending) Outcome {
	switch {
	case e.Failed():
		return OutcomeFailure
	case e.Local:
		return OutcomeNone
	}
	return OutcomeSuccess
}

// Failed reports whether the answer is the provider's failure, or stands in for one. A 403 without a word about a rate
// limit is the client's own error.
func (e *Ending) Failed() bool {
	if e.Local {
		return judgeCut(*e) == OutcomeFailure
	}
	return e.Status >= 500 || e.Status == statusTooManyRequests || e.Status == statusForbidden && e.RateLimited
}

// Completed reports whether the provider's answer came to its end.
func (e *Ending) Completed() bool {
	return e.Sent && !e.Local && (e.Status == statusSwitchingProtocols || e.Status > 0 && e.Whole)
}

// Pushback reports whether the answer is the provider's 429.
func (e *Ending) Pushback() bool {
	return !e.Local && e.Status == statusTooManyRequests
}
