package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/cmd/headgate/internal/adminapi"
	"github.com/headgate/headgate/envoy/rig"
)

func TestTopShowsWhoHoldsThePermitsOnASmallScreen(t *testing.T) {
	a := startAdmin(t, flood())
	s := startScreen(t, 80, 24, nil, "--admin", a.address)
	s.shows(`model +m1 +17 +17 +0 +13 +740ms acme 11 +zeta 6`,
		`full: acme runs 11 of 17; 13 wait, all zeta's`,
		`provider: breaker open, next try in 12 s`,
		`model +m2 +9\* +5 +2 +0 +– beta 3 +acme 2 +2 hold ▒`,
		`gateway +– +137 +22 `,
		`waits in model, all keys, last 10 minutes`, `p50 +980ms +·+▁+.*█?`, `p99 +2\.9s .*█`,
		`40,007 admitted, 3,150 of them after a wait, 12 refused`,
		`(?m)^headgate|127\.0\.0\.1`, `enter look in .* q quit`)
	s.keys("q")
	s.requireEnded()
}

func TestTopFollowsChanges(t *testing.T) {
	a := startAdmin(t, flood())
	s := startScreen(t, 80, 24, nil, "--admin", a.address)
	s.shows(`m1 +17 +17 +0 +13`)
	a.change(func(state *adminapi.State) {
		key := &state.Pools[1].Keys[0]
		key.Limit, key.Usable, key.Source, key.Inflight, key.Queued = 23, 23, adminapi.SourceOverride, 23, 7
	})
	s.shows(`m1 +23\* +23 +0 +7`)
}

var colourSequence = regexp.MustCompile(`\x1b\[(?:[0-9;:]*[;:])?(?:3[0-7]|4[0-7]|9[0-7]|10[0-7]|[34]8[;:][25])[0-9;:]*m`)

func TestTopWithoutColours(t *testing.T) {
	a := startAdmin(t, flood())
	s := startScreen(t, 80, 24, []string{"NO_COLOR=please"}, "--admin", a.address)
	s.shows(`> model +m3`, `acme 11 +│zeta 6 +│`, `2 hold ▒·`, `full: acme runs 11 of 17`)
	s.keys("\x1b[B\r")
	s.shows("recent requests")
	require.NotRegexp(t, colourSequence, s.Sent())
	s.keys("q")
	s.requireEnded()

	coloured := startScreen(t, 80, 24, nil, "--admin", a.address)
	coloured.shows(`acme 11 +zeta 6`)
	require.Regexp(t, colourSequence, coloured.Sent(), "with colours the check above finds some")
}

func TestTopIntoAPipeIsPlainTextAgainAndAgain(t *testing.T) {
	a := startAdmin(t, flood())
	h := startTool(t, nil, "top", "--admin", a.address, "--interval", "100ms")
	table := regexp.MustCompile(`(?m)^model +m1 +17 +17 +0 +13 +740ms +acme 11, zeta 6 +full: acme runs 11 of 17`)
	rig.Eventually(t, screenWithin, "three tables", func() bool {
		return len(table.FindAllString(h.out.String(), -1)) >= 3
	})
	require.NotContains(t, h.out.String(), "\x1b")
	require.Regexp(t, `(?m)^\d\d:\d\d:\d\d$`, h.out.String())
	require.Regexp(t, `(?m)^model +m2 +9\* .*\n(.*\n)*\* changed by hand$`, h.out.String())
	require.NoError(t, h.cmd.Process.Signal(os.Interrupt))
	requireStatus(t, h, 0)
}

func requireStatus(t *testing.T, h *tool, want int) {
	t.Helper()
	select {
	case status := <-h.status:
		require.Equal(t, want, status, h.errs)
	case <-time.After(screenWithin):
		t.Fatal("still there")
	}
}

func TestTopOnADumbTerminalIsPlainText(t *testing.T) {
	a := startAdmin(t, flood())
	for _, term := range []string{"TERM=dumb", "TERM="} {
		s := startScreen(t, 120, 40, []string{term}, "--admin", a.address)
		s.shows(`model +m1 +17 +17 +0 +13 +740ms`)
		require.NotContains(t, s.Sent(), "\x1b")
		require.NoError(t, s.Signal(syscall.SIGTERM))
		s.requireEnded()
	}
}

func TestTopFollowsTheSizeOfItsTerminal(t *testing.T) {
	a := startAdmin(t, flood())
	s := startScreen(t, 80, 24, nil, "--admin", a.address)
	s.shows(`└ full: acme runs 11 of 17`)
	resize := func(width, height int) { require.NoError(t, s.Resize(width, height)) }
	resize(160, 40)
	s.shows(`(?m)m1 +17 +17 +0 +13 +740ms .*full: acme runs 11 of 17`, `WHO RUNS +WHY`)
	resize(50, 12)
	s.shows(`m1 +17 +17 +13 +740ms`, `(?m)^ *└ full: acme runs 11 of 17`)
	require.NotContains(t, s.Text(), "p99", "no room for the waits")
	resize(30, 8)
	s.shows(`want 40x10`)
	resize(80, 24)
	s.shows(`└ full: acme runs 11 of 17`, `p99`)
	require.Equal(t, 1, strings.Count(s.Text(), "headgate"), s.Text())
}

func TestTopSaysSinceWhenAGatewayIsAway(t *testing.T) {
	a := startAdmin(t, flood())
	s := startScreen(t, 80, 24, nil, "--admin", a.address)
	s.shows(`m1 +17`, "q quit")
	require.Greater(t, s.LooksOf("acme 11"), 3)
	a.stop()
	s.shows(regexp.QuoteMeta(a.address)+` is away since \d\d:\d\d:\d\d \(\d+ s\): connection refused`,
		`figures of \d\d:\d\d:\d\d`,
		`model +m1 +17 +17 +0 +13 +740ms`)
	rig.Eventually(t, screenWithin, "the last figures are grey", func() bool { return s.LooksOf("acme 11") == 1 })
	s.keys("l")
	s.shows("no gateway answers: no limit can be changed")
	a.change(func(state *adminapi.State) { state.Pools[1].Keys[0].Inflight = 12 })
	a.start()
	s.shows(`m1 +17 +12 +0 +13`)
	require.NotContains(t, s.Text(), "away")
	s.keys("\x03")
	s.requireEnded()
}

func TestTopWaitsForItsGateway(t *testing.T) {
	a := startAdmin(t, flood())
	a.stop()
	s := startScreen(t, 80, 24, nil, "--admin", a.address)
	s.shows(`is away since`, `Waiting for a gateway`, `headgate run --admin ADDR`)
	a.start()
	s.shows(`m1 +17`)
}

func TestTopChangesALimitAfterAQuestion(t *testing.T) {
	a := startAdmin(t, flood())
	s := startScreen(t, 80, 24, nil, "--admin", a.address)
	s.shows(`▌ model +m3`)
	s.keys("\x1b[B")
	s.shows(`▌ model +m1`)

	s.keys("2") // a digit begins
	s.shows(`limit of model/m1 \(now 17\): 2`)
	s.keys("3\r")
	s.shows(regexp.QuoteMeta("model/m1: limit 17 -> 23, 13 wait. y/n"))
	s.keys("n")
	s.shows("enter look in")
	require.Empty(t, a.came())

	s.keys("lx\r")
	s.shows("want a whole number")
	s.keys("\x1523\r")
	s.shows("limit 17 -> 23")
	s.keys("y")
	s.shows(`model/m1: the limit is 23 now`, `m1 +23\*`)
	require.Equal(t, []map[string]any{{"pool": "model", "key": "m1", "limit": 23.0}}, a.came())

	s.keys("u")
	s.shows(regexp.QuoteMeta("model/m1: limit 23 -> 17 (the configuration's), 13 wait. y/n"))
	s.keys("y")
	s.shows(`the limit is the configuration's again`, `m1 +17 `)
	require.Equal(t, map[string]any{"pool": "model", "key": "m1", "limit": nil}, a.came()[1])

	s.keys("L5\ry")
	s.shows(`model \(the default of its keys\): the limit is 5 now`)
	require.Equal(t, map[string]any{"pool": "model", "limit": 5.0}, a.came()[2])
}

func TestTopShowsWhyALimitIsRefused(t *testing.T) {
	a := startAdmin(t, flood())
	a.refusal = "limit must be a whole number from 0 to 1000000"
	s := startScreen(t, 80, 24, nil, "--admin", a.address)
	s.shows(`▌ model +m3`)
	s.keys("9999999\ry")
	s.shows(a.refusal, "enter: again")
	a.change(func(*adminapi.State) { a.refusal = "" })
	s.keys("\r")
	s.shows(`limit of model/m3 \(now 8\):`)
	s.keys("7\ry")
	s.shows("model/m3: the limit is 7 now")
}

func TestTopSortsAndFilters(t *testing.T) {
	a := startAdmin(t, flood())
	s := startScreen(t, 80, 24, nil, "--admin", a.address)
	inOrder := func(names ...string) string { return `(?s)` + strings.Join(names, `.*\n[^\n]{0,12}`) }
	s.shows("by trouble", inOrder("m3 ", "m1 ", "m2 ", "gateway"))
	s.keys("s")
	s.shows("by name", "POOL↑", inOrder("gateway", "m1 ", "m2 ", "m3 "))
	s.keys("S")
	s.shows("by name, backwards", inOrder("m3 ", "m2 ", "m1 ", "gateway"))
	s.keys("ss")
	s.shows("by running", inOrder("gateway", "m1 ", "m2 ", "m3 "))

	s.keys("/bet")
	s.shows(`(?m)^ /bet$`, `/bet 2 matches`, `gateway`, `m2 `)
	require.NotContains(t, s.Text(), "m1 ", "beta has nothing of m1")
	s.keys("\r")
	s.shows("enter look in", "/bet 2 matches")
	s.keys("\x1b")
	s.shows("m1 ")
	s.keys("/nothing like it\r")
	s.shows("no pool, key or tenant has that in its name")
}

func TestTopLooksIntoAKey(t *testing.T) {
	a := startAdmin(t, flood())
	a.events = someEvents()
	s := startScreen(t, 80, 24, nil, "--admin", a.address)
	s.shows(`▌ model +m3`)
	s.keys("j")
	s.shows(`▌ model +m1`)
	s.keys("\r")
	s.shows(`(?m)^  model/m1$`, `limit 17   17 run   0 on hold   13 wait, longest 740 ms`,
		`breaker fine · 40 may wait up to 5 s · fair by tenant · per attempt`,
		`acme +11 +0 +1`, `zeta +6 +13 +3`,
		`expired +zeta +5\.0s +– +429 waited too long, POST …`, `aborted +zeta +1\.3s +900ms +200 POST /v1/chat/completions`,
		`limit 12 -> 17`, `refused +zeta +– +– +429 no place`, `whole +acme +410ms +3\.2s`)
	s.keys("\x1b")
	s.shows("by trouble", "gateway")
}

func TestTopListsOfAKeyScroll(t *testing.T) {
	state := flood()
	key := &state.Pools[1].Keys[0]
	for i := range 50 {
		key.Tenants = append(key.Tenants, adminapi.Tenant{Tenant: fmt.Sprintf("t%02d", i), Queued: 50 - i, Weight: 1})
	}
	key.TenantsTotal = 3000
	a := startAdmin(t, state)
	for i := range 300 {
		a.events = append(a.events, adminapi.Event{ID: int64(i + 1), Kind: "waited", Pool: "model", Key: "m1",
			Tenant: fmt.Sprintf("e%03d", i), WaitMillis: 10, AtMillis: int64(i)})
	}
	s := startScreen(t, 80, 24, nil, "--admin", a.address)
	s.shows(`▌ model +m1 `)
	s.keys("\r")
	s.shows("tenants \\(3000\\)", "e299", "acme")
	s.keys("G")
	s.shows("e000")
	s.keys("k")
	s.shows("e008")
	require.NotContains(t, s.Text(), "e000")
	s.keys("\tG")
	s.shows("and 2948 more", "t49", "e001")
}

func TestTopSumsGateways(t *testing.T) {
	one, other := flood(), flood()
	other.Pools[1].Keys[0].Limit, other.Pools[1].Keys[0].Inflight, other.Pools[1].Keys[0].Queued = 9, 9, 2
	other.Pools[1].Keys[0].Usable = 9
	other.Pools[1].Keys[0].Tenants = []adminapi.Tenant{{Tenant: "zeta", Inflight: 9, Queued: 2, Weight: 3}}
	a, b := startAdmin(t, one), startAdmin(t, other)
	s := startScreen(t, 100, 30, nil, "--admin", a.address, "--admin", "http://"+b.address+"/")
	s.shows(`m1 +26 +26 +0 +15 +740ms zeta 15 +acme 11`, `gateway +– +274 +44`)
	s.keys("j")
	s.shows(`▌ model +m1`)
	s.keys("\r")
	s.shows(regexp.QuoteMeta(a.address)+`: 17 of 17 run, 13 wait`, regexp.QuoteMeta(b.address)+`: 9 of 9 run, 2 wait`)

	s.keys("12")
	s.shows(`limit of model/m1 \(now 17 \+ 9\): 12`)
	s.keys("\r")
	s.shows(`at which\? 1: ` + regexp.QuoteMeta(a.address) + ` \(17\)  2: ` + regexp.QuoteMeta(b.address) + ` \(9\)  a: all`)
	s.keys("2")
	s.shows(regexp.QuoteMeta("model/m1: limit 9 -> 12, 2 wait. y/n"))
	s.keys("y")
	s.shows("the limit is 12 now", `9 of 12\* run`)
	require.Empty(t, a.came())
	require.Equal(t, []map[string]any{{"pool": "model", "key": "m1", "limit": 12.0}}, b.came())

	s.keys("20\ra")
	s.shows(regexp.QuoteMeta("model/m1: limit 17 + 12 -> 20 at each of 2 gateways (40 together), 15 wait. y/n"))
	s.keys("y")
	s.shows("the limit is 20 now", `17 of 20\* run`, `9 of 20\* run`)

	s.keys("\x1b")
	b.stop()
	s.shows(regexp.QuoteMeta(b.address)+` is away since .*, not summed: connection refused`, `m1 +20\* +17`)
}

func TestTopOnceIsForScripts(t *testing.T) {
	a := startAdmin(t, flood())
	status, out, errs := call("", "top", "--once", "--json", "--admin", a.address)
	require.Equal(t, 0, status, errs)
	var sent, got map[string]any
	text, err := json.Marshal(flood())
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &sent))
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Equal(t, []any{map[string]any{"admin": "http://" + a.address, "domain": "default", "mode": "enforce",
		"workers": 3.0}}, got["gateways"])
	delete(got, "gateways")
	require.Equal(t, sent, got, "one gateway's state passes as it is")

	status, out, errs = call("", "top", "--once", "--admin", a.address)
	require.Equal(t, 0, status, errs)
	require.Regexp(t, `(?m)^model +m1 +17 +17 +0 +13 +740ms +acme 11, zeta 6 +full: acme runs 11 of 17`, out)

	b := startAdmin(t, flood())
	status, out, _ = call("", "top", "--once", "--json", "--admin", a.address, "--admin", b.address)
	require.Equal(t, 0, status)
	require.Regexp(t, `"shares": \[\s*\{\s*"admin": "http://`+regexp.QuoteMeta(a.address)+`",\s*"limit": 17,`, out)
	require.Contains(t, out, `"limit": 34`)
	b.stop()
	status, out, errs = call("", "top", "--once", "--admin", a.address, "--admin", b.address)
	require.Equal(t, 1, status)
	require.Regexp(t, `(?m)^model +m1 +17 `, out)
	require.Equal(t, "headgate: 1 of 2 gateways did not answer, the figures are without: can't reach http://"+b.address+
		": connection refused\n", errs)

	a.stop()
	status, out, errs = call("", "top", "--once", "--json", "--admin", a.address)
	require.Equal(t, 1, status)
	require.Empty(t, out)
	require.Equal(t, "headgate: can't reach http://"+a.address+": connection refused\n", errs)
}

func TestTopSaysThatALineOfJSONIsForEachRefresh(t *testing.T) {
	a := startAdmin(t, flood())
	h := startTool(t, nil, "top", "--json", "--admin", a.address, "--interval", "100ms")
	rig.Eventually(t, screenWithin, "two lines", func() bool { return strings.Count(h.out.String(), "\n") >= 2 })
	line, _, _ := strings.Cut(h.out.String(), "\n")
	require.True(t, json.Valid([]byte(line)))
}

func TestTopGivesItsTerminalBack(t *testing.T) {
	a := startAdmin(t, flood())
	for name, end := range map[string]func(s *screen){
		"q":       func(s *screen) { s.keys("q") },
		"Ctrl-C":  func(s *screen) { s.keys("\x03") },
		"SIGTERM": func(s *screen) { require.NoError(t, s.Signal(syscall.SIGTERM)) },
		"SIGINT":  func(s *screen) { require.NoError(t, s.Signal(syscall.SIGINT)) },
		"SIGHUP":  func(s *screen) { require.NoError(t, s.Signal(syscall.SIGHUP)) },
		"while a question is open": func(s *screen) {
			s.keys("l")
			s.shows("limit of")
			s.keys("\x03")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := startScreen(t, 80, 24, nil, "--admin", a.address)
			s.shows("m1 +17")
			end(s)
			s.requireEnded()
		})
	}
}

// Names come from clients. None may reach the terminal as anything but text of a known width.
func TestTopShowsHostileNamesAsText(t *testing.T) {
	names := []string{"\x1b[2J\x1b]0;owned\x07", "a\r\nb\tc", "\u202egnp.exe", "שלום", "👨‍👩‍👧‍👦", "e" + strings.Repeat("\u0301", 50),
		strings.Repeat("x", 100) + strings.Repeat("y", 100), "\u009b31m", "日本語", "\xff\xfe", "❤️", "🇩🇪", "\u0301mark", "<img src=x>"}
	state := flood()
	keys := []adminapi.Key{}
	for i, name := range names {
		keys = append(keys, adminapi.Key{Name: name, Limit: 100 + i, Source: "config", Configured: 100 + i, Inflight: 60, Queued: 3,
			Usable: 100 + i, TenantsTotal: 1, Tenants: []adminapi.Tenant{{Tenant: name, Inflight: 60, Queued: 3, Weight: 1}}})
	}
	state.Pools[1].Keys = keys
	a := startAdmin(t, state)
	for _, name := range names {
		a.events = append(a.events, adminapi.Event{ID: int64(len(a.events) + 1), Kind: "refused", Pool: "model", Key: names[0],
			Tenant: name, Method: name, Path: "/" + name, Reason: name, Model: name, Status: 429})
	}
	s := startScreen(t, 100, 60, nil, "--admin", a.address)
	s.shows(`\\x1b\[2J\\x1b\]0;owned\\a`, `a\\r\\nb\\tc`, `\\u202egnp\.exe`, `日本語`, `שלום`, `👨\\u200d`, `xxx…yyy`, `\\u009b31m`, `<img src=x>`, `q quit`)
	// Every row has its figures in the same columns, whatever its name is.
	figures := regexp.MustCompile(`(?m)^.*? 1\d\d  60    0      3    0ms `)
	columns := map[int]int{}
	for _, line := range figures.FindAllString(s.Text(), -1) {
		columns[cellsOf(line)]++
	}
	require.Equal(t, map[int]int{cellsOf(figures.FindString(s.Text())): len(names)}, columns, s.Text())
	require.NotRegexp(t, `\x1b\]0;owned|\x1b\[2J.*owned|\x{009b}|\x{202e}|\x{200d}`, s.Sent())

	s.keys("/owned\r")
	s.shows("1 match ")
	s.keys("\r")
	s.shows(`(?m)^  model/\\x1b\[2J\\x1b\]0;owned\\a$`, `recent requests`, `refused`)
	require.NotRegexp(t, `\x1b\]0;owned|\x{009b}|\x{202e}|\x{200d}`, s.Sent())
	s.keys("l1\r")
	s.shows(`model/\\x1b\[2J\\x1b\]0;owned\\a: limit 100 -> 1`)
	s.keys("\x03")
	s.requireEnded()

	status, out, errs := call("", "top", "--once", "--admin", a.address)
	require.Equal(t, 0, status, errs)
	require.NotRegexp(t, `[\x00-\x09\x0b-\x1f\x7f-\x{9f}\x{202e}\x{200d}]`, out)
}

func TestTopShowsThousandsOfKeys(t *testing.T) {
	state := flood()
	for i := range 2500 {
		state.Pools[1].Keys = append(state.Pools[1].Keys, adminapi.Key{Name: fmt.Sprintf("k%04d", i), Limit: 5, Usable: 5,
			Source: "config", Configured: 5, Inflight: i % 4, Breaker: "closed"})
	}
	state.Pools[1].KeysTotal = len(state.Pools[1].Keys)
	a := startAdmin(t, state)
	s := startScreen(t, 80, 24, nil, "--admin", a.address)
	s.shows(`2,504 keys`, `m1 +17`)
	s.keys("\x1b[F") // End
	s.shows(`▌ model +k2496`)
	s.keys("/k2499\r")
	s.shows(`k2499 +5 +3`, "1 match ")
}

// docs/top.md has the flags as the usage has them.
func TestTopsFlagsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/top.md")
	require.NoError(t, err)
	flags := flagsOf(t, "top")
	delete(flags, "help")
	rows := regexp.MustCompile("(?m)^\\| `--(\\S+)` \\| (?:`(.*)` )?\\| (.*) \\|$").FindAllStringSubmatch(string(text), -1)
	documented := map[string]shownFlag{}
	for _, row := range rows {
		documented[row[1]] = shownFlag{row[2], strings.ReplaceAll(row[3], "`", "")}
	}
	require.Equal(t, flags, documented)
}
