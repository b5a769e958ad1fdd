package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/envoy/rig"
)

func TestNotesAreOneLineThatIsCutAndThrottled(t *testing.T) {
	var said output
	now := time.Unix(0, 0)
	n := newNotes(&said)
	n.now, n.filled = func() time.Time { return now }, now
	n.warn("%s", "a\nb\x1b[31m\u202e é")
	require.Equal(t, "headgate: warning: a\\nb\\x1b[31m\\u202e é\n", said.String())
	n.say("%s", strings.Repeat("x", 2*noteLength))
	require.True(t, strings.HasSuffix(said.String(), "xxx...\n"))
	for range 100 {
		n.say("many")
	}
	require.Equal(t, noteBurst-2, strings.Count(said.String(), "many\n"))
	now = now.Add(noteEvery)
	n.say("later")
	n.say("too early")
	n.end()
	require.True(t, strings.HasSuffix(said.String(),
		"\nheadgate: 82 more lines are left out here\nheadgate: later\nheadgate: 1 more lines are left out here\n"), said.String())
}

// On a terminal what goes on stands in the last line. Other lines come above it.
func TestFinding_D10_ALiveLineStaysLastAndGoes(t *testing.T) {
	var said output
	n := newNotes(&said)
	n.isLive = true
	done := n.begin("starting\nEnvoy" + strings.Repeat("x", 100))
	n.say("a line")
	done()
	done()
	n.say("after it")
	live := "headgate: starting\\nEnvoy" + strings.Repeat("x", liveLength-len("starting\\nEnvoy")) + "... (0 s)"
	require.Equal(t, clearLine+live+clearLine+"headgate: a line\n"+live+clearLine+clearLine+"headgate: after it\n", said.String())
}

// Beyond a terminal a line says once what goes on.
func TestFinding_D10_WithoutATerminalProgressIsPlainLines(t *testing.T) {
	require.False(t, isTerminal(&bytes.Buffer{}))
	file, err := os.Create(t.TempDir() + "/log")
	require.NoError(t, err)
	defer file.Close()
	require.False(t, isTerminal(file))
	h := runGateway(t, nil, "--sample")
	require.Equal(t, starting, h.errs.String())
}

func TestFinding_D10_FetchingEnvoyIsTold(t *testing.T) {
	tools := t.TempDir()
	bin := t.TempDir()
	for name, script := range map[string]string{
		"envoy":   "exit 1",
		"python3": `[ "$1" = -c ] && exit 0; echo 'Error: no venv here'; exit 1`,
	} {
		require.NoError(t, os.WriteFile(bin+"/"+name, []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	}
	h := startTool(t, []string{"ENVOY=", "HEADGATE_TOOLS=" + tools, "PATH=" + bin + ":/usr/bin:/bin"},
		"run", "--sample", "--bind", "127.0.0.1:0", "--wasm", emptyModule(t))
	rig.Eventually(t, startWithin, "headgate has ended", func() bool { return len(h.status) > 0 })
	require.Equal(t, 1, <-h.status)
	require.Regexp(t, `^headgate: passing over \S+/envoy: it does not tell its version\n`+
		`headgate: getting Envoy \S+ \(about 35 MB, once\)\nheadgate: no Envoy: python3 can't make a virtual environment: .*\n$`,
		h.errs.String())
}

func TestFinding_D5_AnUpstreamThatCannotBeReachedIsWarnedOf(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := closed.Addr().String()
	require.NoError(t, closed.Close())
	for url, want := range map[string]string{
		"http://" + address:                "can't connect: connection refused",
		"https://nosuchhost.invalid/v1":    "the name nosuchhost.invalid does not resolve: ",
		"http://nosuchhost.invalid:123/v1": "the name nosuchhost.invalid does not resolve: ",
	} {
		h := startTool(t, []string{"ENVOY=" + fakeEnvoy(t, "exec sleep 1000")}, "run", "--upstream", url,
			"--bind", "127.0.0.1:0", "--wasm", emptyModule(t))
		h.eventuallySays(t, "headgate: warning: --upstream "+url+": "+want)
		h.eventuallySays(t, ". Until that changes, requests fail\n")
	}
}

// The gateway starts all the same, and serves when the upstream has come.
func TestFinding_D5_AnUpstreamMayComeLater(t *testing.T) {
	later, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := later.Addr().String()
	require.NoError(t, later.Close())
	h := runGateway(t, nil, "--upstream", "http://"+address)
	h.eventuallySays(t, "connection refused")
	later, err = net.Listen("tcp", address)
	require.NoError(t, err)
	server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") })}
	go func() { _ = server.Serve(later) }()
	defer server.Close()
	require.Equal(t, http.StatusOK, h.send(chatPath, false).StatusCode)
}

func TestFinding_D5_AnUpstreamThatIsThereIsNotWarnedOf(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	u, err := parseUpstream("http://" + listener.Addr().String())
	require.NoError(t, err)
	require.NoError(t, u.unreachable(t.Context()))
	ended, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	require.Error(t, u.unreachable(ended))
}

func TestFinding_D5_WhatHasNoEffectIsWarnedOf(t *testing.T) {
	for args, want := range map[string]string{
		"run --upstream http://a --upstream http://b --print-config":     "--upstream is given 2 times, and only the last one counts: http://b",
		"render envoy --upstream http://a --queue 1 --queue 2 --queue 3": "--queue is given 3 times, and only the last one counts: 3",
		"render istio --upstream http://a --retry 3 --workers 2": "--upstream, --retry, --workers change nothing in a WasmPlugin: " +
			"in Istio the mesh decides that",
		"render istio --bind 127.0.0.1:1": "--bind changes nothing in a WasmPlugin: in Istio the mesh decides that",
		"render envoy --upstream http://a --retry 0 --retry-wait-min 1s --retry-skip-429": "--retry-wait-min, --retry-skip-429 change " +
			"nothing with --retry 0",
		"run --upstream http://a --print-config --adaptive-headroom-window 3s": "--adaptive-headroom-window changes nothing with " +
			"--adaptive-headroom off",
	} {
		status, out, errs := call("", strings.Fields(args)...)
		require.Equal(t, 0, status, args)
		require.NotEmpty(t, out, args)
		require.Equal(t, "headgate: warning: "+want+"\n", errs, args)
	}
}

// A list takes every value, and a switch that is given twice is no surprise.
func TestFinding_D5_ListsAndSwitchesMayBeRepeated(t *testing.T) {
	status, _, errs := call("", strings.Fields("run --upstream http://a --limit /a --limit /b --sample off --sample off --print-config")...)
	require.Equal(t, 0, status)
	require.Empty(t, errs)
}
