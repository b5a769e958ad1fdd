package envoy_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

// sixteen is more workers than most machines that run the tests have cores, so that the kernel interrupts them in
// mid-step.
const sixteen = 16

// A contended is where sixteen workers contend.
type contended struct {
	envoy   *rig.Envoy
	module  string
	oneSwap bool // the module tries each swap once in a turn, so that each one lost ends the turn
}

// env is a listener with a model pool. None of the workers has a seat yet.
func (c contended) env(t *testing.T, onError string, limit int64) *rig.Env {
	t.Helper()
	return rig.NewWithModule(t, c.envoy, c.module, rig.Setup{Config: &rig.Config{
		Pools: []rig.Pool{modelPool(limit, 1000, longWait)}, More: rig.Object{"on_error": onError}}})
}

// Contention is no failure: whatever swaps sixteen workers take from each other, each request is served under a permit,
// and on_error has nothing to say.
func TestSixteenWorkersContend(t *testing.T) {
	shipped, err := rig.WasmPath()
	if err != nil {
		t.Fatal(err)
	}
	e := rig.Start(t, rig.Options{Workers: sixteen})
	t.Run("the module", func(t *testing.T) { contend(t, contended{e, shipped, false}) })
	t.Run("one swap a turn", func(t *testing.T) { contend(t, contended{e, rig.BuildModule(t, "oneswap"), true}) })
}

func contend(t *testing.T, c contended) {
	for _, onError := range []string{"open", "closed"} {
		t.Run("for one key, on_error "+onError, func(t *testing.T) { c.forOneKey(t, onError) })
	}
	t.Run("for new keys", c.forNewKeys)
	t.Run("with clients that come and go", c.withChurn)
}

// forOneKey lets many more clients ask than are served at once. Their requests are short, so that workers do
// little but take permits and give them back.
func (c contended) forOneKey(t *testing.T, onError string) {
	const clients, each, limit = 160, 20, 8
	env := c.env(t, onError, limit)
	sendMany(t, env, clients, each, func(client, i int) rig.Call {
		return rig.Call{Script: rig.Script{Delay: time.Duration((client+i)%4) * time.Millisecond}}
	})
	if peak := env.Up.Peak(); peak != limit {
		t.Errorf("%d ran at once at most, want exactly %d", peak, limit)
	}
	checkServed(t, env, clients*each)
	if counts := env.Pool(t, "model"); counts["cas_retry"] == 0 || c.oneSwap && counts["contended"] == 0 {
		t.Errorf("the workers did not contend: %v", counts)
	}
	env.Up.ResetPeak()
	env.DrainCheck(t, "model", limit)
}

// forNewKeys is the same for models that are all new, each of which some clients ask for at the same time.
func (c contended) forNewKeys(t *testing.T) {
	const clients, each, together = 160, 20, 4
	env := c.env(t, "open", 1)
	model := func(client, i int) string { return fmt.Sprintf("m-%d-%d", client/together, i) }
	sendMany(t, env, clients, each, func(client, i int) rig.Call {
		return rig.Call{Model: model(client, i), Script: rig.Script{Delay: time.Millisecond}}
	})
	for client := 0; client < clients; client += together {
		for i := range each {
			if peak := env.Up.PeakOf(model(client, i)); peak != 1 {
				t.Errorf("%d of model %s ran at once at most, want 1", peak, model(client, i))
			}
		}
	}
	checkServed(t, env, clients*each)
	env.CheckCounts(t, "model", rig.Counts{"keys": clients / together * each})
}

// withChurn lets clients leave, too, most of them in the queue.
func (c contended) withChurn(t *testing.T) {
	const clients, limit, duration = 160, 8, 3 * time.Second
	env := c.env(t, "open", limit)
	var churn churn
	end := time.Now().Add(duration)
	churn.run(t, env, clients, rig.Patience, func() bool { return time.Now().After(end) })
	env.AwaitDrained(t, "model")
	counts := env.Pool(t, "model")
	t.Logf("%d requests, %d left, %d swaps lost", churn.sent.Load(), len(churn.left), counts["cas_retry"])
	if churn.odd.Load() > 0 {
		t.Errorf("%d of %d requests were neither served nor left", churn.odd.Load(), churn.sent.Load())
	}
	if counts["cancelled_waiting"] == 0 || counts["admitted"] < churn.served.Load() || counts["cas_retry"] == 0 {
		t.Errorf("%d sent and %d served, the counts are %v", churn.sent.Load(), churn.served.Load(), counts)
	}
	env.CheckCounts(t, "model", rig.Counts{"store_error": 0, "reaped": 0})
	if peak := env.Up.PeakUntil(churn.left); peak != limit {
		t.Errorf("%d ran at once at most, want exactly %d", peak, limit)
	}
	env.Up.ResetPeak()
	env.DrainCheck(t, "model", limit)
}

// sendMany lets clients send their requests one after another, each client on a connection of its own, and all of them
// at the same time. Each request has to be served.
func sendMany(t *testing.T, env *rig.Env, clients, each int, call func(client, i int) rig.Call) {
	t.Helper()
	conns := make([]*rig.Conn, clients)
	for i := range conns {
		conns[i] = env.Dial(t)
	}
	var odd atomic.Int64
	var all sync.WaitGroup
	for client, conn := range conns {
		all.Go(func() {
			for i := range each {
				if r := conn.Do(call(client, i)); r.Status != http.StatusOK || r.Err != nil {
					odd.Add(1)
				}
			}
		})
	}
	all.Wait()
	if odd.Load() > 0 {
		t.Errorf("%d of %d requests were not served", odd.Load(), clients*each)
	}
}

// checkServed checks that each of the requests had a permit and gave it back.
func checkServed(t *testing.T, env *rig.Env, requests int64) {
	t.Helper()
	env.AwaitDrained(t, "model")
	env.CheckIdentity(t, "model")
	env.CheckCounts(t, "model", rig.Counts{"evaluated": requests, "admitted": requests, "completed": requests,
		"aborted": 0, "store_error": 0, "reaped": 0})
	counts := env.Pool(t, "model")
	t.Logf("%d requests, %d swaps lost, %d turns without a swap", requests, counts["cas_retry"], counts["contended"])
}
