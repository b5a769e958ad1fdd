package filter

import (
	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/filter/abi"
)

const (
	// bodyPiece is how much of a body is read with one host call.
	bodyPiece = 32 << 10

	// firstPieceWait is how long the first piece of a body is waited for. A host that doesn't let the body come while the
	// headers wait (Envoy without allow_on_headers_stop_iteration) would make every such request wait for ever.
	firstPieceWait = 5 * int64(admission.Second)

	// atOnce is how soon a body comes that the host has kept back, once its headers go on.
	atOnce = 10 * millisecond

	// nextPieceWait is how long the next piece is waited for: the host stops reading when its buffer is full.
	nextPieceWait = int64(admission.Second)
)

// A reading is a body being searched for its model.
type reading struct {
	scan  admission.BodyScan
	until int64 // when it is given up
	begun bool  // a piece has come
}

// hearing is what is known of the host: whether it lets bodies come while headers wait.
type hearing uint8

const (
	hearingUnknown hearing = iota
	hearingBodies          // one has come
	hearingNothing         // one came as soon as its headers went on, after it had been waited for in vain
)

// readable reports whether the body can name its model: one that is compressed or of gRPC can't, to us, and what follows
// an upgrade is no body and comes only after the upstream's answer.
func (s *stream) readable() bool {
	r := &s.plugin.reads
	return s.plugin.hearing != hearingNothing && !s.grpc && len(r.value(r.contentEncoding)) == 0 && len(r.value(r.upgrade)) == 0
}

// read begins to search the body.
func (s *stream) read() {
	p := s.plugin
	src := &p.cfg.Identity.Model[bodySource(p.cfg)]
	s.body = &reading{}
	s.body.scan.Start(src.Name, view(p.reads.value(p.reads.contentType)), src.MaxBytes)
	p.readings = append(p.readings, s)
	s.await(firstPieceWait)
}

// await waits for the body's next piece, but not beyond the request's deadline.
func (s *stream) await(wait int64) {
	p := s.plugin
	s.body.until = p.now + wait
	if s.deadline > 0 {
		s.body.until = min(s.body.until, s.deadline)
	}
	p.wakeBy(s.body.until)
}

// OnHttpRequestBody searches the body for the model, and holds it back while the headers wait: where the host lets the
// body come (Envoy's allow_on_headers_stop_iteration), a body callback that goes on would let the headers go too.
func (s *stream) OnHttpRequestBody(size int, end bool) types.Action {
	p := s.plugin
	switch {
	case s.paused:
		p.hearing = hearingBodies
	case s.unheard:
		s.heardAtLast()
	}
	if s.body == nil {
		return s.heldBack()
	}
	p.begin()
	if !s.body.take(size) && !end {
		s.await(nextPieceWait)
		return s.heldBack()
	}
	return s.decided()
}

// OnHttpRequestTrailers ends the body, and holds the trailers back while the headers wait.
func (s *stream) OnHttpRequestTrailers(int) types.Action {
	if s.body != nil {
		s.plugin.begin()
		if s.decided() == types.ActionContinue {
			return types.ActionContinue
		}
	}
	if s.paused {
		return types.ActionPause
	}
	return types.ActionContinue
}

func (s *stream) heldBack() types.Action {
	if s.paused {
		return abi.ActionPauseBody
	}
	return types.ActionContinue
}

// take searches the pieces of the body that have just come; true when the search is over.
func (b *reading) take(size int) bool {
	b.begun = true
	for at := 0; at < size; at += bodyPiece {
		piece, status := abi.RequestBody(at, min(size-at, bodyPiece))
		if status != abi.StatusOK || b.scan.Take(piece) {
			return true
		}
	}
	return false
}

// decided takes the request through the pools, now that its model is known or known to be unknown; in a callback of the
// stream's own.
func (s *stream) decided() types.Action {
	s.stopReading()
	pass := s.proceed()
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
	return s.heldBack()
}

// stopReading ends the search with what it found.
func (s *stream) stopReading() {
	model := s.body.scan.Value()
	s.forgetBody()
	if len(model) > 0 {
		s.setModel(model)
	}
	s.choose()
}

func (s *stream) forgetBody() {
	p := s.plugin
	s.body = nil
	for i, r := range p.readings {
		if r == s {
			p.readings = append(p.readings[:i], p.readings[i+1:]...)
			break
		}
	}
}

// giveUpReading decides the requests whose body has not come in time.
func (p *plugin) giveUpReading() {
	for i := 0; i < len(p.readings); {
		s := p.readings[i]
		if s.body.until > p.now {
			p.wakeBy(s.body.until)
			i++
			continue
		}
		s.unheard = !s.body.begun
		s.stopReading()
		p.decide(s, fateIdentified)
	}
}

// heardAtLast is called when a body comes that was waited for in vain. If the host had kept it back it comes with the
// headers; else its client was slow, which says nothing about the host.
func (s *stream) heardAtLast() {
	p := s.plugin
	s.unheard = false
	p.begin()
	if p.hearing != hearingUnknown || p.now-s.resumed > atOnce {
		return
	}
	p.hearing = hearingNothing
	abi.Log(abi.LogWarn, "no body came while a request's headers waited: the model in it is taken as unknown from now on; "+
		"set allow_on_headers_stop_iteration: true on this plugin, or put the model into metadata (json_to_metadata) before it")
}
