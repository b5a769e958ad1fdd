package envoy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

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
	if r.Status != http.StatusOK || r.Err != nil || r.Header.Get("grpc-status") != status ||
		r.Header.Get("grpc-message") == "" || len(r.Body) != 0 || r.Reason() != reason {
		t.Errorf("got %s, grpc-status %q, grpc-message %q, a body of %d bytes; want grpc-status %s and %s", r,
			r.Header.Get("grpc-status"),
			r.Header.Get("grpc-message"), len(r.Body), status, reason)
	}
	if !strings.HasPrefix(r.Header.Get("content-type"), "application/grpc") {
		t.Errorf("content-type is %q, want gRPC's", r.Header.Get("content-type"))
	}
}

func TestGRPCCallsAndTheirRefusals(t *testing.T) {
	fair := func(p rig.Pool) rig.Pool { p.FairBy = "tenant"; return p } // who is asked for must not come twice
	for name, s := range map[string]rig.Setup{
		"one stage":  {Config: &rig.Config{Pools: []rig.Pool{fair(modelPool(1, 1, longWait))}}},
		"two stages": stagedSetup(fair(attemptPool(1, 1))),
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

func TestRefusedGRPCRequestGetsAGRPCStatus(t *testing.T) {
	env := governed(t, 2, modelPool(1, 0, ""))
	held := env.Hold(t, "held")
	r := env.H2(t).Do(rig.Call{Header: []rig.Field{{Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"}}})
	if r.Status != http.StatusOK || r.Header.Get("grpc-status") != "8" ||
		r.Header.Get("content-type") != "application/grpc" {
		t.Errorf("got %s, grpc-status %q, content-type %q, want 200, 8 (RESOURCE_EXHAUSTED), application/grpc",
			r, r.Header.Get("grpc-status"), r.Header.Get("content-type"))
	}
	if r.Reason() != rig.Rejected || r.Header.Get("x-headgate-pool") != env.PoolName("model") {
		t.Errorf("reason %q, pool %q", r.Reason(), r.Header.Get("x-headgate-pool"))
	}
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	env.DrainCheck(t, "model", 1)
}
