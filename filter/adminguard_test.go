package filter_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/filter/admin/page"
)

const change = `{"pool": "model", "limit": 9}`

func TestAdminServesThePage(t *testing.T) {
	a := startAdmin(t, 1, config(pool("model", 3)))
	for _, encoding := range []string{"", "gzip, deflate, br", "*", "br;q=1.0, gzip;q=0.1", "GZIP"} {
		r := a.ask(0, "GET", "/headgate/", "", "accept-encoding", encoding).LocalReply()
		require.Equal(t, 200, r.Code, encoding)
		require.Equal(t, "text/html; charset=utf-8", r.Headers.Get("content-type"))
		require.Equal(t, "gzip", r.Headers.Get("content-encoding"))
		require.Equal(t, "accept-encoding", r.Headers.Get("vary"))
		require.Equal(t, page.Policy, r.Headers.Get("content-security-policy"))
		require.Equal(t, "no-referrer", r.Headers.Get("referrer-policy"))
		require.Equal(t, "nosniff", r.Headers.Get("x-content-type-options"))
		require.Equal(t, "no-store", r.Headers.Get("cache-control"))
		unpacked, err := gzip.NewReader(bytes.NewReader(r.Body))
		require.NoError(t, err)
		text, err := io.ReadAll(unpacked)
		require.NoError(t, err)
		require.Contains(t, string(text), "</html>")
	}
	for _, encoding := range []string{"identity", "br", "gzip;q=0", "*;q=0", "*, gzip; q=0.0", "deflate, gzip;q=0.000"} {
		message := a.refusedWith(a.ask(0, "GET", "/headgate/", "", "accept-encoding", encoding), 406, "")
		require.Contains(t, message, "gzip", encoding)
	}
	require.Equal(t, 200, a.ask(0, "HEAD", "/headgate/", "").LocalReply().Code)
	r := a.ask(0, "GET", "/headgate", "").LocalReply()
	require.Equal(t, 308, r.Code)
	require.Equal(t, "/headgate/", r.Headers.Get("location"))
}

func TestAdminKnowsNoOtherPathsAndMethods(t *testing.T) {
	a := startAdmin(t, 1, config(pool("model", 3)))
	for _, path := range []string{"/", "/headgate/x", "/headgate/v1", "/headgate/v1/state/", "/headgate/v1/", "//headgate/", "/stats", "/headgate/v2/state", "/quitquitquit", "*", ""} {
		for _, method := range []string{"GET", "POST", "PUT"} {
			a.refusedWith(a.ask(0, method, path, ""), 404, "")
		}
	}
	for path, allowed := range map[string]string{"/headgate/": "GET, HEAD", "/headgate": "GET, HEAD", "/headgate/v1/state": "GET, HEAD",
		"/headgate/v1/events": "GET, HEAD", "/headgate/v1/limits": "PUT", "/stats/prometheus": "GET, HEAD"} {
		for _, method := range []string{"POST", "DELETE", "OPTIONS", "PATCH", "get"} {
			s := a.ask(0, method, path, "")
			a.refusedWith(s, 405, "")
			require.Equal(t, allowed, s.LocalReply().Headers.Get("allow"))
		}
	}
	a.refusedWith(a.ask(0, "GET", "/headgate/v1/limits", ""), 405, "")
	a.refusedWith(a.ask(0, "PUT", "/headgate/v1/state", change), 405, "")
}

// A route may lead this path to Envoy's own stats. The stage only keeps strangers from it.
func TestAdminLetsStatsPass(t *testing.T) {
	a := startAdmin(t, 1, config(pool("model", 3)))
	s := a.admin.Stream(0)
	s.RequestHeaders(adminHeaders("GET", "/stats/prometheus?usedonly"), true)
	require.Nil(t, s.LocalReply())
	require.False(t, s.Paused())
	s.Respond(200, "metrics")
	a.refusedWith(a.ask(0, "GET", "/stats/prometheus", "", ":authority", "evil.example"), 403, "")
}

func TestAdminRefusesChangesOfOtherPages(t *testing.T) {
	a := startAdmin(t, 1, config(pool("model", 3)))
	for status, all := range map[int][][]string{
		403: {{"origin", "http://evil.example"}, {"origin", "null"}, {"origin", "http://127.0.0.1:10002"}, {"origin", "http://127.0.0.1"},
			{"origin", "http://" + adminHost + ".evil.example"}, {"origin", "http://evil.example/" + adminHost}, {"origin", "file://" + adminHost},
			{"origin", adminHost}, {"origin", "http://"}, {"sec-fetch-site", "cross-site"}, {"sec-fetch-site", "same-site"}, {"sec-fetch-site", "x"},
			{"origin", "http://localhost:10001"}, {"origin", "http://" + adminHost, "sec-fetch-site", "cross-site"}},
		415: {{"content-type", "text/plain"}, {"content-type", ""}, {"content-type", "application/x-www-form-urlencoded"},
			{"content-type", "application/jsonx"}, {"content-type", "text/plain; application/json"}, {"content-type", "multipart/form-data"}},
		200: {{}, {"origin", "http://" + adminHost}, {"origin", "https://" + adminHost, "sec-fetch-site", "same-origin"}, {"sec-fetch-site", "none"},
			{"content-type", "application/json; charset=utf-8"}, {"content-type", "Application/JSON ;x=y"},
			{":authority", "LocalHost:10001", "origin", "http://localhost:10001"}},
	} {
		for _, headers := range all {
			s := a.ask(0, "PUT", "/headgate/v1/limits", change, headers...)
			require.Equal(t, status, s.LocalReply().Code, "%v: %s", headers, s.LocalReply().Body)
			limit := 3.0
			if status == 200 {
				limit = 9.0
			}
			requireMembers(t, list(a.state("")["pools"])[0], object{"limit": limit})
			a.put(0, `{"pool": "model", "limit": null}`)
		}
	}
	two := adminHeaders("PUT", "/headgate/v1/limits", "origin", "http://"+adminHost)
	two = append(two, adminHeaders("GET", "", "origin", "http://evil.example")[4:]...)
	s := a.admin.Stream(0)
	s.RequestHeaders(two, false)
	a.refusedWith(s, 403, "")
}

func TestAdminIsForLoopbackOnly(t *testing.T) {
	c := config(pool("model", 3))
	a := startAdmin(t, 1, c)
	for address, fine := range map[string]bool{"127.0.0.1:10001": true, "127.1.2.3:1": true, "[::1]:10001": true, "[::ffff:127.0.0.1]:1": true,
		"/run/admin.sock": true, "@admin": true, "10.0.0.1:10001": false, "192.168.1.127:1": false, "[fe80::1]:1": false, "0.0.0.0:1": false,
		"127.0.0.1.evil:1": false, "127.0.0:1": false, "127.0.0.256:1": false, "1270.0.0.1:1": false, "localhost:1": false, "": false} {
		a.host.SetProperty(address, "destination", "address")
		for _, path := range []string{"/headgate/", "/headgate/v1/state", "/stats/prometheus", "/x"} {
			s := a.admin.Stream(0)
			s.RequestHeaders(adminHeaders("GET", path), true)
			a.host.Drain()
			refused := s.LocalReply() != nil && s.LocalReply().Code == 403
			require.Equal(t, !fine, refused, "%s %s", address, path)
			if refused {
				require.Contains(t, a.refusedWith(s, 403, ""), `"admin": {"expose": true}`)
			}
		}
	}
	a.host.SetProperty(nil, "destination", "address")
	a.refusedWith(a.ask(0, "GET", "/headgate/", ""), 403, "")

	p, err := a.host.Load(pluginConfig(with(with(c, "stage", "admin"), "admin", object{"expose": true})))
	require.NoError(t, err)
	a.admin = p
	a.host.SetProperty("10.0.0.1:10001", "destination", "address")
	a.decode(a.ask(0, "GET", "/headgate/v1/state", "", ":authority", "ops.example.com"), 200)
	a.refusedWith(a.ask(0, "PUT", "/headgate/v1/limits", change, "origin", "http://evil.example"), 403, "")
}

// With DNS rebinding, a page of a foreign name is for a browser of the same origin as this listener.
func TestAdminRefusesHostsOfThePublicDNS(t *testing.T) {
	a := startAdmin(t, 1, config(pool("model", 3)))
	for host, fine := range map[string]bool{"localhost": true, "localhost:10001": true, "LOCALHOST:1": true, "127.0.0.1:10001": true,
		"[::1]:10001": true, "gw": true, "headgate:10001": true, "page.localhost:1": true, "10.0.0.1": true,
		"evil.example": false, "evil.example:10001": false, "127.0.0.1.evil.example": false, "localhost.evil.example:1": false,
		"evil.": false, "": false, "127.0.0.1.": false, "notlocalhost.example": false, "1.2.3": false} {
		s := a.ask(0, "GET", "/headgate/v1/state", "", ":authority", host)
		want := 403
		if fine {
			want = 200
		}
		require.Equal(t, want, s.LocalReply().Code, "%q: %s", host, s.LocalReply().Body)
	}
}
