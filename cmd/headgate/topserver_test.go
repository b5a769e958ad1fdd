package main

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/cmd/headgate/internal/adminapi"
)

// A scriptedAdmin is an admin listener that says what a test has put into it.
type scriptedAdmin struct {
	t       *testing.T
	address string
	server  *httptest.Server

	mu      sync.Mutex
	state   adminapi.State
	events  []adminapi.Event
	changes []map[string]any // the bodies of the changes that came
	refusal string           // the message that a change gets
}

func startAdmin(t *testing.T, state adminapi.State) *scriptedAdmin {
	t.Helper()
	a := &scriptedAdmin{t: t, state: state, address: "127.0.0.1:0"}
	a.start()
	t.Cleanup(a.stop)
	return a
}

// start listens, at the same address as before.
func (a *scriptedAdmin) start() {
	a.t.Helper()
	listener, err := net.Listen("tcp", a.address)
	require.NoError(a.t, err)
	a.address = listener.Addr().String()
	a.server = httptest.NewUnstartedServer(a)
	a.server.Listener.Close()
	a.server.Listener = listener
	a.server.Start()
}

// stop goes away: nothing listens any more.
func (a *scriptedAdmin) stop() {
	if a.server != nil {
		a.server.CloseClientConnections()
		a.server.Close()
		a.server = nil
	}
}

// change changes what the listener says.
func (a *scriptedAdmin) change(do func(*adminapi.State)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	do(&a.state)
}

func (a *scriptedAdmin) came() []map[string]any {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changes
}

func (a *scriptedAdmin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.Header().Set("content-type", "application/json")
	switch r.Method + " " + r.URL.Path {
	case "GET /headgate/v1/state":
		a.sendPage(w, r)
	case "GET /headgate/v1/events":
		after, _ := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
		answer := adminapi.Events{Events: []adminapi.Event{}}
		for _, event := range a.events {
			answer.Last = event.ID
			if event.ID > after {
				answer.Events = append(answer.Events, event)
			}
		}
		_ = json.NewEncoder(w).Encode(answer)
	case "PUT /headgate/v1/limits":
		a.takeChange(w, r)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// sendPage sends the keys in pages, as many as are asked for.
func (a *scriptedAdmin) sendPage(w http.ResponseWriter, r *http.Request) {
	page := a.state
	size, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	skip, _ := strconv.Atoi(r.URL.Query().Get("after"))
	left, at := size, 0
	page.Pools = []adminapi.Pool{}
	for _, pool := range a.state.Pools {
		keys := pool.Keys
		pool.Keys = []adminapi.Key{}
		for _, key := range keys {
			if at++; at > skip && left > 0 {
				pool.Keys = append(pool.Keys, key)
				left--
			} else if at > skip && page.Next == "" {
				page.Next = strconv.Itoa(skip + size)
			}
		}
		page.Pools = append(page.Pools, pool)
	}
	_ = json.NewEncoder(w).Encode(page)
}

func (a *scriptedAdmin) takeChange(w http.ResponseWriter, r *http.Request) {
	body := map[string]any{}
	_ = json.NewDecoder(r.Body).Decode(&body)
	a.changes = append(a.changes, body)
	if a.refusal != "" || r.Header.Get("content-type") != "application/json" {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"field": "limit", "message": a.refusal}})
		return
	}
	for i := range a.state.Pools {
		pool := &a.state.Pools[i]
		for j := range pool.Keys {
			key := &pool.Keys[j]
			if pool.Name != body["pool"] || body["key"] != nil && body["key"] != key.Name {
				continue
			}
			key.Limit, key.Source = key.Configured, adminapi.SourceConfig
			if limit, isNumber := body["limit"].(float64); isNumber {
				key.Limit, key.Source = int(limit), adminapi.SourceOverride
			}
			key.Usable = key.Limit
		}
	}
	_, _ = w.Write([]byte("{}"))
}

// flood is a state in which one tenant holds all permits of a model and another one waits.
func flood() adminapi.State {
	waits := adminapi.Waits{SlotMillis: 10_000}
	for i := range int64(46) {
		p50 := 80 + (i*37)%60 + 900*(46-i)/46
		waits.Slots = append(waits.Slots, adminapi.Slot{AgeMillis: i * 10_000, N: 9, P50: p50, P90: p50 * 2, P99: p50*3 + i})
	}
	m1 := adminapi.Key{Name: "m1", Limit: 17, Source: "config", Configured: 17, Inflight: 17, Queued: 13,
		OldestWaitMillis: 740, Breaker: "closed", Usable: 17, TenantsTotal: 2, Tenants: []adminapi.Tenant{
			{Tenant: "acme", Inflight: 11, Weight: 1}, {Tenant: "zeta", Inflight: 6, Queued: 13, Weight: 3}}}
	m2 := adminapi.Key{Name: "m2", Limit: 9, Source: "override", Configured: 8, Inflight: 5, OnHold: 2, Breaker: "closed",
		Usable: 9, HoldChangeMillis: 120, TenantsTotal: 2, Tenants: []adminapi.Tenant{
			{Tenant: "beta", Inflight: 3, Weight: 1}, {Tenant: "acme", Inflight: 2, Weight: 1}}}
	m3 := adminapi.Key{Name: "m3", Limit: 8, Source: "config", Configured: 8, Breaker: "open", BreakerChangeMillis: 12_000,
		Usable: 8}
	return adminapi.State{NowMillis: 1764590000123, Domain: "default", Mode: "enforce", Workers: 3, Pools: []adminapi.Pool{
		{Name: "gateway", Limit: 137, Source: "config", Configured: 137, Dimensions: []string{}, Per: "request",
			Inflight: 22, KeysTotal: 1, Outcomes: map[string]uint64{"admitted": 41_250, "completed": 41_000},
			Keys: []adminapi.Key{{Name: "gateway", Limit: 137, Source: "config", Configured: 137, Inflight: 22,
				Breaker: "closed", Usable: 137, TenantsTotal: 3, Tenants: []adminapi.Tenant{
					{Tenant: "acme", Inflight: 13, Weight: 1}, {Tenant: "zeta", Inflight: 6, Weight: 1},
					{Tenant: "beta", Inflight: 3, Weight: 1}}}}},
		{Name: "model", Limit: 8, Source: "config", Configured: 8, Dimensions: []string{"model"}, Per: "attempt",
			Queue: 40, MaxWaitMillis: 5000, Fair: true, Holds: true, Breaker: true, Inflight: 22, Queued: 13, OnHold: 2,
			KeysTotal: 3, Waits: waits, Outcomes: map[string]uint64{"admitted": 40_007, "admitted_after_wait": 3_150,
				"rejected_queue_full": 12, "expired_max_wait": 3, "provider_failure": 6}, Keys: []adminapi.Key{m1, m2, m3}},
	}}
}

func yes(whole bool) *bool { return &whole }

// someEvents are events about model/m1.
func someEvents() []adminapi.Event {
	at := int64(1764590000000)
	return []adminapi.Event{
		{ID: 1, AtMillis: at - 9000, Kind: "ended", Pool: "model", Key: "m1", Tenant: "acme", Method: "POST",
			Path: "/v1/chat/completions", WaitMillis: 410, DurationMillis: 3200, Whole: yes(true), Status: 200},
		{ID: 2, AtMillis: at - 7000, Kind: "refused", Pool: "model", Key: "m1", Tenant: "zeta", Method: "POST",
			Path: "/v1/chat/completions", Reason: "ADMISSION_REJECTED", Status: 429},
		{ID: 3, AtMillis: at - 5000, Kind: "limit_changed", Pool: "model", Key: "m1", Limit: 17, Before: 12, Source: "override"},
		{ID: 4, AtMillis: at - 3000, Kind: "ended", Pool: "model", Key: "m1", Tenant: "zeta", Method: "POST",
			Path: "/v1/chat/completions", WaitMillis: 1340, DurationMillis: 900, Whole: yes(false), Status: 200},
		{ID: 5, AtMillis: at - 2000, Kind: "waited", Pool: "model", Key: "m1", Tenant: "zeta", Method: "POST",
			Path: "/v1/responses", WaitMillis: 2210},
		{ID: 6, AtMillis: at - 1000, Kind: "expired", Pool: "model", Key: "m1", Tenant: "zeta", Method: "POST",
			Path: "/v1/responses", Reason: "ADMISSION_WAIT_DEADLINE_EXCEEDED", WaitMillis: 5003, Status: 429},
	}
}
