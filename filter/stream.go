package filter

import (
	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/headgate/headgate/admission/config"
	"github.com/headgate/headgate/filter/abi"
	"github.com/headgate/headgate/filter/records"
)

// dimensions is how many dimensions a request has.
const dimensions = int(config.DimensionClass) + 1

// A stream is one request. The comment of each group of fields names the files that set them.
type stream struct {
	types.DefaultHttpContext
	plugin *plugin
	id     uint32

	// Whose request it is, and what it is about: identity.go, handover.go.
	text         []byte // what is kept of the request's headers
	method, path span   // as much as the journal tells of them
	dims         [dimensions]span
	tenantHash   uint64
	grpc         bool
	inherited    inheritance
	modelPending bool  // in shadow: the model is known only once the body has passed
	attempt      int64 // the number of this try in its invocation, from 1; 0: this is no attempt
	deadline     int64 // monotonic nanoseconds; 0: none
	deadlines    []deadlineHeader

	// The body in which the model is looked for: body.go.
	body     *bodySearch
	bodyLate bool  // no piece of it came in time
	resumed  int64 // when the headers were let go

	// Pools and permits: acquire.go, wait.go, release.go.
	keys   []poolKey      // the keys that the request needs a permit of, in the order of the pools
	held   []holding      // the permits that it has, of the first of these keys
	asked  *pool          // the pool asked last; nil: none
	ticket records.Ticket // the ticket for the pool asked last
	fate   fate
	before *stream // in the backlog
	behind *stream // likewise, or among the leavers
	waited int64   // nanoseconds in all queues
	paused bool    // the headers wait

	refusal refusal // reply.go

	virtual *virtualLife // in shadow: shadow.go
	answer  answer       // ending.go
}

// OnHttpRequestHeaders takes a request through the pools.
func (s *stream) OnHttpRequestHeaders(_ int, end bool) types.Action {
	p := s.plugin
	s.answer.Uploading = !end
	if p.cfg == nil || p.cfg.Mode == config.ModeDisabled {
		return types.ActionContinue
	}
	switch s.identify(!end) {
	case identityUngoverned:
		s.passUngoverned()
		return types.ActionContinue
	case identityAmbiguous:
		return s.refuseAmbiguous()
	case identityInBody:
		p.bodies.beginSearch(s)
		if s.shadow() {
			s.announce()
			return types.ActionContinue
		}
		return s.pause()
	case identityLater:
		s.beginVirtual()
		s.answer.Sent = true
		return types.ActionContinue
	}
	s.modelPending = false
	pass := s.askPools()
	if s.shadow() {
		s.announce()
		return types.ActionContinue
	}
	switch pass {
	case passWaiting:
		return s.pause()
	case passRefused:
		s.refuseNow()
		return s.pause()
	}
	s.announce()
	return types.ActionContinue
}

// shadow reports whether decisions are counted and not carried out.
func (s *stream) shadow() bool { return s.plugin.cfg.Mode == config.ModeShadow }

// passUngoverned lets a request pass that is not governed. The invocation stage has already counted it for its
// attempts.
func (s *stream) passUngoverned() {
	if s.inherited == inheritedNothing {
		abi.Increment(s.plugin.stats.ungoverned, 1)
		s.handOver(false)
	}
}

// refuseAmbiguous refuses a request whose headers name two values where one decides.
func (s *stream) refuseAmbiguous() types.Action {
	abi.Increment(s.plugin.stats.ambiguous, 1)
	if s.shadow() {
		s.handOver(false)
		return types.ActionContinue
	}
	s.refusal = refusal{reason: reasonAmbiguous}
	s.noteRefusal(reasonAmbiguous)
	s.refuseNow()
	return s.pause()
}

// pause holds the request's headers back.
func (s *stream) pause() types.Action {
	s.paused = true
	return types.ActionPause
}
