package service

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/cluster"
	"github.com/headgate/headgate/cluster/store"
)

// A Store is what a service has carried out. Package store has one.
type Store interface {
	Lease(ctx context.Context, call *cluster.LeaseCall) (*cluster.LeaseReply, error)
	State(ctx context.Context, domain string) (*store.State, error)
	SetLimit(ctx context.Context, call *cluster.LimitCall) error
	Ready(ctx context.Context) error
}

// Settings are what a service is told.
type Settings struct {
	Store Store
	Token string // what callers have to say; "" lets everybody call
	Log   *slog.Logger
}

// The times that calls may take. A replica waits a second for an answer.
const (
	leaseTime = 800 * time.Millisecond
	otherTime = 5 * time.Second
	readyTime = 2 * time.Second
)

// A Service answers calls.
type Service struct {
	set      Settings
	token    [sha256.Size]byte
	metrics  *metrics
	redis    *condition
	ready    readiness
	stopping atomic.Bool
	handler  http.Handler
}

// New returns a service.
func New(set Settings) *Service {
	s := &Service{set: set, token: sha256.Sum256([]byte(set.Token)), metrics: newMetrics()}
	s.redis = &condition{log: set.Log, gauge: s.metrics.redisUp}
	s.ready.check = s.checkReady
	mux := http.NewServeMux()
	for _, route := range []struct {
		method, path string
		handle       func(http.ResponseWriter, *http.Request)
	}{
		{http.MethodPost, "/v1/lease", s.guarded(s.lease)},
		{http.MethodGet, "/v1/state", s.guarded(s.state)},
		{http.MethodPut, "/v1/limits", s.guarded(s.limits)},
		{http.MethodGet, "/healthz", s.healthz},
		{http.MethodGet, "/readyz", s.readyz},
		{http.MethodGet, "/metrics", s.metrics.handler.ServeHTTP},
	} {
		mux.HandleFunc(route.method+" "+route.path, s.metrics.counted(route.path, route.handle))
	}
	mux.HandleFunc("/", s.metrics.counted("other", func(w http.ResponseWriter, r *http.Request) {
		s.refuse(w, http.StatusNotFound, "there is no "+r.Method+" for this path: want POST /v1/lease, GET /v1/state, "+
			"PUT /v1/limits, GET /healthz, GET /readyz or GET /metrics")
	}))
	s.handler = mux
	return s
}

// ServeHTTP answers a call.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Stop has /readyz say that the service ends, so that callers go elsewhere.
func (s *Service) Stop() { s.stopping.Store(true) }

// guarded lets only those through who know the token.
func (s *Service) guarded(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s.set.Token != "" && !s.isToken(r.Header.Get("Authorization")) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="headgate fleet"`)
			s.refuse(w, http.StatusUnauthorized, "the token is missing or wrong: want `Authorization: Bearer TOKEN`, with the "+
				"token of this service (fleet.token in the plugin's configuration)")
			return
		}
		handle(w, r)
	}
}

// isToken compares in a time that doesn't depend on how much of the token is right.
func (s *Service) isToken(header string) bool {
	scheme, token, _ := strings.Cut(header, " ")
	given := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return subtle.ConstantTimeCompare(given[:], s.token[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

func (s *Service) lease(w http.ResponseWriter, r *http.Request) {
	text, ok := s.body(w, r)
	if !ok {
		return
	}
	call, err := cluster.ParseLeaseCall(text)
	if err != nil {
		s.refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), leaseTime)
	defer cancel()
	reply, err := s.set.Store.Lease(ctx, call)
	switch {
	case errors.Is(err, cluster.ErrLate):
		s.redis.isWell()
		s.metrics.late.Inc()
		s.refuse(w, http.StatusConflict, err.Error())
	case errors.Is(err, cluster.ErrFull):
		s.redis.isWell()
		s.refuse(w, http.StatusServiceUnavailable, err.Error()+": use another domain for some of them")
	case err != nil:
		s.refuseForRedis(w, r, err)
	default:
		s.redis.isWell()
		s.metrics.leased(reply)
		answer(w, http.StatusOK, reply)
	}
}

func (s *Service) state(w http.ResponseWriter, r *http.Request) {
	domain := r.URL.Query().Get("domain")
	if err := cluster.CheckDomain(domain); err != nil {
		s.refuse(w, http.StatusBadRequest, err.Error()+": GET /v1/state?domain=DOMAIN")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), otherTime)
	defer cancel()
	state, err := s.set.Store.State(ctx, domain)
	if err != nil {
		s.refuseForRedis(w, r, err)
		return
	}
	s.redis.isWell()
	answer(w, http.StatusOK, state)
}

func (s *Service) limits(w http.ResponseWriter, r *http.Request) {
	text, ok := s.body(w, r)
	if !ok {
		return
	}
	call, err := cluster.ParseLimitCall(text)
	if err != nil {
		s.refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), otherTime)
	defer cancel()
	err = s.set.Store.SetLimit(ctx, call)
	switch {
	case errors.Is(err, cluster.ErrOverrides):
		s.redis.isWell()
		s.refuse(w, http.StatusConflict, err.Error()+": take some back with \"limit\": null")
	case err != nil:
		s.refuseForRedis(w, r, err)
	default:
		s.redis.isWell()
		s.set.Log.Info("limit set", "domain", call.Domain, "pool", call.Pool, "key", call.Key, "limit", call.Limit)
		answer(w, http.StatusOK, call)
	}
}

// body reads a call's body, or refuses the call.
func (s *Service) body(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	// A page in a browser can't send this type to another origin without asking first.
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		s.refuse(w, http.StatusUnsupportedMediaType, "want `Content-Type: application/json`")
		return nil, false
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, cluster.MaxCallBytes))
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		s.refuse(w, http.StatusRequestEntityTooLarge, "the body is longer than a call can be")
	case err != nil:
		s.refuse(w, http.StatusBadRequest, "the body has not come whole")
	}
	return text, err == nil
}

func (s *Service) healthz(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]string{"status": "ok"})
}

func (s *Service) readyz(w http.ResponseWriter, _ *http.Request) {
	if s.stopping.Load() {
		s.refuse(w, http.StatusServiceUnavailable, "the service ends")
		return
	}
	if err := s.ready.get(); err != nil {
		s.refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	answer(w, http.StatusOK, map[string]string{"status": "ok"})
}

// checkReady asks the store. Its answer stands for all who ask in the same moment.
func (s *Service) checkReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), readyTime)
	defer cancel()
	err := s.set.Store.Ready(ctx)
	if err != nil {
		s.redis.isIll(err)
	} else {
		s.redis.isWell()
	}
	return err
}

// refuseForRedis says that Redis did not do what was asked. Why stands in the log: it may name hosts.
func (s *Service) refuseForRedis(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil { // the caller has gone: Redis may be well
		return
	}
	s.metrics.redisErrors.Inc()
	s.redis.isIll(err)
	s.refuse(w, http.StatusServiceUnavailable, "Redis has not answered as it should: see this service's log and /readyz")
}

func (s *Service) refuse(w http.ResponseWriter, status int, message string) {
	answer(w, status, map[string]string{"error": message})
}

func answer(w http.ResponseWriter, status int, value any) {
	text, err := json.Marshal(value)
	if err != nil { // no value here can fail
		status, text = http.StatusInternalServerError, []byte(`{"error":"the answer can't be written"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the caller may have gone
}
