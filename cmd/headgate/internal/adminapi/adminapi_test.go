package adminapi

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAddressesInAllTheirForms(t *testing.T) {
	for text, want := range map[string]string{
		"127.0.0.1:10001":                  "http://127.0.0.1:10001",
		"localhost:1":                      "http://localhost:1",
		"[::1]:10001":                      "http://[::1]:10001",
		"http://127.0.0.1:10001":           "http://127.0.0.1:10001",
		"http://127.0.0.1:10001/":          "http://127.0.0.1:10001",
		"http://127.0.0.1:10001/headgate/": "http://127.0.0.1:10001",
		"http://127.0.0.1:10001/headgate":  "http://127.0.0.1:10001",
		"https://ops.example.com":          "https://ops.example.com",
		"https://ops.example.com/gw/":      "https://ops.example.com/gw",
	} {
		got, err := ParseAddress(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "gateway", "gateway:", "http://gateway:", ":10001", "127.0.0.1:0", "127.0.0.1:99999",
		"ftp://a:1", "http://user@a:1", "http://a:1?x=y", "http://a:1#x", "a b:1", "http://", "127.0.0.1:http"} {
		_, err := ParseAddress(text)
		require.EqualError(t, err, "want http[s]://HOST:PORT, or HOST:PORT, e.g. 127.0.0.1:10001", "%q", text)
	}
}

func answering(t *testing.T, answer http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return NewClient(server.URL)
}

func TestAStateIsReadPageByPage(t *testing.T) {
	pages := map[string]string{
		"": `{"now_ms":1,"domain":"d","next":"a b&c","pools":[{"name":"p","inflight":3,"keys":[{"key":"1"}]}]}`,
		"a b&c": `{"now_ms":2,"next":"2","pools":[{"name":"p","inflight":4,"keys":[{"key":"2"}]},
			{"name":"q","keys":[]}]}`,
		"2": `{"now_ms":3,"pools":[{"name":"q","keys":[{"key":"3"}]}]}`,
	}
	c := answering(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, pages[r.URL.Query().Get("after")])
	})
	state, err := c.State(context.Background())
	require.NoError(t, err)
	require.Equal(t, &State{NowMillis: 1, Domain: "d", Pools: []Pool{
		{Name: "p", Inflight: 3, Keys: []Key{{Name: "1"}, {Name: "2"}}},
		{Name: "q", Keys: []Key{{Name: "3"}}},
	}}, state)
}

// A listener whose pages never end gets no more than a bounded number of questions.
func TestEndlessPagesEnd(t *testing.T) {
	asked := 0
	c := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		asked++
		fmt.Fprint(w, `{"next":"x","pools":[]}`)
	})
	_, err := c.State(context.Background())
	require.NoError(t, err)
	require.Equal(t, mostPages, asked)
}

func TestAChangeIsAPUTOfJSON(t *testing.T) {
	got := []string{}
	c := answering(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, r.Method+" "+r.URL.Path+" "+r.Header.Get("content-type")+" "+string(body))
	})
	limit := int64(4)
	require.NoError(t, c.SetLimit(context.Background(), "p", "k", &limit))
	require.NoError(t, c.SetLimit(context.Background(), "p", "", nil))
	require.Equal(t, []string{
		`PUT /headgate/v1/limits application/json {"key":"k","limit":4,"pool":"p"}`,
		`PUT /headgate/v1/limits application/json {"limit":null,"pool":"p"}`,
	}, got)
}

func TestErrorsSayWhoAndWhy(t *testing.T) {
	ctx := context.Background()
	refusing := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":{"field":"limit","message":"limit must be a whole number"}}`)
	})
	err := refusing.SetLimit(ctx, "p", "", nil)
	require.Equal(t, &Refusal{Status: 400, Field: "limit", Message: "limit must be a whole number"}, err)

	other := answering(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	})
	_, err = other.State(ctx)
	require.EqualError(t, err, other.Address()+" is no admin listener of Headgate's: it answers 302")
	text := answering(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") })
	_, err = text.State(ctx)
	require.ErrorContains(t, err, text.Address()+" is no admin listener of Headgate's: ")

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	gone := NewClient("http://" + listener.Addr().String())
	listener.Close()
	_, err = gone.State(ctx)
	require.EqualError(t, err, "can't reach "+gone.Address()+": connection refused")
	_, err = NewClient("http://headgate.invalid:1").State(ctx)
	require.ErrorContains(t, err, "can't reach http://headgate.invalid:1: ")
}
