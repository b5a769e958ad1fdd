package filter

import (
	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/config"
	"github.com/headgate/headgate/admission/request"
	"github.com/headgate/headgate/filter/abi"
)

// An identification is what identify found.
type identification uint8

const (
	identityGoverned   identification = iota
	identityUngoverned                // no route pattern matches
	identityAmbiguous                 // a header that decides was sent twice
	identityInBody                    // the model is in the body, which has to come first
	identityLater                     // likewise, and the invocation stage, in shadow, lets the request pass meanwhile
)

type deadlineHeader struct {
	name     string
	original span
}

// The values that stand in when no source yields one.
const (
	anonymousTenant = "anonymous"
	unknownModel    = "unknown"
	unknownClass    = "unknown"
	anyRoute        = "any"
)

// identify finds out whether the request is governed, whose it is, and which keys it has to pass.
func (s *stream) identify(hasBody bool) identification {
	p := s.plugin
	r := &p.lookups
	s.inherit()
	r.read(s)
	s.grpc = isGRPC(r.value(r.contentType))
	if s.inherited == inheritedUngoverned {
		return identityUngoverned
	}
	path := view(r.value(r.path))
	if s.inherited == inheritedNothing {
		if !s.match(path) {
			return identityUngoverned
		}
		if r.ambiguous(r.tenant) || r.ambiguous(r.class) || r.ambiguousDeadline() {
			return identityAmbiguous
		}
	}
	if r.ambiguous(r.model) {
		return identityAmbiguous
	}
	s.readDeadline()
	if s.inherited == inheritedNothing {
		s.dims[config.DimensionTenant] = s.keep(s.find(p.cfg.Identity.Tenant, r.tenant, path, anonymousTenant))
		s.dims[config.DimensionClass] = s.keep(s.find(p.cfg.Identity.Class, r.class, path, unknownClass))
	}
	s.tenantHash = hash(s.kept(s.dims[config.DimensionTenant]))
	for _, name := range r.own {
		abi.RemoveRequestHeader(name)
	}
	return s.identifyModel(path, hasBody)
}

// match finds the route that governs the request; false if none does.
func (s *stream) match(path string) bool {
	p := s.plugin
	name := anyRoute
	route, ok := request.MatchRoute(p.cfg.Routes, view(p.lookups.value(p.lookups.method)), path)
	if route != nil {
		name = route.Name
	}
	s.dims[config.DimensionRoute] = s.keep(bytesOf(name))
	return ok
}

// identifyModel asks the model's sources in order. What those behind the body say stands in until the body has come, if
// it has yet to.
func (s *stream) identifyModel(path string, hasBody bool) identification {
	p := s.plugin
	sources := p.cfg.Identity.Model
	found, name := identityGoverned, bytesOf(unknownModel)
	for i := range sources {
		src := &sources[i]
		if src.Kind != config.SourceJSONBody {
			if v := p.lookups.source(src, &p.lookups.model[i], path); len(v) > 0 {
				name = v
				break
			}
			continue
		}
		if p.cfg.Stage == config.StageAttempt {
			if s.modelPending {
				return identityLater
			}
			if m := s.kept(s.dims[config.DimensionModel]); len(m) > 0 && view(m) != unknownModel {
				s.choosePools()
				return identityGoverned
			}
			continue
		}
		if hasBody && s.readable() {
			found = identityInBody
		}
	}
	s.setModel(name)
	if found == identityGoverned {
		s.choosePools()
	}
	return found
}

func (s *stream) setModel(name []byte) {
	if alias, ok := s.plugin.cfg.Identity.Aliases[view(name)]; ok {
		name = bytesOf(alias)
	}
	s.dims[config.DimensionModel] = s.keep(name)
}

// choosePools completes the request's identity: it looks up the keys of the pools that the request has to pass.
func (s *stream) choosePools() {
	p := s.plugin
	for _, o := range p.pools {
		if s.matches(o) {
			s.keys = append(s.keys, poolKey{o, o.KeyFor(view(s.keyName(o)))})
		}
	}
}

// matches reports whether a pool applies to the request.
func (s *stream) matches(o *pool) bool {
	for i := range o.Match {
		m := &o.Match[i]
		if !oneOf(m.Values, view(s.kept(s.dims[m.Dimension]))) {
			return false
		}
	}
	return true
}

func oneOf(values []string, v string) bool {
	for _, w := range values {
		if w == v {
			return true
		}
	}
	return false
}

// keySeparator stands between the values of a key of several dimensions; values have no control characters.
const keySeparator = 0x1f

// keyName builds the name of a pool's key; valid until the next one is built.
func (s *stream) keyName(o *pool) []byte {
	p := s.plugin
	if len(o.Key) == 1 {
		return s.kept(s.dims[o.Key[0]])
	}
	p.out = p.out[:0]
	for i, d := range o.Key {
		if i > 0 {
			p.out = append(p.out, keySeparator)
		}
		p.out = append(p.out, s.kept(s.dims[d])...)
	}
	if len(p.out) > admission.MaxName {
		p.out = shorten(p.out, 0, admission.MaxName)
	}
	return p.out
}

// find asks the sources in order; the first that has a value wins.
func (s *stream) find(sources []config.Source, places []valueAt, path, otherwise string) []byte {
	for i := range sources {
		if v := s.plugin.lookups.source(&sources[i], &places[i], path); len(v) > 0 {
			return v
		}
	}
	return bytesOf(otherwise)
}

// readDeadline takes the tightest of the deadline headers, or the default.
func (s *stream) readDeadline() {
	p := s.plugin
	r := &p.lookups
	left, given := p.cfg.Deadline.Default, p.cfg.Deadline.Default > 0
	said, inherited := false, s.deadline
	for i, at := range r.deadline {
		h := &r.found[at]
		if h.count == 0 {
			continue
		}
		name := p.cfg.Deadline.Headers[i]
		d, ok := request.ParseDeadline(name, view(h.value))
		if !ok {
			if s.inherited == inheritedNothing { // or it has been counted
				abi.Increment(p.stats.badDeadline, 1)
			}
			continue
		}
		if !said || d < left {
			left = d
		}
		said, given = true, true
		s.deadlines = append(s.deadlines, deadlineHeader{name: name, original: s.keepRaw(h.value)})
	}
	switch {
	case s.inherited == inheritedGoverned:
		s.deadline = inherited
	case given:
		if p.turn.now <= maxTime-int64(left) {
			s.deadline = p.turn.now + int64(left)
		} else {
			s.deadline = maxTime
		}
	}
}

const maxTime = 1<<63 - 1

func isGRPC(contentType []byte) bool {
	const grpc = "application/grpc"
	if len(contentType) < len(grpc) || view(contentType[:len(grpc)]) != grpc {
		return false
	}
	rest := contentType[len(grpc):]
	return len(rest) == 0 || rest[0] == '+' || rest[0] == ';'
}
