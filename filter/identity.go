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

// maxValue is how much of a tenant's, model's or class's name tells it apart; a longer one keeps its beginning and a
// hash of the whole.
const maxValue = 128

// reads is which request headers a configuration looks at. All of them are read with one host call.
type reads struct {
	names   []string
	lengths uint64 // a bit for each length of a name, modulo 64: most headers are passed over by theirs
	found   []headerValue
	path, method, contentType,
	tenant, model, class, deadline []int // indexes into names; of a source that is no header: -1
	own []string // Headgate's own names in the request, to be removed
}

type headerValue struct {
	value []byte // the first one; valid until the next host call that returns bytes
	count int
}

// ownPrefix starts the names of headers that only Headgate may set.
const ownPrefix = "x-headgate-"

func newReads(cfg *admission.Config) reads {
	var r reads
	r.path, r.method, r.contentType = r.add(":path"), r.add(":method"), r.add("content-type")
	r.tenant = r.sources(cfg.Identity.Tenant)
	r.model = r.sources(cfg.Identity.Model)
	r.class = r.sources(cfg.Identity.Class)
	for _, name := range cfg.Deadline.Headers {
		r.deadline = append(r.deadline, r.add(name)...)
	}
	r.found = make([]headerValue, len(r.names))
	return r
}

func (r *reads) add(name string) []int {
	for i, n := range r.names {
		if n == name {
			return []int{i}
		}
	}
	r.names = append(r.names, name)
	r.lengths |= 1 << (len(name) & 63)
	return []int{len(r.names) - 1}
}

func (r *reads) sources(ss []admission.Source) []int {
	var at []int
	for _, s := range ss {
		if s.Kind == admission.SourceHeader {
			at = append(at, r.add(s.Name)...)
		} else {
			at = append(at, -1)
		}
	}
	return at
}

// read finds the headers in the request.
func (r *reads) read() {
	clear(r.found)
	r.own = r.own[:0]
	pairs, _ := abi.RequestHeaders()
	for c := pairs.Cursor(); c.Next(); {
		n := len(c.Name)
		if r.lengths&(1<<(n&63)) != 0 && r.note(view(c.Name), c.Value) {
			continue
		}
		if n > len(ownPrefix) && c.Name[0] == 'x' && view(c.Name[:len(ownPrefix)]) == ownPrefix {
			r.own = append(r.own, string(c.Name))
		}
	}
}

// note keeps the value of a header that is looked at; false if it isn't.
func (r *reads) note(name string, value []byte) bool {
	for i, n := range r.names {
		if n == name {
			if r.found[i].count++; r.found[i].count == 1 {
				r.found[i].value = value
			}
			return true
		}
	}
	return false
}

func (r *reads) value(at []int) []byte { return r.found[at[0]].value }

// ambiguous reports whether a header of those was sent more than once.
func (r *reads) ambiguous(at []int) bool {
	for _, i := range at {
		if i >= 0 && r.found[i].count > 1 {
			return true
		}
	}
	return false
}

// identify finds out whether the request is governed, whose it is, and which keys it has to pass.
func (s *stream) identify() identification {
	p := s.plugin
	r := &p.reads
	r.read()
	var dims [4][]byte
	path, method := view(r.value(r.path)), view(r.value(r.method))
	dims[admission.DimensionRoute] = bytesOf(anyRoute)
	if len(p.cfg.Routes) > 0 {
		route, ok := p.cfg.MatchRoute(method, path)
		if !ok {
			return identityUngoverned
		}
		dims[admission.DimensionRoute] = bytesOf(route.Name)
	}
	if r.ambiguous(r.tenant) || r.ambiguous(r.model) || r.ambiguous(r.class) || r.ambiguous(r.deadline) {
		s.grpc = isGRPC(r.value(r.contentType))
		return identityAmbiguous
	}
	s.grpc = isGRPC(r.value(r.contentType))
	s.arrived = p.now
	s.readDeadline()
	s.tenant = s.keep(s.find(p.cfg.Identity.Tenant, r.tenant, path, anonymousTenant))
	class := s.keep(s.find(p.cfg.Identity.Class, r.class, path, unknownClass))
	model := s.keep(s.find(p.cfg.Identity.Model, r.model, path, unknownModel)) // last: it may cost a host call
	dims[admission.DimensionTenant], dims[admission.DimensionModel], dims[admission.DimensionClass] = s.kept(s.tenant), s.kept(model), s.kept(class)
	s.hash = hash(s.kept(s.tenant))
	for _, name := range r.own {
		abi.RemoveRequestHeader(name)
	}
	s.choose(&dims)
	return identityGoverned
}

// choose looks up the keys of the pools that the request has to pass.
func (s *stream) choose(dims *[4][]byte) {
	p := s.plugin
	for _, o := range p.pools {
		s.keys = append(s.keys, o.key(view(p.keyName(o, dims)), p.cfg.MaxKeys))
	}
}

// keySeparator stands between the values of a key of several dimensions; values have no control characters.
const keySeparator = 0x1f

// keyName builds the name of a pool's key; valid until the next one is built.
func (p *plugin) keyName(o *pool, dims *[4][]byte) []byte {
	p.out = p.out[:0]
	for i, d := range o.Key {
		if i > 0 {
			p.out = append(p.out, keySeparator)
		}
		p.out = append(p.out, dims[d]...)
	}
	if len(p.out) > admission.MaxName {
		p.out = shorten(p.out, 0, admission.MaxName)
	}
	return p.out
}

// find asks the sources in order; the first that has a value wins.
func (s *stream) find(sources []admission.Source, at []int, path, otherwise string) []byte {
	for i := range sources {
		if v := s.plugin.source(&sources[i], at[i], path); len(v) > 0 {
			return v
		}
	}
	return bytesOf(otherwise)
}

func (p *plugin) source(src *admission.Source, at int, path string) []byte {
	switch src.Kind {
	case admission.SourceHeader:
		return p.reads.found[at].value
	case admission.SourcePath:
		v, _ := admission.PathValue(src.Prefix, src.Suffix, path)
		return bytesOf(v)
	case admission.SourceCluster:
		v, _ := abi.Property("xds.cluster_name")
		return v
	case admission.SourceValue:
		return bytesOf(src.Name)
	}
	return nil
}

// readDeadline takes the tightest of the deadline headers, or the default.
func (s *stream) readDeadline() {
	p := s.plugin
	r := &p.reads
	left, given := p.cfg.Deadline.Default, p.cfg.Deadline.Default > 0
	said := false
	for i, at := range r.deadline {
		h := &r.found[at]
		if h.count == 0 {
			continue
		}
		name := p.cfg.Deadline.Headers[i]
		d, ok := admission.ParseDeadline(name, view(h.value))
		if !ok {
			abi.Increment(p.stats.badDeadline, 1)
			continue
		}
		if !said || d < left {
			left = d
		}
		said, given = true, true
		s.deadlines = append(s.deadlines, deadlineHeader{name: name, original: s.keepRaw(h.value)})
	}
	if given {
		s.deadline = max(p.now, 1)
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
	if at.to-at.from > maxValue {
		s.text = shorten(s.text, at.from, maxValue)
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
