package envoy_test

import (
	"net/http"
	"testing"

	"github.com/headgate/headgate/envoy/rig"
)

// modelOf makes a configuration's model come from these sources, in the place of a header.
func modelOf(sources ...rig.Object) rig.Object {
	return rig.Object{"identity": rig.Object{"tenant": []rig.Object{{"header": "x-tenant", "trusted": true}},
		"model": sources}}
}

// modelFrom is an Env whose model comes from one source, with a second cluster that has no endpoint.
func modelFrom(t *testing.T, source rig.Object) *rig.Env {
	t.Helper()
	return rig.New(t, rig.Shared(t, 2), rig.Setup{
		Config: &rig.Config{Pools: []rig.Pool{modelPool(1, 0, "")},
			More: rig.Object{"identity": rig.Object{"model": []rig.Object{source}}}},
		Routes:   func(up string) []rig.Object { return []rig.Object{rig.Route("/dead", "dead"), rig.Route("/", up)} },
		Clusters: []rig.Object{rig.Cluster("dead", 0)},
	})
}

func TestModelFromAFixedValue(t *testing.T) {
	env := modelFrom(t, rig.Object{"value": "gpt-4o"})
	held := env.Hold(t, "held", rig.Call{Model: "a"})
	env.CheckRefused(t, env.Do(t, rig.Call{Model: "b"}), "model", rig.Rejected)
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	env.DrainCheck(t, "model", 1)
}

func TestModelFromTheCluster(t *testing.T) {
	env := modelFrom(t, rig.Object{"cluster": true})
	held := env.Hold(t, "held", rig.Call{Model: "a"})
	env.CheckRefused(t, env.Do(t, rig.Call{Model: "b"}), "model", rig.Rejected)
	if r := env.Do(t, rig.Call{Path: "/dead" + rig.Path}); r.Status != http.StatusServiceUnavailable {
		t.Errorf("another cluster: got %s, want to be admitted there and get Envoy's 503", r)
	}
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	env.DrainCheck(t, "model", 1)
}

func TestModelFromThePath(t *testing.T) {
	env := modelFrom(t, rig.Object{"path": "/deployments/{model}/"})
	of := func(model string) rig.Call { return rig.Call{Path: "/deployments/" + model + "/chat/completions"} }
	held := env.Hold(t, "held", of("a"))
	env.CheckRefused(t, env.Do(t, of("a")), "model", rig.Rejected)
	mustBeOK(t, "another model", env.Do(t, of("b")))
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	env.Up.ResetPeak()
	env.DrainCheck(t, "model", 1, of("a"))
}

// The model in the path: its spellings are one model.
func TestCase_O20_SpellingsOfTheModelInThePathAreOneModel(t *testing.T) {
	env := modelFrom(t, rig.Object{"path": "/deployments/{model}/"})
	held := env.Hold(t, "held", rig.Call{Path: "/deployments/gpt-4o/chat/completions"})
	for _, path := range []string{"/deployments/gpt-4o/chat/completions", "/deployments//gpt-4o/chat/completions",
		"/deployments/gpt%2D4o/chat/completions", "/x/../deployments/gpt-4o/chat/completions",
		"/deployments/./gpt-4o/chat/completions", "/deployments/gpt-4o/chat%2Fcompletions",
		"/Deployments/gpt-4o/Chat/Completions"} {
		if r := env.Do(t, rig.Call{Path: path}.With(path)); r.Status != http.StatusTooManyRequests || env.Up.Saw(path) {
			t.Errorf("%s: got %s, want 429 while the model is full", path, r)
		}
	}
	mustBeOK(t, "another model", env.Do(t, rig.Call{Path: "/deployments/gpt-5/chat/completions"}))
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	env.Up.ResetPeak()
	env.DrainCheck(t, "model", 1, rig.Call{Path: "/deployments/gpt-4o/chat/completions"})
}

// A name with a slash in it, which clients send escaped, is one model, and a limit that is written for it applies.
func TestFinding_C1_AModelWithASlashInItsNameHasItsLimit(t *testing.T) {
	const profile = "arn:aws:bedrock:us-east-1:1:inference-profile/us.claude"
	pool := modelPool(100, 0, "")
	pool.Keys = rig.Object{profile: rig.Object{"limit": 0}}
	env := rig.New(t, rig.Shared(t, 2), rig.Setup{Config: &rig.Config{Pools: []rig.Pool{pool},
		More: modelOf(rig.Object{"path": "/model/{model}/"})}})
	for _, sent := range []string{"arn:aws:bedrock:us-east-1:1:inference-profile%2Fus.claude",
		"arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2fus.claude"} {
		env.CheckRefused(t, env.Do(t, rig.Call{Path: "/model/" + sent + rig.Path}), "model", rig.Rejected)
		mustBeOK(t, "another one", env.Do(t, rig.Call{Path: "/model/" + sent + "x" + rig.Path}))
	}
}

func TestModelSourcesInTheirOrder(t *testing.T) {
	more := modelOf(rig.Object{"header": "x-model"}, rig.Object{"json_body": "model"},
		rig.Object{"path": "/deployments/{model}/"}, rig.Object{"value": "last"})
	more["identity"].(rig.Object)["aliases"] = rig.Object{"a-2024": "a", "a-2025": "a"}
	env := rig.New(t, rig.Shared(t, 2), rig.Setup{Config: &rig.Config{Pools: []rig.Pool{modelPool(1, 0, "")}, More: more}})
	header := func(name string) rig.Call { return rig.Call{Model: name} }
	body := func(name string) rig.Call { return rig.Call{NoModel: true, Body: []byte(`{"model":"` + name + `"}`)} }
	path := func(name string) rig.Call {
		return rig.Call{NoModel: true, Path: "/deployments/" + name + "/chat/completions", Body: []byte(`{}`)}
	}
	none := rig.Call{NoModel: true, Body: []byte(`{}`)}
	oneKey(t, env, "model", "header and body", header("a"), body("a"))
	oneKey(t, env, "model", "body and path", body("a"), path("a"))
	oneKey(t, env, "model", "the header decides", header("a"), rig.Call{Model: "a", Body: []byte(`{"model":"b"}`)})
	both := path("b")
	both.Body = []byte(`{"model":"a"}`)
	oneKey(t, env, "model", "the body before the path", body("a"), both)
	twoKeys(t, env, "two in the path", path("a"), path("b"))
	oneKey(t, env, "model", "nothing but the value", none, rig.Call{NoModel: true, Method: "GET"})
	twoKeys(t, env, "nothing beside a model", none, body("a"))
	for what, c := range map[string]rig.Call{"header": header("a-2024"), "body": body("a-2025"), "path": path("a-2024")} {
		oneKey(t, env, "model", "an alias in the "+what, header("a"), c)
	}
	twoKeys(t, env, "a name that is no alias", header("a"), header("a-2026"))
	env.Up.ResetPeak()
	env.DrainCheck(t, "model", 1, header("a"))
}

// jsonToMetadata is Envoy's own way to a model in the body; it needs no flag of the wasm filter.
var jsonToMetadata = rig.Filter("envoy.filters.http.json_to_metadata",
	"envoy.extensions.filters.http.json_to_metadata.v3.JsonToMetadata", rig.Object{
		"request_rules": rig.Object{"rules": []rig.Object{{"selectors": []rig.Object{{"key": "model"}},
			"on_present": rig.Object{"metadata_namespace": "body", "key": "model"}}}},
	})

func TestModelFromJSONToMetadata(t *testing.T) {
	env := rig.New(t, rig.Shared(t, 2), rig.Setup{Before: []rig.Object{jsonToMetadata},
		Config: &rig.Config{Pools: []rig.Pool{modelPool(1, 0, "")},
			More: modelOf(rig.Object{"metadata": []string{"body", "model"}})}})
	body := func(text string) rig.Call {
		return rig.Call{NoModel: true, Body: []byte(text),
			Header: []rig.Field{{Name: "content-type", Value: "application/json"}}}
	}
	oneKey(t, env, "model", "one model", body(`{"model":"a"}`), body(`{"messages":[],"model":"a"}`))
	twoKeys(t, env, "two models", body(`{"model":"a"}`), body(`{"model":"b"}`))
	oneKey(t, env, "model", "none", body(`{}`), body(`no JSON`))
	env.Up.ResetPeak()
	env.DrainCheck(t, "model", 1, body(`{"model":"a"}`))
}
