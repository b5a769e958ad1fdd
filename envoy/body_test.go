package envoy_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

const mebibyte = 1 << 20

// inBody is a listener whose models are in the body, with one permit each.
func inBody(t *testing.T, queue int64, change ...func(*rig.Setup)) *rig.Env {
	t.Helper()
	s := rig.Setup{Config: &rig.Config{Pools: []rig.Pool{modelPool(1, queue, longWait)},
		More: modelOf(rig.Object{"json_body": "model"})}}
	for _, f := range change {
		f(&s)
	}
	return rig.New(t, rig.Shared(t, 2), s)
}

// llm is a chat request of that size, or as small as it can be.
func llm(model string, size int) []byte {
	head, tail := `{"model":"`+model+`","stream":true,"messages":[{"role":"user","content":"`, `"}]}`
	return []byte(head + filler(size-len(head)-len(tail)) + tail)
}

// lateModel is a chat request of that size whose last member is the model.
func lateModel(model string, size int) []byte {
	head, tail := `{"messages":[{"role":"user","content":"`, `"}],"model":"`+model+`"}`
	return []byte(head + filler(size-len(head)-len(tail)) + tail)
}

// filler differs from place to place, so that a piece that is lost, doubled or moved shows.
func filler(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "%d ", i)
	}
	return b.String()[:max(size, 0)]
}

func compressed(body []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(body)
	w.Close()
	return b.Bytes()
}

func bodyCall(id string, body []byte, d rig.Delivery, header ...rig.Field) rig.Call {
	return rig.Call{NoModel: true, Script: rig.Script{ID: id}, Body: body, Delivery: d, Header: header}
}

// checkArrived checks that the upstream has the body byte for byte.
func checkArrived(t *testing.T, env *rig.Env, c rig.Call) {
	t.Helper()
	seen, ok := env.Up.Request(c.ID)
	if !ok || sha256.Sum256(seen.Body) != sha256.Sum256(c.Body) {
		t.Errorf("%s: %d bytes or other ones arrived of %d", c.ID, len(seen.Body), len(c.Body))
	}
}

// takes holds the model's one permit. A body without a readable model counts for the model "unknown".
func takes(t *testing.T, env *rig.Env, id, model string) *rig.Pending {
	t.Helper()
	body := []byte(`{}`)
	if model != "unknown" {
		body = llm(model, 0)
	}
	return env.Hold(t, id, rig.Call{NoModel: true, Body: body})
}

// Deliveries of a body that names the model "m".
func deliveries() map[string]rig.Call {
	ms := time.Millisecond
	return map[string]rig.Call{
		"whole":                bodyCall("", llm("m", 2000), rig.Delivery{}),
		"split":                bodyCall("", llm("m", 0), rig.Delivery{Piece: 15, Gap: ms}),
		"a byte a piece":       bodyCall("", llm("m", 0), rig.Delivery{Piece: 1, Chunked: true}),
		"chunked":              bodyCall("", llm("m", 2000), rig.Delivery{Piece: 500, Chunked: true}),
		"late":                 bodyCall("", llm("m", 2000), rig.Delivery{Gap: 2 * time.Second}),
		"late and chunked":     bodyCall("", llm("m", 0), rig.Delivery{Piece: 30, Gap: 300 * ms, Chunked: true}),
		"Expect: 100-continue": bodyCall("", llm("m", 2000), rig.Delivery{Expect: true}),
		"chunked, with Expect": bodyCall("", llm("m", 2000), rig.Delivery{Expect: true, Chunked: true, Piece: 700}),
		"the model escaped":    bodyCall("", []byte(`{"\u006dodel":"\u006d"}`), rig.Delivery{}),
		"the model behind others": bodyCall("",
			[]byte(`{"x":{"model":"z"},"messages":["\"model\":\"z\"",{"model":"z"}],"model":"m"}`), rig.Delivery{}),
		"a form": form("m"),
	}
}

// Sizes at the edges of buffers and of the window, of bodies that name the model "m".
func sizes() map[string]rig.Call {
	return map[string]rig.Call{
		"32767 bytes":                 bodyCall("", llm("m", 32767), rig.Delivery{}),
		"32768 bytes":                 bodyCall("", llm("m", 32768), rig.Delivery{}),
		"32769 bytes":                 bodyCall("", llm("m", 32769), rig.Delivery{}),
		"65535 bytes, the model last": bodyCall("", lateModel("m", 65535), rig.Delivery{}),
		"65536 bytes, the model last": bodyCall("", lateModel("m", 65536), rig.Delivery{Piece: 10_000, Chunked: true}),
		"1 MiB - 1":                   bodyCall("", llm("m", mebibyte-1), rig.Delivery{}),
		"1 MiB":                       bodyCall("", llm("m", mebibyte), rig.Delivery{Chunked: true, Piece: 50_000}),
		"1 MiB + 1":                   bodyCall("", llm("m", mebibyte+1), rig.Delivery{}),
	}
}

// Bodies whose model, if any, is behind the window.
func tooDeep() map[string]rig.Call {
	return map[string]rig.Call{
		"the model behind the window": bodyCall("", lateModel("m", 65600), rig.Delivery{}),
		"the model after 1 MiB":       bodyCall("", lateModel("m", mebibyte+200_000), rig.Delivery{}),
		"the model after 1 MiB, in chunks": bodyCall("", lateModel("m", mebibyte+200_000),
			rig.Delivery{Piece: 50_000, Chunked: true}),
		"20 MiB": bodyCall("", append([]byte(`["`), noise(20*mebibyte)...), rig.Delivery{}),
	}
}

func form(model string) rig.Call {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	w.WriteField("language", "en")
	if model != "" {
		w.WriteField("model", model)
	}
	file, _ := w.CreateFormFile("file", "speech.mp3")
	file.Write(noise(200_000))
	w.Close()
	return bodyCall("", b.Bytes(), rig.Delivery{}, rig.Field{Name: "content-type", Value: w.FormDataContentType()})
}

// noise is bytes of every value.
func noise(size int) []byte {
	b := make([]byte, size)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// Bodies that name no model we could read.
func unreadable() map[string]rig.Call {
	zstd := append([]byte{0x28, 0xb5, 0x2f, 0xfd}, noise(3000)...)
	label := func(coding string, body []byte) rig.Call {
		return bodyCall("", body, rig.Delivery{}, rig.Field{Name: "content-encoding", Value: coding})
	}
	bomb := compressed(bytes.Repeat([]byte{' '}, 64*mebibyte)) // its length is what counts, not what it would expand to
	return map[string]rig.Call{
		"GET":                        {NoModel: true, Method: "GET"},
		"a content-length of 0":      {NoModel: true},
		"chunked and empty":          bodyCall("", nil, rig.Delivery{Chunked: true}),
		"no JSON":                    bodyCall("", noise(5000), rig.Delivery{}),
		"no model":                   bodyCall("", []byte(`{"messages":[]}`), rig.Delivery{}),
		"two models":                 bodyCall("", []byte(`{"model":"m","model":"z"}`), rig.Delivery{}),
		"a model that is a number":   bodyCall("", []byte(`{"model":1}`), rig.Delivery{}),
		"invalid UTF-8 in the model": bodyCall("", []byte("{\"model\":\"\xff\"}"), rig.Delivery{}),
		"gzip":                       label("gzip", compressed(llm("m", 2000))),
		"zstd":                       label("zstd", zstd),
		"br":                         label("br", noise(2000)),
		"deflate":                    label("deflate", noise(2000)),
		"gzip, gzip":                 label("gzip, gzip", compressed(compressed(llm("m", 0)))),
		"a wrong label":              label("gzip", llm("m", 0)),
		"gzip without a label":       bodyCall("", compressed(llm("m", 2000)), rig.Delivery{}),
		"gzip cut short":             label("gzip", compressed(llm("m", 2000))[:40]),
		"gzip that expands":          label("gzip", bomb),
		"a form without a model":     form(""),
	}
}

// Free permits: everything gets through. A model that waits: nothing at the upstream before the grant, then everything.
func TestCase_O17_TheModelIsFoundHoweverTheBodyComes(t *testing.T) {
	allWait(t, "m", deliveries(), "z")
}

func TestCase_O21_UnreadableBodiesShareOneLimitedModel(t *testing.T) {
	allWait(t, "unknown", unreadable(), "m")
}

func TestCase_O22_SizesAtTheEdgesAreNeverRefused(t *testing.T) {
	allWait(t, "m", sizes(), "z")
}

func TestCase_O22_TheModelBehindTheWindowIsUnknown(t *testing.T) {
	allWait(t, "unknown", tooDeep(), "m")
}

// Over HTTP/2 the flow control windows hold a body back.
func TestCase_O22_LargeBodyWaitsOverHTTP2(t *testing.T) {
	env := inBody(t, 5)
	h2 := env.H2(t)
	held := takes(t, env, "held", "m")
	calls := []rig.Call{bodyCall("large", llm("m", 5*mebibyte), rig.Delivery{}),
		bodyCall("small", llm("m", 100), rig.Delivery{})}
	var waiting []*rig.Pending
	for i, c := range calls {
		waiting = append(waiting, h2.Send(c))
		env.AwaitGauge(t, "model", "queued", int64(i+1))
	}
	mustBeOK(t, "another model on the same connection", h2.Do(bodyCall("other", llm("z", 200), rig.Delivery{})))
	if n := len(env.Up.Requests()); n != 2 {
		t.Errorf("the upstream has %d requests, want the held one and the other model's", n)
	}
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	for i, c := range calls {
		mustBeOK(t, c.ID, waiting[i].Wait())
		checkArrived(t, env, c)
	}
	env.Up.ResetPeak()
	env.DrainCheck(t, "model", 1, bodyCall("", llm("m", 0), rig.Delivery{}))
}

// allWait sends the calls, each of which counts as the model, first with that model free and then with it full: all
// wait together, without a header at the upstream, while another model is free.
func allWait(t *testing.T, model string, calls map[string]rig.Call, other string) {
	for _, buffer := range []int{0, 32 << 10} {
		name := "the default buffer"
		if buffer > 0 {
			name = "a buffer of 32 KiB"
			calls = maps.Clone(calls)
			// These have the model behind what the buffer takes.
			maps.DeleteFunc(calls, func(name string, _ rig.Call) bool { return strings.HasSuffix(name, "the model last") })
		}
		t.Run(name, func(t *testing.T) {
			env := inBody(t, int64(len(calls)), func(s *rig.Setup) { s.Buffer = buffer })
			if buffer == 0 {
				passesFreely(t, env, calls)
			}
			held := takes(t, env, "held", model)
			waiting := queuesAll(t, env, calls)
			mustBeOK(t, "another model", env.Do(t, bodyCall("other", llm(other, 0), rig.Delivery{})))
			env.Up.Open("held")
			mustBeOK(t, "the held one", held.Wait())
			for name, p := range waiting {
				mustBeOK(t, name+", after a wait", p.Wait())
				checkArrived(t, env, calls[name].With(name))
			}
			env.Up.ResetPeak()
			like := bodyCall("", llm(model, 0), rig.Delivery{})
			if model == "unknown" {
				like.Body = []byte(`{}`)
			}
			env.DrainCheck(t, "model", 1, like)
		})
	}
}

// passesFreely sends each call while the model is free; those with a slow body are left out.
func passesFreely(t *testing.T, env *rig.Env, calls map[string]rig.Call) {
	t.Helper()
	for name, call := range calls {
		if call.Delivery.Gap < time.Second {
			mustBeOK(t, name+", a free model", env.Do(t, call.With("free "+name)))
			checkArrived(t, env, call.With("free "+name))
		}
	}
}

// queuesAll sends all calls and returns when all of them wait.
func queuesAll(t *testing.T, env *rig.Env, calls map[string]rig.Call) map[string]*rig.Pending {
	t.Helper()
	waiting := map[string]*rig.Pending{}
	for name, call := range calls {
		waiting[name] = env.Send(t, call.With(name))
	}
	passed := func(name string) bool { return env.Up.Saw(name) || waiting[name].Done() }
	rig.Await(t, "all wait, or one does not", func() bool {
		return env.Gauge(t, "model", "queued") == int64(len(calls)) ||
			slices.ContainsFunc(slices.Collect(maps.Keys(waiting)), passed)
	})
	for name := range waiting {
		if passed(name) {
			t.Fatalf("%s reached the upstream, or ended, while the model was full", name)
		}
	}
	return waiting
}

// Until the model is known nothing may reach the upstream, even if all permits are free.
func TestCase_O17_NoHeaderReachesTheUpstreamBeforeTheModelIsKnown(t *testing.T) {
	env := inBody(t, 0)
	conn := env.Dial(t)
	body := string(llm("m", 300))
	conn.Write(t, fmt.Sprintf("POST %s HTTP/1.1\r\nhost: gateway\r\ncontent-length: %d\r\n\r\n", rig.Path, len(body)))
	mustBeOK(t, "another one meanwhile", env.Do(t, bodyCall("other", llm("z", 0), rig.Delivery{})))
	conn.Write(t, body[:5])
	mustBeOK(t, "another one meanwhile", env.Do(t, bodyCall("other", llm("z", 0), rig.Delivery{})))
	if n := len(env.Up.Requests()); n != 2 {
		t.Errorf("the upstream has %d requests, want the other 2: a header left before the model was known", n)
	}
	conn.Write(t, body[5:])
	mustBeOK(t, "once its body has come", conn.Read("POST"))
	env.CheckCounts(t, "model", rig.Counts{"evaluated": 3, "admitted": 3})
	env.DrainCheck(t, "model", 1, bodyCall("", llm("m", 0), rig.Delivery{}))
}

func TestClientsThatLeaveWhileTheirBodyIsAwaited(t *testing.T) {
	env := inBody(t, 5)
	held := takes(t, env, "held", "m")
	for i, how := range []rig.Leave{rig.LeaveRST, rig.LeaveFIN} {
		body := llm("m", 500)
		headers := env.Send(t, bodyCall(fmt.Sprintf("headers-%d", i), body, rig.Delivery{Chunked: true, Short: len(body)}))
		begun := env.Send(t, bodyCall(fmt.Sprintf("begun-%d", i), body, rig.Delivery{Short: 495}))
		waiter := env.Send(t, bodyCall(fmt.Sprintf("waiter-%d", i), body, rig.Delivery{}))
		env.AwaitGauge(t, "model", "queued", 1)
		for _, p := range []*rig.Pending{headers, begun, waiter} {
			p.Leave(how)
		}
		env.AwaitGauge(t, "model", "queued", 0)
	}
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	if n := len(env.Up.Requests()); n != 1 {
		t.Errorf("the upstream saw %d requests, want the held one alone", n)
	}
	env.DrainCheck(t, "model", 1, bodyCall("", llm("m", 0), rig.Delivery{}))
}

func TestCase_O22_UngovernedUploadsAreNotLookedAt(t *testing.T) {
	upload := form("m")
	upload.Body = append(upload.Body, noise(50*mebibyte)...) // no matter that it is no form any more
	upload.Path, upload.ID = "/v1/files", "upload"
	env := inBody(t, 0, func(s *rig.Setup) { s.Buffer = 32 << 10 })
	held := takes(t, env, "held", "m")
	before := env.FilterCounts(t)["ungoverned"]
	mustBeOK(t, "50 MiB", env.Do(t, upload))
	checkArrived(t, env, upload)
	if n := env.FilterCounts(t)["ungoverned"] - before; n != 1 {
		t.Errorf("ungoverned grew by %d, want 1", n)
	}
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	env.Up.ResetPeak()
	env.DrainCheck(t, "model", 1, bodyCall("", llm("m", 0), rig.Delivery{}))
}

var explore = flag.Bool("explore", false, "make 100,000 requests and more where memory is measured")

// Nothing of a request stays in memory. A leak of a tenth of the body would show, and so would one of the filter's
// state for each request.
func TestMemoryStaysFlat(t *testing.T) {
	const connections, warmUp, allowed = 8, 1000, 8 << 20
	requests := 3000
	if *explore {
		requests = 100_000
	}
	env := inBody(t, 100, func(s *rig.Setup) { s.Config.Pools[0].Limit = 4 })
	run := func(n int) {
		var all sync.WaitGroup
		for range connections {
			conn := env.Dial(t)
			all.Go(func() {
				for i := range n / connections {
					if r := conn.Do(bodyCall("", llm(fmt.Sprint(i%3), 64<<10), rig.Delivery{})); r.Status != http.StatusOK {
						t.Errorf("got %s", r)
						return
					}
				}
			})
		}
		all.Wait()
		env.Up.Forget()
	}
	run(warmUp)
	before, err := env.ResidentBytes()
	if err != nil {
		t.Fatal(err)
	}
	for done := 0; done < requests; done += 1000 {
		run(1000)
	}
	after, err := env.ResidentBytes()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d requests with %d MiB of bodies: %d KiB resident before, %+d KiB after", requests, requests>>4, before>>10,
		(after-before)>>10)
	if after-before > allowed {
		t.Errorf("memory grew by %d KiB over %d requests", (after-before)>>10, requests)
	}
	env.AwaitDrained(t, "model")
}

// A body stays whole on its way through both stages and every try.
func TestBodyReachesEveryTryWhole(t *testing.T) {
	s := stagedSetup(tenantPool(1, 0), attemptPool(1, 5))
	s.Config.More = modelOf(rig.Object{"json_body": "model"})
	env := rig.New(t, rig.Shared(t, 2), s)
	for _, size := range []int{2000, 200_000} {
		c := bodyCall(fmt.Sprint(size), llm("m", size), rig.Delivery{Chunked: true, Piece: 20_000})
		c.Tries = []rig.Script{failed, {}}
		mustBeOK(t, c.ID, env.Do(t, c))
		tries := env.Up.Tries(c.ID)
		if len(tries) != 2 {
			t.Fatalf("%s bytes: %d tries, want 2", c.ID, len(tries))
		}
		for i, seen := range tries {
			if !bytes.Equal(seen.Body, c.Body) {
				t.Errorf("%s bytes: try %d got %d of them, or others", c.ID, i+1, len(seen.Body))
			}
		}
	}
	held := env.Hold(t, "held", rig.Call{NoModel: true, Tenant: "h", Body: llm("m", 0)})
	waiter := env.Send(t, bodyCall("waiter", llm("m", mebibyte), rig.Delivery{}))
	env.AwaitGauge(t, "model", "queued", 1)
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	mustBeOK(t, "1 MiB that waited in the attempt stage", waiter.Wait())
	checkArrived(t, env, bodyCall("waiter", llm("m", mebibyte), rig.Delivery{}))
	env.DrainCheck(t, "model", 1, rig.Call{NoModel: true, Tenant: "h", Body: llm("m", 0)})
}

// bodyWait is how long the filter waits for a body to begin.
const bodyWait = 5 * time.Second

// Without Envoy's flag no body comes while the headers wait. The first requests find that out; nobody hangs.
func TestCase_O17_WithoutTheFlagTheModelIsUnknown(t *testing.T) {
	t.Parallel() // with the other test that takes as long as a body is waited for
	env := inBody(t, 20, func(s *rig.Setup) { s.NoBodies = true })
	var first []*rig.Pending
	call := func(i int) rig.Call { return bodyCall(fmt.Sprint(i), llm(fmt.Sprint(i), 2000), rig.Delivery{}) }
	for i := range 12 { // enough for both workers
		first = append(first, env.Send(t, call(i)))
	}
	for i, r := range rig.WaitAll(first) {
		mustBeOK(t, "one of the first", r)
		checkArrived(t, env, call(i))
	}
	if !strings.Contains(env.LogSince(), "set allow_on_headers_stop_iteration: true") {
		t.Error("the log does not say why")
	}
	for i := 20; i < 30; i++ {
		r := env.Do(t, call(i))
		mustBeOK(t, "a later one", r)
		checkArrived(t, env, call(i))
		if r.Took() >= bodyWait {
			t.Errorf("a later one took %v: it waited for its body", r.Took())
		}
	}
	held := env.Hold(t, "held", rig.Call{NoModel: true, Body: llm("m", 0)})
	waiter := env.Queue(t, "model", bodyCall("waiter", llm("z", 0), rig.Delivery{}))[0]
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	mustBeOK(t, "one that waits for the unknown model", waiter.Wait())
	env.DrainCheck(t, "model", 1, rig.Call{NoModel: true})
}

// From one slow client the filter must not conclude that Envoy's flag is missing: the models of all others are still
// found.
func TestSlowClientDoesNotMakeEveryModelUnknown(t *testing.T) {
	t.Parallel()
	env := rig.New(t, rig.Shared(t, 1), rig.Setup{Config: &rig.Config{Pools: []rig.Pool{modelPool(1, 0, "")},
		More: modelOf(rig.Object{"json_body": "model"})}})
	slow := bodyCall("slow", llm("m", 0), rig.Delivery{Gap: bodyWait + 500*time.Millisecond})
	mustBeOK(t, "one whose body comes after 5.5 s", env.Do(t, slow))
	checkArrived(t, env, slow)
	held := takes(t, env, "held", "m")
	env.CheckRefused(t, env.Do(t, bodyCall("", llm("m", 0), rig.Delivery{})), "model", rig.Rejected)
	mustBeOK(t, "another model", env.Do(t, bodyCall("", llm("z", 0), rig.Delivery{})))
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	if strings.Contains(env.LogSince(), "allow_on_headers_stop_iteration") {
		t.Error("the log blames the host")
	}
}
