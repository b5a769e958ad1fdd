package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/envoy"
	"github.com/headgate/headgate/envoy/rig"
)

// requireGatewayReply checks that Envoy's own answer has the form of Headgate's refusals. It returns the code.
func requireGatewayReply(t *testing.T, reply *http.Response, status int, says string) string {
	t.Helper()
	text := whole(t, reply.Body)
	require.Equal(t, status, reply.StatusCode, text)
	require.Equal(t, "application/json", reply.Header.Get("content-type"), text)
	var body struct {
		Type  string
		Error struct{ Message, Type, Code string }
	}
	require.NoError(t, json.Unmarshal([]byte(text), &body), text)
	require.Regexp(t, `^{"type":"error","error":{"message":".*","type":"gateway_error","code":"[A-Z_]+","param":null}}\n$`, text,
		"the keys have the order of Headgate's refusals")
	require.Equal(t, "error", body.Type)
	require.Equal(t, "gateway_error", body.Error.Type)
	require.Regexp(t, "^Headgate's Envoy: .*"+says, body.Error.Message)
	return body.Error.Code
}

// resettingUpstream is a model API that closes the connection in place of an answer, and never answers what has /silent
// in its path.
func resettingUpstream(t *testing.T) string {
	t.Helper()
	over := make(chan struct{})
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/silent") {
			select {
			case <-r.Context().Done():
			case <-over:
			}
			return
		}
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(func() { close(over); api.Close() })
	return api.URL
}

func TestFinding_C8_WhatEnvoyAnswersItselfIsJSONThatSaysWhy(t *testing.T) {
	h := runGateway(t, nil, "--upstream", resettingUpstream(t), "--retry", "1", "--limit", "POST /embeddings",
		"--limit", "POST /closed:0")
	send := func(path, more string) *http.Response {
		return h.exchange("POST " + path + " HTTP/1.1\r\nhost: gateway\r\ncontent-length: 0\r\n" + more + "\r\n")
	}
	for _, path := range []string{"/v1/embeddings", "/v1/files"} {
		require.Equal(t, "UPSTREAM_CLOSED", requireGatewayReply(t, send(path, ""), 503, "closed the connection"), path)
	}
	require.Equal(t, "BAD_REQUEST", requireGatewayReply(t, send("/v1/files", "bad header\r\n"), 400, "not valid HTTP"))
	require.Equal(t, "GATEWAY_ERROR", requireGatewayReply(t, send("/v1/files", "connection: upgrade\r\nupgrade: other\r\n"), 403, "upgrade"))

	for request, code := range map[string]string{
		"CONNECT api.example.com:443": "CONNECT_UNSUPPORTED", "OPTIONS *": "PATH_MISSING",
	} {
		reply := h.exchange(request + " HTTP/1.1\r\nhost: gateway\r\n\r\n")
		status := map[string]int{"CONNECT_UNSUPPORTED": 501, "PATH_MISSING": 400}[code]
		require.Equal(t, code, requireGatewayReply(t, reply, status, "(as the base URL|does not begin with a slash)"), request)
	}

	refused := send("/v1/closed", "")
	require.Equal(t, "ADMISSION_REJECTED", refused.Header.Get("x-headgate-reason"))
	require.Contains(t, whole(t, refused.Body), `"message":"Headgate: pool \"route\" is closed`, "a refusal stays as it is")

	grpc := send("/v1/files", "content-type: application/grpc\r\nte: trailers\r\n")
	require.Equal(t, "14", grpc.Header.Get("grpc-status"))
	require.NotContains(t, grpc.Header.Get("grpc-message"), "{")
}

func TestFinding_C8_AnUnreachableUpstreamIsNamedAsTheReason(t *testing.T) {
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, nobody.Close())
	for upstream, code := range map[string]string{
		"http://" + nobody.Addr().String(): "UPSTREAM_UNREACHABLE", "http://nosuchhost.invalid": "UPSTREAM_UNKNOWN",
	} {
		h := runGateway(t, nil, "--upstream", upstream, "--retry", "0")
		reply := h.exchange("POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\ncontent-length: 0\r\n\r\n")
		require.Equal(t, code, requireGatewayReply(t, reply, 503, "upstream"))
	}
}

func TestFinding_C5_ASilentModelIsEndedByTheIdleTimeout(t *testing.T) {
	h := runGateway(t, nil, "--upstream", resettingUpstream(t), "--retry", "0", "--idle-timeout", "1s", "--queue-timeout", "1ms")
	for _, path := range []string{"/v1/files/silent", "/silent/v1/completions"} {
		start := time.Now()
		reply := h.exchange("POST " + path + " HTTP/1.1\r\nhost: gateway\r\ncontent-length: 0\r\n\r\n")
		require.Equal(t, "IDLE_TIMEOUT", requireGatewayReply(t, reply, 504, "--idle-timeout"))
		require.GreaterOrEqual(t, time.Since(start), time.Second)
	}
}

// An upload passes while bytes come, however long it takes: here three times as long as the idle timeout.
func TestFinding_C4_AnUploadPassesWhileBytesMove(t *testing.T) {
	const pieces = 30
	url, requests := recordingUpstream(t)
	h := runGateway(t, nil, "--upstream", url, "--idle-timeout", "1s", "--queue-timeout", "1ms", "--retry", "0")
	require.Equal(t, "0s", at(t, render(t, "envoy", "--upstream", url), connectionPath+"request_timeout"))
	for _, path := range []string{"/v1/files", "/v1/audio/transcriptions"} {
		body, w := io.Pipe()
		request, err := http.NewRequest(http.MethodPost, "http://"+h.printed(gatewayURL)+path, body)
		require.NoError(t, err)
		go func() {
			pace := time.NewTicker(200 * time.Millisecond)
			defer pace.Stop()
			for i := range pieces {
				<-pace.C
				fmt.Fprintf(w, "%02d", i)
			}
			w.Close()
		}()
		reply, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		reply.Body.Close()
		require.Equal(t, http.StatusOK, reply.StatusCode)
		require.Len(t, (<-requests).body, 2*pieces)
	}
	require.True(t, rig.Poll(endWithin, func() bool { return h.shows("route.inflight", 0) }))
}

// docs/running.md has every code that envoy.yaml has, with its sentences.
func TestRunningListsWhatTheGatewayAnswersItself(t *testing.T) {
	sentences := regexp.MustCompile(`Headgate's Envoy: ([^"]*)","type":"gateway_error","code":"([A-Z_]+)"`)
	want := map[string]string{"GATEWAY_ERROR": "anything else, with the details of Envoy's access log"}
	for _, found := range sentences.FindAllStringSubmatch(string(envoy.Bootstrap)+string(lastAnswers), -1) {
		sentence, code := found[1], found[2]
		if strings.Contains(sentence, "%") {
			continue // the row is about all the details
		}
		if earlier := want[code]; earlier != "" {
			sentence = earlier + "; or " + sentence
		}
		want[code] = sentence
	}
	documented := map[string]string{}
	for _, cells := range runningRows(t, "| `code` | status | why |") {
		documented[cells[0]] = cells[2]
	}
	require.Equal(t, want, documented)
}
