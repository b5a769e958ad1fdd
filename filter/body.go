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

	// nextPieceWait is how long the next piece is waited for: the host stops reading when its buffer is full.
	nextPieceWait = int64(admission.Second)
)

// A reading is a body being searched for its model.
type reading struct {
	scan  admission.BodyScan
	until int64 // when it is given up
	begun bool  // a piece has come
}

// readable reports whether the body can name its model: one that is compressed can't, to us.
func (s *stream) readable() bool {
	r := &s.plugin.reads
	return !s.plugin.bodiless && len(r.value(r.contentEncoding)) == 0
}

// read begins to search the body.
func (s *stream) read() {
	p := s.plugin
	src := &p.cfg.Identity.Model[bodySource(p.cfg)]
	s.body = &reading{until: p.now + firstPieceWait}
	s.body.scan.Start(src.Name, view(p.reads.value(p.reads.contentType)), src.MaxBytes)
	p.readings = append(p.readings, s)
	p.wakeBy(s.body.until)
}

// OnHttpRequestBody searches the body for the model, and holds it back while the headers wait: where the host lets the
// body come (Envoy's allow_on_headers_stop_iteration), a body callback that goes on would let the headers go too.
func (s *stream) OnHttpRequestBody(size int, end bool) types.Action {
	p := s.plugin
	if s.paused {
		p.bodiless = false
	}
	if s.body == nil {
		return s.heldBack()
	}
	p.begin()
	if !s.body.take(size) && !end {
		s.body.until = p.now + nextPieceWait
		p.wakeBy(s.body.until)
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
		return types.ActionContinue
	}
	switch pass {
	case passAdmitted:
		s.announce()
		s.paused = false
	case passRefused:
		s.answer()
	}
	return s.heldBack()
}

// stopReading ends the search with what it found.
func (s *stream) stopReading() {
	p := s.plugin
	model := s.body.scan.Value()
	s.body = nil
	for i, r := range p.readings {
		if r == s {
			p.readings = append(p.readings[:i], p.readings[i+1:]...)
			break
		}
	}
	s.identifyBehindBody(model)
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
		if !s.body.begun && !p.bodiless {
			p.bodiless = true
			abi.Log(abi.LogWarn, "no body came while a request's headers waited: the model in it is taken as unknown from now on; "+
				"set allow_on_headers_stop_iteration: true on this plugin, or put the model into metadata (json_to_metadata) before it")
		}
		s.stopReading()
		p.decide(s, fateIdentified)
	}
}
