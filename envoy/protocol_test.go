package envoy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

func overHTTP2(t *testing.T, s rig.Setup) *rig.Env {
	t.Helper()
	s.Upstream = rig.WithHTTP2
	return rig.New(t, rig.Shared(t, 2), s)
}

func TestHTTP2OnBothSides(t *testing.T) {
	env := overHTTP2(t, stagedSetup(tenantPool(5, 0), attemptPool(2, 1)))
	h2 := env.H2(t)
	call := func(id string, s rig.Script) rig.Call { s.ID = id; return rig.Call{Tenant: "a", Script: s} }
	held := []*rig.Pending{h2.Send(call("0", rig.Script{HeaderGate: "0"})),
		h2.Send(call("1", rig.Script{Chunks: 2, Gate: "1"}))}
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
		"one stage": {Config: &rig.Config{Pools: []rig.Pool{tenantPool(1, 1), modelPool(1, 1, longWait)}},
			Manager: websocket},
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
		if r := conn.Do(rig.Call{Method: "HEAD"}); r.Status != http.StatusTooManyRequests || r.Reason() != rig.Rejected ||
			len(r.Body) != 0 || r.Err != nil {
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
