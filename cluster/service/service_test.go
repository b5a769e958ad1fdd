package service

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/cluster"
	"github.com/headgate/headgate/cluster/store"
)

// A pureStore is a store without Redis. err is what it says to every call.
type pureStore struct {
	mu     sync.Mutex
	ledger *cluster.Ledger
	err    error
}

func (p *pureStore) Lease(_ context.Context, call *cluster.LeaseCall) (*cluster.LeaseReply, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return nil, p.err
	}
	return p.ledger.Lease(1_700_000_000_000, call)
}

func (p *pureStore) State(_ context.Context, domain string) (*store.State, error) {
	return &store.State{Domain: domain}, p.err
}

func (p *pureStore) SetLimit(_ context.Context, call *cluster.LimitCall) error {
	if p.err != nil {
		return p.err
	}
	return p.ledger.SetLimit(call)
}

func (p *pureStore) Ready(context.Context) error { return p.err }

// A rig is a service over a pure store.
type rig struct {
	t     *testing.T
	store *pureStore
	log   *bytes.Buffer
	*Service
}

func newRig(t *testing.T) rig {
	r := rig{t: t, store: &pureStore{ledger: cluster.NewLedger()}, log: &bytes.Buffer{}}
	r.Service = New(Settings{Store: r.store, Token: "hush", Log: slog.New(slog.NewTextHandler(r.log, nil))})
	return r
}

const leaseText = `{"domain":"d","replica":"r","call":1,"ttl_ms":5000,"pools":[{"pool":"model","key":"m","limit":6,"keep":2,"wants":9}]}`

// call sends a call with the token, unless headers say otherwise.
func (r rig) call(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r.t.Helper()
	request := httptest.NewRequest(method, path, strings.NewReader(body))
	request.Header.Set("Authorization", "Bearer hush")
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	answer := httptest.NewRecorder()
	r.ServeHTTP(answer, request)
	return answer
}

func TestALeaseIsAnsweredAsTheContractSays(t *testing.T) {
	r := newRig(t)
	answer := r.call(http.MethodPost, "/v1/lease", leaseText)
	require.Equal(t, http.StatusOK, answer.Code)
	require.JSONEq(t, `{"pools":[{"pool":"model","key":"m","grant":2,"target":6,"safe":6}],"ttl_ms":5000,"learning_ms":5000}`, answer.Body.String())
	answer = r.call(http.MethodPost, "/v1/lease", `{"domain":"d","replica":"s","call":1,"ttl_ms":5000}`)
	require.JSONEq(t, `{"pools":[],"ttl_ms":5000,"learning_ms":5000}`, answer.Body.String())
	answer = r.call(http.MethodPut, "/v1/limits", `{"domain":"d","pool":"model","key":"m","limit":3}`)
	require.Equal(t, http.StatusOK, answer.Code)
	require.JSONEq(t, `{"domain":"d","pool":"model","key":"m","limit":3}`, answer.Body.String())
	require.Contains(t, r.call(http.MethodPost, "/v1/lease", strings.Replace(leaseText, `"call":1`, `"call":2`, 1)).Body.String(), `"target":3`)
}

func TestRefusalsSayWhatToDo(t *testing.T) {
	r := newRig(t)
	r.call(http.MethodPost, "/v1/lease", strings.Replace(leaseText, `"call":1`, `"call":5`, 1))
	for _, c := range []struct {
		method, path, body string
		headers            []string
		status             int
		message            string
	}{
		{"POST", "/v1/lease", leaseText, []string{"Authorization", ""}, 401, "Authorization: Bearer TOKEN"},
		{"POST", "/v1/lease", leaseText, []string{"Authorization", "Bearer hus"}, 401, "Authorization: Bearer TOKEN"},
		{"POST", "/v1/lease", leaseText, []string{"Authorization", "Basic hush"}, 401, "Authorization: Bearer TOKEN"},
		{"GET", "/v1/state?domain=d", "", []string{"Authorization", ""}, 401, "Authorization: Bearer TOKEN"},
		{"PUT", "/v1/limits", "{}", []string{"Authorization", ""}, 401, "Authorization: Bearer TOKEN"},
		{"POST", "/v1/lease", leaseText, []string{"Content-Type", "text/plain"}, 415, "application/json"},
		{"POST", "/v1/lease", "{", nil, 400, "the body: is not the JSON"},
		{"POST", "/v1/lease", strings.Repeat(" ", cluster.MaxCallBytes+1), nil, 413, "longer than a call can be"},
		{"POST", "/v1/lease", leaseText, nil, 409, "a later call already"},
		{"GET", "/v1/state", "", nil, 400, "GET /v1/state?domain=DOMAIN"},
		{"PUT", "/v1/limits", `{"domain":"d","pool":"model"}`, nil, 400, "limit: is missing"},
		{"GET", "/v1/lease", "", nil, 404, "POST /v1/lease"},
		{"GET", "/else", "", nil, 404, "POST /v1/lease"},
	} {
		answer := r.call(c.method, c.path, c.body, c.headers...)
		require.Equal(t, c.status, answer.Code, "%s %s %s: %s", c.method, c.path, c.headers, answer.Body)
		require.Contains(t, answer.Body.String(), c.message)
		require.Equal(t, "application/json", answer.Header().Get("Content-Type"))
	}
}

// A Redis that fails is said once in the log, and shows in /readyz, while /healthz stays.
func TestCase_O27_AFailingRedisShows(t *testing.T) {
	r := newRig(t)
	require.Equal(t, http.StatusOK, r.call(http.MethodGet, "/readyz", "").Code)
	r.store.err = errors.New("connection to 10.1.2.3 refused")
	r.ready.asked = r.ready.asked.Add(-2 * readyFor)
	for range 50 {
		answer := r.call(http.MethodPost, "/v1/lease", leaseText)
		require.Equal(t, http.StatusServiceUnavailable, answer.Code)
		require.NotContains(t, answer.Body.String(), "10.1.2.3")
	}
	require.Equal(t, http.StatusServiceUnavailable, r.call(http.MethodGet, "/readyz", "", "Authorization", "").Code)
	require.Equal(t, http.StatusOK, r.call(http.MethodGet, "/healthz", "", "Authorization", "").Code)
	require.Equal(t, 1, strings.Count(r.log.String(), "level=ERROR"), r.log.String())
	require.Contains(t, r.call(http.MethodGet, "/metrics", "").Body.String(), "\nheadgate_fleet_redis_up 0\n")
	r.store.err = nil
	require.Equal(t, http.StatusOK, r.call(http.MethodPost, "/v1/lease", leaseText).Code)
	require.Equal(t, 2, strings.Count(r.log.String(), "Redis answers"), r.log.String())
	r.Stop()
	require.Equal(t, http.StatusServiceUnavailable, r.call(http.MethodGet, "/readyz", "").Code)
}

// No caller can make more metrics than these.
func TestCase_O29_MetricsHaveBoundedLabels(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{"/a", "/b", "/v1/state?domain=" + strings.Repeat("d", 9)} {
		for _, method := range []string{"GET", "POST", "BREW"} {
			r.call(method, path, "")
		}
	}
	r.call(http.MethodPost, "/v1/lease", leaseText)
	text := r.call(http.MethodGet, "/metrics", "", "Authorization", "").Body.String()
	require.Contains(t, text, `headgate_fleet_requests_total{path="/v1/lease",status="200"} 1`)
	require.Contains(t, text, `headgate_fleet_requests_total{path="other",status="404"} 8`)
	for _, line := range regexp.MustCompile(`(?m)^headgate_fleet_requests_total\{.*$`).FindAllString(text, -1) {
		require.Regexp(t, `^headgate_fleet_requests_total\{path="(/v1/lease|/v1/state|other)",status="\d+"\} \d+$`, line)
	}
	require.Contains(t, text, "headgate_fleet_learning_calls_total 1\n")
	require.Contains(t, text, "headgate_fleet_lease_keys_total 1\n")
}

// A replica whose lease ended without a call is counted.
func TestCase_O28_ExpiredReplicasAreCounted(t *testing.T) {
	r := newRig(t)
	r.store.ledger.Replicas["gone"] = &cluster.Member{Number: 1, Call: 1, Ends: 1}
	r.call(http.MethodPost, "/v1/lease", leaseText)
	require.Contains(t, r.call(http.MethodGet, "/metrics", "").Body.String(), "headgate_fleet_expired_replicas_total 1\n")
}

func TestWithoutATokenEverybodyMayCall(t *testing.T) {
	s := New(Settings{Store: &pureStore{ledger: cluster.NewLedger()}, Log: slog.New(slog.DiscardHandler)})
	request := httptest.NewRequest(http.MethodPost, "/v1/lease", strings.NewReader(leaseText))
	request.Header.Set("Content-Type", "application/json; charset=utf-8")
	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, request)
	require.Equal(t, http.StatusOK, answer.Code)
}
