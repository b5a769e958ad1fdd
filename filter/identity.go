package filter

import (
	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/config"
	"github.com/headgate/headgate/admission/request"
	"github.com/headgate/headgate/filter/abi"
)

// An identification is what identify found out.
type identification uint8

const (
	identityGoverned   identification = iota
	identityUngoverned                // no route pattern matches
	identityAmbiguous                 // a header that decides was sent twice
	identityInBody                    // the model is in the body, which has to come first
	identityLater                     // an attempt in shadow: its model comes with the body, which nothing holds back
)

// A deadlineHeader is a header in which the client sent its deadline.
type deadlineHeader struct {
	header   *config.DeadlineHeader
	original span
}

// The values that stand in when no source yields one.
const (
	anonymousTenant = "anonymous"
	unknownModel    = "unknown"
	unknownClass    = "unknown"
	anyRoute        = "any"
)

// identify finds out whether the request is governed, whose it is, and which keys it needs a permit of.
func (s *stream) identify(hasBody bool) identification {
	p := s.plugin
	r := &p.lookups
	s.inherit()
	r.begin()
	r.readRoute()
	path := view(r.value(r.path))
	if s.inherited == inheritedUngoverned || s.inherited == inheritedNothing && !s.identifyRoute(path) {
		return identityUngoverned
	}
	s.keepLine(r.value(r.method), bytesOf(path))
	r.read()
	p.begin()
	s.grpc = isGRPC(r.value(r.contentType))
	if s.inherited == inheritedNothing {
		if r.ambiguous(config.DimensionTenant) || r.ambiguous(config.DimensionClass) ||
			r.ambiguousDeadline() {
			return identityAmbiguous
		}
	}
	if r.ambiguous(config.DimensionModel) {
		return identityAmbiguous
	}
	s.readDeadline()
	if s.inherited == inheritedNothing {
		s.identifyBy(config.DimensionTenant, path, anonymousTenant)
		s.identifyBy(config.DimensionClass, path, unknownClass)
	}
	s.tenantHash = hash(s.kept(s.dims[config.DimensionTenant]))
	for _, name := range r.refused {
		abi.RemoveRequestHeader(name)
	}
	return s.identifyModel(path, hasBody)
}

// identifyRoute finds the route that governs the request. It returns false if none does.
func (s *stream) identifyRoute(path string) bool {
	p := s.plugin
	route, ok := p.router.Match(view(p.lookups.value(p.lookups.method)), path)
	if ok && p.lookups.known[config.DimensionRoute] {
		name := anyRoute
		if route != nil {
			name = route.Name
		}
		s.dims[config.DimensionRoute] = s.keep(bytesOf(name))
	}
	return ok
}

// identifyModel asks the model's sources in order. Where the body is one of them and has yet to come, the value of the
// sources behind it is used until then.
func (s *stream) identifyModel(path string, hasBody bool) identification {
	p := s.plugin
	if !p.lookups.known[config.DimensionModel] {
		s.choosePools()
		return identityGoverned
	}
	sources := p.lookups.sources[config.DimensionModel]
	found, name := identityGoverned, bytesOf(unknownModel)
	for i := range sources {
		src := &sources[i]
		if src.Kind != config.SourceJSONBody {
			if v := p.lookups.valueOf(src, path); len(v) > 0 {
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
		if hasBody && p.lookups.asked[config.DimensionModel] && s.canReadBody() {
			found = identityInBody
		}
	}
	s.setModel(name)
	if found == identityGoverned {
		s.choosePools()
	}
	return found
}

// setModel sets the request's model: the name that counts, if name is an alias.
func (s *stream) setModel(name []byte) {
	if alias, ok := s.plugin.cfg.Identity.Aliases[view(name)]; ok {
		name = bytesOf(alias)
	}
	s.dims[config.DimensionModel] = s.keep(name)
}

// choosePools looks up the keys that the request needs a permit of. It comes last, when all dimensions are known.
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

// keySeparator stands between the values in the name of a key of several dimensions. No value has a control character.
const keySeparator = "\x1f"

// keyName returns the name of the request's key in a pool. It is valid until the next call.
func (s *stream) keyName(o *pool) []byte {
	p := s.plugin
	if len(o.Key) == 1 {
		return s.kept(s.dims[o.Key[0]])
	}
	p.out = p.out[:0]
	for i, d := range o.Key {
		if i > 0 {
			p.out = put(p.out, keySeparator)
		}
		p.out = put(p.out, view(s.kept(s.dims[d])))
	}
	if len(p.out) > admission.MaxName {
		p.out = shorten(p.out, 0, admission.MaxName)
	}
	return p.out
}

// identifyBy sets a dimension, if it is to be known: to the first value that one of the sources has, asked in order, or
// to the text otherwise.
//
//go:noinline // many bytes in two places
func (s *stream) identifyBy(d config.Dimension, path, otherwise string) {
	l := &s.plugin.lookups
	if !l.known[d] {
		return
	}
	value := bytesOf(otherwise)
	for i := range l.sources[d] {
		if v := l.valueOf(&l.sources[d][i], path); len(v) > 0 {
			value = v
			break
		}
	}
	s.dims[d] = s.keep(value)
}

// readDeadline sets the request's deadline: the earliest that a header names, or the default. An attempt keeps its
// invocation's deadline, and only notes the headers that name one.
func (s *stream) readDeadline() {
	p := s.plugin
	r := &p.lookups
	left, known := p.cfg.Deadline.Default, p.cfg.Deadline.Default > 0
	inHeader := false
	for i, at := range r.deadline {
		h := &r.headers[at]
		if h.count == 0 {
			continue
		}
		header := &p.cfg.Deadline.Headers[i]
		d, ok := request.ParseDeadline(header, view(h.value))
		if !ok {
			if s.inherited == inheritedNothing { // otherwise the invocation stage has counted it
				abi.Increment(p.stats.badDeadline, 1)
			}
			continue
		}
		if !inHeader || d < left {
			left = d
		}
		inHeader, known = true, true
		s.deadlines = append(s.deadlines, deadlineHeader{header: header, original: s.keepRaw(h.value)})
	}
	if known && s.inherited != inheritedGoverned {
		s.deadline = p.turn.now + min(int64(left), maxTime-p.turn.now)
	}
}

const maxTime = 1<<63 - 1

// isGRPC reports whether a content type is gRPC's.
func isGRPC(contentType []byte) bool {
	const grpc = "application/grpc"
	if len(contentType) < len(grpc) || view(contentType[:len(grpc)]) != grpc {
		return false
	}
	rest := contentType[len(grpc):]
	return len(rest) == 0 || rest[0] == '+' || rest[0] == ';'
}
