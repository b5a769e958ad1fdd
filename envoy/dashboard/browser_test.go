package dashboard

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/envoy/rig"
)

// browserPath is the Chromium that build/get-browser finds; it honours $CHROMIUM. It is asked once.
var browserPath = sync.OnceValues(func() (string, error) {
	root, err := rig.RepositoryRoot()
	if err != nil {
		return "", err
	}
	script := exec.Command(filepath.Join(root, "build", "get-browser"))
	var said strings.Builder
	script.Stderr = &said
	out, err := script.Output()
	if err != nil {
		return "", fmt.Errorf("no browser (%w): %s", err, strings.TrimSpace(said.String()))
	}
	return strings.TrimSpace(string(out)), nil
})

// A tab is a page in a headless browser of its own, and what went wrong in it.
type tab struct {
	t        *testing.T
	ctx      context.Context
	mu       sync.Mutex
	wrong    []string
	expected string   // what may be wrong
	wanted   []string // the URLs it asked for
}

const patience = 20 * time.Second

// open shows a URL. At the test's end the console must be silent and no request must have gone elsewhere.
func open(t *testing.T, url string, width, height int64) *tab {
	t.Helper()
	path, err := browserPath()
	require.NoError(t, err)
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("no-proxy-server", true),
		chromedp.Flag("lang", "en"), chromedp.Env("HOME="+t.TempDir()))
	allocator, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	p := &tab{t: t}
	p.ctx, cancel = chromedp.NewContext(allocator, chromedp.WithListener(p.hear), chromedp.WithErrorf(t.Logf))
	t.Cleanup(cancel)
	require.NoError(t, chromedp.Do(p.ctx)) // starts the browser, which lives as long as this context
	_, err = chromedp.Call(p.ctx, network.Enable, network.EnableParams{})
	require.NoError(t, err)
	_, err = chromedp.Call(p.ctx, cdplog.Enable, cdp.Empty{})
	require.NoError(t, err)
	p.do(chromedp.EmulateViewport(width, height), chromedp.Navigate(url))
	t.Cleanup(func() { p.wasCalm(url) })
	return p
}

func (p *tab) hear(message any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch m := message.(type) {
	case *runtime.EventConsoleAPICalled:
		p.wrong = append(p.wrong, fmt.Sprint("console: ", m.Type, " ", m.Args))
	case *runtime.EventExceptionThrown:
		p.wrong = append(p.wrong, fmt.Sprint("exception: ", (&chromedp.ExceptionError{ExceptionDetails: m.ExceptionDetails}).Error()))
	case *cdplog.EventEntryAdded:
		p.wrong = append(p.wrong, fmt.Sprint("log: ", m.Entry.Text, " ", m.Entry.URL))
	case *network.EventRequestWillBeSent:
		p.wanted = append(p.wanted, m.Request.URL)
	}
}

// expects lets the browser say this on the console: it has a line for each answer that fails, whatever the page makes of it.
func (p *tab) expects(words string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = words
}

func (p *tab) wasCalm(url string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, wrong := range p.wrong {
		if p.expected == "" || !strings.Contains(wrong, p.expected) {
			p.t.Errorf("the page's console: %s", wrong)
		}
	}
	for _, asked := range p.wanted {
		if !strings.HasPrefix(asked, url) && !strings.HasPrefix(asked, "data:") {
			p.t.Errorf("the page asks for %s", asked)
		}
	}
	if len(p.wanted) == 0 {
		p.t.Error("the page's requests were not seen")
	}
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	require.NoError(p.t, chromedp.Do(ctx, steps...))
}

// js evaluates an expression in the page into a value.
func js[T any](p *tab, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(p.t, err)
	return value
}

// text is what the elements of a selector show, one a line.
func (p *tab) text(selector string) string {
	p.t.Helper()
	return js[string](p, fmt.Sprintf(`[...document.querySelectorAll(%q)].filter(e => e.checkVisibility()).map(e => e.innerText.trim()).join('\n').replaceAll('\u00a0', ' ')`, selector))
}

// shows waits until the text of a selector has all the words.
func (p *tab) shows(selector string, words ...string) {
	p.t.Helper()
	p.within(patience, selector, words...)
}

func (p *tab) within(bound time.Duration, selector string, words ...string) {
	p.t.Helper()
	var text string
	var missing []string
	if !rig.Poll(bound, func() bool {
		text, missing = p.text(selector), nil
		for _, w := range words {
			if !strings.Contains(text, w) {
				missing = append(missing, w)
			}
		}
		return len(missing) == 0
	}) {
		p.t.Fatalf("after %v %s lacks %q: %q", bound, selector, missing, text)
	}
}
