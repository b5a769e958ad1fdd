package filter

import (
	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/request"
	"github.com/headgate/headgate/filter/abi"
)

const (
	// bodyPiece is how many bytes of a body one host call reads.
	bodyPiece = 32 << 10

	// firstPieceWait bounds the wait for the first piece of a body. Some hosts let no body come while the headers wait,
	// such as Envoy without allow_on_headers_stop_iteration. There every such request would wait for ever.
	firstPieceWait = 5 * int64(admission.Second)

	// withheldDelay bounds how long after its headers a body comes that the host has withheld.
	withheldDelay = 10 * millisecond

	// nextPieceWait bounds the wait for a further piece: when its buffer is full, the host reads no more.
	nextPieceWait = int64(admission.Second)
)

// A bodySearch is the search for the model in one request's body.
type bodySearch struct {
	scan     request.BodyScan
	giveUpAt int64 // when the search ends if no piece comes before
	begun    bool  // a piece has come
}

// bodies are the requests in whose bodies the model is looked for, and what they have shown about the host.
type bodies struct {
	searched []*stream
	delivery bodyDelivery
}

// A bodyDelivery says whether the host lets a body come while its headers wait.
type bodyDelivery uint8

const (
	deliveryUnknown bodyDelivery = iota
	deliveryWorks                // it does: a body has come
	deliveryFails                // it doesn't: a body came as soon as its headers were let go, and not before
)

// canReadBody reports whether Headgate can read the request's body before the upstream does. It can't read one that is
// compressed or of gRPC. What follows an upgrade is no body, and comes only after the upstream's answer.
func (s *stream) canReadBody() bool {
	l := &s.plugin.lookups
	return s.plugin.bodies.delivery != deliveryFails && !s.grpc && !l.compressed() && len(l.value(l.upgrade)) == 0
}

// compressed reports whether the request's body has a content encoding, or seems to have two.
func (l *lookups) compressed() bool {
	encoding := l.value(l.contentEncoding)
	return len(encoding) > 0 && (!request.IsIdentity(view(encoding)) || l.headers[l.contentEncoding].count > 1)
}

// beginSearch begins the search in a request's body.
func (b *bodies) beginSearch(s *stream) {
	p := s.plugin
	src := &p.cfg.Identity.Model[bodySource(p.cfg)]
	s.body = &bodySearch{}
	contentType := s.keepRaw(p.lookups.value(p.lookups.contentType))
	s.body.scan.Start(src.Name, view(s.kept(contentType)), src.MaxBytes)
	b.searched = append(b.searched, s)
	s.awaitPiece(firstPieceWait)
}

// forget ends the search in a request's body, if there is one.
//
//go:noinline // as decide
func (b *bodies) forget(s *stream) {
	s.body = nil
	for i, o := range b.searched {
		if o == s {
			b.searched = append(b.searched[:i], b.searched[i+1:]...)
			break
		}
	}
}

// awaitPiece bounds the wait for the body's next piece: by a time, and by the request's deadline.
func (s *stream) awaitPiece(wait int64) {
	p := s.plugin
	s.body.giveUpAt = p.turn.now + wait
	if s.deadline > 0 {
		s.body.giveUpAt = min(s.body.giveUpAt, s.deadline)
	}
	p.WakeBy(s.body.giveUpAt)
}

// OnHttpRequestBody searches the body for the model. It holds the body back while the headers wait. Otherwise a host
// that lets the body come (Envoy's allow_on_headers_stop_iteration) would let the headers go with it.
func (s *stream) OnHttpRequestBody(size int, end bool) types.Action {
	p := s.plugin
	s.answer.Uploading = !end
	switch {
	case s.paused:
		p.bodies.delivery = deliveryWorks
	case s.bodyLate:
		s.onLateBody()
	}
	if s.body == nil {
		return s.bodyAction()
	}
	p.begin()
	if !s.body.scanPieces(size) && !end {
		s.awaitPiece(nextPieceWait)
		return s.bodyAction()
	}
	return s.onBodySearched()
}

// OnHttpRequestTrailers ends the search, because the body has ended. It holds the trailers back while the headers wait.
func (s *stream) OnHttpRequestTrailers(int) types.Action {
	s.answer.Uploading = false
	if s.body != nil {
		s.plugin.begin()
		if s.onBodySearched() == types.ActionContinue {
			return types.ActionContinue
		}
	}
	if s.paused {
		return types.ActionPause
	}
	return types.ActionContinue
}

// bodyAction holds the body back while the headers wait.
func (s *stream) bodyAction() types.Action {
	if s.paused {
		return abi.ActionPauseBody
	}
	return types.ActionContinue
}

// scanPieces searches the size bytes of the body that have just come. It returns true when the search is over.
func (b *bodySearch) scanPieces(size int) bool {
	b.begun = true
	for at := 0; at < size; at += bodyPiece {
		piece, status := abi.RequestBody(at, min(size-at, bodyPiece))
		if status != abi.StatusOK || b.scan.Take(piece) {
			return true
		}
	}
	return false
}

// onBodySearched asks the pools when the search in the body is over. It is called in a callback of the stream.
func (s *stream) onBodySearched() types.Action {
	s.body.scan.End()
	s.endSearch()
	pass := s.askPools()
	if s.shadow() {
		s.handOver(true) // again, with the model, for the attempts that wait for it
		s.publishVirtual()
		return types.ActionContinue
	}
	switch pass {
	case passAdmitted:
		s.announce()
		s.paused = false
	case passRefused:
		s.refuseNow()
	}
	return s.bodyAction()
}

// endSearch ends the search, sets the model that it found, and chooses the pools.
func (s *stream) endSearch() {
	model := trimmed(s.body.scan.Value())
	s.plugin.bodies.forget(s)
	if len(model) > 0 {
		s.setModel(model)
	}
	s.choosePools()
}

// giveUpSearches ends the searches in bodies that did not come in time. These requests go on without a model from the
// body.
func (p *plugin) giveUpSearches() {
	for i := 0; i < len(p.bodies.searched); {
		s := p.bodies.searched[i]
		if s.body.giveUpAt > p.turn.now {
			p.WakeBy(s.body.giveUpAt)
			i++
			continue
		}
		s.bodyLate = !s.body.begun
		s.endSearch()
		p.decide(s, fateIdentified)
	}
}

// onLateBody is called when a body comes after its search was given up. A body that the host has withheld comes as soon
// as the headers are let go. If it comes later, the client was slow, which says nothing about the host.
func (s *stream) onLateBody() {
	p := s.plugin
	s.bodyLate = false
	p.begin()
	if p.bodies.delivery != deliveryUnknown || p.turn.now-s.resumed > withheldDelay {
		return
	}
	p.bodies.delivery = deliveryFails
	abi.Log(abi.LogWarn, "no body came while a request's headers waited: the model in it is taken as unknown from now "+
		"on; set allow_on_headers_stop_iteration: true on this plugin, or put the model into metadata (json_to_metadata) "+
		"before it")
}
