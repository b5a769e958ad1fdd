package filter_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

const formOf = "multipart/form-data; boundary=0123456789"

// formPart is a part of a form with that boundary.
func formPart(name, value string) string {
	return "--0123456789\r\nContent-Disposition: form-data; name=" + name + "\r\n\r\n" + value + "\r\n"
}

const formEnd = "--0123456789--\r\n"

// Bodies that some upstreams read as another model than others share the model unknown, and go on unchanged.
func TestDoubtfulBodiesShareTheModelUnknown(t *testing.T) {
	cheap, expensive := formPart(`"model"`, "cheap"), formPart(`"model"`, "expensive")
	json := `{"model":"cheap","+AG0AbwBkAGUAbA-":"expensive"}`
	for name, c := range map[string]struct{ contentType, body string }{
		"JSON in UTF-7":                      {"application/json; charset=utf-7", json},
		"JSON in UTF-7 by the second":        {"application/json; charset=utf-8; charset=utf-7", json},
		"a type in two headers":              {"application/json,application/json; charset=utf-7", json},
		"JSON with a comment":                {"application/json", `{"model":"cheap","a":[/*"*/],"model":"expensive","b":"]"}`},
		"JSON with single quotes":            {"application/json", `{"model":"cheap",'model':"expensive"}`},
		"JSON with a NUL":                    {"application/json", `{"model":"expensive\u0000cheap"}`},
		"a form without an end":              {formOf, cheap},
		"a form in UTF-7":                    {formOf + "; charset=utf-7", cheap + formEnd},
		"a part in UTF-16":                   {formOf, "--0123456789\r\nContent-Disposition: form-data; name=\"model\"\r\nContent-Type: text/plain; charset=utf-16le\r\n\r\nm\x00\r\n" + formEnd},
		"a part behind the last boundary":    {formOf, cheap + formEnd + expensive + formEnd},
		"a part behind a longer boundary":    {formOf, cheap + "--0123456789--x\r\n" + expensive + formEnd},
		"a part before the first boundary":   {formOf, expensive[len("--0123456789\r\n"):] + cheap + formEnd},
		"a part inside a file":               {formOf, cheap + formPart(`"file"; filename="a"`, "x"+expensive) + formEnd},
		"a name with a blank":                {formOf, cheap + formPart(`"model "`, "expensive") + formEnd},
		"a name of a list":                   {formOf, cheap + formPart(`"model[]"`, "expensive") + formEnd},
		"a model in a file":                  {formOf, formPart(`"model"; filename="m"`, "cheap") + formEnd},
		"JSON before a form, and as a form":  {"text/plain; multipart; boundary=0123456789", `{"model":"cheap"}` + "\r\n" + expensive + formEnd},
		"JSON before a form in a URL's form": {"text/plain; urlencoded", `{"model":"cheap"}&model=expensive`},
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, 2, fromBody(pool("model", 1, "keys", object{"expensive": object{"limit": 0}})))
			s := g.post(0, c.body, "content-type", c.contentType)
			requireForwarded(t, s, c.body)
			g.requireRefused(g.send(1), noPermit, "model", "a request for the model unknown")
			g.requireRefused(g.post(1, c.body, "content-type", c.contentType), noPermit, "model", "another one like it")
			g.requireRunning(g.post(1, chat("cheap")), "a request for the first model in it")
			s.Respond(200, "ok")
		})
	}
}

// What stands behind a form's last boundary may come later, and decides all the same.
func TestFormIsReadToTheBodysEnd(t *testing.T) {
	for _, end := range []string{"body", "trailers", "pause"} {
		for behind, model := range map[string]string{"": "cheap", "\r\n": "cheap", formPart(`"model"`, "expensive"): "unknown"} {
			g := start(t, 1, fromBody(pool("model", 1)))
			s := g.open(0, "content-type", formOf)
			s.RequestBody([]byte(formPart(`"model"`, "cheap")+formEnd), false)
			g.requireWaiting(s, "a request whose form has ended, and its body not")
			s.RequestBody([]byte(behind), end == "body")
			switch end {
			case "trailers":
				s.RequestTrailers(wasmtest.HeadersOf("x", "y"))
			case "pause":
				g.host.Run(time.Second + tick)
			}
			g.requireRunning(s, "a request whose body has ended")
			if model == "unknown" {
				g.requireRefused(g.send(0), noPermit, "model", "another one for the model unknown")
				continue
			}
			g.requireRefused(g.post(0, chat(model)), noPermit, "model", "another one of its model")
			g.requireRunning(g.send(0), "one for the model unknown")
		}
	}
	// A form may pause before its end because the host's buffer is full. What has come counts.
	g := start(t, 1, fromBody(pool("model", 1)))
	s := g.open(0, "content-type", formOf)
	s.RequestBody([]byte(formPart(`"model"`, "cheap")+formPart(`"file"; filename="a"`, "the beginning of a file")), false)
	g.host.Run(time.Second + tick)
	g.requireRunning(s, "a request whose form stops coming")
	g.requireRefused(g.post(0, chat("cheap")), noPermit, "model", "another one of its model")
	s.Respond(200, "ok")

	g = start(t, 1, fromBody(pool("model", 1)))
	s = g.open(0, "content-type", formOf)
	s.RequestBody([]byte(formPart(`"model"`, "cheap")+formEnd), false)
	s.ClientGone()
	g.host.Run(2 * time.Second)
	require.Zero(t, g.counter("model.evaluated"))
	g.requireDrained("model")
}
