package envoy_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/envoy/rig"
)

func objects(v any) (all []rig.Object) {
	for _, o := range v.([]any) {
		all = append(all, o.(map[string]any))
	}
	return all
}

// keyState is the state of one key.
func keyState(t *testing.T, a *rig.AdminListener, pool, key string) rig.Object {
	t.Helper()
	state := a.Ask(t, "GET", "/headgate/v1/state?pool="+pool+"&key="+key, "")
	keys := objects(objects(state["pools"])[0]["keys"])
	require.Len(t, keys, 1, "%v", state)
	return keys[0]
}

// onEachWorker has each of three workers run one request and let another one wait.
func onEachWorker(t *testing.T, env *rig.Env) (held, waiting []*rig.Pending) {
	t.Helper()
	for worker := range 3 {
		conn := env.H2On(t, worker)
		id := fmt.Sprintf("held%d", worker)
		p := conn.Send(rig.Call{Script: rig.Script{ID: id, HeaderGate: id}, Tenant: "acme"})
		env.AwaitRunning(t, id, p)
		held = append(held, p)
	}
	for worker := range 3 {
		conn := env.H2On(t, worker)
		waiting = append(waiting, conn.Send(rig.Call{Script: rig.Script{ID: fmt.Sprintf("waits%d", worker)}, Tenant: "<zeta>"}))
		env.AwaitGauge(t, "model", "queued", int64(worker+1))
	}
	return held, waiting
}

// What one worker is asked is the truth of all of them, and what it changes is in force for all.
func TestAdminOfThreeWorkers(t *testing.T) {
	pool := modelPool(3, 9, longWait)
	pool.FairBy, pool.Weights = "tenant", map[string]int{"acme": 3}
	env := rig.New(t, rig.Shared(t, 3), rig.Setup{Config: &rig.Config{Pools: []rig.Pool{pool}}})
	admin := env.AdminListener(t, nil)
	name := env.PoolName("model")

	held, waiting := onEachWorker(t, env)
	rig.Eventually(t, rig.Patience, "all three workers report", func() bool {
		return admin.Ask(t, "GET", "/headgate/v1/state", "")["workers"] == 3.0
	})
	for range 6 { // whichever worker answers
		key := keyState(t, admin, name, "m")
		require.Equal(t, []any{3.0, 3.0, 3.0, "config"}, []any{key["limit"], key["inflight"], key["queued"], key["source"]})
		tenants := objects(key["tenants"])
		require.Equal(t, []any{"acme", 3.0, 0.0, 3.0}, []any{tenants[0]["tenant"], tenants[0]["inflight"], tenants[0]["queued"], tenants[0]["weight"]})
		require.Equal(t, []any{"<zeta>", 0.0, 3.0, 1.0}, []any{tenants[1]["tenant"], tenants[1]["inflight"], tenants[1]["queued"], tenants[1]["weight"]})
	}

	key := admin.Ask(t, "PUT", "/headgate/v1/limits", `{"pool": "`+name+`", "key": "m", "limit": 6}`)
	require.Equal(t, "override", key["source"])
	for i, p := range waiting {
		env.AwaitRunning(t, fmt.Sprintf("waits%d", i), p)
		mustBeOK(t, "a waiter that the raise has woken", p.Wait())
	}
	mustUpdate(t, env, modelPool(5, 9, longWait))
	key = keyState(t, admin, name, "m")
	require.Equal(t, []any{6.0, "override"}, []any{key["limit"], key["source"]}, "a new configuration takes no override away")
	require.Equal(t, 3.0, key["inflight"])
	admin.Ask(t, "PUT", "/headgate/v1/limits", `{"pool": "`+name+`", "key": "m", "limit": null}`)
	for worker := range 3 {
		env.Up.Open(fmt.Sprintf("held%d", worker))
		mustBeOK(t, "one that ran all the time", held[worker].Wait())
	}
	env.AwaitDrained(t, "model")

	var events []rig.Object
	last := 0.0
	rig.Eventually(t, rig.Patience, "the waits and both changes are told", func() bool {
		answer := admin.Ask(t, "GET", fmt.Sprintf("/headgate/v1/events?after=%.0f", last), "")
		last = answer["last"].(float64)
		events = append(events, objects(answer["events"])...)
		kinds := map[string]int{}
		for _, e := range events {
			kinds[e["kind"].(string)]++
		}
		return kinds["limit_changed"] == 2 && kinds["waited"] == 3 && kinds["ended"] >= 3
	})
	before := 0.0
	for _, e := range events {
		require.Greater(t, e["id"], before)
		before = e["id"].(float64)
		require.InDelta(t, time.Now().UnixMilli(), e["at_ms"], 60_000)
	}
}

func TestAdminServesThePageOnRealListeners(t *testing.T) {
	env := governed(t, 2, modelPool(3, 0, ""))
	admin := env.AdminListener(t, nil)
	r := admin.Do(t, "GET", "/headgate/", "", "accept-encoding", "gzip")
	require.Equal(t, http.StatusOK, r.Status)
	require.Equal(t, "gzip", r.Header.Get("content-encoding"))
	require.Equal(t, []string{"text/html; charset=utf-8"}, r.Header.Values("content-type"))
	require.Contains(t, r.Header.Get("content-security-policy"), "default-src 'none'")
	unpacked, err := gzip.NewReader(bytes.NewReader(r.Body))
	require.NoError(t, err)
	page, err := io.ReadAll(unpacked)
	require.NoError(t, err)
	require.Contains(t, string(page), "</html>")
	r = admin.Do(t, "HEAD", "/headgate/", "")
	require.Equal(t, http.StatusOK, r.Status)
	require.Empty(t, r.Body)
	for _, c := range []struct {
		method, path, body string
		headers            []string
		status             int
	}{
		{"GET", "/headgate", "", nil, http.StatusOK}, // the client follows to the page
		{"GET", "/quitquitquit", "", nil, http.StatusNotFound},
		{"GET", "/headgate/", "", []string{"accept-encoding", "identity"}, http.StatusNotAcceptable},
		{"POST", "/headgate/v1/limits", "{}", nil, http.StatusMethodNotAllowed},
		{"PUT", "/headgate/v1/limits", `{"limit":1}`, []string{"content-type", "application/json"}, http.StatusBadRequest},
		{"PUT", "/headgate/v1/limits", `{"limit":1}`, []string{"content-type", "text/plain"}, http.StatusUnsupportedMediaType},
		{"PUT", "/headgate/v1/limits", `{"limit":1}`, []string{"content-type", "application/json", "origin", "http://evil.example"}, http.StatusForbidden},
		{"PUT", "/headgate/v1/limits", strings.Repeat(" ", 5000), []string{"content-type", "application/json"}, http.StatusRequestEntityTooLarge},
		{"PUT", "/headgate/v1/limits", strings.Repeat(" ", 500_000), []string{"content-type", "application/json"}, http.StatusRequestEntityTooLarge},
	} {
		r := admin.Do(t, c.method, c.path, c.body, c.headers...)
		require.Equal(t, c.status, r.Status, "%s %s %v: %.200s", c.method, c.path, c.headers, r.Body)
		require.Equal(t, "nosniff", r.Header.Get("x-content-type-options"))
	}
	request, err := http.NewRequest(http.MethodGet, admin.URL+"/headgate/v1/state", nil)
	require.NoError(t, err)
	request.Host = "rebound.example"
	rebound, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer rebound.Body.Close()
	require.Equal(t, http.StatusForbidden, rebound.StatusCode)
}
