package rig

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The reasons of refusals.
const (
	Rejected   = "ADMISSION_REJECTED"
	Expired    = "ADMISSION_WAIT_DEADLINE_EXCEEDED"
	Ambiguous  = "AMBIGUOUS_IDENTITY"
	poolHeader = "x-headgate-pool"
)

// CheckRefused checks that a reply is a refusal of the pool for the reason, in the documented form.
func (e *Env) CheckRefused(t testing.TB, r *Reply, pool, reason string) {
	t.Helper()
	if r.Err != nil || r.Status != http.StatusTooManyRequests || r.Reason() != reason {
		t.Errorf("got %s, want 429 %s", r, reason)
		return
	}
	if got := r.Header.Get(poolHeader); got != e.PoolName(pool) {
		t.Errorf("%s is %q, want %q", poolHeader, got, e.PoolName(pool))
	}
	if got := r.Header.Get("x-envoy-ratelimited"); got != "true" {
		t.Errorf("x-envoy-ratelimited is %q, want true", got)
	}
	seconds, err := strconv.Atoi(r.Header.Get("retry-after"))
	if err != nil || seconds < 1 || seconds > 60 {
		t.Errorf("retry-after is %q, want whole seconds from 1 to 60", r.Header.Get("retry-after"))
	}
	if got := r.Header.Get("content-type"); got != "application/json" {
		t.Errorf("content-type is %q, want application/json", got)
	}
	CheckErrorBody(t, r.Body, "rate_limited", reason)
	CheckNoInternals(t, r.Header, "x-headgate-reason", poolHeader)
}

// anthropicTypes are the types of errors that Anthropic's clients know, by those of OpenAI's.
var anthropicTypes = map[string]string{"rate_limited": "rate_limit_error", "unavailable": "overloaded_error"}

// CheckErrorBody checks the JSON that model clients parse, and that it has nothing beside it.
func CheckErrorBody(t testing.TB, body []byte, errorType, code string) {
	t.Helper()
	var got map[string]any
	if err := json.Unmarshal(body, &got); err != nil {
		t.Errorf("the body %q is not the error object: %v", body, err)
		return
	}
	problem, _ := got["error"].(map[string]any)
	if got["type"] == "error" { // Anthropic's form
		want := anthropicTypes[errorType]
		if len(got) != 2 || len(problem) != 2 || problem["type"] != want || problem["message"] == "" {
			t.Errorf("the body is %s, want Anthropic's form with the type %s", body, want)
		}
		return
	}
	param, hasParam := problem["param"]
	message, _ := problem["message"].(string)
	if len(got) != 1 || len(problem) != 4 || problem["type"] != errorType || problem["code"] != code || !hasParam ||
		param != nil || message == "" {
		t.Errorf("the body is %s, want {\"error\":{\"message\":\"...\",\"type\":%q,\"code\":%q,\"param\":null}}", body,
			errorType, code)
	}
}

// CheckNoInternals checks that no header of Headgate's own left the gateway, but the allowed ones.
func CheckNoInternals(t testing.TB, header http.Header, allowed ...string) {
	t.Helper()
	for name := range header {
		lower := strings.ToLower(name)
		if strings.HasPrefix(lower, "x-headgate") && !slices.Contains(allowed, lower) {
			t.Errorf("an internal header left the gateway: %s", name)
		}
	}
}
