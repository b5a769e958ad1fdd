package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/envoy/rig"
)

func TestFinding_D4_ALineForEachChangeOfState(t *testing.T) {
	var said strings.Builder
	now, stats, shadows := time.Now(), "", false
	w := newWatcher(&notes{w: &said, now: func() time.Time { return now }, budget: noteBurst, filled: now},
		func() ([]byte, error) { return []byte(stats), nil }, func() bool { return shadows })
	w.now = func() time.Time { return now }
	for _, step := range []struct {
		after time.Duration
		stats string // that are new or changed, as pool.stat=value
		says  string
	}{
		{0, "a.admitted=7 a.inflight=18446744073709551615", ""},
		{time.Second, "a.provider_failure=5 a.provider_429=2 a.breaker_opened=1",
			`the breaker of pool "a" is open: the upstream has failed too often (5xx or no answer: 5, 429: 2)`},
		{time.Second, "", ""},
		{time.Second, "a.rejected_breaker=3 a.rejected_queue_full=1 b.expired_max_wait=2",
			`requests refused by pool "a": 4 (no permit and no place in the queue: 1, breaker open: 3)` + "\n" +
				`requests refused by pool "b": 2 (waited too long: 2)`},
		{59 * time.Second, "a.rejected_breaker=5", ""},
		{time.Second, "", `requests refused by pool "a": 2 (breaker open: 2)`},
		{time.Hour, "", ""},
		{time.Second, "a.breaker_closed=1", `the breaker of pool "a" is closed again: the upstream answers`},
		{time.Second, "a.provider_failure=8 a.breaker_opened=3 a.breaker_closed=2",
			`the breaker of pool "a" is open: the upstream has failed too often (5xx or no answer: 3, 429: 0)` + "\n" +
				`the breaker of pool "a" is closed again: the upstream answers (still open for other keys of the pool: 1)`},
		{time.Second, "b.reaped=3", `a worker of Envoy's died or stood still: pool "b" has taken back its permits and places in the queue (3)`},
	} {
		now = now.Add(step.after)
		for change := range strings.FieldsSeq(step.stats) {
			stats += "wasmcustom.headgate." + strings.Replace(change, "=", ": ", 1) + "\n"
		}
		said.Reset()
		w.look()
		require.Equal(t, step.says, strings.TrimSpace(strings.ReplaceAll(said.String(), "headgate: ", "")), step.stats)
	}
	shadows = true
	now = now.Add(time.Second)
	stats += "wasmcustom.headgate.c.breaker_opened: 1\nwasmcustom.headgate.c.shadow_would_reject: 3\n" +
		"wasmcustom.headgate.c.shadow_would_expire: 1\nwasmcustom.headgate.c.provider_failure: 5\n"
	said.Reset()
	w.look()
	require.Equal(t, `headgate: the breaker of pool "c" would be open: the upstream has failed too often (5xx or no answer: 5, 429: 0)
headgate: requests that would be refused by pool "c": 4 (no permit, or the breaker open: 3, waited too long: 1)
`, said.String())
	w.stats = func() ([]byte, error) { return nil, errors.New("gone") }
	said.Reset()
	w.look()
	require.Empty(t, said.String())
}

func TestCountsAreReadFromAnOlderEnvoyToo(t *testing.T) {
	for _, scope := range []string{"", "cluster.model."} {
		require.Equal(t, map[string]poolCounts{"a-b": {"reaped": 3, "inflight": 1}}, readPoolCounts([]byte(
			scope+"wasmcustom.headgate.a-b.reaped: 3\n"+scope+"wasmcustom.headgate.ungoverned: 7\n"+
				scope+"wasmcustom.headgate.a-b.inflight: 1\n")))
	}
}

func TestALostAccessLogIsToldOnceInAMinute(t *testing.T) {
	var said strings.Builder
	now, stats := time.Now(), ""
	w := newWatcher(&notes{w: &said, now: func() time.Time { return now }, budget: noteBurst, filled: now},
		func() ([]byte, error) { return []byte(stats), nil }, func() bool { return false })
	w.now = func() time.Time { return now }
	for _, step := range []struct {
		after  time.Duration
		failed string
		tells  bool
	}{
		{0, "", false}, {time.Second, "0", false}, {time.Second, "1", true}, {time.Second, "9", false}, {time.Minute, "9", true},
		{time.Minute, "9", false}, {time.Minute, "10", true},
	} {
		now = now.Add(step.after)
		if stats = ""; step.failed != "" {
			stats = "filesystem.write_failed: " + step.failed + "\n"
		}
		said.Reset()
		w.look()
		require.Equal(t, step.tells, strings.HasPrefix(said.String(), "headgate: warning: lines of the access log are lost"), step)
	}
}

func TestFinding_D4_RunSaysThatABreakerOpensAndCloses(t *testing.T) {
	var works atomic.Bool
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !works.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(api.Close)
	h := runGateway(t, nil, "--upstream", api.URL, "--retry", "0", "--cb-threshold", "2", "--cb-open-timeout", "1s", "--access-log")
	says := func(text string) func() bool {
		return func() bool {
			h.send("/v1/chat/completions?key=secret", false)
			return strings.Contains(h.errs.String(), text)
		}
	}
	rig.Eventually(t, endWithin, "the breaker is open", says(`the breaker of pool "route" is open`))
	rig.Eventually(t, endWithin, "requests are refused", says(`requests refused by pool "route"`))
	works.Store(true)
	rig.Eventually(t, endWithin, "the breaker is closed", says(`the breaker of pool "route" is closed again`))
	require.NoError(t, h.cmd.Process.Signal(os.Interrupt))
	require.Zero(t, <-h.status)

	var refused, answered int
	for line := range strings.Lines(h.out.String()) {
		var request struct {
			Path, Method, Details, Headgate string
			Status                          int
		}
		require.NoError(t, json.Unmarshal([]byte(line), &request), line)
		require.Equal(t, "/v1/chat/completions", request.Path)
		require.True(t, json.Valid([]byte(request.Headgate)), line)
		switch {
		case request.Details == "headgate_breaker_open" && request.Status == 503:
			refused++
		case request.Status == 200:
			answered++
		}
	}
	require.Positive(t, refused)
	require.Positive(t, answered)
}
