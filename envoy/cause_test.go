package envoy_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/headgate/headgate/envoy/rig"
)

// phases are where a request is when its client's side ends it. The upstream answers before it has the whole request.
var phases = map[string]rig.Script{
	"before the answer": {Early: true, HeaderGate: "never"},
	"in the answer":     {Early: true, Chunks: 1, Hang: true},
}

// A clientEnd is a way for the client's side to end a request. Of a request over HTTP/1.1 the head and a part of the
// body have been sent, and of one over HTTP/2 the headers.
type clientEnd struct {
	path  string                                       // "": the default
	early bool                                         // it can't happen any more once the answer has begun
	whole bool                                         // the request has been sent whole
	http1 func(t *testing.T, c *rig.Conn)              // over HTTP/1.1
	http2 func(t *testing.T, f *rig.Frames, id uint32) // over HTTP/2; id is the stream's
}

// timers are the ends that need nothing but time.
func timers(add func(name string, e clientEnd)) {
	over1, over2 := func(*testing.T, *rig.Conn) {}, func(*testing.T, *rig.Frames, uint32) {}
	add("request_timeout", clientEnd{early: true, http1: over1})
	add("request_timeout", clientEnd{early: true, http2: over2})
	for name, path := range map[string]string{"idle_timeout": "/idle", "max_stream_duration": "/duration"} {
		add(name, clientEnd{path: path, http1: over1})
		add(name, clientEnd{path: path, http2: over2})
		add(name+" of a whole request", clientEnd{path: path, whole: true, http2: over2})
	}
}

// connectionEnds are the ends of the client's connection.
func connectionEnds(add func(name string, e clientEnd)) {
	for _, whole := range []bool{false, true} {
		for _, how := range []rig.Leave{rig.LeaveFIN, rig.LeaveRST} {
			name := fmt.Sprintf("%s, whole request %v", how, whole)
			add(name, clientEnd{whole: whole, http1: func(_ *testing.T, c *rig.Conn) { c.Leave(how) }})
			add(name, clientEnd{whole: whole, http2: func(_ *testing.T, f *rig.Frames, _ uint32) { f.Leave(how) }})
		}
		add(fmt.Sprintf("GOAWAY and FIN, whole request %v", whole), clientEnd{whole: whole, http2: func(_ *testing.T, f *rig.Frames, _ uint32) {
			f.WriteGoAway(0, http2.ErrCodeInternal, nil)
			f.Leave(rig.LeaveFIN)
		}})
	}
}

// resets are RST_STREAM with every code that there is, and with one that there isn't.
func resets(add func(name string, e clientEnd)) {
	for code := range http2.ErrCodeHTTP11Required + 2 {
		for _, whole := range []bool{false, true} {
			add(fmt.Sprintf("RST_STREAM with code %d, whole request %v", code, whole), clientEnd{whole: whole,
				http2: func(_ *testing.T, f *rig.Frames, id uint32) { f.WriteRSTStream(id, code) }})
		}
	}
}

// breaches are what a client can do against its protocol.
func breaches(add func(name string, e clientEnd)) {
	for name, text := range map[string]string{"a broken chunk": "zz\r\n", "a broken trailer": "0\r\nno trailer\r\n\r\n", "a chunk that is too long": "ffffffffffffffffff\r\n"} {
		add(name, clientEnd{http1: func(t *testing.T, c *rig.Conn) { c.Write(t, text) }})
	}
	for name, frames := range map[string]func(t *testing.T, f *rig.Frames, id uint32){
		"DATA on no stream":         func(_ *testing.T, f *rig.Frames, _ uint32) { f.WriteData(0, true, []byte("x")) },
		"headers in the trailers":   func(t *testing.T, f *rig.Frames, id uint32) { f.Head(t, id, rig.Call{}, true) },
		"trailers without an end":   func(t *testing.T, f *rig.Frames, id uint32) { f.Head(t, id, rig.Call{}, false) },
		"a window that is too wide": func(_ *testing.T, f *rig.Frames, id uint32) { f.WriteWindowUpdate(id, 1<<31-1) },
		"a window update of 0":      func(_ *testing.T, f *rig.Frames, id uint32) { f.WriteWindowUpdate(id, 0) },
		"PING on a stream":          func(_ *testing.T, f *rig.Frames, id uint32) { f.WriteRawFrame(http2.FramePing, 0, id, make([]byte, 8)) },
		"a frame that is too long": func(_ *testing.T, f *rig.Frames, id uint32) {
			f.WriteRawFrame(http2.FrameData, 0, id, make([]byte, 1<<20))
		},
	} {
		add(name, clientEnd{http2: frames})
	}
	add("DATA after the end", clientEnd{whole: true, http2: func(_ *testing.T, f *rig.Frames, id uint32) { f.WriteData(id, true, []byte("x")) }})
	add("headers after the end", clientEnd{whole: true, http2: func(t *testing.T, f *rig.Frames, id uint32) { f.Head(t, id, rig.Call{}, true) }})
}

// Whatever a client does, and whatever timer on its stream runs out: it is no failure of the provider's. A single one
// would open the breaker.
func TestNothingOnTheClientsSideOpensTheBreaker(t *testing.T) {
	for _, upstream := range []string{"HTTP/1", "HTTP/2"} {
		for _, stage := range []string{"request", "attempt"} {
			t.Run(upstream+" upstream, stage "+stage, func(t *testing.T) {
				env := judged(t, upstream, stage)
				n := 0
				for phase, script := range phases {
					add := func(name string, e clientEnd) {
						if e.early && script.Chunks > 0 {
							return
						}
						n++
						e.happens(t, env, fmt.Sprintf("%d: %s %s", n, name, phase), script)
					}
					timers(add)
					connectionEnds(add)
					resets(add)
					breaches(add)
				}
				env.CheckCounts(t, "model", rig.Counts{"provider_failure": 0, "provider_429": 0, "aborted": int64(n), "completed": int64(n)})
				env.CheckIdentity(t, "model")
				env.CheckAlive(t)
			})
		}
	}
}

// judged is a gateway whose pool has a breaker that a single failure opens, and timers on its streams.
func judged(t *testing.T, upstream, stage string) *rig.Env {
	t.Helper()
	s := rig.Setup{
		Manager: rig.Object{"request_timeout": "0.3s", "delayed_close_timeout": "0.01s"},
		Routes: func(up string) []rig.Object {
			idle, duration := rig.Route("/idle", up), rig.Route("/duration", up)
			idle["route"].(rig.Object)["idle_timeout"] = "0.2s"
			duration["route"].(rig.Object)["max_stream_duration"] = rig.Object{"max_stream_duration": "0.2s"}
			return []rig.Object{idle, duration, rig.Route("/", up)}
		},
	}
	if upstream == "HTTP/2" {
		s.Upstream = rig.WithHTTP2
	}
	p := protectedPool(1, 0, rig.Object{"breaker": rig.Object{"failures": 1, "window": "10m", "open": "10m", "max_open": "10m", "penalty": "0s"}})
	if stage == "attempt" {
		s.Stages, p["per"] = true, "attempt"
	}
	return protected(t, s, nil, p)
}

// happens makes a request end so, and checks that the next one gets its permit.
func (e clientEnd) happens(t *testing.T, env *rig.Env, id string, script rig.Script) {
	t.Helper()
	script.ID = id
	call := rig.Call{Path: e.path + rig.Path, Script: script}
	begun := func() bool { return env.Up.Saw(id) }
	if e.http1 != nil {
		c := env.Dial(t)
		call.Delivery.Chunked = true
		head := call.Head(1)
		if e.whole {
			head += "1\r\nx\r\n0\r\n\r\n"
		}
		c.Write(t, head)
		rig.Await(t, id+": the upstream has it", begun)
		if script.Chunks > 0 {
			if r := c.ReadHead(t); r.Status != 200 {
				t.Fatalf("%s: got %s", id, r)
			}
		}
		e.http1(t, c)
	} else {
		f := env.Frames(t)
		f.Head(t, 1, call, e.whole)
		rig.Await(t, id+": the upstream has it", begun)
		if script.Chunks > 0 {
			f.AwaitAnswer(t, 1)
		}
		e.http2(t, f, 1)
	}
	rig.Await(t, id+" has ended", func() bool { return env.Gauge(t, "model", "inflight") == 0 })
	if r := env.Do(t, rig.Call{}); r.Status != 200 {
		t.Fatalf("after %s: got %s, want 200", id, r)
	}
	env.AwaitGauge(t, "model", "inflight", 0)
}

// What the provider does is its failure, whatever code it gives.
func TestEveryResetOfTheProvidersIsAFailure(t *testing.T) {
	raw := resettingUpstream(t)
	for _, stage := range []string{"request", "attempt"} {
		t.Run("stage "+stage, func(t *testing.T) {
			s := rig.Setup{Routes: func(up string) []rig.Object { return []rig.Object{rig.Route("/", "resetting")} },
				Targets: []rig.Object{rig.WithHTTP2(rig.Cluster("resetting", raw))},
				Manager: rig.Object{"delayed_close_timeout": "0.01s"}}
			p := protectedPool(5, 0, rig.Object{"breaker": rig.Object{"failures": 1000, "penalty": "0s"}})
			if stage == "attempt" {
				s.Stages, p["per"] = true, "attempt"
			}
			env := protected(t, s, nil, p)
			n := int64(0)
			for _, phase := range []string{"before", "in"} {
				for code := range http2.ErrCodeHTTP11Required + 2 {
					r := env.Do(t, rig.Call{Path: fmt.Sprintf("/%s/%d%s", phase, code, rig.Path)})
					n++
					env.AwaitGauge(t, "model", "inflight", 0)
					if got := env.Pool(t, "model")["provider_failure"]; got != n {
						t.Errorf("code %d %s the answer: %s, provider_failure is %d, want %d", code, phase, r, got, n)
						n = got
					}
				}
			}
			env.AwaitDrained(t, "model")
		})
	}
}

// resettingUpstream is an HTTP/2 server that resets each request with the code in its path, before or in its answer.
func resettingUpstream(t *testing.T) (port int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go resetAll(conn)
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port
}

func resetAll(conn net.Conn) {
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	framer.WriteSettings()
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		headers, ok := frame.(*http2.MetaHeadersFrame)
		if !ok {
			continue
		}
		parts := strings.Split(headers.PseudoValue("path"), "/")
		if parts[1] == "in" {
			var block bytes.Buffer
			hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
			framer.WriteHeaders(http2.HeadersFrameParam{StreamID: headers.StreamID, BlockFragment: block.Bytes(), EndHeaders: true})
			framer.WriteData(headers.StreamID, false, []byte("x"))
		}
		code, _ := strconv.Atoi(parts[2])
		framer.WriteRSTStream(headers.StreamID, http2.ErrCode(code))
	}
}
