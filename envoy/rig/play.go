package rig

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// play performs a script and says how the request ended.
func (u *Upstream) play(w http.ResponseWriter, r *http.Request, s Script, body []byte) Ending {
	ctx := r.Context()
	if !wait(ctx, s.Delay) || !u.pass(ctx, s.HeaderGate) {
		return EndingCancelled
	}
	if s.Cut {
		return EndingReset
	}
	if s.Upgrade {
		return upgrade(w, r)
	}
	if s.Interim != 0 {
		w.WriteHeader(s.Interim)
	}
	writeHead(w, s)
	if s.streams() {
		return u.stream(ctx, w, s)
	}
	switch {
	case s.NoBody || r.Method == http.MethodHead || s.status() == http.StatusNoContent ||
		s.status() == http.StatusNotModified:
	case s.Body != "":
		io.WriteString(w, s.Body)
	default:
		fmt.Fprintf(w, `{"path":%q,"body":%d}`, r.URL.Path, len(body))
	}
	return EndingComplete
}

func writeHead(w http.ResponseWriter, s Script) {
	for name, value := range s.Headers {
		w.Header().Set(name, value)
	}
	for name := range s.Trailers {
		w.Header().Add("Trailer", name)
	}
	switch {
	case s.Headers["content-type"] != "":
	case s.streams():
		w.Header().Set("Content-Type", "text/event-stream")
	case !s.NoBody:
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(s.status())
}

func (u *Upstream) stream(ctx context.Context, w http.ResponseWriter, s Script) Ending {
	flush := http.NewResponseController(w).Flush
	flush()
	for _, event := range s.events() {
		if fmt.Fprintf(w, "%s\n\n", event); flush() != nil || !wait(ctx, s.Gap) {
			return EndingCancelled
		}
	}
	if s.Hang {
		<-ctx.Done()
	}
	if !u.pass(ctx, s.Gate) {
		return EndingCancelled
	}
	if s.Reset {
		return EndingReset
	}
	for name, value := range s.Trailers {
		w.Header().Set(name, value)
	}
	return EndingComplete
}

// pass waits at a gate; false if Envoy went away first.
func (u *Upstream) pass(ctx context.Context, gate string) bool {
	if gate == "" {
		return ctx.Err() == nil
	}
	select {
	case <-u.gate(gate):
		return true
	case <-ctx.Done():
		return false
	}
}

// wait lets the script's time pass; false if Envoy went away first.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// upgrade accepts the protocol that the request asks for, and sends back whatever comes.
func upgrade(w http.ResponseWriter, r *http.Request) Ending {
	conn, in, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return EndingReset
	}
	defer conn.Close()
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: %s\r\n\r\n",
		r.Header.Get("Upgrade"))
	io.Copy(conn, in)
	return EndingCancelled
}
