package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A receivedRequest is a request as the upstream has received it.
type receivedRequest struct {
	target string
	header http.Header
	body   string
}

// recordingUpstream is a model API that answers every request with 200, and hands out each as it has come.
func recordingUpstream(t *testing.T) (url string, requests chan receivedRequest) {
	t.Helper()
	requests = make(chan receivedRequest, 100)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- receivedRequest{r.RequestURI, r.Header, string(body)}
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(api.Close)
	return api.URL, requests
}

// exchange sends a request, written out, on a connection of its own, and reads the reply.
func (h *tool) exchange(text string) *http.Response {
	h.t.Helper()
	reply, _ := h.exchangeOpen(text)
	return reply
}

// exchangeOpen is exchange for a connection that is used further.
func (h *tool) exchangeOpen(text string) (*http.Response, net.Conn) {
	h.t.Helper()
	connection, err := net.Dial("tcp", h.printed(gatewayURL))
	require.NoError(h.t, err)
	h.t.Cleanup(func() { connection.Close() })
	_, err = io.WriteString(connection, text)
	require.NoError(h.t, err)
	reply, err := http.ReadResponse(bufio.NewReader(connection), nil)
	require.NoError(h.t, err)
	return reply, connection
}

const bedrockProfile = "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fus.claude/invoke"

func TestFinding_C1_TheUpstreamGetsThePathAsItWasSent(t *testing.T) {
	url, requests := recordingUpstream(t)
	h := runGateway(t, nil, "--upstream", url)
	for _, target := range []string{
		"/v1/models/org%2Fname", bedrockProfile, "/v1/files/a%20b%2fc?x=%2F", "//v1/x//y/", "/v1/./x/../%61~%7E;a", "/v1/chat%2Fcompletions",
	} {
		reply := h.exchange("POST " + target + " HTTP/1.1\r\nhost: gateway\r\ncontent-length: 0\r\n\r\n")
		require.Equal(t, http.StatusOK, reply.StatusCode, target)
		require.Equal(t, target, (<-requests).target)
	}
}

func TestFinding_C1_NoDotSegmentLeadsOutOfTheBasePath(t *testing.T) {
	url, requests := recordingUpstream(t)
	h := runGateway(t, nil, "--upstream", url+"/base")
	for target, want := range map[string]string{
		"/v1/models/org%2Fname": "/base/v1/models/org%2Fname",
		bedrockProfile:          "/base" + bedrockProfile,
		"/v1/../x":              "/base/x",
		"/v1/%2e%2e/x":          "/base/x",
	} {
		reply := h.exchange("POST " + target + " HTTP/1.1\r\nhost: gateway\r\ncontent-length: 0\r\n\r\n")
		require.Equal(t, http.StatusOK, reply.StatusCode, target)
		require.Equal(t, want, (<-requests).target)
	}
	reply := h.exchange("POST /../x HTTP/1.1\r\nhost: gateway\r\ncontent-length: 0\r\n\r\n")
	if reply.StatusCode == http.StatusOK {
		require.Equal(t, "/base/x", (<-requests).target)
	}
}

func TestFinding_C9_TheUpstreamReceivesTheClientsHeadersOnly(t *testing.T) {
	url, requests := recordingUpstream(t)
	own := http.Header{
		"X-Other": {"mine"}, "User-Agent": {"a test"}, "Accept": {"*/*"}, "Authorization": {"Bearer k"},
		"Content-Length": {"0"}, "X-Request-Id": {"mine"},
	}
	taken := []string{"X-Envoy-Max-Retries", "X-Envoy-Retry-On", "X-Envoy-Original-Path", "X-Forwarded-For", "X-Forwarded-Host"}
	for _, retry := range [][]string{{"--retry", "0"}, {"--retry", "3"}, {"--retry", "3", "--retry-min-delay", "0"}} {
		h := runGateway(t, nil, append([]string{"--upstream", url}, retry...)...)
		for _, path := range []string{"/v1/chat/completions", "/v1/ungoverned"} {
			sent := own.Clone()
			for _, name := range taken {
				sent.Set(name, "10.0.0.1")
			}
			var head strings.Builder
			require.NoError(t, sent.Write(&head))
			reply := h.exchange("POST " + path + " HTTP/1.1\r\nhost: gateway\r\n" + head.String() + "\r\n")
			require.Equal(t, http.StatusOK, reply.StatusCode)
			require.Equal(t, own, (<-requests).header, "%s with %v", path, retry)

			reply = h.exchange("POST " + path + " HTTP/1.1\r\nhost: gateway\r\ncontent-length: 0\r\n\r\n")
			require.Equal(t, http.StatusOK, reply.StatusCode)
			require.Equal(t, http.Header{"Content-Length": {"0"}}, (<-requests).header, "%s with %v, nothing sent", path, retry)
		}
		require.NoError(t, h.cmd.Process.Signal(os.Interrupt))
	}
}
