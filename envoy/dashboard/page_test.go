package dashboard

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/envoy/rig"
)

// lane is the selector of a key's lane.
func lane(pool, key string) string {
	return fmt.Sprintf(`[data-pool="%s"] [data-key="%s"]`, pool, key)
}

// figures are a lane's numbers: running, on hold, waiting, and the oldest wait.
func (p *tab) figures(lane string) string {
	p.t.Helper()
	return strings.ReplaceAll(p.text(lane+" .figures dd"), "\n", " ")
}

// refreshes waits until the page has asked for the state so many times more.
func (d *double) refreshes(t *testing.T, times int) {
	t.Helper()
	rig.Await(t, "the page asks for the state", func() bool {
		times -= d.statesAsked()
		return times <= 0
	})
}

func (d *double) statesAsked() int {
	n := 0
	for _, asked := range d.requests() {
		if strings.HasPrefix(asked, "/headgate/v1/state") {
			n++
		}
	}
	return n
}

func TestFiguresAreThoseOfTheState(t *testing.T) {
	t.Parallel()
	s, events := flooded()
	d := listen(t, s)
	d.events = events
	p := open(t, d.page(), 1280, 900)
	gpt := lane("model", "gpt-4o")
	p.shows(gpt, "acme", "11 run, 5 wait", "weight 3", "globex", "4 run, 4 wait", "umbrella", "2 wait")
	require.Equal(t, "17 0 13 4.2 s", p.figures(gpt))
	require.Equal(t, "32 0 0 –", p.figures(lane("gateway", "gateway")))
	require.Equal(t, "32\n0\n13\n4.2 s\n3", p.text(`[data-pool="model"] .sums dd`))
	require.Equal(t, []string{"acme 64.7 hsl", "globex 23.5 hsl", "initech 11.8 hsl"}, js[[]string](p, fmt.Sprintf(
		`[...document.querySelectorAll('%s .permits .seg:not(.hold)')].map((e, i) => ['acme', 'globex', 'initech'][i] + ' ' + parseFloat(e.style.width).toFixed(1) + ' hsl')`, gpt)))
	require.Contains(t, p.text(`[data-pool="model"] [data-outcome=rejected_queue_full]`), "62")
	require.Equal(t, "1.5 s\n5.5 s\n9.1 s", p.text(`[data-pool="model"] .key dd`))
	p.shows("#refusals", "no permit and no place in its share of the queue (429)", "8 times", "no permit within the time it could wait (429)", "after waiting 3.1 s", "from 17 to 40, by hand")
	p.shows("#slowest", "9.1 s", "5 s")
	d.tell(event{Kind: "waited", Pool: "model", Key: "gpt-4o", Tenant: "globex", WaitMs: 7700})
	p.shows("#slowest", "7.7 s\n\nglobex waited; acme had 11 of 17, admitted at ")

	// One refresh after a change has it all: the page asks once a second, and has asked twice at most when it shows it.
	d.requests()
	d.change(func(s *state) {
		k := s.Pools[0].Keys[0]
		k.Tenants[0].Inflight, k.Inflight, k.OnHold, k.OldestWaitMs = 9, 15, 2, 5900
		s.Pools[0].Outcomes["rejected_queue_full"] += 5
	})
	p.shows(gpt, "9 run, 5 wait")
	require.LessOrEqual(t, d.statesAsked(), 2)
	require.Equal(t, "15 2 13 5.9 s", p.figures(gpt))
	refused := `[data-pool="model"] [data-outcome=rejected_queue_full]`
	p.shows(refused, "\t67")
	require.Equal(t, "5\t67", strings.TrimPrefix(p.text(refused), "Refused: no place in the queue, or in the tenant’s share of it\t"))
	require.Contains(t, p.text("#sentence"), "acme runs 9 of 17; 2 permits are on hold; 13 wait, the oldest for 5.9 s")
}

func (p *tab) edit(lane, text string) {
	p.t.Helper()
	input := lane + " .limit input"
	p.do(chromedp.Focus(chromedp.CSS(input)), chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelector(%q).select()`, input)), chromedp.KeyEvent(text))
}

func TestLimitIsRaisedInPlace(t *testing.T) {
	t.Parallel()
	s, _ := flooded()
	d := listen(t, s)
	p := open(t, d.page(), 1280, 900)
	gpt := lane("model", "gpt-4o")
	p.shows(gpt, "11 run")
	require.Equal(t, "17", p.value(gpt))
	p.edit(gpt, "23"+kb.Enter)
	p.shows(gpt, "Set to 23.", "set live; the configuration says 17", "7 wait", "of 23 running")
	require.Equal(t, "23 0 7 4.2 s", p.figures(gpt))
	require.Equal(t, []string{"application/json model"}, d.puts)

	p.do(chromedp.Click(chromedp.CSS(gpt + ` [data-f=reset]`)))
	p.shows(gpt, "the pool’s default", "of 17 running")
	require.Equal(t, "17", p.value(gpt))

	// The pool's default, by the button.
	p.edit(`[data-pool="model"] .sums`, "30")
	p.do(chromedp.Click(chromedp.CSS(`[data-pool="model"] .sums [data-f=set]`)))
	p.shows(`[data-pool="model"] .sums`, "Set to 30.", "set live; the configuration says 17")
	p.shows(lane("model", "claude-sonnet-4"), "of 30 running")

	// A pool without dimensions is one lane, whose limit is the pool's.
	p.edit(lane("gateway", "gateway"), "200"+kb.Enter)
	p.shows(lane("gateway", "gateway"), "of 200 running", "the configuration says 137")
	require.Len(t, d.puts, 4)
}

func (p *tab) value(lane string) string {
	p.t.Helper()
	return js[string](p, fmt.Sprintf(`document.querySelector('%s .limit input').value`, lane))
}

func TestBadLimitIsRefusedInPlace(t *testing.T) {
	t.Parallel()
	s, _ := flooded()
	d := listen(t, s)
	p := open(t, d.page(), 1280, 900)
	gpt := lane("model", "gpt-4o")
	p.shows(gpt, "11 run")
	for _, bad := range []string{"-1", "1.5", "abc", "1000001", " "} {
		p.edit(gpt, bad+kb.Enter)
		p.shows(gpt+" .limit", "The limit must be a whole number from 0 to 1,000,000.")
		require.Equal(t, "true", js[string](p, fmt.Sprintf(`document.querySelector('%s input').getAttribute('aria-invalid')`, gpt)))
	}
	p.do(chromedp.KeyEvent(kb.Escape))
	require.Equal(t, "17", p.value(gpt))
	require.NotContains(t, p.text(gpt+" .limit"), "must be")
	require.Empty(t, d.puts)

	// What the server says stands there too; its refusal is a line in the browser's console.
	d.mu.Lock()
	p.expects("status of 400")
	d.fault = "the fleet says <b>no</b>"
	d.mu.Unlock()
	p.edit(gpt, "18"+kb.Enter)
	p.shows(gpt+" .limit", "Refused: the fleet says <b>no</b>")
	require.Equal(t, "17 0 13 4.2 s", p.figures(gpt))
}

// A refresh takes neither the focus nor what somebody types, moves no lane under it, and makes no element anew.
func TestRefreshLeavesTheUserAlone(t *testing.T) {
	t.Parallel()
	s, _ := flooded()
	d := listen(t, s)
	p := open(t, d.page(), 1280, 900)
	claude := lane("model", "claude-sonnet-4")
	p.shows(claude, "3 run")
	js[bool](p, `for (const e of document.querySelectorAll('body *')) e.old = true; true`)
	p.edit(claude, "1")
	before := p.text("[data-key] h3")
	d.change(func(s *state) {
		s.Pools[0].Keys[0] = holding("gpt-4o", 17, tenant{Tenant: "acme", Inflight: 1})
		k := s.Pools[0].Keys[1]
		k.Limit, k.Usable, k.Tenants[0].Inflight, k.Inflight = 9, 9, 4, 5
	})
	p.shows(claude, "4 run", "of 9 running")
	d.refreshes(t, 6)
	require.Equal(t, "1", p.value(claude))
	require.True(t, js[bool](p, fmt.Sprintf(`document.activeElement === document.querySelector('%s input')`, claude)))
	require.Equal(t, before, p.text("[data-key] h3"))
	require.Empty(t, js[[]string](p, `[...document.querySelectorAll('[data-key] h3, [data-key] .track, [data-key] input, .chart, .panel')].filter(e => !e.old).map(e => e.outerHTML)`))
	p.do(chromedp.KeyEvent(kb.Escape))
	require.Equal(t, "9", p.value(claude))
}

var hostile = []string{
	"<img src=x onerror=document.title='pwn'>", `"><svg onload=document.title='pwn'>`, "</script><script>document.title='pwn'</script>", strings.Repeat("long", 50),
	"{{constructor.constructor('document.title=1')()}}", "javascript:document.title='pwn'", "\u202etxet \U0001f469\u200d\U0001f680", "مرحبا بالعالم", "__proto__", "constructor", "", " ",
}

func TestHostileNamesAreText(t *testing.T) {
	t.Parallel()
	pool := pooling("model", 9, []string{"model"})
	var events []event
	for i, name := range hostile {
		pool.Keys = append(pool.Keys, holding(name, 9, tenant{Tenant: name, Inflight: 3, Queued: 1}, tenant{Tenant: name + "2", Inflight: 2}))
		for _, kind := range []string{"refused", "expired", "waited", "cancelled", "ended", "limit_changed"} {
			whole := false
			events = append(events, event{ID: int64(len(events) + 1), AtMs: 1, Kind: kind, Pool: "model", Key: name, Tenant: name, Model: name, Method: name, Path: name,
				Reason: name, WaitMs: 10 + i, Whole: &whole, Source: name})
		}
	}
	pool.sum()
	d := listen(t, state{Domain: hostile[0], Mode: hostile[1], Workers: 2, Pools: []*poolState{pool}})
	d.events = events
	for _, width := range []int64{360, 1280} {
		p := open(t, d.page(), width, 900)
		p.shows("#pools", hostile[:9]...)
		p.shows("#refusals", "Limit changed")
		p.do(chromedp.Click(chromedp.CSS("#morerefusals")))
		p.shows("#refusals", hostile[:9]...)
		d.refreshes(t, 2)
		require.Equal(t, hostile, js[[]string](p, `[...document.querySelectorAll('[data-key]')].map(e => e.dataset.key).sort((a, b) => `+jsList(hostile)+`.indexOf(a) - `+jsList(hostile)+`.indexOf(b))`))
		require.NotContains(t, js[string](p, `document.title`), "pwn")
		require.Empty(t, js[[]string](p, `[...document.querySelectorAll('*')].filter(e => [...e.attributes].some(a => /^on/i.test(a.name)) || e.getAttribute('src') === 'x').map(e => e.outerHTML)`))
		require.Equal(t, []string{"isolate"}, js[[]string](p, `[...new Set([...document.querySelectorAll('main .name')].map(e => getComputedStyle(e).unicodeBidi))]`))
		p.fits(width)
	}
}

func jsList(texts []string) string {
	var b strings.Builder
	for _, text := range texts {
		fmt.Fprintf(&b, "decodeURIComponent(%q),", percent(text))
	}
	return "[" + b.String() + "]"
}

func percent(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		fmt.Fprintf(&b, "%%%02x", c)
	}
	return b.String()
}

func TestGatewayGoesAwayAndComesBack(t *testing.T) {
	t.Parallel()
	s, _ := flooded()
	d := listen(t, s)
	p := open(t, d.page(), 1280, 900)
	p.shows("#link", "Live")
	require.Empty(t, p.text("#away"))
	p.expects("ERR_EMPTY_RESPONSE")
	d.goAway(true)
	p.shows("#away", "The gateway has not answered for 1", "The figures below are those of ", "The page asks again each second.")
	p.shows("#away", "not answered for 2 s")
	p.shows("#link", "Away")
	p.shows("#said", "The gateway does not answer.")
	require.Equal(t, "17 0 13 4.2 s", p.figures(lane("model", "gpt-4o")), "the last figures stay")
	d.change(func(s *state) { s.Pools[0].Keys[0].OldestWaitMs = 7000 })
	d.goAway(false)
	p.shows("#link", "Live")
	p.shows(lane("model", "gpt-4o"), "7 s")
	require.Empty(t, p.text("#away"))

	// An Envoy that has started anew counts from zero, and has events of its own.
	d.tell(event{Kind: "cancelled", Pool: "model", Tenant: "hooli"})
	d.tell(event{Kind: "cancelled", Pool: "model", Tenant: "umbrella"})
	p.shows("#refusals", "hooli", "umbrella")
	d.mu.Lock()
	d.events = nil
	d.mu.Unlock()
	d.tell(event{Kind: "reaped", Pool: "model", Tenant: "initech"})
	d.change(func(s *state) { s.Pools[0].Outcomes = map[string]int64{"evaluated": 3, "admitted": 3} })
	p.shows("#refusals", "Given back its worker died", "initech")
	require.NotContains(t, p.text("#refusals"), "hooli")
	p.shows(`[data-pool="model"] [data-outcome=admitted]`, "Admitted\t0\t3")
}

func TestShadowSaysThatNobodyIsHeldBack(t *testing.T) {
	t.Parallel()
	s, _ := flooded()
	s.Mode = "shadow"
	s.Pools[0].Outcomes["shadow_would_reject"] = 7
	p := open(t, listen(t, s).page(), 1280, 900)
	p.shows("#sentence", "its next is refused. Shadow mode: in truth nobody waits, and every request passes.")
	p.shows("#about", "shadow: counts, lets all pass")
	p.shows(`[data-outcome=shadow_would_reject]`, "Shadow: would refuse", "7")
}

func TestHiddenPageAsksNothing(t *testing.T) {
	t.Parallel()
	s, _ := flooded()
	d := listen(t, s)
	p := open(t, d.page(), 1280, 900)
	p.shows("#link", "Live")
	hide := func(hidden bool) {
		js[bool](p, fmt.Sprintf(`Object.defineProperty(document, 'hidden', {value: %v, configurable: true}), document.dispatchEvent(new Event('visibilitychange'))`, hidden))
	}
	// Once between two requests, and once while one is under way: no other follows than that for the events.
	hide(true)
	rig.Await(t, "two seconds without a request", func() bool {
		d.requests()
		js[bool](p, `new Promise(done => setTimeout(() => done(true), 2000))`)
		return len(d.requests()) == 0
	})
	goOn := d.stall()
	d.requests()
	hide(false)
	d.refreshes(t, 1)
	hide(true)
	goOn()
	js[bool](p, `new Promise(done => setTimeout(() => done(true), 2000))`)
	require.Equal(t, 0, d.statesAsked())
	hide(false)
	d.refreshes(t, 2)
}

func TestTwoThousandKeys(t *testing.T) {
	t.Parallel()
	d := listen(t, crowded(2000, 80))
	p := open(t, d.page(), 1280, 900)
	p.shows(`[data-pool="tenant"]`, "The 50 busiest of 2,000 keys. Search finds the others.")
	require.Equal(t, 50, js[int](p, `document.querySelectorAll('[data-key]').length`))
	p.shows(`[data-pool="tenant"] .sums`, "2,000")

	// Each second it reads a part; in five seconds all.
	d.requests()
	for _, after := range []string{"&after=400", "&after=800", "&after=1200", "&after=1600", "", "&after=400", "&after=800"} {
		rig.Await(t, "it reads on after "+after, func() bool {
			asked := d.requests()
			require.NotContains(t, strings.Join(asked, " "), "limit=1000")
			return slices.Contains(asked, "/headgate/v1/state?limit=400"+after)
		})
	}

	// The busiest keys are as fresh as ever (this one's part was read two seconds ago), and what was idle rises into the list within a sweep.
	busiest := js[string](p, `document.querySelector('[data-key]').dataset.key`)
	require.Less(t, busiest, "tenant-0400")
	d.change(func(s *state) {
		for _, k := range s.Pools[0].Keys {
			if k.Key == busiest {
				k.Tenants[0].Inflight, k.Inflight = 19, 19
			}
			if k.Key == "tenant-0002" {
				*k = *holding(k.Key, 20, tenant{Tenant: k.Key, Inflight: 20, Queued: 30})
			}
		}
	})
	d.requests()
	p.shows(lane("tenant", busiest), "of 20 running\n19")
	require.LessOrEqual(t, strings.Count(strings.Join(d.requests(), "\n"), "limit=400"), 2)
	p.shows(lane("tenant", "tenant-0002"), "30 wait")
	p.shows("#sentence", "Full: tenant tenant-0002")

	// Search finds a key that nobody uses, while the page goes on.
	p.do(chromedp.Focus(chromedp.CSS("#search")), chromedp.KeyEvent("TENANT-1999"))
	p.shows("#pools", "1 of 2,000 keys match")
	require.Equal(t, []string{"tenant-1999"}, js[[]string](p, `[...document.querySelectorAll('[data-key]')].map(e => e.dataset.key)`))
	d.refreshes(t, 2)
	require.Equal(t, "TENANT-1999", js[string](p, `document.activeElement.value`))
	p.do(chromedp.KeyEvent("9"))
	p.shows("#pools")
	require.Empty(t, p.text("#pools"))
}

func TestSearchFindsTenants(t *testing.T) {
	t.Parallel()
	s, events := flooded()
	d := listen(t, s)
	d.events = events
	p := open(t, d.page(), 1280, 900)
	p.shows(lane("model", "gpt-4o"), "umbrella")
	p.do(chromedp.Focus(chromedp.CSS("#search")), chromedp.KeyEvent("umbr"))
	rig.Await(t, "the others go", func() bool { return p.text("[data-key] h3") == "gpt-4o" })
	require.NotContains(t, p.text("#refusals"), "initech")
	require.Contains(t, p.text("#slowest"), "umbrella")
}

// A screen reader hears changes of the story and nothing else, and a keyboard reaches everything and sees where it is.
func TestPageIsQuietAndReachable(t *testing.T) {
	t.Parallel()
	s, _ := flooded()
	d := listen(t, s)
	p := open(t, d.page(), 1280, 900)
	p.shows("#sentence", "Full: model gpt-4o")
	js[bool](p, `window.heard = [], new MutationObserver(() => heard.push(said.textContent)).observe(said, {childList: true, characterData: true, subtree: true}), true`)
	for wait := range 3 {
		d.change(func(s *state) { s.Pools[0].Keys[0].OldestWaitMs = 5000 + wait })
		d.refreshes(t, 1)
	}
	require.Empty(t, js[[]string](p, `heard`))
	calm, _ := free()
	d.change(func(s *state) { s.Pools = calm.Pools })
	p.shows("#sentence", "Free")
	rig.Await(t, "it is said", func() bool { return js[string](p, `said.textContent`) == "Free: nobody waits for a permit." })
	require.Len(t, js[[]string](p, `heard`), 1)

	names := js[int](p, `[...document.querySelectorAll('input, button')].filter(e => e.checkVisibility({visibilityProperty: true})).length`)
	for i := range names {
		p.do(chromedp.KeyEvent(kb.Tab))
		focused := js[string](p, `(e => e.tagName + ' ' + getComputedStyle(e).outlineStyle)(document.activeElement)`)
		require.Contains(t, []string{"INPUT solid", "BUTTON solid"}, focused, "after %d tabs", i+1)
	}
	p.prefers("prefers-reduced-motion", "reduce")
	require.Equal(t, "none", js[string](p, `getComputedStyle(document.querySelector('.seg')).transitionProperty`))
}
