package main

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/cmd/headgate/internal/screentest"
	"github.com/headgate/headgate/envoy/pictures"
	"github.com/headgate/headgate/envoy/rig"
)

var rewriteFlag = flag.Bool("rewrite", false, "draw the pictures of headgate top anew, from a run of five minutes")

// A topPicture is a picture in the documents: what it is called, and what the screen says then.
type topPicture struct {
	name, title string
	shows       []string
}

var (
	floodPicture = topPicture{"top", "headgate top: batch-jobs floods gpt-4o and waits, chat and search keep what they need",
		[]string{`full: batch-jobs runs 5 of 12; all 16 that wait are its own`, `chat 4 +search 3`, `p99 .*█`, "q quit"}}
	breakerPicture = topPicture{"top-breaker", "headgate top: the breaker of o3 is open after failures of the provider",
		[]string{`provider: breaker open, next try in [2-8]\d s`, `search [23]`, "q quit"}}
)

// topColours are the terminals that the pictures show.
var topColours = map[string]screentest.Colours{"dark": screentest.Dark, "light": screentest.Light}

func (p topPicture) path(colours string) string {
	return "../../docs/" + p.name + "-" + colours + ".svg"
}

func TestPicturesOfTopAreNoOlderThanWhatTheyShow(t *testing.T) {
	mark, err := pictures.Mark("cmd/headgate/internal/top/*.go", "cmd/headgate/internal/screentest/svg.go",
		"cmd/headgate/toppictures_test.go")
	require.NoError(t, err)
	if *rewriteFlag {
		drawTopPictures(t, mark)
	}
	for _, p := range []topPicture{floodPicture, breakerPicture} {
		for colours := range topColours {
			picture, err := os.ReadFile(p.path(colours))
			require.NoError(t, err)
			require.True(t, pictures.HasMark(picture, mark),
				"%s is old: make pictures", p.path(colours))
		}
	}
}

// drawTopPictures draws a gateway under a load that tells a story.
func drawTopPictures(t *testing.T, mark string) {
	gateway, admin := startWatched(t, pictures.Configuration)
	load := pictures.Start(gateway.URL())
	defer load.Stop()
	load.Flood()
	drawTop(t, floodPicture, admin, mark)
	load.Fail()
	drawTop(t, breakerPicture, admin, mark)
}

func drawTop(t *testing.T, p topPicture, admin, mark string) {
	for name, colours := range topColours {
		s := startScreenIn(t, colours, 96, 19, nil, "top", "--admin", admin)
		s.showsWithin(time.Minute, p.shows...)
		draw := func() string { return string(s.SVG(p.title)) }
		warning := map[bool]string{true: "#e3b341", false: "#9a6700"}[colours == screentest.Dark]
		rig.Eventually(t, screenWithin, "the screen knows its background", func() bool {
			return strings.Contains(draw(), warning)
		})
		require.NoError(t, os.WriteFile(p.path(name), pictures.MarkSVG([]byte(draw()), mark), 0o644))
		s.keys("q")
		s.requireEnded()
	}
}
