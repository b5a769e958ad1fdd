package rig

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// An Ending says how a request at the upstream ended.
type Ending string

// The endings.
const (
	EndingNone      Ending = ""          // it still runs
	EndingComplete  Ending = "complete"  // the whole response was handed to the connection
	EndingCancelled Ending = "cancelled" // Envoy went away first
	EndingReset     Ending = "reset"     // the script cut it
)

// A Seen is one request as the upstream saw it.
type Seen struct {
	ID     string // of its Script
	Key    string // see Upstream.KeyHeader
	Method string
	Host   string
	URI    string
	Proto  string
	Header http.Header
	Body   []byte
	Start  time.Time // its headers were read
	End    time.Time // zero while it runs
	Ending Ending

	gone time.Time // Envoy had closed its connection by then; zero: not noticed by watchSockets
}

// An Upstream is a scripted HTTP server (HTTP/1.1 and h2c on one port) that records what it saw and how much ran at
// once.
type Upstream struct {
	Port int

	mu        sync.Mutex
	keyHeader string
	seen      []*Seen
	active    map[*Seen]*peer
	gates     map[string]chan struct{}
	overrides map[string]Script
	turns     map[string]int // of the scripts that have Tries, how many have come
	peak      int
	peakBy    map[string]int
	watched   bool // see watchSockets
	server    *http.Server
}

// NewUpstream starts an upstream that stops with the test.
func NewUpstream(t testing.TB) *Upstream {
	t.Helper()
	u, err := LaunchUpstream()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Close)
	return u
}

// LaunchUpstream starts an upstream; the caller closes it.
func LaunchUpstream() (*Upstream, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("upstream: %w", err)
	}
	u := &Upstream{
		Port:      listener.Addr().(*net.TCPAddr).Port,
		keyHeader: "x-model",
		active:    map[*Seen]*peer{},
		gates:     map[string]chan struct{}{},
		overrides: map[string]Script{},
		turns:     map[string]int{},
		peakBy:    map[string]int{},
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	u.server = &http.Server{
		Handler:     http.HandlerFunc(u.serve),
		Protocols:   protocols,
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: 10_000},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
	}
	go u.server.Serve(listener)
	return u, nil
}

type connKey struct{}

// Close ends the server and every connection.
func (u *Upstream) Close() { u.server.Close() }

// KeyHeader names the request header by whose value PeakOf counts; without a call it is x-model.
func (u *Upstream) KeyHeader(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.keyHeader = name
}

// Open opens a gate for good: whoever waits there goes on, whoever comes later doesn't wait.
func (u *Upstream) Open(gates ...string) {
	for _, name := range gates {
		gate := u.gate(name)
		u.mu.Lock()
		select {
		case <-gate:
		default:
			close(gate)
		}
		u.mu.Unlock()
	}
}

func (u *Upstream) gate(name string) chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.gates[name] == nil {
		u.gates[name] = make(chan struct{})
	}
	return u.gates[name]
}

// Override makes the requests with this id do something else here than their script says.
func (u *Upstream) Override(id string, s Script) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s.ID = id
	u.overrides[id] = s
}

// Peak is the largest number of requests that ran at once since the start or ResetPeak.
func (u *Upstream) Peak() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.peak
}

// PeakOf is Peak among the requests with this key.
func (u *Upstream) PeakOf(key string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.peakBy[key]
}

// ResetPeak forgets the peaks.
func (u *Upstream) ResetPeak() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.peak = 0
	u.peakBy = map[string]int{}
}

// Running is the number of requests at the upstream now.
func (u *Upstream) Running() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.active)
}

// Requests returns what was seen so far in order of arrival.
func (u *Upstream) Requests() []Seen {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := make([]Seen, len(u.seen))
	for i, s := range u.seen {
		out[i] = *s
	}
	return out
}

// Request returns the first request with this id; ok is false if none came yet.
func (u *Upstream) Request(id string) (seen Seen, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, s := range u.seen {
		if s.ID == id {
			return *s, true
		}
	}
	return Seen{}, false
}

// Tries returns the requests with this id in order of arrival: the tries of one call.
func (u *Upstream) Tries(id string) []Seen {
	var tries []Seen
	for _, s := range u.Requests() {
		if s.ID == id {
			tries = append(tries, s)
		}
	}
	return tries
}

// Saw says whether a request with this id has come.
func (u *Upstream) Saw(id string) bool {
	_, ok := u.Request(id)
	return ok
}

// IDs returns the ids in order of arrival.
func (u *Upstream) IDs() []string {
	var ids []string
	for _, s := range u.Requests() {
		ids = append(ids, s.ID)
	}
	return ids
}

// Forget drops the records of ended requests, so that a test's next part reads only its own.
func (u *Upstream) Forget() {
	u.mu.Lock()
	defer u.mu.Unlock()
	var kept []*Seen
	for _, s := range u.seen {
		if s.Ending == EndingNone {
			kept = append(kept, s)
		}
	}
	u.seen = kept
}

func (u *Upstream) serve(w http.ResponseWriter, r *http.Request) {
	script, err := scriptOf(r)
	if err != nil {
		http.Error(w, "rig: unreadable script: "+err.Error(), http.StatusTeapot)
		return
	}
	seen, script := u.begin(r, script)
	ending := EndingCancelled
	defer func() { u.end(seen, ending) }()
	var body []byte
	switch {
	case script.Upgrade:
	case script.Early:
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			return
		}
		go io.Copy(io.Discard, r.Body) // whoever reads nothing isn't told that Envoy went away
	default:
		if body, err = io.ReadAll(r.Body); err != nil {
			return
		}
		u.keepBody(seen, body)
	}
	ending = u.play(w, r, script, body)
	if ending == EndingReset {
		panic(http.ErrAbortHandler) // net/http closes the connection, or resets the h2 stream
	}
}

// begin records a request, and says what it is to do here and now.
func (u *Upstream) begin(r *http.Request, script Script) (*Seen, Script) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if other, ok := u.overrides[script.ID]; ok {
		script = other
	}
	if len(script.Tries) > 0 {
		u.turns[script.ID]++
		script = script.turn(u.turns[script.ID] - 1)
	}
	seen := &Seen{ID: script.ID, Key: r.Header.Get(u.keyHeader), Method: r.Method, Host: r.Host, URI: r.RequestURI,
		Proto:  r.Proto,
		Header: r.Header.Clone(), Start: time.Now()}
	u.noteGone(seen.Start)
	conn, _ := r.Context().Value(connKey{}).(net.Conn)
	u.seen = append(u.seen, seen)
	u.active[seen] = &peer{conn: conn, gone: r.Context().Done(), shared: r.ProtoMajor == 2}
	u.raisePeaks(seen.Key)
	return seen, script
}

// raisePeaks counts a request only while its connection is open at Envoy's end: Envoy closes it and grants the permit
// to the next request in one turn, and this process may learn of the new request first.
func (u *Upstream) raisePeaks(key string) {
	if len(u.active) <= u.peak && len(u.active) <= u.peakBy[key] {
		return
	}
	all, same := 0, 0
	for seen, peer := range u.active {
		if !peer.alive() {
			continue
		}
		all++
		if seen.Key == key {
			same++
		}
	}
	u.peak = max(u.peak, all)
	u.peakBy[key] = max(u.peakBy[key], same)
}

// watchSockets makes each request that comes look whether those before it still have a connection.
func (u *Upstream) watchSockets() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.watched = true
}

func (u *Upstream) noteGone(now time.Time) {
	if !u.watched {
		return
	}
	for seen, peer := range u.active {
		if seen.gone.IsZero() && !peer.alive() {
			seen.gone = now
		}
	}
}

func (u *Upstream) keepBody(seen *Seen, body []byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	seen.Body = body
}

// end runs before net/http hands the end of the response to the connection, so that a request is never counted after
// Envoy has seen its end.
func (u *Upstream) end(seen *Seen, ending Ending) {
	u.mu.Lock()
	defer u.mu.Unlock()
	seen.End, seen.Ending = time.Now(), ending
	delete(u.active, seen)
}
