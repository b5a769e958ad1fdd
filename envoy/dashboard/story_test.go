package dashboard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/envoy/rig"
)

// one is a fair pool of one key, of this limit and these tenants.
func one(limit int, tenants ...tenant) *poolState {
	p := pooling("model", limit, []string{"model"}, holding("gpt-4o", limit, tenants...))
	p.Queue, p.Fair, p.Breaker, p.Holds = 40, true, true, true
	return p
}

// becomes makes a pool all that there is. Its story replaces the one that the page shows.
func (d *double) becomes(p *poolState) {
	d.change(func(s *state) { s.Pools = []*poolState{p} })
}

// sentences are what the page says of a key: the sentence at the top, the badge, the answers, and what these must not say.
var sentences = []struct {
	name             string
	pool             func() *poolState
	sentence, badge  string
	answers, without string
}{
	{"healthy", func() *poolState { return one(8, tenant{Tenant: "acme", Inflight: 1}) },
		"Free: nobody waits for a permit.", "Free", "No 429 and no failure of the provider since Envoy started", "reaker"},
	{"it failed long ago", func() *poolState {
		q := one(8, tenant{Tenant: "acme", Inflight: 8})
		q.Outcomes["provider_failure"] = 3
		return q
	}, "Full: model gpt-4o — acme runs all 8; nobody waits", "Full", "No failure seen yet since this page opened", " ago"},
	{"breaker open, all give up before the next try", func() *poolState {
		q := one(8, tenant{Tenant: "acme", Queued: 2})
		q.Keys[0].Breaker, q.Keys[0].BreakerChangeMs, q.Keys[0].OldestWaitMs, q.Outcomes["provider_failure"] = "open", 9000, 3900, 461
		return q
	}, "Provider: model gpt-4o — breaker open, next try in 9 s; 2 wait, the oldest for 3.9 s; the next try comes after their wait ends.", "Provider: breaker open",
		"Its breaker opened after failures. It failed 461 times since Envoy started", "No 429"},
	{"the oldest gives up before the next try", func() *poolState {
		q := one(8, tenant{Tenant: "acme", Queued: 2})
		q.Keys[0].Breaker, q.Keys[0].BreakerChangeMs, q.Keys[0].OldestWaitMs = "open", 2000, 3900
		return q
	}, "the oldest for 3.9 s; the next try comes after the oldest’s wait ends.", "Provider: breaker open", "Its breaker opened after failures.", "No failure"},
	{"the next try comes soon enough", func() *poolState {
		q := one(8, tenant{Tenant: "acme", Queued: 2})
		q.Keys[0].Breaker, q.Keys[0].BreakerChangeMs, q.Keys[0].OldestWaitMs = "open", 1000, 3900
		return q
	}, "breaker open, next try in 1 s; 2 wait, the oldest for 3.9 s.", "Provider: breaker open", "The provider", "No failure"},
	{"half open", func() *poolState {
		q := one(8)
		q.Keys[0].Breaker = "half_open"
		return q
	}, "Provider: model gpt-4o — breaker half open, a try is under way.", "Provider: breaker half open", "The provider", "No "},
	{"penalty", func() *poolState {
		q := one(8, tenant{Tenant: "acme", Inflight: 2})
		q.Keys[0].Usable, q.Keys[0].PenaltyMs, q.Outcomes["provider_429"] = 5, 2100, 1
		return q
	}, "5 of 8 permits usable, penalty ends in 2.1 s", "Provider: slowed", "It answered 429 once since Envoy started", "No 429"},
	{"all on hold for longer than they wait", func() *poolState {
		q := one(2, tenant{Tenant: "acme", Queued: 1})
		q.Keys[0].OnHold, q.Keys[0].HoldChangeMs, q.Keys[0].OldestWaitMs = 2, 60_000, 100
		return q
	}, "2 permits are on hold, first back in 60 s; 1 waits, for 100 ms; the first permit comes after its wait ends.", "Full", "The limit, and permits on hold", "breaker"},
	{"share of the queue", func() *poolState {
		q := one(2, tenant{Tenant: "acme", Inflight: 2, Queued: 20})
		q.Keys[0].OldestWaitMs = 100
		return q
	}, "acme runs all 2; 20 wait, the oldest for 100 ms; acme has its share of the queue, its next is refused.", "Full", "acme\n 20; queue of 40", "more"},
	{"not yet its share", func() *poolState {
		q := one(2, tenant{Tenant: "acme", Inflight: 2, Queued: 19})
		q.Keys[0].OldestWaitMs = 100
		return q
	}, "acme runs all 2; 19 wait, the oldest for 100 ms.", "Full", "acme\n 19; queue of 40", "more"},
	{"over the limit", func() *poolState {
		return one(4, tenant{Tenant: "acme", Inflight: 6}, tenant{Tenant: "globex", Inflight: 3})
	},
		"acme runs 6 of 9; 5 over the limit of 4; nobody waits", "Full", "acme\n: 6 of the 9 that run (67 %)", "of 4 ("},
	{"limit set by hand, nobody remembers when", func() *poolState {
		q := one(4, tenant{Tenant: "acme", Inflight: 4})
		q.Keys[0].Source, q.Keys[0].Configured = "override", 64
		return q
	}, "acme runs all 4; limit set by hand, the configuration says 64; nobody waits", "Full", "The limit", "breaker"},
}

func TestTheSentenceSaysWhatIsTrue(t *testing.T) {
	t.Parallel()
	before := one(8)
	before.Outcomes["evaluated"] = 2000
	d := listen(t, state{Domain: "default", Mode: "enforce", Workers: 2, Pools: []*poolState{before}})
	p := open(t, d.page(), 1280, 900)
	at := lane("model", "gpt-4o")
	for i, c := range sentences {
		told := c.pool()
		told.Outcomes["evaluated"] = int64(1000 - i) // an Envoy that has started anew: nothing happened since the page opened
		d.becomes(told)
		p.shows("#sentence", c.sentence)
		p.shows("#answers", c.answers)
		require.Equal(t, c.badge, p.text(at+" .state"), c.name)
		require.NotContains(t, p.text("#answers"), c.without, c.name)
		require.NotContains(t, strings.ToLower(p.text("body")), "breaker closed", c.name)
	}
}

// Who waits is told so that the figures add up, most first.
func TestWhoWaitsAddsUp(t *testing.T) {
	t.Parallel()
	q := one(4, tenant{Tenant: "hog", Inflight: 4, Queued: 1}, tenant{Tenant: "a", Queued: 2}, tenant{Tenant: "b", Queued: 6}, tenant{Tenant: "c", Queued: 3}, tenant{Tenant: "d", Queued: 5})
	q.Keys[0].OldestWaitMs = 100
	d := listen(t, state{Mode: "enforce", Pools: []*poolState{q}})
	p := open(t, d.page(), 1280, 900)
	p.shows("#waiting", "b\n 6, \nd\n 5, \nc\n 3, and 2 more with 3; queue of 40")
	p.shows("#waiter", "17 wait")
	require.Equal(t, "6\n5\n3", p.text(lane("model", "gpt-4o")+" .waits .seg span"), "numbers where there is room")
	// The gateway lists 50 tenants at most.
	d.change(func(s *state) { s.Pools[0].Keys[0].Queued, s.Pools[0].Keys[0].TenantsTotal = 30, 77 })
	p.shows("#waiting", "b\n 6, \nd\n 5, \nc\n 3, and others with 16; queue of 40")
	d.change(func(s *state) {
		*s.Pools[0].Keys[0] = *holding("gpt-4o", 4, tenant{Tenant: "hog", Inflight: 4}, tenant{Tenant: "a", Queued: 2})
	})
	p.shows("#waiting", "a\n 2; queue of 40")
	require.NotContains(t, p.text("#waiting"), "hog")
	require.Equal(t, "in model gpt-4o", p.text("#share"))
}

// Counts are named by the time that they are of, and stand there once there is some.
func TestCountsAreNamedByTheTimeTheyCover(t *testing.T) {
	t.Parallel()
	q := one(4)
	q.Outcomes["rejected_queue_full"] = 70
	d := listen(t, state{Mode: "enforce", Pools: []*poolState{q}})
	p := open(t, d.page(), 1280, 900)
	head, row := `[data-pool="model"] thead th`, `[data-outcome=rejected_queue_full] td`
	p.shows(head, "last 2 s")
	require.NotContains(t, p.text(head), "since")
	d.change(func(s *state) { s.Pools[0].Outcomes["rejected_queue_full"] = 75 })
	p.shows(row, "5\n75")
	require.Regexp(t, `^Free: nothing runs; nobody waits; 5 refused in the last \d+ s$`, p.text(`[data-pool="model"] > .why`))

	const later = `(old => { performance.now = () => old.call(performance) + %d; return true; })(performance.now)`
	js[bool](p, fmt.Sprintf(later, 58_500))
	p.shows(head, "last minute")
	require.Regexp(t, `last minute\nsince \d\d:\d\d:\d\d\nin all`, p.text(head))
	p.shows(row, "\n5\n75")
	d.change(func(s *state) { s.Pools[0].Outcomes["rejected_queue_full"] = 76 })
	p.shows(row, "\n6\n76")
	// A page that was hidden has no figures of a minute ago.
	js[bool](p, fmt.Sprintf(later, 600_000))
	p.shows(head, "last 10 min")
}

// That nobody waited is said where it is true.
func TestNobodyWaitedIsSaidWhereItIsTrue(t *testing.T) {
	t.Parallel()
	q := one(4, tenant{Tenant: "acme", Inflight: 4})
	q.Outcomes["admitted_after_wait"] = 5000
	d := listen(t, state{Mode: "enforce", Pools: []*poolState{q}})
	p := open(t, d.page(), 1280, 900)
	chart := `[data-pool="model"] [data-f=nowaits]`
	p.shows(chart, "None in the last ten minutes.")
	p.shows("#noslowest", "None in the last ten minutes.")
	d.change(func(s *state) {
		*s.Pools[0].Keys[0] = *holding("gpt-4o", 4, tenant{Tenant: "acme", Inflight: 4, Queued: 2})
		s.Pools[0].Keys[0].OldestWaitMs = 90
	})
	p.shows(chart, "2 wait now; nobody was admitted after a wait in the last ten minutes.")
	p.shows("#noslowest", "2 wait now; nobody was admitted after a wait in the last ten minutes.")
	d.change(func(s *state) { s.Pools[0].Waits.Slots = []slot{{AgeMs: 20_000, N: 3, P50: 5, P90: 7, P99: 9}} })
	p.shows("#noslowest", "None remembered.")
	d.change(func(s *state) {
		s.Pools[0].Queue, s.Pools[0].Waits.Slots = 0, []slot{}
		*s.Pools[0].Keys[0] = *holding("gpt-4o", 4)
	})
	p.shows(chart, "None: this pool has no queue.")
}

// A limit of 0 is a story while requests are refused for it, whatever else is full.
func TestAShutKeyIsSeen(t *testing.T) {
	t.Parallel()
	shut := holding("gpt-4o", 0)
	shut.Source, shut.Configured = "override", 8
	q := pooling("model", 8, []string{"model"}, holding("mini", 8, tenant{Tenant: "acme", Inflight: 2}), shut)
	d := listen(t, state{Mode: "enforce", Pools: []*poolState{q}})
	p := open(t, d.page(), 1280, 900)
	at := lane("model", "gpt-4o")
	p.shows(at, "Shut (limit 0)")
	p.shows(`[data-pool="model"] > .why`, "gpt-4o — every request is refused; limit set by hand, the configuration says 8")
	require.Contains(t, p.text("#sentence"), "Free: nobody waits for a permit.", "nobody asks for it")

	d.change(func(s *state) { s.Pools[0].Outcomes["rejected_closed"] = 3 })
	p.shows("#sentence", "Shut (limit 0): model gpt-4o — every request is refused")
	p.shows("#answers", "The limit: it is 0")
	require.Equal(t, "gpt-4o", strings.Split(p.text("[data-key] h3"), "\n")[0], "it is the first")
	d.change(func(s *state) {
		s.Pools[0].Keys[0] = holding("mini", 8, tenant{Tenant: "acme", Inflight: 8, Queued: 3})
		s.Pools[0].Keys[0].OldestWaitMs = 40
	})
	p.shows("#sentence", "Full: model mini — acme runs all 8; 3 wait, the oldest for 40 ms; model gpt-4o is shut (limit 0).")
	p.shows(`[data-pool="model"] > .why`, "3 refused in the last ", "; gpt-4o is shut (limit 0)")

	// A page that has just opened knows it from the events.
	d.becomes(pooling("model", 8, []string{"model"}, shut))
	d.tell(event{Kind: "refused", Pool: "model", Key: "gpt-4o", Tenant: "acme", Reason: "ADMISSION_REJECTED", Status: 429})
	second := open(t, d.page(), 1280, 900)
	second.shows("#sentence", "Shut (limit 0): model gpt-4o")
	second.shows("#refusals", "Refused the limit is 0 (429)")
}

// What runs over the limit stands beyond its mark.
func TestTheBarShowsWhatIsOverTheLimit(t *testing.T) {
	t.Parallel()
	d := listen(t, state{Mode: "enforce", Pools: []*poolState{one(4, tenant{Tenant: "acme", Inflight: 4})}})
	p := open(t, d.page(), 1280, 900)
	at := lane("model", "gpt-4o")
	bar := func() string {
		return js[string](p, fmt.Sprintf(`(all => all('.permits:not(.beyond) .seg').length + ' | ' + all('.beyond .seg').map(e => e.checkVisibility() ? Math.round(parseFloat(e.style.width)) : 0).join(' '))
			(of => [...document.querySelectorAll('%s ' + of)])`, at))
	}
	p.shows(at, "acme 4")
	require.Equal(t, "1 | ", bar())
	d.becomes(one(4, tenant{Tenant: "acme", Inflight: 6}, tenant{Tenant: "globex", Inflight: 2}))
	p.shows(at, "4 over the limit, none is admitted until they end")
	require.Equal(t, "1 | 50 50", bar(), "two of acme's and two of globex'")
	require.Equal(t, `"+4"`, js[string](p, fmt.Sprintf(`(s => s === 'attr(data-over)' ? JSON.stringify(document.querySelector('%[1]s .beyond').dataset.over) : s)(getComputedStyle(document.querySelector('%[1]s .beyond'), '::after').content)`, at)))
	beyond := js[bool](p, fmt.Sprintf(`(box => box('.beyond').left >= box('.gate').right - 1 && box('.beyond').width > 40)(of => document.querySelector('%s ' + of).getBoundingClientRect())`, at))
	require.True(t, beyond)
	d.becomes(one(4, tenant{Tenant: "acme", Inflight: 1}))
	rig.Await(t, "the bar is as before", func() bool { return bar() == "1 | " })
}

// A limit that somebody has changed lately is a part of the story.
func TestAChangedLimitIsTold(t *testing.T) {
	t.Parallel()
	q := one(4, tenant{Tenant: "acme", Inflight: 4})
	q.Keys[0].Source, q.Keys[0].Configured = "override", 64
	d := listen(t, state{Mode: "enforce", Pools: []*poolState{q}})
	d.events = []event{{ID: 1, AtMs: time.Now().UnixMilli() - 190_000, Kind: "limit_changed", Pool: "model", Key: "gpt-4o", Before: 64, Limit: 4, Source: "override"}}
	p := open(t, d.page(), 1280, 900)
	p.shows("#sentence", "acme runs all 4; limit lowered from 64 to 4 by hand, 3 min ago; nobody waits.")
	d.change(func(s *state) { *s.Pools[0].Keys[0] = *holding("gpt-4o", 64, tenant{Tenant: "acme", Inflight: 4}) })
	d.tell(event{Kind: "limit_changed", Pool: "model", Key: "gpt-4o", Before: 4, Limit: 64, Source: "config"})
	p.shows(lane("model", "gpt-4o")+" .why", "4 of 64 run; limit raised from 4 to 64 as configured, ")
}

// The words that need it are explained at the bottom.
func TestWordsAreExplained(t *testing.T) {
	t.Parallel()
	p := open(t, listen(t, state{Mode: "enforce", Pools: []*poolState{one(4)}}).page(), 1280, 900)
	require.Equal(t, "Words", p.text("#words"))
	js[bool](p, `document.querySelector('#words summary').click(), true`)
	for _, word := range []string{"permit", "key", "limit", "running", "waiting", "on hold", "headroom", "penalty", "breaker", "weight", "fair", "override", "domain"} {
		require.Contains(t, "\n"+p.text("#words dt")+"\n", "\n"+word+"\n")
	}
	for _, width := range []int64{360, 1280} {
		p.do(chromedp.EmulateViewport(width, 800))
		p.fits(width)
		p.shoot("light", fmt.Sprintf("words-%d-light.png", width))
	}
}
