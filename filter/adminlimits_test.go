package filter_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAdminRaisesALimitForWaitersOfAllWorkers(t *testing.T) {
	a := startAdmin(t, 3, config(pool("model", 1, "queue", 10, "max_wait", "60s")))
	first := a.sendModel(0, "m")
	w1, w2, w3 := a.sendModel(1, "m"), a.sendModel(2, "m"), a.sendModel(1, "m")
	k := a.put(0, `{"pool": "model", "key": "m", "limit": 3}`)
	requireMembers(t, k, object{"key": "m", "limit": 3.0, "source": "override", "configured": 1.0, "inflight": 3.0, "queued": 1.0})
	a.host.Run(2 * ms)
	a.requireRunning(w1, "the oldest waiter")
	a.requireRunning(w2, "the second waiter, of another worker")
	a.requireWaiting(w3, "the third one")
	a.requireRunning(first, "what ran before")

	k = a.put(2, `{"pool": "model", "key": "m", "limit": null}`)
	requireMembers(t, k, object{"limit": 1.0, "source": "config", "inflight": 3.0})
	a.requireRunning(first, "what ran while the limit was higher")
	a.reload(with(config(pool("model", 1, "queue", 10, "max_wait", "60s")), "lease", "6s"))
}

func TestAdminOverridesSurviveReloads(t *testing.T) {
	c := config(pool("model", 1, "queue", 10, "max_wait", "60s"), pool("more", 9))
	a := startAdmin(t, 3, c)
	a.sendModel(0, "m")
	a.put(0, `{"pool": "model", "key": "m", "limit": 2}`)
	a.put(1, `{"pool": "more", "limit": 4}`)
	c = config(pool("model", 7, "queue", 10, "max_wait", "60s"), pool("more", 8))
	a.reload(c)
	a.loadAdmin(c)
	requireMembers(t, a.key("model", "m"), object{"limit": 2.0, "source": "override", "configured": 7.0})
	more := named(t, a.state("")["pools"], "name", "more")
	requireMembers(t, more, object{"limit": 4.0, "source": "override", "configured": 8.0})
	a.requireRunning(a.sendModel(1, "m"), "a second request")
	a.requireWaiting(a.sendModel(2, "m"), "a third one")
	p := a.put(1, `{"pool": "more", "limit": null}`)
	requireMembers(t, p, object{"name": "more", "limit": 8.0, "source": "config"})
	require.NotContains(t, p, "keys")
}

func TestAdminChangesADefault(t *testing.T) {
	a := startAdmin(t, 2, config(object{"name": "gateway", "limit": 5}, pool("model", 1, "keys", object{"own": object{"limit": 3}})))
	a.sendModel(0, "m")
	p := a.put(1, `{"pool": "model", "limit": 2}`)
	requireMembers(t, p, object{"name": "model", "limit": 2.0, "source": "override", "configured": 1.0, "keys_total": 2.0}) // with the key other, which has to know it, too
	requireMembers(t, a.key("model", "m"), object{"limit": 2.0, "source": "override"})
	requireMembers(t, a.put(0, `{"pool": "model", "key": "own", "limit": 4}`), object{"key": "own", "limit": 4.0, "configured": 3.0})
	requireMembers(t, a.put(0, `{"pool": "gateway", "limit": 0}`), object{"name": "gateway", "limit": 0.0, "source": "override"})
	a.requireRefused(a.sendModel(0, "m"), noPermit, "gateway", "a request to a closed pool")
	requireMembers(t, a.put(0, `{"pool": "gateway", "key": "gateway", "limit": null}`), object{"key": "gateway", "limit": 5.0})
}

func TestAdminRefusesChangesThatMakeNoSense(t *testing.T) {
	a := startAdmin(t, 1, config(pool("model", 3)))
	a.sendModel(0, "m")
	for body, field := range map[string]string{
		`{"pool": "model", "key": "m", "limit": -1}`:       "limit",
		`{"pool": "model", "key": "m", "limit": 1000001}`:  "limit",
		`{"pool": "model", "key": "m", "limit": "4"}`:      "limit",
		`{"pool": "model", "key": "m", "limit": 1.5}`:      "limit",
		`{"pool": "model", "key": "m", "limit": true}`:     "limit",
		`{"pool": "model", "key": "m", "limit": 1e3}`:      "limit",
		`{"pool": "model", "key": "m"}`:                    "limit",
		`{"pool": "model", "limit": 99999999999999999999}`: "limit",
		`{"limit": 4}`:                                "pool",
		`{"pool": 4, "limit": 4}`:                     "pool",
		`{"pool": "model", "key": null, "limit": 4}`:  "key",
		`{"pool": "model", "key": "", "limit": 4}`:    "key",
		`{"pool": "model", "key": ["m"], "limit": 4}`: "key",
		`{"pool": "model", "limit": 4, "bogus": 1}`:   "bogus",
		`{"pool": "model", "limit": 4, "limit": 5}`:   "",
		`{"pool": "model", "limit": 4} x`:             "",
		`limit=4`:                                     "",
		`[]`:                                          "",
		`null`:                                        "",
		"{\"pool\": \"\xff\", \"limit\": 4}":          "",
		`{"pool": "model", "key": "` + repeated("k", 256) + `", "limit": 1}`: "key",
	} {
		message := a.refusedWith(a.ask(0, "PUT", "/headgate/v1/limits", body), 400, field)
		require.Contains(t, message, field, body)
	}
	require.Equal(t, "limit: -1 is out of range (want 0 to 1000000)",
		a.refusedWith(a.ask(0, "PUT", "/headgate/v1/limits", `{"pool":"model","limit":-1}`), 400, "limit"))
	a.refusedWith(a.ask(0, "PUT", "/headgate/v1/limits", ""), 400, "")
	a.refusedWith(a.ask(0, "PUT", "/headgate/v1/limits", `{"pool": "nope", "limit": 4}`), 404, "pool")
	a.refusedWith(a.ask(0, "PUT", "/headgate/v1/limits", `{"pool": "model", "key": "nope", "limit": 4}`), 404, "key")
	requireMembers(t, a.key("model", "m"), object{"limit": 3.0, "source": "config"})
	require.Empty(t, a.events(0), "what is refused changes nothing, and is no event")
}

func TestAdminRefusesALongBody(t *testing.T) {
	a := startAdmin(t, 1, config(pool("model", 3)))
	long := `{"pool": "model", "limit": 4` + repeated(" ", 4096) + `}`
	a.refusedWith(a.ask(0, "PUT", "/headgate/v1/limits", long), 413, "")
	a.refusedWith(a.ask(0, "PUT", "/headgate/v1/limits", long, "content-length", fmt.Sprint(len(long))), 413, "")
	fits := `{"pool": "model", "limit": 4` + repeated(" ", 4000) + `}`
	a.decode(a.ask(0, "PUT", "/headgate/v1/limits", fits), 200)
	requireMembers(t, list(a.state("")["pools"])[0], object{"limit": 4.0})
}

// Envoy lets no body come while the headers wait, unless its configuration says so. Nobody waits for it for ever.
func TestAdminWaitsForABodyInVain(t *testing.T) {
	a := startAdmin(t, 1, config(pool("model", 3)))
	s := a.admin.Stream(0)
	s.RequestHeaders(adminHeaders("PUT", "/headgate/v1/limits"), false)
	require.Nil(t, s.LocalReply())
	require.True(t, a.host.RunUntil(6*second, func() bool { return s.LocalReply() != nil }))
	require.Contains(t, a.refusedWith(s, 500, ""), "allow_on_headers_stop_iteration")
	gone := a.admin.Stream(0)
	gone.RequestHeaders(adminHeaders("PUT", "/headgate/v1/limits"), false)
	gone.ClientGone()
	a.requireQuiet()
}
