package dashboard

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

var shotsFlag = flag.String("shots", "", "a folder for pictures of the staged loads")

var scenes = []struct {
	name  string
	load  func() (state, []event)
	shows []string
}{
	{"flooded", flooded, []string{"Full: model gpt-4o", "acme runs 11 of 17", "13 wait, the oldest for 4.2 s; acme has its share of the queue, its next is refused."}},
	{"broken", broken, []string{"Provider: model gpt-4o", "breaker open, next try in 12 s", "5 wait, the oldest for 3.9 s; the next try comes after their wait ends."}},
	{"shared", shared, []string{"Full: gpu — 45 run, for 23 tenants", "5 over the limit; limit lowered from 64 to 40 by hand, 3 min ago; 110 wait, the oldest for 63 s",
		"model gpt-4o is shut (limit 0); 1 more pool is full or held up"}},
	{"free", free, []string{"Free: nobody waits"}},
}

// On every width the story stands at the top, and nothing is wider than the window. The pictures are in light and dark.
func TestStoriesFitEveryScreen(t *testing.T) {
	t.Parallel()
	for _, scene := range scenes {
		t.Run(scene.name, func(t *testing.T) {
			t.Parallel()
			s, events := scene.load()
			d := listen(t, s)
			d.events = events
			p := open(t, d.page(), 1280, 900)
			p.shows("#sentence", scene.shows...)
			for _, width := range []int64{360, 768, 1280, 1920, 3840} {
				p.do(chromedp.EmulateViewport(width, max(800, width*9/16)))
				p.fits(width)
				for _, scheme := range []string{"light", "dark"} {
					p.shoot(scheme, fmt.Sprintf("%s-%d-%s.png", scene.name, width, scheme))
				}
			}
		})
	}
}

// fits fails when something reaches beyond the window or is cut without a title that has all of it.
func (p *tab) fits(width int64) {
	p.t.Helper()
	require.Empty(p.t, js[[]string](p, `[...document.querySelectorAll('body *')].filter(e => e.checkVisibility() && !e.closest('.unseen, svg, .track') &&
		(e.getBoundingClientRect().right > innerWidth + 1 || e.getBoundingClientRect().left < -1)).map(e => e.outerHTML.slice(0, 120))`), "at %d px", width)
	require.LessOrEqual(p.t, js[int64](p, `document.documentElement.scrollWidth`), width)
}

func (p *tab) shoot(scheme, name string) {
	p.t.Helper()
	if *shotsFlag == "" {
		return
	}
	p.prefers("prefers-color-scheme", scheme)
	picture, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	require.NoError(p.t, err)
	require.NoError(p.t, os.WriteFile(filepath.Join(*shotsFlag, name), picture, 0o644))
}

// prefers sets what the user's system says of media features: a feature, its value, and so on.
func (p *tab) prefers(features ...string) {
	p.t.Helper()
	var params emulation.SetEmulatedMediaParams
	for pair := range slices.Chunk(features, 2) {
		params.Features = append(params.Features, &emulation.MediaFeature{Name: pair[0], Value: pair[1]})
	}
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, params)
	require.NoError(p.t, err)
}
