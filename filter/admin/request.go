package admin

import (
	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/headgate/headgate/admission/config"
	"github.com/headgate/headgate/filter/abi"
	"github.com/headgate/headgate/filter/admin/page"
	"github.com/headgate/headgate/filter/journal"
)

// mostBody is how long the body of a change may be.
const mostBody = 4096

// A stream is one request to the admin listener.
type stream struct {
	types.DefaultHttpContext
	stage *Stage
	id    uint32

	headers headers
	query   query
	what    question
	body    []byte
	inBody  bool // the body has yet to come
	replied bool

	round journal.Round // in which the workers were asked
	due   int64         // when it is answered at the latest
}

// A question is what a request asks for.
type question uint8

const (
	askState question = iota
	askEvents
	askChange
)

// The paths.
const (
	root       = "/headgate"
	pagePath   = root + "/"
	statePath  = root + "/v1/state"
	eventsPath = root + "/v1/events"
	limitsPath = root + "/v1/limits"
	statsPath  = "/stats/prometheus" // Envoy's own, which a route may lead to
)

// OnHttpRequestHeaders answers a request, or lets it wait for its body or for the workers.
func (r *stream) OnHttpRequestHeaders(_ int, end bool) types.Action {
	s := r.stage
	r.readHeaders()
	s.now = s.context.Now()
	address, _ := abi.Property("destination\x00address")
	h := &r.headers
	if f := h.refuseStranger(string(address), s.cfg.Admin.Expose); f != nil {
		return r.refuse(f)
	}
	isGet := h.method == "GET" || h.method == "HEAD"
	allowed := "GET, HEAD"
	switch h.path {
	case root:
		if isGet {
			return r.reply(308, nil, [2]string{"location", pagePath})
		}
	case pagePath:
		if isGet {
			return r.replyPage()
		}
	case statsPath:
		if isGet {
			return types.ActionContinue
		}
	case statePath, eventsPath:
		if isGet {
			return r.onQuestion()
		}
	case limitsPath:
		if h.method == "PUT" {
			return r.onChange(end)
		}
		allowed = "PUT"
	default:
		return r.refuse(&failure{404, "", "there is nothing here: the page is at " + pagePath})
	}
	return r.refuse(&failure{405, "", "not with the method " + printable(h.method) + " (want " + allowed + ")"},
		[2]string{"allow", allowed})
}

// readHeaders reads the headers that matter.
func (r *stream) readHeaders() {
	h := &r.headers
	pairs, _ := abi.RequestHeaders()
	for c := pairs.Cursor(); c.Next(); {
		value := string(c.Value)
		switch string(c.Name) {
		case ":method":
			h.method = value
		case ":path":
			h.path, h.query = cut(value, '?')
		case ":authority":
			h.host = value
		case "content-type":
			h.contentType = value
		case "content-length":
			h.length = value
		case "accept-encoding":
			h.encoding, h.hasEncoding = h.encoding+","+value, true
		case "origin":
			h.origins = append(h.origins, value)
		case "sec-fetch-site":
			h.site, h.hasSite = value, true
		}
	}
}

// onQuestion begins a request for the state or the events.
func (r *stream) onQuestion() types.Action {
	q, f := readQuery(r.headers.query)
	if r.query = q; r.headers.path == eventsPath {
		if r.what = askEvents; f == nil && q.after != "" {
			if _, ok := wholeNumber(q.after); !ok {
				f = &failure{400, "after", "after: not the number of an event"}
			}
		}
	}
	if f != nil {
		return r.refuse(f)
	}
	return r.askWorkers()
}

// askWorkers lets a request wait for the workers' reports, or answers it.
func (r *stream) askWorkers() types.Action {
	if r.stage.ask(r) {
		r.stage.await(r, r.stage.now+journal.PatienceNanos)
		return types.ActionPause
	}
	r.answer()
	return types.ActionPause
}

// onChange begins a change. What can be refused without its body is refused.
func (r *stream) onChange(end bool) types.Action {
	if f := r.headers.refuseForeignPage(); f != nil {
		return r.refuse(f)
	}
	if n, ok := wholeNumber(r.headers.length); ok && n > mostBody {
		return r.refuse(tooLong)
	}
	r.what = askChange
	if end {
		r.change()
		return types.ActionPause
	}
	r.inBody = true
	r.stage.await(r, r.stage.now+bodyPatience)
	return types.ActionPause
}

var tooLong = &failure{413, "", "the body is longer than 4096 bytes"}

// OnHttpRequestBody collects the body of a change. It holds back what comes later.
func (r *stream) OnHttpRequestBody(size int, end bool) types.Action {
	s := r.stage
	if r.headers.path == statsPath {
		return types.ActionContinue
	}
	if !r.inBody {
		return abi.ActionPauseBody
	}
	if len(r.body)+size > mostBody {
		s.forget(r)
		r.inBody = false
		r.refuse(tooLong)
		return abi.ActionPauseBody
	}
	piece, _ := abi.RequestBody(0, size)
	r.body = append(r.body, piece...)
	if end {
		r.onWholeBody()
	}
	return abi.ActionPauseBody
}

// OnHttpRequestTrailers ends the body.
func (r *stream) OnHttpRequestTrailers(int) types.Action {
	switch {
	case r.headers.path == statsPath:
		return types.ActionContinue
	case r.inBody:
		r.onWholeBody()
	}
	return types.ActionPause
}

func (r *stream) onWholeBody() {
	s := r.stage
	s.forget(r)
	r.inBody = false
	s.now = s.context.Now()
	r.change()
}

// change carries a change out, and answers with the new state once the workers have reported.
func (r *stream) change() {
	c, err := config.ParseLimitChange(r.body)
	if err != nil {
		message := err.Error()
		if err.Field == "" {
			message = "body: " + err.Problem
		}
		r.refuse(&failure{400, err.Field, message})
		return
	}
	if f := r.stage.setLimit(c); f != nil {
		r.refuse(f)
		return
	}
	r.query = query{pool: c.Pool, hasPool: true, key: c.Key, hasKey: c.HasKey}
	r.askWorkers()
}

// answer answers a request that has waited for the workers or need not.
func (r *stream) answer() {
	s := r.stage
	if r.inBody {
		r.refuse(&failure{500, "", "no body came in 5 s: either it was not sent, or this filter lacks " +
			"allow_on_headers_stop_iteration: true, without which Envoy holds it back"})
		return
	}
	s.names.learn(s.asker)
	s.out.b = s.out.b[:0]
	switch r.what {
	case askState:
		s.writeState(&r.query)
	case askEvents:
		s.writeEvents(&r.query)
	case askChange:
		s.writeChanged(&r.query)
	}
	r.reply(200, s.out.b, [2]string{"content-type", "application/json"})
}

// replyPage answers with the page, which the module has in its compressed form only.
func (r *stream) replyPage() types.Action {
	if !r.headers.acceptsGzip() {
		return r.refuse(&failure{406, "", "the page is there with content-encoding gzip only"},
			[2]string{"vary", "accept-encoding"})
	}
	return r.reply(200, []byte(page.Gzip), [2]string{"content-type", "text/html; charset=utf-8"},
		[2]string{"content-encoding", "gzip"}, [2]string{"vary", "accept-encoding"},
		[2]string{"content-security-policy", page.Policy})
}

// refuse answers with an error.
func (r *stream) refuse(f *failure, more ...[2]string) types.Action {
	var w writer
	w.raw(`{"error":{`)
	w.text("field", f.field)
	w.text("message", f.message)
	w.raw("}}")
	return r.reply(f.status, w.b, append(more, [2]string{"content-type", "application/json"})...)
}

// reply answers the request. The stream has to be the one that host calls are about.
func (r *stream) reply(status uint32, body []byte, more ...[2]string) types.Action {
	if !r.replied {
		r.replied = true
		pairs := append(more, [2]string{"cache-control", "no-store"}, [2]string{"x-content-type-options", "nosniff"},
			[2]string{"referrer-policy", "no-referrer"}, [2]string{"cross-origin-resource-policy", "same-origin"},
			[2]string{"x-frame-options", "DENY"})
		abi.SendLocalReply(status, "headgate_admin", body, abi.AppendPairs(nil, pairs...), -1)
	}
	return types.ActionPause
}

// OnHttpStreamDone forgets a request that ends while it waits.
func (r *stream) OnHttpStreamDone() { r.stage.forget(r) }
