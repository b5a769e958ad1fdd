//go:build javascript

package dashboard

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/envoy/rig"
)

// With the build tag javascript, as in `make clients`: npm fetches axe-core.
func TestJavaScriptAxeFindsNothing(t *testing.T) {
	root, err := rig.RepositoryRoot()
	require.NoError(t, err)
	packages, err := exec.Command(filepath.Join(root, "build", "get-clients"), "axe").Output()
	require.NoError(t, err, "get it with `build/get-clients axe`")
	axe, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(packages)), "node_modules", "axe-core", "axe.min.js"))
	require.NoError(t, err)
	for _, scene := range scenes {
		s, events := scene.load()
		d := listen(t, s)
		d.events = events
		p := open(t, d.page(), 1280, 900)
		p.shows("#sentence", scene.shows...)
		p.do(chromedp.Evaluate[chromedp.Void](string(axe)))
		for _, scheme := range []string{"light", "dark"} {
			p.prefers("prefers-color-scheme", scheme)
			p.passes()
		}
		p.do(chromedp.EmulateViewport(360, 800))
		p.passes()
		if scene.name == "flooded" {
			p.edit(lane("model", "gpt-4o"), "x\r")
			p.passes()
			p.expects("ERR_EMPTY_RESPONSE")
			d.goAway(true)
			p.shows("#away", "not answered")
			p.passes()
		}
	}
}

// passes fails for each violation of a rule, and for what axe leaves to a person to judge of contrast.
func (p *tab) passes() {
	p.t.Helper()
	require.Empty(p.t, js[[]string](p, `axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.flatMap(v =>
		v.nodes.map(n => v.id + ' (' + v.impact + '): ' + n.html.slice(0, 200) + ' ' + n.failureSummary)))`))
}
