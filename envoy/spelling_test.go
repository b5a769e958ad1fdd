package envoy_test

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/envoy/rig"
)

// checkRefusedOverBoth makes a call over HTTP/1.1 and over HTTP/2, and checks that both are refused and reach no upstream.
func checkRefusedOverBoth(t *testing.T, env *rig.Env, h2 *rig.H2, c rig.Call, pool string) {
	t.Helper()
	before := len(env.Up.Requests())
	env.CheckRefused(t, env.Do(t, c), pool, rig.Rejected)
	env.CheckRefused(t, h2.Do(c), pool, rig.Rejected)
	if n := len(env.Up.Requests()) - before; n != 0 {
		t.Errorf("%q %q: %d requests reached the upstream", c.Path, c.Header, n)
	}
}

// Some upstream serves each of these paths as the governed one: docs/security.md says which.
func TestNoSpellingOfThePathReachesTheUpstream(t *testing.T) {
	env := governed(t, 2, rig.Pool{Name: "all", Limit: 0})
	h2 := env.H2(t)
	for _, path := range []string{
		"/v1/chat/completions", "/v1/chat/completions%0a", "/v1/chat/completions%0A?x=1", "/v1/chat/completions%0d%0a", "/v1/chat/completions%20", "/v1/chat/completions%09", "/v1/chat/completions%00", "/v1/%20chat%20/completions",
		"/v1/chat/completions/%20", "/v1/chat/%20/completions", "/v1/ch%80at/completions", "/v1/chat/completions%a0", "/v1/chat/completions.json", "/v1/chat/completions.", "/v1/chat/completions%2ejson", "/v1/chat;%3b/completions",
		"/v1/chat%2fcompletions%0a", `/v1/chat\completions%20`, "/V1/CHAT/completions;x%0a",
	} {
		checkRefusedOverBoth(t, env, h2, rig.Call{Path: path}, "all")
	}
	mustBeOK(t, "another path", env.Do(t, rig.Call{Path: "/v1/chat/completions%2b"}))
}

// White space around a value: HTTP/2 carries it, and the upstream on HTTP/1 does not see it.
func TestWhiteSpaceAroundAValueMakesNoOtherKey(t *testing.T) {
	closed := rig.Object{"limit": 0}
	env := governed(t, 2, rig.Pool{Name: "tenant", Key: []string{"tenant"}, Limit: 5, Keys: rig.Object{"closed": closed}}, rig.Pool{Name: "model", Key: []string{"model"}, Limit: 5, Keys: rig.Object{"closed": closed}})
	h2 := env.H2(t)
	for _, space := range []string{" ", "\t", "  ", " \t ", strings.Repeat(" ", 200)} {
		for _, value := range []string{space + "closed", "closed" + space, space + "closed" + space} {
			checkRefusedOverBoth(t, env, h2, rig.Call{NoModel: true, Header: []rig.Field{{Name: "x-model", Value: value}}}, "model")
			checkRefusedOverBoth(t, env, h2, rig.Call{Header: []rig.Field{{Name: "x-tenant", Value: value}}}, "tenant")
		}
		mustBeOK(t, "a model of white space alone", h2.Do(rig.Call{NoModel: true, Header: []rig.Field{{Name: "x-model", Value: space}}}))
	}
	call := rig.Call{NoModel: true, Header: []rig.Field{{Name: "x-model", Value: "\topen "}}}.With("open")
	mustBeOK(t, "an open model", h2.Do(call))
	if seen, _ := env.Up.Request("open"); seen.Header.Get("x-model") != "open" {
		t.Errorf("the upstream saw the model %q, so this test shows nothing: it should see it without the white space", seen.Header.Get("x-model"))
	}
	env.DrainCheck(t, "model", 5)
	if keys := env.Gauge(t, "model", "keys"); keys > 4 {
		t.Errorf("the pool has %d keys, want those of closed, open, unknown and m", keys)
	}
}

// Bodies that upstreams read in different ways are for the model unknown, which is closed here.
func TestDoubtfulBodiesDoNotReachAClosedModel(t *testing.T) {
	env := inBody(t, 0, func(s *rig.Setup) {
		s.Config.Pools[0].Limit, s.Config.Pools[0].Keys = 5, rig.Object{"unknown": rig.Object{"limit": 0}}
	})
	h2 := env.H2(t)
	part := func(name, head, value string) string {
		return "--0123456789\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n" + head + "\r\n" + value + "\r\n"
	}
	const end = "--0123456789--\r\n"
	of := func(contentType, body string) rig.Call {
		return bodyCall("", []byte(body), rig.Delivery{}, rig.Field{Name: "content-type", Value: contentType})
	}
	const form = "multipart/form-data; boundary=0123456789"
	cheap, expensive := part("model", "", "cheap"), part("model", "", "expensive")
	for _, c := range []rig.Call{
		of("application/json; charset=utf-7", `{"model":"cheap","+AG0AbwBkAGUAbA-":"expensive"}`),
		of("application/json; charset=utf-8; charset=utf-7", `{"model":"cheap"}`),
		of("application/json", `{"model":"cheap","a":[/*"*/],"model":"expensive","b":"]"}`),
		of("application/json", `{"model":"cheap",'model':"expensive"}`),
		of(form+"; charset=utf-7", cheap+end),
		of(form, cheap),
		of(form, part("model", "Content-Type: text/plain; charset=utf-16le\r\n", "m\x00")+end),
		of(form, cheap+end+expensive+end),
		of(form, expensive[len("--0123456789\r\n"):]+cheap+end),
		of(form, cheap+part("file\"; filename=\"a", "", "x"+expensive)+end),
		of(form, cheap+part("model ", "", "expensive")+end),
		of(form, cheap+part("model[]", "", "expensive")+end),
	} {
		checkRefusedOverBoth(t, env, h2, c, "model")
		c.Delivery = rig.Delivery{Piece: 30, Chunked: true}
		env.CheckRefused(t, env.Do(t, c), "model", rig.Rejected)
	}
	twice := bodyCall("", nil, rig.Delivery{}, rig.Field{Name: "content-type", Value: "application/json"}, rig.Field{Name: "content-type", Value: "application/json; charset=utf-7"})
	twice.Body = []byte(`{"model":"cheap"}`)
	checkRefusedOverBoth(t, env, h2, twice, "model")
	mustBeOK(t, "a plain form", env.Do(t, of(form, cheap+part("file", "Content-Type: audio/webm;codecs=opus\r\n", "x")+end)))
	mustBeOK(t, "JSON in UTF-8", h2.Do(of("application/json; charset=utf-8", `{"model":"cheap"}`)))
	env.AwaitDrained(t, "model")
}
