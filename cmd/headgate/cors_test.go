package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFinding_C7_APageInABrowserCanReadARefusal(t *testing.T) {
	url, requests := recordingUpstream(t)
	const page = "https://app.example.com"
	send := func(h *tool, method, path, origin, more string) http.Header {
		reply := h.exchange(method + " " + path + " HTTP/1.1\r\nhost: gateway\r\ncontent-length: 0\r\norigin: " + origin + "\r\n" + more + "\r\n")
		return reply.Header
	}
	for _, flags := range [][]string{
		{"--cors", page, "--cors", "http://localhost:3000", "--limit", "/chat/completions:0"},
		{"--cors", "*", "--config", writePlugin(t, "plugin.yaml", "routes: [/chat/completions]\npools: [{name: all, limit: 0}]\n")},
	} {
		h := runGateway(t, nil, append([]string{"--upstream", url}, flags...)...)
		refused := send(h, "POST", "/v1/chat/completions", page, "")
		require.Equal(t, "ADMISSION_REJECTED", refused.Get("x-headgate-reason"))
		require.Equal(t, page, refused.Get("access-control-allow-origin"))
		require.Contains(t, refused.Get("access-control-expose-headers"), "x-headgate-reason")

		preflight := send(h, "OPTIONS", "/v1/chat/completions", page,
			"access-control-request-method: POST\r\naccess-control-request-headers: authorization\r\n")
		require.Empty(t, preflight.Get("x-headgate-reason"), "a preflight needs no permit")
		require.Equal(t, page, preflight.Get("access-control-allow-origin"))
		require.Contains(t, preflight.Get("access-control-allow-headers"), "authorization")
		require.Contains(t, preflight.Get("access-control-allow-methods"), "POST")

		passed := send(h, "POST", "/v1/files", page, "")
		<-requests
		require.Equal(t, page, passed.Get("access-control-allow-origin"))
		if flags[1] != "*" {
			require.Empty(t, send(h, "POST", "/v1/chat/completions", "https://other.example.com", "").Get("access-control-allow-origin"))
		}
	}
}

func TestCORSTakesOrigins(t *testing.T) {
	for _, origin := range []string{"*", "https://app.example.com", "http://localhost:3000", "chrome-extension://abc"} {
		require.Equal(t, []string{origin}, parsedRun(t, "--cors", origin).origins)
	}
	for _, text := range []string{"", "example.com", "https://a/", "https://A", "https://a/b", "https://"} {
		status, _, errs := call("", "run", "--sample", "--cors", text, "--print-config")
		require.Equal(t, statusUsage, status, text)
		require.Contains(t, errs, errOriginForm.Error())
	}
}

func TestPrintConfigShowsThePluginWithCORS(t *testing.T) {
	require.NotEmpty(t, printConfig(t, "--cors", "*").Plugin["invocation"])
}
