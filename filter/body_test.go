package filter_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

// fromBody finds the model in the body.
func fromBody(pools ...object) object {
	c := config(pools...)
	c["identity"].(object)["model"] = []object{{"json_body": "model"}}
	return c
}

func startWithoutTheFlag(t *testing.T, c object) *gateway {
	g := &gateway{t: t, host: wasmtest.Start(t, module, wasmtest.WithWorkers(2))}
	p := pluginConfig(c)
	p.AllowOnHeadersStopIteration = false
	g.plugin = g.host.MustLoad(p)
	g.host.Run(20 * ms)
	return g
}

// open brings a request's headers only.
func (g *gateway) open(worker int, headers ...string) *wasmtest.Stream {
	s := g.plugin.Stream(worker)
	s.RequestHeaders(wasmtest.RequestHeaders("POST", "/v1/chat/completions", headers...), false)
	return s
}

// post brings a request with its whole body.
func (g *gateway) post(worker int, body string, headers ...string) *wasmtest.Stream {
	s := g.open(worker, headers...)
	s.RequestBody([]byte(body), true)
	return s
}

func chat(model string) string {
	return `{"messages":[{"role":"user","content":"{\"model\":\"no\"}"}],"model":"` + model + `","stream":true}`
}

// requireForwarded: what went upstream is the body, whole and unchanged.
func requireForwarded(t testing.TB, s *wasmtest.Stream, body string) {
	t.Helper()
	f := s.Forwarded()
	require.NotNil(t, f.Headers, "the headers have not gone upstream")
	require.True(t, f.Ended, "the request's end has not gone upstream")
	require.True(t, body == string(f.Body), "%d bytes went upstream, want the %d that came", len(f.Body), len(body))
}

func TestModelInABodyThatComesInPieces(t *testing.T) {
	body := chat("m")
	g := start(t, 2, fromBody(pool("model", 1, "queue", 1)))
	for at := range len(body) {
		s := g.open(at % 2)
		g.requireWaiting(s, "a request whose body has not come")
		require.Nil(t, s.Forwarded().Headers)
		s.RequestBody([]byte(body[:at]), false)
		g.requireWaiting(s, "a request whose body has come in part")
		require.Nil(t, s.Forwarded().Headers)
		s.RequestBody([]byte(body[at:]), true)
		g.requireRunning(s, "a request whose body has come")
		requireForwarded(t, s, body)
		other := g.post(0, chat("m"))
		g.requireWaiting(other, "another one of its model")
		other.ClientGone()
		s.Respond(200, "ok")
	}
	s := g.open(0)
	for i := range len(body) {
		s.RequestBody([]byte{body[i]}, i == len(body)-1)
	}
	requireForwarded(t, s, body)
	s.Respond(200, "ok")
	g.requireDrained("model")
}

// A large piece is read in several parts. The model may stand at any place where two of them meet.
func TestModelAtTheSeamsOfOneLargePiece(t *testing.T) {
	g := start(t, 1, fromBody(pool("model", 1)))
	const end = `"],"model":"gpt-4o"}`
	for at := 32<<10 - len(end) - 2; at <= 32<<10+2; at++ {
		head := `{"messages":["`
		body := head + strings.Repeat("x", at-len(head)) + end
		s := g.post(0, body)
		requireForwarded(t, s, body)
		g.requireRefused(g.post(0, chat("gpt-4o")), noPermit, "model", "another one of its model")
		s.Respond(200, "ok")
	}
}

func TestSearchEndsWithTheDocumentNotWithTheBody(t *testing.T) {
	g := start(t, 1, fromBody(pool("model", 1)))
	s := g.open(0)
	s.RequestBody([]byte(chat("m")), false)
	g.requireRunning(s, "a request whose document is whole")
	require.Equal(t, wasmtest.Continue, s.RequestBody([]byte("  more"), false))
	require.Equal(t, wasmtest.Continue, s.RequestTrailers(wasmtest.HeadersOf("x", "y")))
	requireForwarded(t, s, chat("m")+"  more")
	s = g.open(0)
	s.RequestBody([]byte("hello"), false)
	g.requireRunning(s, "a request whose body is no document")
}

func TestTrailersEndTheBody(t *testing.T) {
	for _, refused := range []bool{false, true} {
		g := start(t, 1, fromBody(pool("model", 1)))
		if refused {
			g.post(0, `{"model":"m"`)
		}
		s := g.open(0)
		s.RequestBody([]byte(`{"model":"m"`), false)
		g.requireWaiting(s, "a request in the middle of its document")
		s.RequestTrailers(wasmtest.HeadersOf("x-checksum", "1"))
		if refused {
			g.requireRefused(s, noPermit, "model", "a request whose body ended with trailers")
			continue
		}
		requireForwarded(t, s, `{"model":"m"`)
		require.Equal(t, "1", s.Forwarded().Trailers.Get("x-checksum"))
		g.requireRefused(g.post(0, chat("m")), noPermit, "model", "another one of its model")
	}
	g := start(t, 1, fromBody(pool("model", 1, "queue", 1)))
	holder := g.send(0)
	s := g.open(0)
	s.RequestTrailers(wasmtest.HeadersOf("x-checksum", "1"))
	g.requireWaiting(s, "a request with trailers and no body, for the model unknown")
	require.Nil(t, s.Forwarded().Headers)
	holder.Respond(200, "ok")
	g.host.Drain()
	require.Equal(t, "1", s.Forwarded().Trailers.Get("x-checksum"))
}

func TestCase_O17_WithoutABodyTheModelIsUnknownAtOnce(t *testing.T) {
	g := start(t, 1, fromBody(pool("model", 1, "queue", 0)))
	s := g.plugin.Stream(0)
	require.Equal(t, wasmtest.Continue, s.RequestHeaders(wasmtest.RequestHeaders("POST", "/v1/chat/completions"), true))
	g.requireRefused(g.post(0, ""), noPermit, "model", "a request with an empty body")
	s.Respond(200, "ok")
	for _, headers := range [][]string{
		{"content-encoding", "gzip"}, {"content-encoding", "gzip, gzip"}, {"content-encoding", "no-such"},
		{"content-encoding", "identity, gzip"}, {"content-encoding", "identity", "content-encoding", "gzip"},
		{"content-type", "application/grpc"}, {"content-type", "application/grpc+proto"}, {"upgrade", "websocket"},
	} {
		s := g.open(0, headers...)
		g.requireRunning(s, fmt.Sprint("a request with ", headers))
		u := g.open(0, headers...)
		require.NotNil(t, u.LocalReply(), "the model unknown is limited")
		require.Equal(t, wasmtest.Continue, s.RequestBody([]byte("\x1f\x8b"), false))
		require.Equal(t, wasmtest.Continue, s.RequestBody([]byte("\x00"+chat("m")), true))
		requireForwarded(t, s, "\x1f\x8b\x00"+chat("m"))
		s.Respond(200, "ok")
	}
	g.requireDrained("model")
}

func TestFinding_C13_AnIdentityIsNoEncoding(t *testing.T) {
	for _, name := range []string{"identity", "Identity"} {
		g := start(t, 1, fromBody(pool("model", 1)))
		s := g.post(0, chat("m"), "content-encoding", name)
		requireForwarded(t, s, chat("m"))
		g.requireRefused(g.post(0, chat("m")), noPermit, "model", "another request for its model")
		g.requireRunning(g.send(0), "a request for the model unknown")
	}
}

func TestFinding_C14_JSONIsReadWhateverItsTypeSays(t *testing.T) {
	for _, headers := range [][]string{
		nil, {"content-type", "application/json"}, {"content-type", "application/x-www-form-urlencoded"},
		{"content-type", "text/plain;charset=UTF-8"}, {"content-type", "application/vnd.api+json"},
	} {
		g := start(t, 1, fromBody(pool("model", 1)))
		s := g.post(0, chat("m"), headers...)
		requireForwarded(t, s, chat("m"))
		g.requireRefused(g.post(0, chat("m")), noPermit, "model", fmt.Sprint("another request for the model of one with ", headers))
		g.requireRunning(g.send(0), "a request for the model unknown")
	}
}

func TestCase_O21_UnreadableBodiesShareTheModelUnknown(t *testing.T) {
	g := start(t, 1, fromBody(pool("model", 1)))
	s := g.send(0)
	g.requireRunning(s, "the holder of the model unknown")
	for _, body := range []string{"hello", `[1]`, `{"messages":[]}`, `{"model":"a","model":"b"}`, `{"model":7}`, `{"model":"a","Model":"b"}`,
		"\x1f\x8b\x08\x00\x00", `{"a":"` + strings.Repeat("x", 70000) + `","model":"m"}`} {
		r := g.post(0, body)
		g.requireRefused(r, noPermit, "model", fmt.Sprintf("a request with the body %.30q", body))
		require.Nil(t, r.Forwarded().Headers)
	}
	s.Respond(200, "ok")
	form := "--B\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nwhisper\r\n--B--\r\n"
	s = g.post(0, form, "content-type", "multipart/form-data; boundary=B")
	requireForwarded(t, s, form)
	g.requireRefused(g.post(0, chat("whisper")), noPermit, "model", "a request for the same model in JSON")
	s.Respond(200, "ok")
	g.requireDrained("model")
}

// 300 KB in 7 KB pieces behind a window of 64 KiB and a host that buffers 32 KiB: nothing is refused, nothing is lost.
func TestCase_O22_LargeBodyArrivesByteForByte(t *testing.T) {
	body := `{"model":"m","messages":["` + strings.Repeat("0123456789", 30_000) + `"]}`
	for _, waiting := range []bool{false, true} {
		for _, end := range []string{"body", "trailers"} {
			t.Run(fmt.Sprintf("waiting %t, ended by %s", waiting, end), func(t *testing.T) {
				g := start(t, 2, fromBody(pool("model", 1, "queue", 1, "max_wait", "20s")), wasmtest.WithBodyLimit(32<<10))
				var holder *wasmtest.Stream
				if waiting {
					holder = g.post(1, chat("m"))
				}
				s := g.open(0)
				for at := 0; at < len(body); at += 7000 {
					piece := body[at:min(at+7000, len(body))]
					s.RequestBody([]byte(piece), end == "body" && at+7000 >= len(body))
					require.Equal(t, waiting || at+7000 < 65536, s.Paused(), "after %d bytes", at+7000)
				}
				if end == "trailers" {
					s.RequestTrailers(wasmtest.HeadersOf("x", "y"))
				}
				if waiting {
					require.Nil(t, s.Forwarded().Headers)
					require.Equal(t, 1, g.gauge("model.queued"))
					holder.Respond(200, "ok")
					g.host.Drain()
				}
				requireForwarded(t, s, body)
				s.Respond(200, "ok")
				g.requireDrained("model")
			})
		}
	}
}

func TestCase_O22_UngovernedBodiesAreNotLookedAt(t *testing.T) {
	g := start(t, 1, fromBody(pool("model", 0)))
	s := g.plugin.Stream(0)
	require.Equal(t, wasmtest.Continue, s.RequestHeaders(wasmtest.RequestHeaders("POST", "/upload"), false))
	read := g.host.HostCalls("proxy_get_buffer_bytes")
	for range 50 {
		require.Equal(t, wasmtest.Continue, s.RequestBody(make([]byte, 1<<20), false))
	}
	require.Equal(t, read, g.host.HostCalls("proxy_get_buffer_bytes"))
	require.Len(t, s.Forwarded().Body, 50<<20)
}

func TestRefusalAndWaitFromTheBodysCallback(t *testing.T) {
	g := start(t, 2, fromBody(pool("model", 1, "queue", 1, "max_wait", "1s"), object{"name": "all", "limit": 10}))
	a := g.post(0, chat("m"))
	w := g.post(1, chat("m"))
	g.requireWaiting(w, "the second request")
	r := g.post(0, chat("m"))
	g.requireRefused(r, noPermit, "model", "the third request")
	require.Nil(t, r.Forwarded().Headers)
	require.Equal(t, 1, g.gauge("all.inflight"))
	g.host.Run(time.Second + tick)
	g.requireRefused(w, tooLate, "model", "the second request, after its wait")
	require.Nil(t, w.Forwarded().Headers)
	a.Respond(200, "ok")
	g.requireDrained("model", "all")
}

func TestCase_O17_WithoutTheFlag(t *testing.T) {
	g := startWithoutTheFlag(t, fromBody(pool("model", 1)))
	s := g.open(0)
	require.Equal(t, wasmtest.Held, s.RequestBody([]byte(chat("m")), true))
	g.host.Run(5*time.Second - ms)
	g.requireWaiting(s, "a request whose body is held back")
	require.Empty(t, g.host.Logs())
	g.host.Run(ms + tick)
	g.requireRunning(s, "the request, after 5 s")
	requireForwarded(t, s, chat("m"))
	g.requireRefused(g.open(0), noPermit, "model", "the next one: at once, as the model unknown")
	require.Len(t, g.host.Logs(), 1)
	require.Equal(t, wasmtest.LogWarn, g.host.Logs()[0].Level)
	require.Contains(t, g.host.Logs()[0].Message, "allow_on_headers_stop_iteration")
	s.Respond(200, "ok")
	for range 3 {
		s = g.open(0)
		g.requireRunning(s, "a later one")
		require.Equal(t, wasmtest.Continue, s.RequestBody([]byte(chat("m")), true))
		requireForwarded(t, s, chat("m"))
		s.Respond(200, "ok")
	}
	require.Len(t, g.host.Logs(), 1)
	other := g.open(1) // another worker finds out for itself
	g.host.Run(5*time.Second + tick)
	g.requireRunning(other, "the other worker's first, which has not sent its body yet")
	require.Len(t, g.host.Logs(), 1)
	other.ClientGone()
	other = g.post(1, chat("m"))
	g.host.Run(5*time.Second + tick)
	g.requireRunning(other, "the other worker's second")
	require.Len(t, g.host.Logs(), 2)
	other.ClientGone()
	g.afterReset()
	g.requireDrained("model")
}

// When many wait for their bodies together, there is one line in the log.
func TestWithoutTheFlagManyAtOnce(t *testing.T) {
	g := startWithoutTheFlag(t, fromBody(pool("model", 500)))
	var all []*wasmtest.Stream
	for range 200 {
		all = append(all, g.post(0, chat("m")))
	}
	g.host.Run(5*time.Second + 10*tick)
	for _, s := range all {
		g.requireRunning(s, "one of two hundred")
	}
	require.Len(t, g.host.Logs(), 1)
	require.LessOrEqual(t, g.host.MaxActions(), maxActions)
}

// The first client of all is slow. Its body comes in the moment its headers go on, so the host seems not to let bodies
// come. The first body that comes while headers wait shows that it does.
func TestBodiesAreReadAgainOnceOneHasCome(t *testing.T) {
	g := start(t, 1, fromBody(pool("model", 1, "queue", 5, "max_wait", "60s")))
	slow := g.open(0)
	g.host.Run(5*time.Second + tick)
	g.requireRunning(slow, "the slow one, as unknown")
	slow.RequestBody([]byte(chat("m")), true)
	require.Len(t, g.host.Logs(), 1)
	w := g.open(0)
	g.requireWaiting(w, "the next one: for the model unknown")
	require.Equal(t, 1, g.gauge("model.queued"))
	w.RequestBody([]byte(chat("m")), true)
	s := g.post(0, chat("m"))
	g.requireRunning(s, "a request whose body is read again")
	g.requireWaiting(g.post(0, chat("m")), "another one of its model")
}

// A client that stalls says nothing about the host, even if it is the first of all. The bodies of others are read on.
func TestOneStalledClientEndsNobodyElsesReading(t *testing.T) {
	for _, sent := range []string{"", `{"messages":["`} {
		g := start(t, 1, fromBody(pool("model", 1)))
		s := g.open(0)
		gives := 5 * time.Second
		if sent != "" {
			s.RequestBody([]byte(sent), false)
			gives = time.Second
		}
		g.host.Run(gives - ms)
		g.requireWaiting(s, "the stalled one")
		g.host.Run(ms + tick)
		g.requireRunning(s, "the stalled one, as unknown")
		require.Empty(t, g.host.Logs())
		g.requireRefused(g.send(0), noPermit, "model", "another one for the model unknown")
		a := g.post(0, chat("m"))
		g.requireRunning(a, "a request whose body comes")
		g.requireRefused(g.post(0, chat("m")), noPermit, "model", "another one of its model")
		s.RequestBody([]byte(`x"],"model":"m"}`), true)
		requireForwarded(t, s, sent+`x"],"model":"m"}`)
		s.Respond(200, "ok")
		a.Respond(200, "ok")
		g.requireDrained("model")
	}
}

// A piece every 0.9 s is a slow client, not a stalled one.
func TestSlowBodyIsWaitedFor(t *testing.T) {
	g := start(t, 1, fromBody(pool("model", 1)))
	s := g.open(0)
	body := chat("m")
	for i := range len(body) {
		g.host.Run(900 * ms)
		s.RequestBody([]byte{body[i]}, false)
	}
	requireBody := s.Forwarded()
	require.Equal(t, body, string(requireBody.Body))
	g.requireRefused(g.post(0, body), noPermit, "model", "another one of its model")
}

func TestClientGoneWhileItsBodyIsRead(t *testing.T) {
	g := start(t, 1, fromBody(pool("model", 1, "queue", 5)))
	for _, sent := range []string{"", `{"model":"m"`} {
		s := g.open(0)
		s.RequestBody([]byte(sent), false)
		s.ClientGone()
		g.host.Run(20 * time.Second)
		require.Nil(t, s.Forwarded().Headers)
		require.Zero(t, g.counter("model.evaluated"))
		require.Empty(t, g.host.Logs())
	}
	require.Zero(t, g.host.Run(time.Hour), "a gateway without requests ticks")
	g.requireDrained("model")
	w := g.post(0, chat("m"))
	x := g.post(0, chat("m"))
	x.ClientGone()
	require.Equal(t, 1, g.counter("model.cancelled_waiting"))
	w.Respond(200, "ok")
	g.requireDrained("model")
}

func TestDeadlineThatPassesWhileTheBodyIsRead(t *testing.T) {
	g := start(t, 1, fromBody(pool("model", 10)))
	for _, sent := range []string{"", `{"model":"m"`} {
		s := g.open(0, "x-request-timeout-ms", "300")
		if sent != "" {
			s.RequestBody([]byte(sent), false)
		}
		g.host.Run(299 * ms)
		g.requireWaiting(s, "the request before its deadline")
		g.host.Run(ms + tick)
		g.requireRefused(s, tooLate, "model", "the request at its deadline")
		require.Nil(t, s.Forwarded().Headers)
	}
	s := g.open(0, "x-request-timeout-ms", "0")
	g.host.Run(tick)
	g.requireRefused(s, tooLate, "model", "a request that came too late")
	s = g.open(0, "x-request-timeout-ms", "300")
	g.host.Run(200 * ms)
	s.RequestBody([]byte(chat("m")), true)
	require.Equal(t, "300", s.Forwarded().Headers.Get("x-request-timeout-ms"), "a body's time is the client's own")
	require.Equal(t, 3, g.counter("model.expired_deadline"))
	require.Empty(t, g.host.Logs(), "a short deadline says nothing about the host")
	s.Respond(200, "ok")
	g.requireDrained("model")
}

// More requests than one callback may answer expire together, before the worker has ever had a seat.
func TestManyDeadlinesThatPassWhileBodiesAreRead(t *testing.T) {
	g := start(t, 1, fromBody(pool("model", 10)))
	var all []*wasmtest.Stream
	for range 200 {
		all = append(all, g.open(0, "x-request-timeout-ms", "300"))
	}
	g.host.Run(300*ms + 10*tick)
	for _, s := range all {
		g.requireRefused(s, tooLate, "model", "one of two hundred")
	}
	require.LessOrEqual(t, g.host.MaxActions(), maxActions)
	g.requireDrained("model")
}

func TestAttemptsGoByTheModelInTheBody(t *testing.T) {
	c := fromBody(
		object{"name": "tenant", "key": []string{"tenant"}, "limit": 9},
		pool("model", 1, "per", "attempt"))
	g := startStages(t, 1, c)
	post := func(model string) *call {
		s := g.post(0, chat(model), "x-tenant", "a")
		return &call{s, g, 0}
	}
	a, b := post("m"), post("n")
	a1, b1 := a.try(), b.try()
	g.requireRunning(a1, "a try for m")
	g.requireRunning(b1, "a try for n")
	g.requireRefused(post("m").try(), noPermit, "model", "another try for m")
	require.Nil(t, (&call{g.open(0, "x-tenant", "a"), g, 0}).Forwarded().Headers, "no try begins before the body has come")
	for _, s := range []*wasmtest.Stream{a1, b1, a.Stream, b.Stream} {
		s.Respond(200, "ok")
	}
	require.Zero(t, g.gauge("model.inflight"))
}

// The memory that a body of a whole window takes is free again when the request ends.
func TestBodiesLeaveNoMemoryBehind(t *testing.T) {
	g := start(t, 1, fromBody(pool("model", 100)))
	size := func() int { return g.plugin.Root(0).VM().MemorySize() }
	run := func(requests, bytes int) {
		body := `{"messages":["` + strings.Repeat("x", bytes) + `"],"model":"m"}`
		for range requests {
			s := g.open(0)
			s.RequestBody([]byte(body[:bytes/2]), false)
			s.RequestBody([]byte(body[bytes/2:]), true)
			s.Respond(200, "ok")
		}
	}
	run(10_000, 100) // until the VM's collector has reached its usual heap
	before := size()
	run(500, 64<<10)
	require.Equal(t, before, size(), "bytes of the VM's memory")
}
