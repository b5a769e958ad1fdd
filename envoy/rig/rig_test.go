package rig_test

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

// The tests of the rig itself have no filter between client and upstream, so they need no wasm.
func newEnv(t *testing.T, s rig.Setup) *rig.Env {
	t.Helper()
	return rig.New(t, rig.Shared(t, 2), s)
}

func TestAnswersReachTheClientWhole(t *testing.T) {
	env := newEnv(t, rig.Setup{})
	call := rig.Call{Script: rig.Script{ID: "a", Chunks: 3, Gap: time.Millisecond,
		Trailers: map[string]string{"x-end": "yes"}}, Body: []byte("hello"), Tenant: "acme"}
	want := "data: 0\n\ndata: 1\n\ndata: 2\n\n"
	h2 := env.H2(t)
	for name, reply := range map[string]*rig.Reply{"HTTP/1.1": env.Do(t, call), "HTTP/2": h2.Do(call)} {
		if reply.Err != nil || reply.Status != 200 || string(reply.Body) != want {
			t.Errorf("%s: got %s with body %q", name, reply, reply.Body)
		}
	}
	seen := env.Up.Requests()
	if len(seen) != 2 || string(seen[0].Body) != "hello" || seen[0].Header.Get("x-tenant") != "acme" ||
		seen[0].Ending != rig.EndingComplete {
		t.Errorf("the upstream saw %+v", seen)
	}
}

func TestScriptsOfFailure(t *testing.T) {
	env := newEnv(t, rig.Setup{})
	if r := env.Do(t, rig.Call{Script: rig.Script{Cut: true}}); r.Status != http.StatusServiceUnavailable {
		t.Errorf("a cut before the headers: got %s, want Envoy's 503", r)
	}
	if r := env.Do(t, rig.Call{Script: rig.Script{Chunks: 1, Reset: true}}); r.Status != 200 || r.Err == nil {
		t.Errorf("a cut in mid-stream: got %s, want a cut reply", r)
	}
	if r := env.Do(t, rig.Call{Script: rig.Script{Status: 204}}); r.Status != 204 || r.Err != nil {
		t.Errorf("204: got %s", r)
	}
	if r := env.Do(t, rig.Call{Method: "HEAD"}); r.Status != 200 || r.Err != nil {
		t.Errorf("HEAD: got %s", r)
	}
}

func TestLeavingClientsAreSeenAsCancelled(t *testing.T) {
	env := newEnv(t, rig.Setup{})
	h2 := env.H2(t)
	for id, leave := range map[string]func(rig.Call){
		"fin": func(c rig.Call) { sendAndLeave(t, env, env.Send(t, c), rig.LeaveFIN) },
		"rst": func(c rig.Call) { sendAndLeave(t, env, env.Send(t, c), rig.LeaveRST) },
		"h2":  func(c rig.Call) { sendAndLeave(t, env, h2.Send(c), rig.LeaveRST) },
	} {
		leave(rig.Call{Script: rig.Script{ID: id, Chunks: 2, Hang: true}})
		rig.Await(t, "the upstream sees "+id+" as cancelled", func() bool {
			seen, _ := env.Up.Request(id)
			return seen.Ending == rig.EndingCancelled
		})
	}
}

func sendAndLeave(t *testing.T, env *rig.Env, p *rig.Pending, how rig.Leave) {
	t.Helper()
	p.AwaitBody(t, "data: 1")
	p.Leave(how)
}

func TestKilledConnectionCancelsAllItsStreams(t *testing.T) {
	env := newEnv(t, rig.Setup{})
	h2 := env.H2(t)
	var calls []*rig.Pending
	for range 20 {
		calls = append(calls, h2.Send(rig.Call{Script: rig.Script{Hang: true}}))
	}
	rig.Await(t, "20 requests run", func() bool { return env.Up.Running() == 20 })
	if peak := env.Up.Peak(); peak != 20 {
		t.Errorf("peak %d, want 20", peak)
	}
	h2.Kill()
	for _, r := range rig.WaitAll(calls) {
		if r.Err == nil {
			t.Errorf("a call on a killed connection got %s", r)
		}
	}
	rig.Await(t, "nothing runs", func() bool { return env.Up.Running() == 0 })
}

func TestPeakLeavesOutWhatEnvoyHasClosed(t *testing.T) {
	env := newEnv(t, rig.Setup{})
	for range 50 {
		p := env.Send(t, rig.Call{Script: rig.Script{Chunks: 1, Hang: true}})
		p.AwaitBody(t, "data: 0")
		p.Leave(rig.LeaveRST)
		<-waited(p)
	}
	if peak := env.Up.Peak(); peak > 2 {
		t.Errorf("one after another, yet the peak is %d", peak)
	}
}

func waited(p *rig.Pending) chan struct{} {
	done := make(chan struct{})
	go func() { p.Wait(); close(done) }()
	return done
}

func TestListenerIsReplacedInPlace(t *testing.T) {
	env := newEnv(t, rig.Setup{Routes: func(up string) []rig.Object {
		return []rig.Object{{"match": rig.Object{"prefix": "/no"}, "direct_response": rig.Object{"status": 403}},
			rig.Route("/", up)}
	}})
	if r := env.Do(t, rig.Call{Path: "/no"}); r.Status != 403 {
		t.Errorf("got %s, want 403", r)
	}
	err := env.SetListener(rig.Object{"@type": "type.googleapis.com/envoy.config.listener.v3.Listener", "name": "wrong"})
	if !errors.Is(err, rig.ErrUpdateRejected) {
		t.Errorf("a listener without address: %v, want %v", err, rig.ErrUpdateRejected)
	}
	if r := env.Do(t, rig.Call{}); r.Status != 200 {
		t.Errorf("after a rejected update: got %s, want 200", r)
	}
}

func TestRawBytesReachEnvoyAsTheyAre(t *testing.T) {
	env := newEnv(t, rig.Setup{})
	if r := env.Raw(t, "POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n"); r.Status != 400 {
		t.Errorf("no host: got %s, want 400", r)
	}
	conn := env.Dial(t)
	one := "POST / HTTP/1.1\r\nhost: a\r\nx-n: 1\r\nx-n: 2\r\ncontent-length: 0\r\n\r\n"
	conn.Write(t, one+one)
	for range 2 {
		if r := conn.Read("POST"); r.Status != 200 {
			t.Errorf("pipelined: got %s, want 200", r)
		}
	}
	if seen := env.Up.Requests(); len(seen) != 2 || len(seen[0].Header["X-N"]) != 2 {
		t.Errorf("the upstream saw %v", seen)
	}
	conn.Write(t, "POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
	conn.Write(t, "ok")
	if r := conn.Read("POST"); r.Status != 200 || !bytes.Contains(r.Body, []byte(`"body":2`)) {
		t.Errorf("expect: got %s %s", r, r.Body)
	}
}

func TestStartedEnvoyEndsWithItsTest(t *testing.T) {
	var own *rig.Env
	t.Run("inside", func(t *testing.T) {
		own = rig.New(t, rig.Start(t, rig.Options{Workers: 1}), rig.Setup{})
		if r := own.Do(t, rig.Call{}); r.Status != 200 {
			t.Errorf("got %s, want 200", r)
		}
	})
	if own.Alive() {
		t.Error("the Envoy outlives its test")
	}
}
