package dashboard

import (
	"bytes"
	"flag"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/envoy/pictures"
	"github.com/headgate/headgate/envoy/rig"
)

var rewriteFlag = flag.Bool("rewrite", false, "take the pictures of the page anew, from a run of five minutes")

const pictureWidth = 1280

// A pagePicture is a picture in the documents: what it is called, what the page says then in its headline and of the tenants of
// gpt-4o, and with what the picture ends.
type pagePicture struct {
	name, sentence, tenants, last string
}

var (
	floodPicture = pagePicture{"page", `^Full: model gpt-4o — batch-jobs runs 5 of 12; 16 wait, the oldest for \d(\.\d)? s; batch-jobs has its share of the queue, its next is refused\.$`,
		`^batch-jobs\s+5 run, 16 wait\s+chat\s+4 run\s+search\s+3 run$`, `[data-pool="model"]`}
	breakerPicture = pagePicture{"page-breaker", `^Provider: model o3 — breaker open, next try in [2-8]\d s`,
		`^batch-jobs\s+[56] run, 16 wait\s+chat\s+[34] run\s+search\s+[23] run$`, `[data-pool="model"] .lanes`}
)

func (p pagePicture) path(scheme string) string {
	return filepath.Join("..", "..", "docs", p.name+"-"+scheme+".png")
}

func TestPicturesOfThePageAreNoOlderThanWhatTheyShow(t *testing.T) {
	mark, err := pictures.Mark("filter/admin/page/page.html", "envoy/dashboard/pictures_test.go")
	require.NoError(t, err)
	if *rewriteFlag {
		takePictures(t, mark)
	}
	for _, p := range []pagePicture{floodPicture, breakerPicture} {
		for _, scheme := range []string{"light", "dark"} {
			picture, err := os.ReadFile(p.path(scheme))
			require.NoError(t, err)
			require.True(t, pictures.HasMark(picture, mark), "%s is old: make pictures", p.path(scheme))
			require.Less(t, len(picture), 200_000, p.path(scheme))
			_, err = png.Decode(bytes.NewReader(picture))
			require.NoError(t, err)
		}
	}
}

// takePictures shows the page of a gateway under a load that tells a story.
func takePictures(t *testing.T, mark string) {
	g := governWith(t, "default", pictures.Configuration)
	p := open(t, g.url, pictureWidth, 900)
	p.do(chromedp.EmulateViewport(pictureWidth, 900, chromedp.EmulateScale(1.5)))
	load := pictures.Start(g.URL())
	defer load.Stop()
	load.Flood()
	p.picture(floodPicture, mark)
	load.Fail()
	p.picture(breakerPicture, mark)
}

// picture waits until the page tells the story, and takes its picture in light and dark.
func (p *tab) picture(is pagePicture, mark string) {
	p.t.Helper()
	sentence, tenants := regexp.MustCompile(is.sentence), regexp.MustCompile(is.tenants)
	for _, scheme := range []string{"light", "dark"} {
		p.prefers("prefers-color-scheme", scheme, "prefers-reduced-motion", "reduce") // no bar is on its way
		said, shown := "", ""
		if !rig.Poll(time.Minute, func() bool {
			said, shown = p.text("#sentence"), p.text(lane("model", "gpt-4o")+" .tenants")
			return sentence.MatchString(said) && tenants.MatchString(shown)
		}) {
			p.t.Fatalf("the page says %q and %q", said, shown)
		}
		bottom := js[float64](p, fmt.Sprintf(`document.querySelector(%q).getBoundingClientRect().bottom + scrollY + 16`, is.last))
		beyond := true
		shot, err := chromedp.Call(p.ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{
			CaptureBeyondViewport: &beyond, Clip: &page.Viewport{Width: pictureWidth, Height: bottom, Scale: 1}})
		require.NoError(p.t, err)
		compact, err := pictures.Compact(shot.Data)
		require.NoError(p.t, err)
		require.NoError(p.t, os.WriteFile(is.path(scheme), pictures.MarkPNG(compact, mark), 0o644))
	}
}
