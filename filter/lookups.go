package filter

import (
	"github.com/headgate/headgate/admission/config"
	"github.com/headgate/headgate/admission/request"
	"github.com/headgate/headgate/filter/abi"
)

// lookups are the request headers and properties that a configuration reads. All headers are read with one host call.
type lookups struct {
	names                     []string
	lengths                   uint64 // a bit for each length of a name, modulo 64: most headers can be passed over by their length
	found                     []headerValue
	path, method, contentType int // indexes into names
	contentEncoding, upgrade  int // -1: not looked at
	tenant, model, class      []valueAt
	deadline                  []int
	own                       []string // Headgate's own names in the request, to be removed
}

// A valueAt is where a source's value is.
type valueAt struct {
	header   int    // index into names; -1: not in a header
	property string // the host's name for it; "": not in a property
}

type headerValue struct {
	value []byte // the first one: the host's copy while the headers are read, then a piece of the stream's text
	count int
}

// ownPrefix starts the names of headers that only Headgate may set.
const ownPrefix = "x-headgate-"

func newLookups(cfg *config.Config) lookups {
	var l lookups
	l.path, l.method, l.contentType = l.add(":path"), l.add(":method"), l.add("content-type")
	l.contentEncoding, l.upgrade = -1, -1
	if bodySource(cfg) >= 0 {
		l.contentEncoding, l.upgrade = l.add("content-encoding"), l.add("upgrade")
	}
	l.tenant = l.sources(cfg.Identity.Tenant)
	l.model = l.sources(cfg.Identity.Model)
	l.class = l.sources(cfg.Identity.Class)
	for _, name := range cfg.Deadline.Headers {
		l.deadline = append(l.deadline, l.add(name))
	}
	l.found = make([]headerValue, len(l.names))
	return l
}

// add is the index of a header in names, which it adds if need be.
//
//go:noinline // called from many places
func (l *lookups) add(name string) int {
	for i, n := range l.names {
		if n == name {
			return i
		}
	}
	l.names = append(l.names, name)
	l.lengths |= 1 << (len(name) & 63)
	return len(l.names) - 1
}

//go:noinline // as add
func (l *lookups) sources(sources []config.Source) []valueAt {
	var places []valueAt
	for i := range sources {
		src := &sources[i]
		if src.Kind == config.SourceHeader {
			places = append(places, valueAt{header: l.add(src.Name)})
		} else {
			places = append(places, valueAt{header: -1, property: propertyOf(src)})
		}
	}
	return places
}

// read finds the headers in the request and keeps their values in the stream's text: later host calls reuse the memory
// that the host put them in.
func (l *lookups) read(s *stream) {
	clear(l.found)
	l.own = l.own[:0]
	pairs, _ := abi.RequestHeaders()
	for c := pairs.Cursor(); c.Next(); {
		n := len(c.Name)
		if l.lengths&(1<<(n&63)) != 0 {
			l.note(view(c.Name), c.Value)
		}
		if n >= len(ownPrefix) && c.Name[0] == 'x' && view(c.Name[:len(ownPrefix)]) == ownPrefix {
			l.own = append(l.own, string(c.Name))
		}
	}
	for i := range l.found {
		if f := &l.found[i]; len(f.value) > 0 {
			f.value = s.kept(s.keepRaw(f.value))
		}
	}
}

// note keeps the value of a header that is looked at.
func (l *lookups) note(name string, value []byte) {
	for i, n := range l.names {
		if n == name {
			if l.found[i].count++; l.found[i].count == 1 {
				l.found[i].value = value
			}
			return
		}
	}
}

// value is a header's first value; nil if it isn't there, or isn't looked at.
func (l *lookups) value(at int) []byte {
	if at < 0 {
		return nil
	}
	return l.found[at].value
}

// ambiguous reports whether a header of those was sent more than once.
func (l *lookups) ambiguous(places []valueAt) bool {
	for i := range places {
		if at := places[i].header; at >= 0 && l.found[at].count > 1 {
			return true
		}
	}
	return false
}

func (l *lookups) ambiguousDeadline() bool {
	for _, at := range l.deadline {
		if l.found[at].count > 1 {
			return true
		}
	}
	return false
}

// source is what a source yields for a request with that path; nil: nothing.
func (l *lookups) source(src *config.Source, at *valueAt, path string) []byte {
	switch src.Kind {
	case config.SourceHeader:
		return l.value(at.header)
	case config.SourcePath:
		v, _ := request.PathValue(src.Prefix, src.Suffix, path)
		return bytesOf(v)
	case config.SourceValue:
		return bytesOf(src.Name)
	}
	if at.property == "" {
		return nil
	}
	v, _ := abi.Property(at.property)
	return v
}

// propertyOf is the host's name for what a source reads, its parts separated by NUL; "" if it reads no property.
func propertyOf(src *config.Source) string {
	switch src.Kind {
	case config.SourceMetadata:
		name := "metadata\x00filter_metadata"
		for _, part := range src.Path {
			name += "\x00" + part
		}
		return name
	case config.SourcePeerCertificate:
		return "connection\x00" + src.Name + "_peer_certificate"
	case config.SourceFilterState:
		return "filter_state\x00" + src.Name
	case config.SourceCluster:
		return "xds\x00cluster_name"
	}
	return ""
}

// bodySource is the index of the model source that reads the body, or -1.
func bodySource(cfg *config.Config) int {
	for i := range cfg.Identity.Model {
		if cfg.Identity.Model[i].Kind == config.SourceJSONBody {
			return i
		}
	}
	return -1
}
