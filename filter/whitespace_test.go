package filter_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// around is a value with white space around it in every way, the value itself first.
func around(value string) []string {
	return []string{value, " " + value, value + " ", "\t" + value, value + "\t", " \t " + value + "\t \t", strings.Repeat(" ", 500) + value + strings.Repeat("\t", 500)}
}

const blanks = " \t  \t"

// A client that sends HTTP/2 can put white space around a value that an upstream on HTTP/1 sees without it.
func TestWhiteSpaceAroundAModelMakesNoOtherModel(t *testing.T) {
	c := fromBody(pool("model", 1, "keys", object{"closed": object{"limit": 0}}))
	c["identity"] = object{"model": []object{{"header": "x-model"}, {"path": "/deployments/{model}/"}, {"json_body": "model"}}, "aliases": object{"alias": "m"}}
	g := start(t, 1, c)
	holder := g.sendModel(0, "m")
	for _, name := range []string{"m", "alias", "closed"} {
		for _, value := range around(name) {
			what := fmt.Sprintf("the model %.20q", value)
			g.requireRefused(g.sendModel(0, value), noPermit, "model", what+" in a header")
			g.requireRefused(g.post(0, chat(strings.ReplaceAll(value, "\t", `\t`))), noPermit, "model", what+" in JSON")
			form := "--BOUNDARY\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\n" + value + "\r\n--BOUNDARY--\r\n"
			g.requireRefused(g.post(0, form, "content-type", "multipart/form-data; boundary=BOUNDARY"), noPermit, "model", what+" in a form")
			s := g.plugin.Stream(0)
			s.RequestHeaders(wasmtest.RequestHeaders("POST", "/deployments/"+strings.NewReplacer(" ", "%20", "\t", "%09").Replace(value)+"/chat/completions"), true)
			g.requireRefused(s, noPermit, "model", what+" in the path")
		}
	}
	g.requireRefused(g.post(0, `{"model":"\n\u000bm\r\n"}`), noPermit, "model", "line ends around a model in JSON")
	g.requireRunning(g.sendModel(0, "m m"), "a name with a blank in it")
	g.requireRefused(g.sendModel(0, " m m\t"), noPermit, "model", "another one of it")
	require.Equal(t, 2+1, g.gauge("model.keys"), "m, the closed one and the one with a blank in it")
	holder.Respond(200, "ok")
	g.host.Drain()
	g.requireRunning(g.sendModel(0, "\tm "), "the model, once its permit is free")
}

func TestWhiteSpaceAroundATenantMakesNoOtherTenant(t *testing.T) {
	g := identifying(t, object{"tenant": []object{
		{"metadata": []string{jwt, "payload", "sub"}}, {"peer_certificate": "uri_san"}, {"filter_state": "tenant"}, {"header": "x-tenant", "trusted": true},
		{"path": "/t/{tenant}/", "trusted": true},
	}, "class": []object{{"value": " batch "}}})
	for _, value := range around("acme") {
		for name, set := range map[string]func(*wasmtest.Stream){
			"metadata": metadata(value, jwt, "payload", "sub"), "certificate": property(value, "connection", "uri_san_peer_certificate"), "filter state": property(value, "filter_state", "tenant"),
		} {
			require.Equal(t, "acme", g.identified(set, "/").tenant, "%.20q in the %s", value, name)
		}
		require.Equal(t, "acme", g.identified(nil, "/", "x-tenant", value).tenant, "%.20q in a header", value)
		require.Equal(t, "batch", g.identified(nil, "/").class)
	}
	require.Equal(t, "a?b", g.identified(nil, "/", "x-tenant", " a\tb ").tenant)
}

// A value of nothing but white space is none: the next source is asked.
func TestWhiteSpaceAloneIsNoValue(t *testing.T) {
	g := identifying(t, object{
		"tenant": []object{{"metadata": []string{jwt, "payload", "sub"}}, {"filter_state": "tenant"}, {"header": "x-tenant", "trusted": true}},
		"model":  []object{{"header": "x-model"}, {"path": "/m/{model}/"}, {"json_body": "model"}, {"value": "last"}},
	})
	nothing := func(s *wasmtest.Stream) {
		metadata(blanks, jwt, "payload", "sub")(s)
		property(blanks, "filter_state", "tenant")(s)
	}
	require.Equal(t, identity{tenant: "header", model: "last", route: "any", class: "unknown"}, g.identified(nothing, "/m/%20%09/", "x-tenant", "header", "x-model", blanks))
	require.Equal(t, identity{tenant: "anonymous", model: "path", route: "any", class: "unknown"}, g.identified(nothing, "/m/path/", "x-tenant", blanks, "x-model", blanks))
	s := g.plugin.Stream(0)
	s.RequestHeaders(wasmtest.RequestHeaders("POST", "/"), false)
	s.RequestBody([]byte(`{"model":"  "}`), true)
	require.Equal(t, "last", g.handed(s).model)
	require.Equal(t, "last", g.identified(nil, "/m/gpt-4%80/").model, "a value that is no text")
}

// The headers that say what a body is are trimmed too: white space hides none of them.
func TestWhiteSpaceAroundHeadersThatSayWhatABodyIs(t *testing.T) {
	form := "--BOUNDARY\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nm\r\n--BOUNDARY--\r\n"
	g := start(t, 1, fromBody(pool("model", 1)))
	m := g.post(0, chat("m"))
	unknown := g.send(0)
	for name, c := range map[string]struct {
		headers []string
		body    string
	}{
		"a form":                 {[]string{"content-type", "\t multipart/form-data; boundary=BOUNDARY "}, form},
		"no content encoding":    {[]string{"content-encoding", blanks}, chat("m")},
		"no upgrade":             {[]string{"upgrade", blanks}, chat("m")},
		"an empty content type":  {[]string{"content-type", blanks}, chat("m")},
		"a compressed body":      {[]string{"content-encoding", " gzip"}, chat("free")},
		"an upgrade":             {[]string{"upgrade", "\twebsocket"}, chat("free")},
		"a form in a URL's form": {[]string{"content-type", " application/x-www-form-urlencoded"}, chat("m")},
	} {
		s := g.post(0, c.body, c.headers...)
		g.requireRefused(s, noPermit, "model", name)
	}
	s := g.open(0, "content-type", " application/grpc\t")
	require.Equal(t, 8, s.LocalReply().GRPCStatus, "a gRPC request is refused as one")
	m.Respond(200, "ok")
	unknown.Respond(200, "ok")
	g.requireDrained("model")
}

func TestWhiteSpaceAroundMethodPathAndDeadline(t *testing.T) {
	g := start(t, 1, config(pool("model", 0)))
	for _, path := range around("/v1/chat/completions") {
		for _, method := range around("POST") {
			s := g.plugin.Stream(0)
			s.RequestHeaders(wasmtest.RequestHeaders(method, path), true)
			g.requireRefused(s, noPermit, "model", fmt.Sprintf("%.20q %.30q", method, path))
		}
	}
	g = start(t, 1, config(pool("model", 1, "queue", 1, "max_wait", "10s")))
	holder := g.sendModel(0, "m")
	w := g.send(0, "x-model", "m", "x-request-timeout-ms", " \t400 ", "grpc-timeout", "\t9S ")
	g.host.Run(100 * ms)
	holder.Respond(200, "ok")
	g.host.Drain()
	require.Regexp(t, `^(2[5-9]\d|300)$`, w.Forwarded().Headers.Get("x-request-timeout-ms"))
	require.Zero(t, g.counter("bad_deadline"))
	w.Respond(200, "ok")
	g.requireDrained("model")
}

// The bounds hold for what is left after trimming, so white space can't push a value over them.
func TestLengthBoundsAreOfTheTrimmedValue(t *testing.T) {
	g := identifying(t, object{"model": []object{{"header": "x-model"}, {"json_body": "model"}}})
	name := strings.Repeat("n", 128)
	for _, value := range around(name) {
		require.Equal(t, name, g.identified(nil, "/", "x-model", value).model)
	}
	require.Equal(t, g.identified(nil, "/", "x-model", name+"x").model, g.identified(nil, "/", "x-model", "\t"+name+"x ").model)
}
