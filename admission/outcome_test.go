package admission_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/admission"
)

// The endings of docs/ownership.md, as the downstream filter (the invocation's permit) and the upstream filter (the attempt's)
// see them, and how each counts for the provider.
var endings = []struct {
	row    string // of the table in docs/ownership.md
	what   string
	ending admission.Ending
	want   admission.Outcome
}{
	{"success", "a whole 200", admission.Ending{Sent: true, Status: 200, Whole: true}, admission.OutcomeSuccess},
	{"success", "a whole 200 of an attempt", admission.Ending{Sent: true, Status: 200, Whole: true, Attempt: true}, admission.OutcomeSuccess},
	{"success", "a whole 200 before the request's end", admission.Ending{Sent: true, Status: 200, Whole: true, Uploading: true}, admission.OutcomeSuccess},
	{"success", "a whole 404: the client's own error", admission.Ending{Sent: true, Status: 404, Whole: true}, admission.OutcomeSuccess},
	{"success", "a 403 that speaks of no rate limit", admission.Ending{Sent: true, Status: 403, Whole: true}, admission.OutcomeSuccess},
	{"stream", "a stream to its last byte", admission.Ending{Sent: true, Status: 200, Whole: true}, admission.OutcomeSuccess},
	{"stream", "a stream cut in the middle", admission.Ending{Sent: true, Status: 200, Cause: admission.CauseReset}, admission.OutcomeFailure},
	{"stream", "a stream cut in the middle, in both directions", admission.Ending{Sent: true, Status: 200, Cause: admission.CauseReset, Uploading: true}, admission.OutcomeFailure},
	{"stream", "an upgraded connection, however it ends", admission.Ending{Sent: true, Status: 101, Cause: admission.CauseClient}, admission.OutcomeSuccess},
	{"error", "a 500", admission.Ending{Sent: true, Status: 500, Whole: true}, admission.OutcomeFailure},
	{"error", "a 500 before the request's end", admission.Ending{Sent: true, Status: 500, Whole: true, Uploading: true}, admission.OutcomeFailure},
	{"error", "a 429", admission.Ending{Sent: true, Status: 429, Whole: true}, admission.OutcomeFailure},
	{"error", "a 403 that speaks of a rate limit", admission.Ending{Sent: true, Status: 403, RateLimited: true, Whole: true}, admission.OutcomeFailure},
	{"error", "Envoy's 503 for a reset", admission.Ending{Sent: true, Status: 503, Local: true, Cause: admission.CauseReset}, admission.OutcomeFailure},
	{"error", "Envoy's 503 for a reset before the request's end", admission.Ending{Sent: true, Status: 503, Local: true, Cause: admission.CauseReset, Uploading: true}, admission.OutcomeCancel},
	{"error", "Envoy's 503 without a connection", admission.Ending{Sent: true, Status: 503, Local: true, Cause: admission.CauseUnreachable, Uploading: true}, admission.OutcomeNone},
	{"error", "an attempt reset before its answer", admission.Ending{Sent: true, Cause: admission.CauseProvider, Attempt: true}, admission.OutcomeFailure},
	{"error", "an attempt reset before its answer and its request's end", admission.Ending{Sent: true, Cause: admission.CauseProvider, Attempt: true, Uploading: true}, admission.OutcomeCancel},
	{"error", "an attempt without a connection", admission.Ending{Sent: true, Cause: admission.CauseUnreachable, Attempt: true, Uploading: true}, admission.OutcomeNone},
	{"error", "Envoy's 503 because its own limits are reached", admission.Ending{Sent: true, Status: 503, Local: true, Cause: admission.CauseProxy}, admission.OutcomeNone},
	{"error", "Envoy's 200 for a reset by a provider that may have no HTTP/2", admission.Ending{Sent: true, Status: 200, Local: true, Cause: admission.CauseReset, Unheard: true}, admission.OutcomeNone},
	{"error", "an attempt reset by a provider that may have no HTTP/2", admission.Ending{Sent: true, Cause: admission.CauseProvider, Attempt: true, Unheard: true, Uploading: true}, admission.OutcomeNone},
	{"error", "the client's leaving a provider that may have no HTTP/2", admission.Ending{Sent: true, Cause: admission.CauseClient, Attempt: true, Unheard: true}, admission.OutcomeCancel},
	{"retry", "a failed try", admission.Ending{Sent: true, Status: 503, Whole: true, Attempt: true}, admission.OutcomeFailure},
	{"retry", "a failed try, reset when its head had come", admission.Ending{Sent: true, Status: 503, Attempt: true}, admission.OutcomeFailure},
	{"back-off", "nothing was sent", admission.Ending{}, admission.OutcomeNone},
	{"fallback", "the first model's try", admission.Ending{Sent: true, Status: 500, Whole: true, Attempt: true}, admission.OutcomeFailure},
	{"hedge", "the try that was dropped for another's answer", admission.Ending{Sent: true, Attempt: true, Cause: admission.CauseProxy}, admission.OutcomeCancel},
	{"hedge", "a dropped try whose failure had begun", admission.Ending{Sent: true, Status: 500, Attempt: true, Cause: admission.CauseProxy}, admission.OutcomeFailure},
	{"client gone, queued at the invocation", "never sent", admission.Ending{Cause: admission.CauseClient}, admission.OutcomeNone},
	{"client gone, queued at the attempt", "never sent", admission.Ending{Cause: admission.CauseClient, Attempt: true}, admission.OutcomeNone},
	{"client gone, running", "before the answer", admission.Ending{Sent: true, Cause: admission.CauseClient}, admission.OutcomeCancel},
	{"client gone, running", "before the answer, without a trace", admission.Ending{Sent: true}, admission.OutcomeCancel},
	{"client gone, running", "in the middle of the answer", admission.Ending{Sent: true, Status: 200, Cause: admission.CauseClient, Attempt: true}, admission.OutcomeCancel},
	{"client gone, running", "in the middle of the answer, without a trace", admission.Ending{Sent: true, Status: 200}, admission.OutcomeCancel},
	{"client gone, running", "in the middle of a failure", admission.Ending{Sent: true, Status: 502, Cause: admission.CauseClient}, admission.OutcomeFailure},
	{"client gone, running", "after the last byte", admission.Ending{Sent: true, Status: 200, Whole: true, Cause: admission.CauseClient}, admission.OutcomeSuccess},
	{"client gone, running", "Envoy's 400 for its broken body", admission.Ending{Sent: true, Status: 400, Local: true, Cause: admission.CauseClient, Uploading: true}, admission.OutcomeCancel},
	{"client gone, running", "the try whose call got that 400", admission.Ending{Sent: true, Cause: admission.CauseClient, Attempt: true, Uploading: true}, admission.OutcomeCancel},
	{"client gone, in back-off", "the invocation's end", admission.Ending{Sent: true, Cause: admission.CauseClient}, admission.OutcomeCancel},
	{"client gone, in back-off", "the invocation's end after a whole failure of a try", admission.Ending{Sent: true, Whole: true, Cause: admission.CauseClient}, admission.OutcomeCancel},
	{"timeout", "Envoy's 504 of the route", admission.Ending{Sent: true, Status: 504, Local: true, Cause: admission.CauseProvider}, admission.OutcomeFailure},
	{"timeout", "a try out of time", admission.Ending{Sent: true, Attempt: true, Cause: admission.CauseProvider}, admission.OutcomeFailure},
	{"timeout", "a timer on the client's stream", admission.Ending{Sent: true, Status: 200, Cause: admission.CauseClient}, admission.OutcomeCancel},
	{"timeout", "Envoy's 408 for a client that sends slowly", admission.Ending{Sent: true, Status: 408, Local: true, Cause: admission.CauseClient, Uploading: true}, admission.OutcomeCancel},
	{"refusal", "refused by a pool", admission.Ending{}, admission.OutcomeNone},
	{"local reply", "another filter's answer to a request that went on", admission.Ending{Sent: true, Status: 403, Local: true, Cause: admission.CauseProxy}, admission.OutcomeNone},
	{"local reply", "another filter's answer in the place of a try's", admission.Ending{Sent: true, Cause: admission.CauseProxy, Attempt: true}, admission.OutcomeCancel},
	{"local reply", "another filter's answer before it went on", admission.Ending{Status: 403, Local: true, Cause: admission.CauseProxy}, admission.OutcomeNone},
	{"reload", "it changes nothing about an ending", admission.Ending{Sent: true, Status: 200, Whole: true}, admission.OutcomeSuccess},
	{"trap", "no end is seen, so nothing is judged", admission.Ending{}, admission.OutcomeNone},
}

func TestJudgeEveryEnding(t *testing.T) {
	for _, c := range endings {
		t.Run(c.row+"/"+c.what, func(t *testing.T) {
			require.Equal(t, c.want, admission.Judge(c.ending))
		})
	}
}

// The table above has every row of the document's, and no other.
func TestJudgedEndingsAreTheDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/ownership.md")
	require.NoError(t, err)
	documented, judged := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); len(cells) == 5 && !strings.HasPrefix(cells[1], "-") {
			documented[strings.TrimSpace(cells[1])] = true
		}
	}
	delete(documented, "case")
	for _, c := range endings {
		judged[c.row] = true
	}
	require.Equal(t, documented, judged)
}

// What is not the provider's answer is no pushback of it, and what it began with says how it will count.
func TestJudgeAnswerAgreesWithJudgeOfTheWholeAnswer(t *testing.T) {
	causes := []admission.Cause{admission.CauseUnknown, admission.CauseReset, admission.CauseProvider, admission.CauseUnreachable, admission.CauseClient, admission.CauseProxy}
	for status := 200; status < 600; status++ {
		for _, limited := range []bool{false, true} {
			e := admission.Ending{Sent: true, Status: status, RateLimited: limited}
			begun := admission.JudgeAnswer(e)
			e.Whole = true
			require.Equal(t, admission.Judge(e), begun, "%+v", e)
			require.Equal(t, status == 429, e.Pushback(), "%+v", e)
			require.True(t, e.Completed(), "%+v", e)
		}
		for _, cause := range causes {
			e := admission.Ending{Sent: true, Status: status, Local: true, Cause: cause}
			require.Equal(t, admission.Judge(e) == admission.OutcomeFailure, admission.JudgeAnswer(e) == admission.OutcomeFailure, "%+v", e)
			require.NotEqual(t, admission.OutcomeSuccess, admission.JudgeAnswer(e), "%+v", e)
			require.False(t, e.Pushback() || e.Completed(), "%+v", e)
		}
	}
}

// Whatever a client does, it makes no failure of its provider's, unless the provider has answered with one.
func TestNoEndingOfTheClientsIsAFailure(t *testing.T) {
	for status := range 600 {
		for flags := range 1 << 4 {
			e := admission.Ending{Sent: true, Status: status, Cause: admission.CauseClient,
				RateLimited: flags&1 != 0, Local: flags&2 != 0, Attempt: flags&4 != 0, Uploading: flags&8 != 0}
			answered := !e.Local && (status >= 500 || status == 429 || status == 403 && e.RateLimited)
			require.Equal(t, answered, admission.Judge(e) == admission.OutcomeFailure, "%+v", e)
		}
	}
}
