package main

import (
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
