package rig

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// scriptParam is the query parameter that carries a Script through Envoy to the upstream.
const scriptParam = "script"

// A Script says what the upstream does with the request that carries it. The zero Script answers 200 with a short JSON
// body at once.
type Script struct {
	ID         string            `json:",omitempty"` // tells the request apart in Upstream's records
	Delay      time.Duration     `json:",omitempty"` // before the response headers
	HeaderGate string            `json:",omitempty"` // the headers wait until this gate is opened
	Cut        bool              `json:",omitempty"` // end the connection (h2: reset the stream) instead of headers
	Status     int               `json:",omitempty"` // 0: 200
	NoBody     bool              `json:",omitempty"`
	Body       string            `json:",omitempty"` // in place of the short JSON
	Events     []string          `json:",omitempty"` // sent as they are, each followed by an empty line
	Chunks     int               `json:",omitempty"` // that many server-sent events "data: <n>"
	Gap        time.Duration     `json:",omitempty"` // after each of them
	Gate       string            `json:",omitempty"` // the body's end, after the events, waits until this gate opens
	Hang       bool              `json:",omitempty"` // after the events nothing more, until the client leaves
	Reset      bool              `json:",omitempty"` // end the connection (h2: the stream) in place of the body's end
	Headers    map[string]string `json:",omitempty"`
	Trailers   map[string]string `json:",omitempty"`
	Early      bool              `json:",omitempty"` // answer without waiting for the request's body
	Interim    int               `json:",omitempty"` // a status 1xx that is sent first
	Upgrade    bool              `json:",omitempty"` // 101, then every byte is sent back until Envoy leaves
	Tries      []Script          `json:",omitempty"` // one for each request with this id; the last also for those after it
}

// turn is the script of the request that n others with its id came before.
func (s Script) turn(n int) Script {
	if len(s.Tries) == 0 {
		return s
	}
	try := s.Tries[min(n, len(s.Tries)-1)]
	try.ID = s.ID
	return try
}

// streams says whether the response headers leave before the body's end.
func (s Script) streams() bool {
	return s.Chunks > 0 || len(s.Events) > 0 || s.Gate != "" || s.Hang || s.Reset || len(s.Trailers) > 0
}

func (s Script) events() []string {
	events := s.Events
	for i := range s.Chunks {
		events = append(events, fmt.Sprintf("data: %d", i))
	}
	return events
}

// Query is the script as the value of the query parameter that carries it, for clients that are not the rig's.
func (s Script) Query() (name, value string) {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return scriptParam, string(text)
}

func (s Script) status() int {
	if s.Status == 0 {
		return http.StatusOK
	}
	return s.Status
}

// query is the script as a query string without the question mark.
func (s Script) query() string {
	name, value := s.Query()
	return name + "=" + url.QueryEscape(value)
}

// scriptOf reads the script of a request; without one it is the zero Script.
func scriptOf(r *http.Request) (Script, error) {
	text := r.URL.Query().Get(scriptParam)
	if text == "" {
		return Script{}, nil
	}
	var s Script
	err := json.Unmarshal([]byte(text), &s)
	return s, err
}
