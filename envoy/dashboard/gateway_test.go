package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/envoy/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

// A governed is a gateway with an admin listener.
type governed struct {
	*rig.Env
	url string // of the page
}

// govern starts a gateway with these pools, and the admin listener beside it.
func govern(t *testing.T, domain, pools string) *governed {
	t.Helper()
	return governWith(t, domain, fmt.Sprintf(`{"stage": %%q, "domain": %q, "identity": {"tenant": [{"header": "x-tenant", "trusted": true}], "model": [{"header": "x-model"}]},
		"deadline": {"headers": ["x-request-timeout-ms"]}, "pools": %s}`, domain, pools))
}

// governWith is govern with a whole configuration, in which %q is the stage.
func governWith(t *testing.T, domain, configuration string) *governed {
	t.Helper()
	e := rig.Shared(t, 2)
	env := rig.New(t, e, rig.Setup{Raw: fmt.Sprintf(configuration, "request")})
	module, err := rig.WasmPath()
	require.NoError(t, err)
	port, err := rig.FreePort()
	require.NoError(t, err)
	name := domain + "-admin"
	require.NoError(t, e.SetListener(rig.HTTPListener(name, port, []rig.Object{rig.WasmFilter(name, "headgate", module, fmt.Sprintf(configuration, "admin"))}, nil, nil)))
	t.Cleanup(func() { require.NoError(t, e.Remove(name)) })
	return &governed{Env: env, url: fmt.Sprintf("http://127.0.0.1:%d/headgate/", port)}
}

// state asks the API.
func (g *governed) state(t *testing.T) (s state) {
	t.Helper()
	answer, err := http.Get(g.url + "v1/state")
	require.NoError(t, err)
	defer answer.Body.Close()
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&s))
	return s
}

// On the gateway under load: the page shows what the state says, and a limit that it raises wakes those that wait.
func TestPageOnTheGatewayUnderLoad(t *testing.T) {
	g := govern(t, "dashboard", `[{"name": "dash_all", "limit": 137}, {"name": "dash_model", "key": ["model"], "limit": 17, "queue": 40, "max_wait": "90s", "fair_by": "tenant"},
		{"name": "dash_tenant", "key": ["tenant"], "limit": 99}]`)
	p := open(t, g.url, 1280, 900)
	p.shows("#link", "Live")
	for i := range 17 {
		g.Hold(t, fmt.Sprintf("run%d", i), rig.Call{Model: "m1", Tenant: []string{"acme", "globex"}[i/11]})
	}
	var waiting []*rig.Pending
	for i := range 13 {
		waiting = append(waiting, g.Send(t, rig.Call{Model: "m1", Tenant: "globex", Script: rig.Script{ID: fmt.Sprintf("wait%d", i), HeaderGate: "waits"}}))
	}
	late := g.Send(t, rig.Call{Model: "m1", Tenant: "initech", Deadline: 300 * time.Millisecond})
	require.Equal(t, 429, late.Wait().Status)

	m1 := lane("dash_model", "m1")
	p.shows("#sentence", "Full: dash_model m1 — acme runs 11 of 17; 13 wait, the oldest for")
	p.shows(m1, "acme", "11 run", "globex", "6 run, 13 wait", "13 wait")
	p.shows(lane("dash_all", "dash_all"), "of 137 running")
	p.shows("#refusals", "Expired", "no permit within the time it could wait (429)", "initech")
	k := g.state(t).Pools[1].Keys[0]
	require.Equal(t, "m1", k.Key)
	require.Equal(t, fmt.Sprint(k.Inflight, k.OnHold, k.Queued), strings.Join(strings.Fields(p.figures(m1))[:3], " "))

	p.shoot("light", "gateway-1280-light.png")

	p.edit(m1, "abc"+kb.Enter)
	p.shows(m1, "The limit must be a whole number")
	p.edit(m1, "23"+kb.Enter)
	rig.Eventually(t, 5*time.Second, "six that waited run", func() bool { return g.Up.Running() == 23 })
	p.within(5*time.Second, m1, "7 wait", "of 23 running", "set live; the configuration says 17")
	p.shows("#refusals", "Limit changed", "from 17 to 23, by hand")
	for i := range 17 {
		g.Up.Open(fmt.Sprintf("run%d", i))
	}
	p.within(5*time.Second, m1, "13 run")
	g.Up.Open("waits")
	for _, w := range waiting {
		require.Equal(t, 200, w.Wait().Status)
	}
	p.shows("#sentence", "Free: nobody waits")
	p.shows("#slowest", "globex waited; acme had 11 of 17", "pool dash_model m1", "POST ")
	p.shoot("dark", "gateway-after-1280-dark.png")
}

// When the provider fails, the page says that it is the provider.
func TestPageTellsAFailingProviderOnTheGateway(t *testing.T) {
	g := govern(t, "dashboard3", `[{"name": "dash_broken", "key": ["model"], "limit": 8, "queue": 4, "max_wait": "5s", "fair_by": "tenant",
		"breaker": {"failures": 3, "window": "30s", "open": "60s"}}]`)
	p := open(t, g.url, 1280, 900)
	p.shows("#link", "Live")
	for range 3 {
		require.Equal(t, 503, g.Send(t, rig.Call{Model: "m2", Tenant: "acme", Script: rig.Script{Status: 503}}).Wait().Status)
	}
	refused := g.Send(t, rig.Call{Model: "m2", Tenant: "acme"}).Wait()
	require.Equal(t, 503, refused.Status)
	p.shows("#sentence", "Provider: dash_broken m2 — breaker open, next try in ")
	p.shows("#answers", "The provider", "Its breaker opened after failures. It failed 3 times in the last ")
	p.shows("#refusals", "Breaker opened", "Refused", "the breaker is open after failures of the provider (503)")
	p.shows(lane("dash_broken", "m2"), "Provider: breaker open", "breaker open, next try in")
}

// More keys than one answer has: the page reads on where the answer says.
func TestManyKeysOnTheGateway(t *testing.T) {
	g := govern(t, "dashboard4", `[{"name": "dash_one", "limit": 9}, {"name": "dash_many", "key": ["tenant"], "limit": 5}]`)
	const keys = 450
	for i := range keys {
		require.Equal(t, 200, g.Send(t, rig.Call{Tenant: fmt.Sprintf("t-%03d", i)}).Wait().Status)
	}
	g.Hold(t, "busy", rig.Call{Tenant: "t-444"})
	p := open(t, g.url, 1280, 900)
	p.shows("#pools", "The 8 busiest of 450 keys. Search finds the others.")
	p.shows(lane("dash_many", "t-444"), "of 5 running")
	p.do(chromedp.Focus(chromedp.CSS("#search")), chromedp.KeyEvent("t-4"))
	p.shows("#pools", "50 of 450 keys match")
	g.Up.Open("busy")
	rig.Await(t, "it runs no more", func() bool { return p.figures(lane("dash_many", "t-444")) == "0 0 0 –" })
}

// Names as clients send them, over the wire and the state onto the page.
func TestHostileNamesOnTheGateway(t *testing.T) {
	g := govern(t, "dashboard2", `[{"name": "dash_odd", "key": ["model"], "limit": 1, "queue": 1, "max_wait": "1s", "fair_by": "tenant"}]`)
	names := []string{hostile[0], hostile[1], hostile[2], strings.Repeat("a", 200), hostile[4], hostile[6], hostile[7]}
	for i, name := range names {
		g.Hold(t, fmt.Sprintf("h%d", i), rig.Call{Model: name, Tenant: name})
		require.Equal(t, 429, g.Send(t, rig.Call{Model: name, Tenant: name, Deadline: time.Millisecond}).Wait().Status)
	}
	p := open(t, g.url, 360, 800)
	names[3] = names[3][:100] // the filter cuts it
	p.shows("#pools", names...)
	p.shows("#refusals", names...)
	require.NotContains(t, js[string](p, `document.title`), "pwn")
	require.Empty(t, js[[]string](p, `[...document.querySelectorAll('*')].filter(e => [...e.attributes].some(a => /^on/i.test(a.name)) || e.getAttribute('src') === 'x').map(e => e.outerHTML)`))
	p.fits(360)
	for i := range names {
		g.Up.Open(fmt.Sprintf("h%d", i))
	}
}
