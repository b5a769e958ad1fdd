package rig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
)

// An AdminListener is an admin listener beside a test's own one.
type AdminListener struct {
	URL    string
	client http.Client
}

// AdminListener adds a listener with the stage admin to the test's configuration. It goes with the test.
func (e *Env) AdminListener(t testing.TB, more Object) *AdminListener {
	t.Helper()
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	object := e.setup.Config.object("admin", e.pools, e.PoolName)
	for k, v := range more {
		object[k] = v
	}
	configuration, err := encode(object)
	if err != nil {
		t.Fatal(err)
	}
	name := e.name + "-admin"
	filters := []Object{WasmFilter(name, "headgate", e.module, configuration)}
	nowhere := []Object{{"match": Object{"prefix": "/"}, "direct_response": Object{"status": 404}}}
	if err := e.SetListener(HTTPListener(name, port, filters, nowhere, nil)); err != nil {
		t.Fatalf("listener %s: %v", name, err)
	}
	t.Cleanup(func() {
		if err := e.Remove(name); err != nil {
			t.Errorf("remove the admin listener: %v", err)
		}
	})
	// Each request has a connection of its own, and so may meet another worker.
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	return &AdminListener{URL: fmt.Sprintf("http://127.0.0.1:%d", port),
		client: http.Client{Timeout: Patience, Transport: transport}}
}

// An AdminAnswer is an answer of an admin listener's.
type AdminAnswer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Do sends a request and returns the answer.
func (a *AdminListener) Do(t testing.TB, method, path, body string, headers ...string) AdminAnswer {
	t.Helper()
	request, err := http.NewRequest(method, a.URL+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := a.client.Do(request)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return AdminAnswer{response.StatusCode, response.Header, text}
}

// Ask is Do for an answer that is 200 and JSON.
func (a *AdminListener) Ask(t testing.TB, method, path, body string) Object {
	t.Helper()
	answer := a.Do(t, method, path, body, "content-type", "application/json")
	var object Object
	if err := json.Unmarshal(answer.Body, &object); err != nil || answer.Status != http.StatusOK {
		t.Fatalf("%s %s: got %d %.300s, want 200 and JSON (%v)", method, path, answer.Status, answer.Body, err)
	}
	return object
}
