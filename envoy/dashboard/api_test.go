package dashboard

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/filter/admin/page"
)

// A double answers as the admin listener does, with what a test has set.
type double struct {
	*httptest.Server
	mu     sync.Mutex
	state  state
	events []event
	fault  string        // what it says to every change of a limit
	away   bool          // it closes connections without an answer
	gate   chan struct{} // while it is there no request is answered
	asked  []string
	puts   []string
}

// listen serves a state, under the policy that the product sends.
func listen(t *testing.T, s state) *double {
	t.Helper()
	d := &double{state: s}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /headgate/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("content-type", "text/html; charset=utf-8")
		w.Header().Set("content-encoding", "gzip")
		w.Header().Set("content-security-policy", page.Policy)
		_, _ = io.WriteString(w, page.Gzip)
	})
	mux.HandleFunc("GET /headgate/v1/state", d.serveState)
	mux.HandleFunc("GET /headgate/v1/events", d.serveEvents)
	mux.HandleFunc("PUT /headgate/v1/limits", d.serveLimits)
	d.Server = httptest.NewServer(d.counted(mux))
	t.Cleanup(d.Close)
	return d
}

// URL of the page.
func (d *double) page() string { return d.URL + "/headgate/" }

// change sets something in the state, between two answers.
func (d *double) change(f func(*state)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(&d.state)
	for _, p := range d.state.Pools {
		p.sum()
	}
}

// tell adds an event of now.
func (d *double) tell(e event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e.ID, e.AtMs = 1, time.Now().UnixMilli()
	if n := len(d.events); n > 0 {
		e.ID = d.events[n-1].ID + 1
	}
	d.events = append(d.events, e)
}

// goAway makes it answer nothing, or answer again.
func (d *double) goAway(away bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.away = away
}

// stall makes requests wait for their answer until the function is called.
func (d *double) stall() (goOn func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	gate := make(chan struct{})
	d.gate = gate
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.gate = nil
		close(gate)
	}
}

// requests returns what was asked since the last call.
func (d *double) requests() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	asked := d.asked
	d.asked = nil
	return asked
}

func (d *double) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		d.asked = append(d.asked, r.URL.RequestURI())
		away, gate := d.away, d.gate
		d.mu.Unlock()
		if gate != nil {
			<-gate
		}
		if away {
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	})
}

func (d *double) serveState(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := r.URL.Query()
	room, err := strconv.Atoi(q.Get("limit"))
	if err != nil {
		room = 200
	}
	from, _ := strconv.Atoi(q.Get("after"))
	answer, at := d.state, 0
	answer.NowMs, answer.Pools = time.Now().UnixMilli(), nil
	for _, p := range d.state.Pools {
		if q.Has("pool") && q.Get("pool") != p.Name {
			continue
		}
		told := *p
		told.Keys = []*keyState{}
		for _, k := range p.Keys {
			if q.Has("key") && q.Get("key") != k.Key {
				continue
			}
			if at++; at <= from {
				continue
			}
			if room == 0 {
				answer.Next = strconv.Itoa(at - 1)
				break
			}
			room--
			told.Keys = append(told.Keys, k)
		}
		answer.Pools = append(answer.Pools, &told)
		if answer.Next != "" {
			break
		}
	}
	reply(w, http.StatusOK, answer)
}

func (d *double) serveEvents(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	after, _ := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
	answer := struct {
		Last   int64   `json:"last"`
		Events []event `json:"events"`
	}{Events: []event{}}
	for _, e := range d.events {
		answer.Last = e.ID
		if e.ID > after && len(answer.Events) < 500 {
			answer.Events = append(answer.Events, e)
		}
	}
	reply(w, http.StatusOK, answer)
}

// serveLimits raises or lowers a limit; who waits in a key of it is let in, as far as there is room.
func (d *double) serveLimits(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var wanted struct {
		Pool  string
		Key   *string
		Limit *int
	}
	if err := json.NewDecoder(r.Body).Decode(&wanted); err != nil || d.fault != "" {
		reply(w, http.StatusBadRequest, map[string]any{"error": map[string]string{"field": "limit", "message": d.fault}})
		return
	}
	d.puts = append(d.puts, fmt.Sprint(r.Header.Get("content-type"), " ", wanted.Pool))
	p := d.state.Pools[slices.IndexFunc(d.state.Pools, func(p *poolState) bool { return p.Name == wanted.Pool })]
	if wanted.Key == nil {
		p.Limit, p.Source = inForce(wanted.Limit, p.Configured)
		for _, k := range p.Keys {
			k.setLimit(wanted.Limit)
		}
		p.sum()
		told := *p
		told.Keys = nil
		reply(w, http.StatusOK, told)
		return
	}
	k := p.Keys[slices.IndexFunc(p.Keys, func(k *keyState) bool { return k.Key == *wanted.Key })]
	k.setLimit(wanted.Limit)
	p.sum()
	reply(w, http.StatusOK, k)
}

func inForce(override *int, configured int) (limit int, source string) {
	if override == nil {
		return configured, "config"
	}
	return *override, "override"
}

func (k *keyState) setLimit(override *int) {
	k.Limit, k.Source = inForce(override, k.Configured)
	k.Usable = k.Limit
	for i := range k.Tenants {
		woken := max(0, min(k.Tenants[i].Queued, k.Limit-k.Inflight))
		k.Tenants[i].Queued -= woken
		k.Tenants[i].Inflight += woken
		k.Queued -= woken
		k.Inflight += woken
	}
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("content-type", "application/json")
	w.Header().Set("cache-control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
