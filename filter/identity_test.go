package filter_test

import (
	"fmt"
	"hash/fnv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// An identity is what the filter found of a request.
type identity struct{ tenant, model, route, class string }

// identified sends a request and reads what the invocation stage hands over. set gives the stream properties; nil:
// none.
func (g *gateway) identified(set func(*wasmtest.Stream), path string, headers ...string) identity {
	g.t.Helper()
	s := g.plugin.Stream(0)
	if set != nil {
		set(s)
	}
	s.RequestHeaders(wasmtest.RequestHeaders("POST", path, headers...), true)
	return g.handed(s)
}

// handed is what the stage handed over of a request, which ends with that.
func (g *gateway) handed(s *wasmtest.Stream) identity {
	g.t.Helper()
	g.requireRunning(s, "the request")
	b, ok := s.Request().FilterState("headgate.invocation")
	require.True(g.t, ok, "nothing is handed over")
	require.Equal(g.t, byte(1), b[1], "the request is ungoverned")
	s.ClientGone()
	var values [4]string
	for b, i := b[10:], 0; i < len(values); i++ {
		n := int(b[0]) | int(b[1])<<8
		values[i], b = string(b[2:2+n]), b[2+n:]
	}
	return identity{values[0], values[1], values[2], values[3]}
}

// identifying is an invocation stage that lets every path pass, under the given identity.
func identifying(t *testing.T, id object) *gateway {
	return start(t, 1, object{"stage": "invocation", "identity": id, "pools": []object{{"name": "all", "key": []string{"model"}, "limit": 1000}}})
}

func property(value any, path ...string) func(*wasmtest.Stream) {
	return func(s *wasmtest.Stream) { s.SetProperty(value, path...) }
}

func metadata(value any, path ...string) func(*wasmtest.Stream) {
	return property(value, append([]string{"metadata", "filter_metadata"}, path...)...)
}

const jwt = "envoy.filters.http.jwt_authn"

// Every kind of source, for every dimension that may have it.
func TestEverySourceYieldsItsValue(t *testing.T) {
	for _, c := range []struct {
		name    string
		source  object
		set     func(*wasmtest.Stream)
		path    string
		headers []string
	}{
		{"JWT claim", object{"metadata": []string{jwt, "payload", "sub"}}, metadata("acme", jwt, "payload", "sub"), "/", nil},
		{"nested claim", object{"metadata": []string{jwt, "payload", "org", "id"}}, metadata("acme", jwt, "payload", "org", "id"), "/", nil},
		{"metadata of another filter", object{"metadata": []string{"envoy.filters.http.ext_authz", "tenant"}}, metadata("acme", "envoy.filters.http.ext_authz", "tenant"), "/", nil},
		{"URI SAN", object{"peer_certificate": "uri_san"}, property("acme", "connection", "uri_san_peer_certificate"), "/", nil},
		{"DNS SAN", object{"peer_certificate": "dns_san"}, property("acme", "connection", "dns_san_peer_certificate"), "/", nil},
		{"subject", object{"peer_certificate": "subject"}, property("acme", "connection", "subject_peer_certificate"), "/", nil},
		{"filter state", object{"filter_state": "my.tenant"}, property("acme", "filter_state", "my.tenant"), "/", nil},
		{"filter state of a wasm filter", object{"filter_state": "wasm.my"}, func(s *wasmtest.Stream) { s.Request().SetFilterState("my", []byte("acme")) }, "/", nil},
		{"header", object{"header": "X-Who", "trusted": true}, nil, "/", []string{"x-who", "acme"}},
		{"path", object{"path": "/t/{DIMENSION}/", "trusted": true}, nil, "/v1/t/acme/chat?x=1", nil},
		{"cluster", object{"cluster": true}, property("acme", "xds", "cluster_name"), "/", nil},
		{"value", object{"value": "acme"}, nil, "/", nil},
	} {
		for _, dimension := range []string{"tenant", "model", "class"} {
			t.Run(c.name+" as "+dimension, func(t *testing.T) {
				source := object{}
				for k, v := range c.source {
					if s, ok := v.(string); ok {
						v = strings.ReplaceAll(s, "DIMENSION", dimension)
					}
					source[k] = v
				}
				g := identifying(t, object{dimension: []object{source}})
				want := identity{tenant: "anonymous", model: "unknown", route: "any", class: "unknown"}
				none := want
				switch dimension {
				case "tenant":
					want.tenant = "acme"
				case "model":
					want.model = "acme"
				case "class":
					want.class = "acme"
				}
				require.Equal(t, want, g.identified(c.set, c.path, c.headers...))
				if c.name == "value" {
					none = want
				}
				require.Equal(t, none, g.identified(nil, "/"), "without it")
			})
		}
	}
}

func TestFirstSourceThatYieldsWins(t *testing.T) {
	g := identifying(t, object{"tenant": []object{
		{"metadata": []string{jwt, "payload", "sub"}},
		{"peer_certificate": "uri_san"},
		{"filter_state": "tenant"},
		{"header": "x-tenant", "trusted": true},
		{"path": "/t/{tenant}", "trusted": true},
	}})
	claim, empty := metadata("jwt", jwt, "payload", "sub"), metadata("", jwt, "payload", "sub")
	san, state := property("san", "connection", "uri_san_peer_certificate"), property("state", "filter_state", "tenant")
	all := func(sets ...func(*wasmtest.Stream)) func(*wasmtest.Stream) {
		return func(s *wasmtest.Stream) {
			for _, set := range sets {
				set(s)
			}
		}
	}
	for _, c := range []struct {
		set          func(*wasmtest.Stream)
		header, path string
		want         string
	}{
		{all(claim, san, state), "header", "/t/path", "jwt"},
		{all(empty, san, state), "header", "/t/path", "san"},
		{all(san, state), "header", "/t/path", "san"},
		{all(state), "header", "/t/path", "state"},
		{nil, "header", "/t/path", "header"},
		{nil, "", "/t/path", "path"},
		{nil, "", "/other", "anonymous"},
		{claim, "", "/other", "jwt"},
		{nil, " ", "/t/path", "path"},
	} {
		var headers []string
		if c.header != "" {
			headers = []string{"x-tenant", c.header}
		}
		require.Equal(t, c.want, g.identified(c.set, c.path, headers...).tenant)
	}
	require.Equal(t, "path", g.identified(nil, "/t/path", "x-tenant", "").tenant, "an empty header yields nothing")
}

// Only headers that the configuration names are read. None is read for a tenant that comes from elsewhere.
func TestClientsHeadersNameNoTenantUnlessTrusted(t *testing.T) {
	g := identifying(t, object{"tenant": []object{{"metadata": []string{jwt, "payload", "sub"}}}})
	require.Equal(t, "anonymous", g.identified(nil, "/", "x-tenant", "acme", "sub", "acme", jwt, "acme", "x-headgate-tenant", "acme").tenant)
	_, err := g.host.Load(pluginConfig(object{"identity": object{"tenant": []object{{"header": "x-tenant"}}}, "pools": []object{{"name": "all", "limit": 1}}}))
	require.ErrorIs(t, err, wasmtest.ErrRefused)
}

func TestAliases(t *testing.T) {
	c := fromBody(pool("model", 1))
	c["identity"] = object{
		"model":   []object{{"header": "x-model"}, {"json_body": "model"}, {"value": "old"}},
		"aliases": object{"gpt-4o-2024-08-06": "gpt-4o", "old": "new", "nothing": "unknown"},
	}
	g := start(t, 1, c)
	a := g.sendModel(0, "gpt-4o-2024-08-06")
	g.requireRunning(a, "a request by the alias")
	g.requireRefused(g.sendModel(0, "gpt-4o"), noPermit, "model", "one by the name")
	g.requireRefused(g.post(0, chat("gpt-4o-2024-08-06")), noPermit, "model", "one by the alias in the body")
	g.requireRunning(g.sendModel(0, "gpt-4o-2024"), "a name that is none")
	g.requireRunning(g.send(0), "a fixed value that is an alias")
	g.requireRefused(g.sendModel(0, "new"), noPermit, "model", "what it stands for")
}

func TestSourcesBehindTheBody(t *testing.T) {
	for _, c := range []struct {
		name    string
		source  object
		set     func(*wasmtest.Stream)
		headers []string
	}{
		{"header", object{"header": "x-model"}, nil, []string{"x-model", "behind"}},
		{"metadata", object{"metadata": []string{"ns", "model"}}, metadata("behind", "ns", "model"), nil},
		{"certificate", object{"peer_certificate": "subject"}, property("behind", "connection", "subject_peer_certificate"), nil},
		{"filter state", object{"filter_state": "model"}, property("behind", "filter_state", "model"), nil},
		{"path", object{"path": "/{model}/completions"}, nil, nil},
		{"cluster", object{"cluster": true}, property("behind", "xds", "cluster_name"), nil},
		{"value", object{"value": "behind"}, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := identifying(t, object{
				"model":   []object{{"json_body": "model"}, {"metadata": []string{"never", "there"}}, c.source, {"value": "last"}},
				"aliases": object{"named": "alias"},
			})
			send := func(body string, pieces ...string) identity {
				s := g.plugin.Stream(0)
				if c.set != nil {
					c.set(s)
				}
				s.RequestHeaders(wasmtest.RequestHeaders("POST", "/behind/completions", c.headers...), false)
				g.requireWaiting(s, "the request without its body")
				other := g.plugin.Stream(0) // whose headers take the place of the first one's
				other.RequestHeaders(wasmtest.RequestHeaders("POST", "/other/completions", "x-model", "other"), false)
				s.RequestBody([]byte(body), true)
				other.ClientGone()
				return g.handed(s)
			}
			require.Equal(t, "alias", send(`{"model":"named"}`).model, "the body comes first")
			for _, body := range []string{`{}`, `{"model":""}`, `{"model":"a","model":"b"}`, "no JSON", ""} {
				require.Equal(t, "behind", send(body).model, "a body of %q", body)
			}
			require.Equal(t, "behind", g.identified(c.set, "/behind/completions", c.headers...).model, "no body")
		})
	}
}

func TestSourceInFrontOfTheBodyNeedsNoBody(t *testing.T) {
	g := identifying(t, object{"model": []object{{"header": "x-model"}, {"json_body": "model"}}})
	s := g.plugin.Stream(0)
	require.Equal(t, wasmtest.Continue, s.RequestHeaders(wasmtest.RequestHeaders("POST", "/", "x-model", "m"), false))
	require.Equal(t, wasmtest.Continue, s.RequestBody([]byte(`{"model":"n"}`), true))
	require.Equal(t, "m", g.handed(s).model)
}

func TestHeadersThatDecideAndAreSentTwice(t *testing.T) {
	c := fromBody(pool("model", 9, "fair_by", "tenant"), all(9, "match", object{"class": []string{"c"}}))
	c["identity"] = object{
		"tenant": []object{{"metadata": []string{"ns", "t"}}, {"header": "x-tenant", "trusted": true}},
		"model":  []object{{"json_body": "model"}, {"header": "x-model"}},
		"class":  []object{{"header": "x-class", "trusted": true}},
	}
	g := start(t, 1, c)
	twice := 0
	for _, name := range []string{"x-tenant", "x-model", "x-class", "x-request-timeout-ms", "grpc-timeout"} {
		for _, values := range [][2]string{{"1", "2"}, {"1", "1"}, {"", "1"}, {"1", ""}, {"", ""}} {
			s := g.plugin.Stream(0)
			s.SetProperty("acme", "metadata", "filter_metadata", "ns", "t") // even if the header would not be asked
			s.RequestHeaders(wasmtest.RequestHeaders("POST", "/v1/chat/completions", name, values[0], "x-other", "1", name, values[1]), false)
			require.NotNil(t, s.LocalReply(), "%s twice", name)
			require.Equal(t, 400, s.LocalReply().Code)
			require.Equal(t, "AMBIGUOUS_IDENTITY", s.LocalReply().Headers.Get("x-headgate-reason"))
			twice++
		}
	}
	require.Equal(t, twice, g.counter("ambiguous_identity"))
	s := g.send(0, "content-type", "a", "content-type", "b", "x-other", "1", "x-other", "2", "cookie", "a", "cookie", "b")
	g.requireRunning(s, "a request whose other headers are sent twice")
	require.Equal(t, 1, g.counter("model.evaluated"))
}

func TestNamesAreBoundedAndHaveNoControlCharacters(t *testing.T) {
	g := identifying(t, object{"tenant": []object{{"metadata": []string{"ns", "t"}}}, "model": []object{{"header": "x-model"}}})
	name := func(v string) string { return g.identified(metadata(v, "ns", "t"), "/").tenant }
	require.Equal(t, "a?b?c?d? \x80é", name("a\x00b\nc\x1fd\x7f \x80é"))
	for n := 126; n <= 128; n++ {
		require.Equal(t, strings.Repeat("x", n), name(strings.Repeat("x", n)))
	}
	for _, long := range []string{strings.Repeat("x", 129), strings.Repeat("x", 128) + "y", strings.Repeat("é", 5000)} {
		h := fnv.New64a()
		_, _ = h.Write([]byte(long))
		require.Equal(t, fmt.Sprintf("%s~%016x", long[:111], h.Sum64()), name(long))
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(strings.Repeat("?", 200)))
	require.Equal(t, fmt.Sprintf("%s~%016x", strings.Repeat("?", 111), h.Sum64()), name(strings.Repeat("\x01", 200)))
	require.Equal(t, name(strings.Repeat("z", 300)), g.identified(nil, "/", "x-model", strings.Repeat("z", 300)).model, "all dimensions alike")
}

// In a pool with a key of two dimensions, no two pairs of values make one key, whatever is in them.
func TestKeysOfTwoDimensionsDoNotCollide(t *testing.T) {
	long := strings.Repeat("x", 127)
	pairs := [][2]string{
		{"a", "b\x1fc"}, {"a\x1fb", "c"}, {"a", "b"}, {"ab", ""}, {"", "ab"}, {"a\x00", "b"}, {"a", "\x00b"}, {"other", "x"}, {"x", "other"},
		{long + "1", long + "1"}, {long + "1", long + "2"}, {long + "2", long + "1"}, {long + "12", long}, {long, long + "12"},
	}
	g := start(t, 1, config(pool("both", 1, "key", []string{"tenant", "model"})))
	for _, p := range pairs {
		g.requireRunning(g.send(0, "x-tenant", p[0], "x-model", p[1]), fmt.Sprintf("tenant %.10q, model %.10q", p[0], p[1]))
	}
	for _, p := range pairs {
		g.requireRefused(g.send(0, "x-tenant", p[0], "x-model", p[1]), noPermit, "both", fmt.Sprintf("another one of tenant %.10q, model %.10q", p[0], p[1]))
	}
	require.Equal(t, len(pairs), g.gauge("both.keys"))
}
