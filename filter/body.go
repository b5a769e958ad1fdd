package filter

import (
	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/request"
	"github.com/headgate/headgate/filter/abi"
)

const (
	// bodyPiece is how much of a body is read with one host call.
	bodyPiece = 32 << 10

	// firstPieceWait is how long the first piece of a body is waited for. A host that doesn't let the body come while the
	// headers wait (Envoy without allow_on_headers_stop_iteration) would make every such request wait for ever.
	firstPieceWait = 5 * int64(admission.Second)

	// atOnce is how soon after its headers a body comes that the host has kept back.
	atOnce = 10 * millisecond

	// nextPieceWait is how long the next piece is waited for: the host stops reading when its buffer is full.
	nextPieceWait = int64(admission.Second)
)

// A bodySearch is the search for the model in one request's body.
type bodySearch struct {
	scan  request.BodyScan
	until int64 // when it is given up
	begun bool  // a piece has come
}

// bodies are the requests in whose bodies the model is looked for, and what that has shown about the host.
type bodies struct {
	searched []*stream
	delivery bodyDelivery
}

// A bodyDelivery is what is known of the host: whether it lets bodies come while headers wait.
type bodyDelivery uint8

const (
	deliveryUnknown bodyDelivery = iota
	deliveryWorks                // a body has come
	deliveryFails                // a body came as soon as its headers went on, after the wait for it had been given up
)

// readable reports whether the body can name its model. One that is compressed or of gRPC can't, to us; and what follows an
// upgrade is no body, and comes only after the upstream's answer.
func (s *stream) readable() bool {
	l := &s.plugin.lookups
	return s.plugin.bodies.delivery != deliveryFails && !s.grpc && len(l.value(l.contentEncoding)) == 0 && len(l.value(l.upgrade)) == 0
}

// search begins to search a request's body.
func (b *bodies) search(s *stream) {
	p := s.plugin
	src := &p.cfg.Identity.Model[bodySource(p.cfg)]
	s.body = &bodySearch{}
	s.body.scan.Start(src.Name, view(p.lookups.value(p.lookups.contentType)), src.MaxBytes)
	b.searched = append(b.searched, s)
	s.await(firstPieceWait)
}

// forget ends the search of a request's body, if there is one.
func (b *bodies) forget(s *stream) {
	s.body = nil
	for i, o := range b.searched {
		if o == s {
			b.searched = append(b.searched[:i], b.searched[i+1:]...)
			break
		}
	}
}

// await waits for the body's next piece, but not beyond the request's deadline.
func (s *stream) await(wait int64) {
	p := s.plugin
	s.body.until = p.turn.now + wait
	if s.deadline > 0 {
		s.body.until = min(s.body.until, s.deadline)
	}
	p.WakeBy(s.body.until)
}

// OnHttpRequestBody searches the body for the model, and holds it back while the headers wait: where the host lets the
// body come (Envoy's allow_on_headers_stop_iteration), a body callback that goes on would let the headers go too.
func (s *stream) OnHttpRequestBody(size int, end bool) types.Action {
	p := s.plugin
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
	if !s.body.take(size) && !end {
		s.await(nextPieceWait)
		return s.bodyAction()
	}
	return s.onBodySearched()
}

// OnHttpRequestTrailers ends the body, and holds the trailers back while the headers wait.
func (s *stream) OnHttpRequestTrailers(int) types.Action {
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

// take searches the pieces of the body that have just come; true when the search is over.
func (b *bodySearch) take(size int) bool {
	b.begun = true
	for at := 0; at < size; at += bodyPiece {
		piece, status := abi.RequestBody(at, min(size-at, bodyPiece))
		if status != abi.StatusOK || b.scan.Take(piece) {
			return true
		}
	}
	return false
}

// onBodySearched takes the request through the pools, now that its model is known or known to be unknown; in a callback of the
// stream's own.
func (s *stream) onBodySearched() types.Action {
	s.endSearch()
	pass := s.askPools()
	if s.shadow() {
		s.handOver(true) // now with the model, for the attempts that wait for it
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

// endSearch ends the search with what it found.
func (s *stream) endSearch() {
	model := s.body.scan.Value()
	s.plugin.bodies.forget(s)
	if len(model) > 0 {
		s.setModel(model)
	}
	s.choosePools()
}

// giveUpSearches lets the requests go on without their model whose body has not come in time.
func (p *plugin) giveUpSearches() {
	for i := 0; i < len(p.bodies.searched); {
		s := p.bodies.searched[i]
		if s.body.until > p.turn.now {
			p.WakeBy(s.body.until)
			i++
			continue
		}
		s.bodyLate = !s.body.begun
		s.endSearch()
		p.decide(s, fateIdentified)
	}
}

// onLateBody is called when a body comes after the wait for it was given up. If the host kept it back, it comes as soon as
// the headers go on. If it comes later, its client was slow, which says nothing about the host.
func (s *stream) onLateBody() {
	p := s.plugin
	s.bodyLate = false
	p.begin()
	if p.bodies.delivery != deliveryUnknown || p.turn.now-s.resumed > atOnce {
		return
	}
	p.bodies.delivery = deliveryFails
	abi.Log(abi.LogWarn, "no body came while a request's headers waited: the model in it is taken as unknown from now on; "+
		"set allow_on_headers_stop_iteration: true on this plugin, or put the model into metadata (json_to_metadata) before it")
}
