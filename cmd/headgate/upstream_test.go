package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseUpstream(t *testing.T) {
	for text, want := range map[string]upstream{
		"http://127.0.0.1:8080":       {host: "127.0.0.1", port: 8080},
		"http://[::1]:8080/v1/":       {host: "::1", port: 8080, path: "/v1"},
		"http://model_server":         {host: "model_server", port: 80},
		"https://API.Example.com":     {tls: true, host: "api.example.com", port: 443},
		"https://api.example.com/a/b": {tls: true, host: "api.example.com", port: 443, path: "/a/b"},
		"https://localhost:8443/":     {tls: true, host: "localhost", port: 8443},
	} {
		u, err := parseUpstream(text)
		require.NoError(t, err, text)
		require.Equal(t, want, *u, text)
	}
}

func TestParseUpstreamRefusesWhatIsNoBaseURL(t *testing.T) {
	for _, text := range []string{
		"", "api.example.com", "localhost:8080", "ftp://host", "http://", "http:///v1", "http://:80", "http:host",
		"http://a b", "http://host:", "http://host:0", "http://host:65536", "http://host:x", "http://user:word@host",
		"http://host?a=b", "http://host/#top", "http://host/?",
	} {
		_, err := parseUpstream(text)
		require.Error(t, err, text)
	}
}

func TestFinding_C16_AnInternationalNameIsInPunycode(t *testing.T) {
	for name, want := range map[string]string{
		"bücher.example":        "xn--bcher-kva.example",
		"BÜCHER.Example":        "xn--bcher-kva.example",
		"b%C3%BCcher.example":   "xn--bcher-kva.example",
		"xn--bcher-kva.example": "xn--bcher-kva.example",
		"模型。例子":                 "xn--xgs754b.xn--fsqu00a",
		"straße.example":        "xn--strae-oqa.example",
		"model_server.internal": "model_server.internal",
		"１２７.0.0.1":             "127.0.0.1",
	} {
		u, err := parseUpstream("https://" + name + "/v1")
		require.NoError(t, err, name)
		require.Equal(t, want, u.host, name)
	}
	for _, name := range []string{"bü cher.example", "bü..example", "bü%2Fa.example", "ü" + strings.Repeat("ü", 80)} {
		_, err := parseUpstream("https://" + name)
		require.Error(t, err, name)
	}
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(bundle, nil, 0o600))
	t.Setenv("SSL_CERT_FILE", bundle)
	rendered := render(t, "envoy", "--upstream", "https://bücher.example/v1")
	require.NotContains(t, rendered, "bücher")
	for _, path := range []string{
		endpointPath + "address/socket_address/address", routePath + "host_rewrite_literal",
		clusterPath + "transport_socket/typed_config/sni",
	} {
		require.Equal(t, "xn--bcher-kva.example", at(t, rendered, path), path)
	}
}

func TestUpstreamAuthorityLeavesOutTheStandardPort(t *testing.T) {
	for text, want := range map[string]string{
		"http://host":           "host",
		"http://host:80":        "host",
		"http://host:443":       "host:443",
		"https://host:443":      "host",
		"https://host:80":       "host:80",
		"https://[::1]":         "[::1]",
		"https://[::1]:8443/v1": "[::1]:8443",
	} {
		u, err := parseUpstream(text)
		require.NoError(t, err, text)
		require.Equal(t, want, u.authority(), text)
	}
}
