package main

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/cmd/headgate/internal/screentest"
	"github.com/headgate/headgate/envoy/rig"
)

var rewriteFlag = flag.Bool("rewrite", false, "draw the pictures of headgate top anew, from a run of two minutes")

// topPictures are the pictures in the documents, and the terminals that they show.
var topPictures = map[string]screentest.Colours{
	"../../docs/top-dark.svg": screentest.Dark, "../../docs/top-light.svg": screentest.Light,
}

// topPictureInputs is a hash of what decides how the pictures look.
func topPictureInputs(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("internal/top/*.go")
	require.NoError(t, err)
	files = append(slices.DeleteFunc(files, func(name string) bool { return strings.HasSuffix(name, "_test.go") }),
		"internal/screentest/svg.go", "toppictures_test.go")
	sum := sha256.New()
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		fmt.Fprintf(sum, "%s %d\n%s", name, len(text), text)
	}
	return fmt.Sprintf("<!-- inputs: %x -->\n", sum.Sum(nil))
}

func TestPicturesOfTopAreNoOlderThanWhatTheyShow(t *testing.T) {
	if *rewriteFlag {
		drawTopPictures(t)
	}
	for name := range topPictures {
		picture, err := os.ReadFile(name)
		require.NoError(t, err)
		require.True(t, strings.HasSuffix(string(picture), topPictureInputs(t)),
			"%s is old: go test ./cmd/headgate -run PicturesOfTop -rewrite", name)
	}
}

const pictureConfiguration = `{"stage": %q, "domain": "default", "mode": "enforce",
	"identity": {"tenant": [{"header": "x-tenant", "trusted": true}], "model": [{"header": "x-model"}]},
	"pools": [{"name": "gateway", "limit": 64},
		{"name": "model", "key": ["model"], "limit": 8, "queue": 64, "max_wait": "5s", "fair_by": "tenant",
			"breaker": {"failures": 5, "window": "30s", "open": "60s"}}]}`

// drawTopPictures draws a gateway under a load that tells a story: batch-jobs floods a model, and the others still get
// their share of it; the provider of another model fails.
func drawTopPictures(t *testing.T) {
	gateway, admin := startWatched(t, pictureConfiguration)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var clients sync.WaitGroup
	defer clients.Wait()
	send := func(n int, tenant, model string, script rig.Script, pause time.Duration) {
		for range n {
			clients.Go(func() {
				for ctx.Err() == nil {
					post(ctx, gateway.URL(), tenant, model, script)
					time.Sleep(pause)
				}
			})
		}
	}
	send(3, "chat", "gpt-4o", rig.Script{Delay: 900 * time.Millisecond}, 200*time.Millisecond)
	send(2, "search", "gpt-4o", rig.Script{Delay: 300 * time.Millisecond}, 100*time.Millisecond)
	send(2, "chat", "gpt-4o-mini", rig.Script{Delay: 400 * time.Millisecond}, 100*time.Millisecond)
	for range 24 { // the flood rises
		send(1, "batch-jobs", "gpt-4o", rig.Script{Delay: 1100 * time.Millisecond}, time.Millisecond)
		time.Sleep(5 * time.Second)
	}
	for range 6 {
		post(ctx, gateway.URL(), "search", "o3", rig.Script{Status: 503})
	}
	for name, colours := range topPictures {
		s := startScreenIn(t, colours, 96, 22, nil, "top", "--admin", admin)
		s.shows(`full: .* of 8; all \d\d that wait are its own`, `provider: breaker open`, `p99 .*█`, "q quit")
		draw := func() string {
			return string(s.SVG("headgate top: batch-jobs floods gpt-4o, and the others keep their share; the breaker of o3 is open"))
		}
		warning := map[bool]string{true: "#e3b341", false: "#9a6700"}[colours == screentest.Dark]
		rig.Eventually(t, screenWithin, "the screen knows its background", func() bool {
			return strings.Contains(draw(), warning)
		})
		picture := draw()
		require.NoError(t, os.WriteFile(name, []byte(picture+topPictureInputs(t)), 0o600))
		s.keys("q")
		s.requireEnded()
	}
	stop()
}

// post sends a chat completion, and forgets the answer.
func post(ctx context.Context, gateway, tenant, model string, script rig.Script) {
	name, value := script.Query()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, gateway+rig.Path, nil)
	if err != nil {
		panic(err)
	}
	query := request.URL.Query()
	query.Set(name, value)
	request.URL.RawQuery = query.Encode()
	request.Header.Set("x-tenant", tenant)
	request.Header.Set("x-model", model)
	if reply, err := http.DefaultClient.Do(request); err == nil {
		reply.Body.Close()
	}
}
