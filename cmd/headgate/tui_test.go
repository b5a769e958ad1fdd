package main

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/cmd/headgate/internal/screentest"
	"github.com/headgate/headgate/envoy/rig"
)

// The screen over a gateway shows its requests. Its log is a page, q asks, and Ctrl-C lets what runs finish.
func TestTheScreenOverAGateway(t *testing.T) {
	wasm, err := rig.WasmPath()
	require.NoError(t, err)
	binary, err := rig.EnvoyPath()
	require.NoError(t, err)
	s := startScreenIn(t, screentest.Dark, 100, 30, []string{"ENVOY=" + binary, "TMPDIR=" + t.TempDir()}, "run", "--sample", "--tui",
		"--bind", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--workers", "1", "--wasm", wasm)
	up := rig.Poll(startWithin, func() bool { return strings.Contains(s.Text(), "q end") })
	require.True(t, up, "no screen:\n%s", s.Text())
	s.keys("g")
	s.shows(`what the gateway says`, `Headgate is up: http://127\.0\.0\.1:\d+ `, `Ctrl-C ends it`)
	gateway := regexp.MustCompile(`Headgate is up: (http://\S+)`).FindStringSubmatch(s.Text())[1]
	s.keys("x")
	s.shows(`by trouble`)

	ended := make(chan string, 1)
	go func() {
		reply, err := http.Post(gateway+"/v1/chat/completions", "application/json",
			strings.NewReader(chatRequest("Hello", true)))
		if err != nil {
			ended <- err.Error()
			return
		}
		defer reply.Body.Close()
		ended <- whole(t, reply.Body)
	}()
	s.shows(`route .* 2 +1 `)
	s.keys("q")
	s.shows(`End the gateway\? Requests that run may finish\. y/n`)
	s.keys("n")
	s.shows("q end")
	s.keys("\x03")
	s.shows(`requests that run or wait: 1|ending the gateway`, `route .* 2 +1 `)
	select {
	case body := <-ended:
		require.Contains(t, body, "[DONE]", "the answer is whole")
	case <-time.After(startWithin):
		t.Fatal("the request does not end")
	}
	s.requireEnded()
	connection, err := http.Get(gateway)
	if err == nil {
		connection.Body.Close()
	}
	require.Error(t, err, "the gateway has ended, too")
}
