package envoy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

const (
	resourceExhausted = "8"
	invalidArgument   = "3"
)

// grpcCall is a gRPC call of a message of that size; its reply is the script's.
func grpcCall(id string, s rig.Script) rig.Call {
	s.ID = id
	if s.Headers == nil {
		s.Headers = map[string]string{}
	}
	s.Headers["content-type"] = "application/grpc"
	return rig.Call{Script: s, Body: []byte("\x00\x00\x00\x00\x02ab"),
		Header: []rig.Field{{Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"}}}
}

var grpcOK = map[string]string{"grpc-status": "0"}

// checkGRPCRefused checks that a reply is a refusal as gRPC has it: trailers only.
func checkGRPCRefused(t *testing.T, env *rig.Env, r *rig.Reply, status, reason string) {
	t.Helper()
	if r.Status != http.StatusOK || r.Err != nil || r.Header.Get("grpc-status") != status || r.Header.Get("grpc-message") == "" || len(r.Body) != 0 || r.Reason() != reason {
		t.Errorf("got %s, grpc-status %q, grpc-message %q, a body of %d bytes; want grpc-status %s and %s", r, r.Header.Get("grpc-status"),
			r.Header.Get("grpc-message"), len(r.Body), status, reason)
	}
	if !strings.HasPrefix(r.Header.Get("content-type"), "application/grpc") {
		t.Errorf("content-type is %q, want gRPC's", r.Header.Get("content-type"))
	}
}

func overHTTP2(t *testing.T, s rig.Setup) *rig.Env {
	t.Helper()
	s.Upstream = rig.WithHTTP2
	return rig.New(t, rig.Shared(t, 2), s)
}

func TestGRPCCallsAndTheirRefusals(t *testing.T) {
	for name, s := range map[string]rig.Setup{
		"one stage":  {Config: &rig.Config{Pools: []rig.Pool{modelPool(1, 1, longWait)}}},
		"two stages": stagedSetup(attemptPool(1, 1)),
	} {
		t.Run(name, func(t *testing.T) {
			env := overHTTP2(t, s)
			h2 := env.H2(t)
			r := h2.Do(grpcCall("unary", rig.Script{Body: "\x00\x00\x00\x00\x02cd", Trailers: grpcOK}))
			if r.Status != 200 || r.Trailer.Get("grpc-status") != "0" {
				t.Fatalf("a unary call: got %s, trailer %v", r, r.Trailer)
			}
			r = h2.Do(grpcCall("trailers only", rig.Script{NoBody: true, Headers: map[string]string{"grpc-status": "5"}}))
			if r.Status != 200 || r.Header.Get("grpc-status")+r.Trailer.Get("grpc-status") != "5" {
				t.Errorf("trailers only: got %s, %v %v", r, r.Header, r.Trailer)
			}
			env.AwaitDrained(t, "model")

			stream := h2.Send(grpcCall("stream", rig.Script{Chunks: 2, Gate: "stream", Trailers: grpcOK}))
			stream.AwaitBody(t, "data: 1")
			env.CheckCounts(t, "model", rig.Counts{"inflight": 1})
			grpcRefusals(t, env, h2)
			env.Up.Open("stream")
			if r := stream.Wait(); r.Err != nil || r.Trailer.Get("grpc-status") != "0" {
				t.Errorf("the stream: got %s, trailer %v", r, r.Trailer)
			}
			env.DrainCheck(t, "model", 1)
		})
	}
}

// grpcRefusals are those of a pool that is full and lets one wait.
func grpcRefusals(t *testing.T, env *rig.Env, h2 *rig.H2) {
	t.Helper()
	of := func(id string, more ...rig.Field) rig.Call {
		c := grpcCall(id, rig.Script{})
		c.Header = append(c.Header, more...)
		return c
	}
	waiter := h2.Send(of("waiter"))
	env.AwaitGauge(t, "model", "queued", 1)
	checkGRPCRefused(t, env, h2.Do(of("refused")), resourceExhausted, rig.Rejected)
	waiter.Leave(rig.LeaveRST)
	env.AwaitGauge(t, "model", "queued", 0)
	checkGRPCRefused(t, env, h2.Do(of("expired", grpcTimeout("300m")...)), resourceExhausted, rig.Expired)
	checkGRPCRefused(t, env, h2.Do(of("late", grpcTimeout("0S")...)), resourceExhausted, rig.Expired)
	twice := []rig.Field{{Name: "x-tenant", Value: "a"}, {Name: "x-tenant", Value: "b"}}
	checkGRPCRefused(t, env, h2.Do(of("twice", twice...)), invalidArgument, rig.Ambiguous)
	for _, id := range []string{"waiter", "refused", "expired", "late", "twice"} {
		if env.Up.Saw(id) {
			t.Errorf("%s reached the upstream", id)
		}
	}
}

// Both directions are open at once, before and after a wait.
func TestGRPCStreamsInBothDirections(t *testing.T) {
	env := overHTTP2(t, rig.Setup{Config: &rig.Config{Pools: []rig.Pool{modelPool(1, 1, longWait)}}})
	h2 := env.H2(t)
	open := func(id string) (*rig.Pending, *io.PipeWriter) {
		reader, writer := io.Pipe()
		c := grpcCall(id, rig.Script{Early: true, Chunks: 1, Gate: id, Trailers: grpcOK})
		c.Stream = reader
		return h2.Send(c), writer
	}
	first, firstOut := open("first")
	fmt.Fprint(firstOut, "\x00\x00\x00\x00\x02ab")
	first.AwaitBody(t, "data: 0")
	second, secondOut := open("second")
	env.AwaitGauge(t, "model", "queued", 1)
	firstOut.Close()
	env.CheckCounts(t, "model", rig.Counts{"inflight": 1}) // half-closed is not ended
	env.Up.Open("first")
	if r := first.Wait(); r.Trailer.Get("grpc-status") != "0" {
		t.Errorf("the first: got %s, trailer %v", r, r.Trailer)
	}
	second.AwaitBody(t, "data: 0")
	second.Leave(rig.LeaveRST)
	secondOut.Close()
	env.DrainCheck(t, "model", 1)
}

func TestHTTP2OnBothSides(t *testing.T) {
	env := overHTTP2(t, stagedSetup(tenantPool(5, 0), attemptPool(2, 1)))
	h2 := env.H2(t)
	call := func(id string, s rig.Script) rig.Call { s.ID = id; return rig.Call{Tenant: "a", Script: s} }
	held := []*rig.Pending{h2.Send(call("0", rig.Script{HeaderGate: "0"})), h2.Send(call("1", rig.Script{Chunks: 2, Gate: "1"}))}
	env.AwaitGauge(t, "model", "inflight", 2)
	waiter := h2.Send(call("waiter", rig.Script{}))
	env.AwaitGauge(t, "model", "queued", 1)
	env.CheckRefused(t, h2.Do(call("refused", rig.Script{})), "model", rig.Rejected)
	env.Up.Open("0", "1")
	for _, p := range append(held, waiter) {
		mustBeOK(t, "an admitted one", p.Wait())
	}
	if r := h2.Do(call("reset", rig.Script{Chunks: 1, Reset: true})); r.Err == nil {
		t.Errorf("a reset stream: got %s", r)
	}
	mustBeOK(t, "a retried one", h2.Do(tries("retried", rig.Script{Cut: true}, rig.Script{})))
	env.DrainCheck(t, "model", 2)
}

// websocket lets the listener upgrade.
var websocket = rig.Object{"upgrade_configs": []rig.Object{{"upgrade_type": "websocket"}}}

func upgradeRequest(id string) string {
	c := rig.Call{Method: "GET", Tenant: "a", Script: rig.Script{ID: id, Upgrade: true},
		Header: []rig.Field{{Name: "connection", Value: "upgrade"}, {Name: "upgrade", Value: "websocket"},
			{Name: "sec-websocket-version", Value: "13"}, {Name: "sec-websocket-key", Value: "cmlnAAAAAAAAAAAAAAAAAA=="}}}
	return c.Head(0)
}

// upgrade opens an upgraded connection.
func upgrade(t *testing.T, env *rig.Env, id string) *rig.Conn {
	t.Helper()
	conn := env.Dial(t)
	conn.Write(t, upgradeRequest(id))
	if r := conn.ReadHead(t); r.Status != http.StatusSwitchingProtocols {
		t.Fatalf("%s: got %s, want 101", id, r)
	}
	return conn
}

func TestUpgradedConnectionKeepsItsPermitToItsEnd(t *testing.T) {
	two := stagedSetup(tenantPool(1, 1), attemptPool(1, 1))
	two.Manager = websocket
	for name, s := range map[string]rig.Setup{
		"one stage":  {Config: &rig.Config{Pools: []rig.Pool{tenantPool(1, 1), modelPool(1, 1, longWait)}}, Manager: websocket},
		"two stages": two,
	} {
		t.Run(name, func(t *testing.T) {
			env := rig.New(t, rig.Shared(t, 2), s)
			for _, how := range []rig.Leave{rig.LeaveRST, rig.LeaveFIN} {
				conn := upgrade(t, env, "first-"+string(how))
				for _, text := range []string{"hello", "again"} {
					conn.Write(t, text)
					conn.AwaitText(t, text)
				}
				env.CheckCounts(t, "model", rig.Counts{"inflight": 1})
				env.CheckCounts(t, "tenant", rig.Counts{"inflight": 1})
				waiter := env.Dial(t)
				waiter.Write(t, upgradeRequest("waiter-"+string(how)))
				env.AwaitGauge(t, "tenant", "queued", 1)
				env.CheckRefused(t, env.Raw(t, upgradeRequest("refused")), "tenant", rig.Rejected)
				conn.Leave(how)
				if r := waiter.ReadHead(t); r.Status != http.StatusSwitchingProtocols {
					t.Fatalf("the waiter: got %s, want 101", r)
				}
				waiter.Write(t, "hello")
				waiter.AwaitText(t, "hello")
				waiter.Leave(how)
				env.AwaitDrained(t, "tenant", "model")
			}
			if env.Up.Saw("refused") {
				t.Error("a refused upgrade reached the upstream")
			}
			env.DrainCheck(t, "model", 1, rig.Call{Tenant: "a"})
		})
	}
}

func TestServerSentEventsPassOneByOne(t *testing.T) {
	env := staged(t, tenantPool(1, 0), attemptPool(1, 0))
	p := env.Send(t, rig.Call{Tenant: "a", Script: rig.Script{ID: "a", Chunks: 3, Gap: 100 * time.Millisecond, Gate: "a"}})
	for i := range 3 {
		p.AwaitBody(t, fmt.Sprintf("data: %d\n\n", i))
		env.CheckRefused(t, env.Do(t, rig.Call{Tenant: "b"}), "model", rig.Rejected)
	}
	env.Up.Open("a")
	mustBeOK(t, "the stream", p.Wait())
	env.DrainCheck(t, "model", 1)
}

func TestInterimRepliesAreNoEnd(t *testing.T) {
	env := staged(t, tenantPool(1, 0), attemptPool(1, 0))
	for _, status := range []int{http.StatusContinue, http.StatusProcessing, http.StatusEarlyHints} {
		id := fmt.Sprint(status)
		p := env.Send(t, rig.Call{Tenant: "a", Script: rig.Script{ID: id, Interim: status, Chunks: 1, Gate: id}})
		p.AwaitBody(t, "data: 0")
		env.CheckCounts(t, "model", rig.Counts{"inflight": 1})
		env.CheckRefused(t, env.Do(t, rig.Call{Tenant: "b"}), "model", rig.Rejected)
		env.Up.Open(id)
		mustBeOK(t, id, p.Wait())
		env.AwaitDrained(t, "tenant", "model")
	}
	env.DrainCheck(t, "model", 1)
}

// A refusal of HEAD has no body, so the connection goes on with the next request.
func TestRefusedHEADKeepsTheConnection(t *testing.T) {
	env := governed(t, 2, modelPool(1, 0, ""))
	held := env.Hold(t, "held")
	conn := env.Dial(t)
	for range 5 {
		if r := conn.Do(rig.Call{Method: "HEAD"}); r.Status != http.StatusTooManyRequests || r.Reason() != rig.Rejected || len(r.Body) != 0 || r.Err != nil {
			t.Fatalf("HEAD: got %s, want 429 without a body", r)
		}
		env.CheckRefused(t, conn.Do(rig.Call{}), "model", rig.Rejected)
	}
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	env.AwaitDrained(t, "model")
	mustBeOK(t, "HEAD", conn.Do(rig.Call{Method: "HEAD"}))
	env.DrainCheck(t, "model", 1)
}

func TestPipelinedRequestsAreAdmittedOneByOne(t *testing.T) {
	for name, env := range map[string]*rig.Env{
		"one stage":  governed(t, 2, modelPool(1, 1, longWait)),
		"two stages": staged(t, attemptPool(1, 1)),
	} {
		t.Run(name, func(t *testing.T) {
			const n = 10
			one := func(id string) string { return rig.Call{Script: rig.Script{ID: id}}.Head(0) }
			var text strings.Builder
			for i := range n {
				text.WriteString(one(fmt.Sprint(i)))
			}
			held := env.Hold(t, "held")
			conn := env.Dial(t)
			conn.Write(t, text.String()) // the first of them waits, and the others behind it
			env.AwaitGauge(t, "model", "queued", 1)
			env.Up.Open("held")
			mustBeOK(t, "the held one", held.Wait())
			for i := range n {
				mustBeOK(t, fmt.Sprintf("pipelined %d", i), conn.Read("POST"))
			}
			env.AwaitDrained(t, "model")
			env.DrainCheck(t, "model", 1)
		})
	}
}
