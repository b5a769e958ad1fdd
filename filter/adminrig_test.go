package filter_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// An adminGateway is a gateway with the stage admin beside it, in the same VMs.
type adminGateway struct {
	*gateway
	admin *wasmtest.Plugin
}

const adminHost = "127.0.0.1:10001"

func startAdmin(t testing.TB, workers int, c object) *adminGateway {
	t.Helper()
	a := &adminGateway{gateway: start(t, workers, c)}
	a.host.SetProperty(adminHost, "destination", "address")
	a.loadAdmin(c)
	return a
}

func (a *adminGateway) loadAdmin(c object) {
	a.t.Helper()
	p, err := a.host.Load(pluginConfig(with(c, "stage", "admin")))
	require.NoError(a.t, err)
	a.admin = p
}

// adminHeaders are a request's headers; those that are given replace the usual ones, and an empty value removes one.
func adminHeaders(method, path string, headers ...string) wasmtest.Headers {
	all := wasmtest.Headers{{Name: ":method", Value: method}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: adminHost}, {Name: ":path", Value: path}}
	if method == "PUT" {
		all = append(all, wasmtest.Header{Name: "content-type", Value: "application/json"})
	}
	for i := 0; i < len(headers); i += 2 {
		kept := all[:0:0]
		for _, h := range all {
			if h.Name != headers[i] {
				kept = append(kept, h)
			}
		}
		if all = kept; headers[i+1] != "" {
			all = append(all, wasmtest.Header{Name: headers[i], Value: headers[i+1]})
		}
	}
	return all
}

// ask brings a request to a worker's admin listener and returns the stream once it is answered.
func (a *adminGateway) ask(worker int, method, path, body string, headers ...string) *wasmtest.Stream {
	a.t.Helper()
	s := a.admin.Stream(worker)
	s.RequestHeaders(adminHeaders(method, path, headers...), body == "")
	if body != "" && s.LocalReply() == nil {
		s.RequestBody([]byte(body[:len(body)/2]), false)
		if s.LocalReply() == nil {
			s.RequestBody([]byte(body[len(body)/2:]), true)
		}
	}
	require.True(a.t, a.host.RunUntil(110*ms, func() bool { return s.LocalReply() != nil }), "%s %s is not answered", method, path)
	return s
}

// decode checks that an answer is one of the API's, and returns its JSON.
func (a *adminGateway) decode(s *wasmtest.Stream, status int) object {
	a.t.Helper()
	r := s.LocalReply()
	require.Equal(a.t, status, r.Code, "%s", r.Body)
	require.Equal(a.t, "application/json", r.Headers.Get("content-type"))
	require.Equal(a.t, "no-store", r.Headers.Get("cache-control"))
	require.Equal(a.t, "nosniff", r.Headers.Get("x-content-type-options"))
	require.True(a.t, utf8.Valid(r.Body), "%q", r.Body)
	var o object
	require.NoError(a.t, json.Unmarshal(r.Body, &o), "%s", r.Body)
	return o
}

func (a *adminGateway) get(worker int, path string) object {
	a.t.Helper()
	return a.decode(a.ask(worker, "GET", path, ""), 200)
}

// heard lets the time pass after which a worker that has had a request can be asked.
func (a *adminGateway) heard() { a.host.Run(105 * ms) }

func (a *adminGateway) state(query string) object {
	a.t.Helper()
	return a.get(0, "/headgate/v1/state"+query)
}

func (a *adminGateway) events(after float64) []object {
	a.t.Helper()
	return list(a.get(0, fmt.Sprintf("/headgate/v1/events?after=%.0f", after))["events"])
}

func (a *adminGateway) put(worker int, body string) object {
	a.t.Helper()
	return a.decode(a.ask(worker, "PUT", "/headgate/v1/limits", body), 200)
}

// refusedWith checks an error of the API's and returns its message.
func (a *adminGateway) refusedWith(s *wasmtest.Stream, status int, field string) string {
	a.t.Helper()
	e := a.decode(s, status)["error"].(object)
	require.Equal(a.t, field, e["field"], "%v", e)
	return e["message"].(string)
}

func list(v any) (all []object) {
	for _, x := range v.([]any) {
		all = append(all, x.(object))
	}
	return all
}

// named finds the element of a list whose member has that value.
func named(t testing.TB, v any, member, value string) object {
	t.Helper()
	for _, o := range list(v) {
		if o[member] == value {
			return o
		}
	}
	require.Failf(t, "missing", "no %s %q in %v", member, value, v)
	return nil
}

func (a *adminGateway) key(pool, key string) object {
	a.t.Helper()
	return named(a.t, named(a.t, a.state("")["pools"], "name", pool)["keys"], "key", key)
}

func requireMembers(t testing.TB, o object, want object) {
	t.Helper()
	got := object{}
	for k := range want {
		got[k] = o[k]
	}
	require.Equal(t, want, got)
}

// kinds are the kinds of events, in order.
func kinds(events []object) (all []string) {
	for _, e := range events {
		all = append(all, e["kind"].(string))
	}
	return all
}

// fair is a pool that is fair by tenant.
func fair(name string, limit int, more ...any) object {
	return pool(name, limit, append([]any{"queue", 20, "max_wait", "60s", "fair_by", "tenant", "weights", object{"acme": 3}}, more...)...)
}

func repeated(s string, n int) string { return strings.Repeat(s, n) }
