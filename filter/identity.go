package filter

import (
	"unsafe"

	"github.com/headgate/headgate/admission"
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

// A span is a piece of stream.text.
type span struct{ from, to int }

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

// reads is which request headers a configuration looks at. All of them are read with one host call.
type reads struct {
	names                     []string
	lengths                   uint64 // a bit for each length of a name, modulo 64: most headers are passed over by theirs
	found                     []headerValue
	path, method, contentType int // indexes into names
	contentEncoding, upgrade  int // -1: not looked at
	tenant, model, class      []place
	deadline                  []int
	own                       []string // Headgate's own names in the request, to be removed
}

// A place is where a source's value is.
type place struct {
	header   int    // index into names; -1: not in a header
	property string // the host's name for it; "": not in a property
}

type headerValue struct {
	value []byte // the first one: the host's copy while the headers are read, then a piece of the stream's text
	count int
}

// ownPrefix starts the names of headers that only Headgate may set.
const ownPrefix = "x-headgate-"

func newReads(cfg *admission.Config) reads {
	var r reads
	r.path, r.method, r.contentType = r.add(":path"), r.add(":method"), r.add("content-type")
	r.contentEncoding, r.upgrade = -1, -1
	if bodySource(cfg) >= 0 {
		r.contentEncoding, r.upgrade = r.add("content-encoding"), r.add("upgrade")
	}
	r.tenant = r.sources(cfg.Identity.Tenant)
	r.model = r.sources(cfg.Identity.Model)
	r.class = r.sources(cfg.Identity.Class)
	for _, name := range cfg.Deadline.Headers {
		r.deadline = append(r.deadline, r.add(name))
	}
	r.found = make([]headerValue, len(r.names))
	return r
}

func (r *reads) add(name string) int {
	for i, n := range r.names {
		if n == name {
			return i
		}
	}
	r.names = append(r.names, name)
	r.lengths |= 1 << (len(name) & 63)
	return len(r.names) - 1
}

func (r *reads) sources(sources []admission.Source) []place {
	var places []place
	for i := range sources {
		src := &sources[i]
		if src.Kind == admission.SourceHeader {
			places = append(places, place{header: r.add(src.Name)})
		} else {
			places = append(places, place{header: -1, property: propertyOf(src)})
		}
	}
	return places
}

// read finds the headers in the request and keeps their values in the stream's text: later host calls reuse the memory
// that the host put them in.
func (r *reads) read(s *stream) {
	clear(r.found)
	r.own = r.own[:0]
	pairs, _ := abi.RequestHeaders()
	for c := pairs.Cursor(); c.Next(); {
		n := len(c.Name)
		if r.lengths&(1<<(n&63)) != 0 {
			r.note(view(c.Name), c.Value)
		}
		if n >= len(ownPrefix) && c.Name[0] == 'x' && view(c.Name[:len(ownPrefix)]) == ownPrefix {
			r.own = append(r.own, string(c.Name))
		}
	}
	for i := range r.found {
		if f := &r.found[i]; len(f.value) > 0 {
			f.value = s.kept(s.keepRaw(f.value))
		}
	}
}

// note keeps the value of a header that is looked at.
func (r *reads) note(name string, value []byte) {
	for i, n := range r.names {
		if n == name {
			if r.found[i].count++; r.found[i].count == 1 {
				r.found[i].value = value
			}
			return
		}
	}
}

// value is a header's first value; nil if it isn't there, or isn't looked at.
func (r *reads) value(at int) []byte {
	if at < 0 {
		return nil
	}
	return r.found[at].value
}

// ambiguous reports whether a header of those was sent more than once.
func (r *reads) ambiguous(places []place) bool {
	for i := range places {
		if at := places[i].header; at >= 0 && r.found[at].count > 1 {
			return true
		}
	}
	return false
}

func (r *reads) ambiguousDeadline() bool {
	for _, at := range r.deadline {
		if r.found[at].count > 1 {
			return true
		}
	}
	return false
}

// identify finds out whether the request is governed, whose it is, and which keys it has to pass.
func (s *stream) identify(hasBody bool) identification {
	p := s.plugin
	r := &p.reads
	s.inherit()
	r.read(s)
	s.arrived = p.now
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
		s.dims[admission.DimensionTenant] = s.keep(s.find(p.cfg.Identity.Tenant, r.tenant, path, anonymousTenant))
		s.dims[admission.DimensionClass] = s.keep(s.find(p.cfg.Identity.Class, r.class, path, unknownClass))
	}
	s.hash = hash(s.kept(s.dims[admission.DimensionTenant]))
	for _, name := range r.own {
		abi.RemoveRequestHeader(name)
	}
	return s.identifyModel(path, hasBody)
}

// match finds the route that governs the request; false if none does.
func (s *stream) match(path string) bool {
	p := s.plugin
	name := anyRoute
	route, ok := p.cfg.MatchRoute(view(p.reads.value(p.reads.method)), path)
	if route != nil {
		name = route.Name
	}
	s.dims[admission.DimensionRoute] = s.keep(bytesOf(name))
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
		if src.Kind != admission.SourceJSONBody {
			if v := p.source(src, &p.reads.model[i], path); len(v) > 0 {
				name = v
				break
			}
			continue
		}
		if p.cfg.Stage == admission.StageAttempt {
			if s.later {
				return identityLater
			}
			if m := s.kept(s.dims[admission.DimensionModel]); len(m) > 0 && view(m) != unknownModel {
				s.choose()
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
		s.choose()
	}
	return found
}

func (s *stream) setModel(name []byte) {
	if alias, ok := s.plugin.cfg.Identity.Aliases[view(name)]; ok {
		name = bytesOf(alias)
	}
	s.dims[admission.DimensionModel] = s.keep(name)
}

// choose completes the request's identity: it looks up the keys of the pools that the request has to pass.
func (s *stream) choose() {
	p := s.plugin
	for _, o := range p.pools {
		if s.matches(o) {
			s.keys = append(s.keys, o.key(view(s.keyName(o)), p.cfg.MaxKeys))
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
func (s *stream) find(sources []admission.Source, places []place, path, otherwise string) []byte {
	for i := range sources {
		if v := s.plugin.source(&sources[i], &places[i], path); len(v) > 0 {
			return v
		}
	}
	return bytesOf(otherwise)
}

func (p *plugin) source(src *admission.Source, at *place, path string) []byte {
	switch src.Kind {
	case admission.SourceHeader:
		return p.reads.value(at.header)
	case admission.SourcePath:
		v, _ := admission.PathValue(src.Prefix, src.Suffix, path)
		return bytesOf(v)
	case admission.SourceValue:
		return bytesOf(src.Name)
	}
	if at.property == "" {
		return nil
	}
	v, _ := abi.Property(at.property)
	return v
}

// propertyOf is the host's name for what a source reads, its parts separated by NUL; "" if it reads no property.
func propertyOf(src *admission.Source) string {
	switch src.Kind {
	case admission.SourceMetadata:
		name := "metadata\x00filter_metadata"
		for _, part := range src.Path {
			name += "\x00" + part
		}
		return name
	case admission.SourcePeerCertificate:
		return "connection\x00" + src.Name + "_peer_certificate"
	case admission.SourceFilterState:
		return "filter_state\x00" + src.Name
	case admission.SourceCluster:
		return "xds\x00cluster_name"
	}
	return ""
}

// bodySource is the index of the model source that reads the body, or -1.
func bodySource(cfg *admission.Config) int {
	for i := range cfg.Identity.Model {
		if cfg.Identity.Model[i].Kind == admission.SourceJSONBody {
			return i
		}
	}
	return -1
}

// readDeadline takes the tightest of the deadline headers, or the default.
func (s *stream) readDeadline() {
	p := s.plugin
	r := &p.reads
	left, given := p.cfg.Deadline.Default, p.cfg.Deadline.Default > 0
	said, inherited := false, s.deadline
	for i, at := range r.deadline {
		h := &r.found[at]
		if h.count == 0 {
			continue
		}
		name := p.cfg.Deadline.Headers[i]
		d, ok := admission.ParseDeadline(name, view(h.value))
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
		if p.now <= maxTime-int64(left) {
			s.deadline = p.now + int64(left)
		} else {
			s.deadline = maxTime
		}
	}
}

const maxTime = 1<<63 - 1

func (s *stream) keepRaw(b []byte) span {
	from := len(s.text)
	s.text = append(s.text, b...)
	return span{from, len(s.text)}
}

// keep copies a value, made safe to be a name: bounded, and without control characters.
func (s *stream) keep(b []byte) span {
	at := s.keepRaw(b)
	for i := at.from; i < at.to; i++ {
		if s.text[i] < ' ' || s.text[i] == 0x7f {
			s.text[i] = '?'
		}
	}
	if at.to-at.from > admission.MaxValue {
		s.text = shorten(s.text, at.from, admission.MaxValue)
		at.to = len(s.text)
	}
	return at
}

func (s *stream) kept(at span) []byte { return s.text[at.from:at.to] }

// shorten cuts what follows from in b to n bytes, of which the last 17 are a tilde and a hash of the whole.
func shorten(b []byte, from, n int) []byte {
	h := hash(b[from:])
	b = append(b[:from+n-17], '~')
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, "0123456789abcdef"[h>>shift&15])
	}
	return b
}

// hash is FNV-1a in 64 bits, never 0: that is the tenant of pools that aren't fair by tenant.
func hash(b []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return max(h, 1)
}

func isGRPC(contentType []byte) bool {
	const grpc = "application/grpc"
	if len(contentType) < len(grpc) || view(contentType[:len(grpc)]) != grpc {
		return false
	}
	rest := contentType[len(grpc):]
	return len(rest) == 0 || rest[0] == '+' || rest[0] == ';'
}

// view is b as a string without a copy: valid as long as b is neither changed nor reused.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// bytesOf is s as bytes without a copy: not to be written to.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
