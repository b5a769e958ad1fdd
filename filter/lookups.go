package filter

import (
	"unicode/utf8"

	"github.com/headgate/headgate/admission/config"
	"github.com/headgate/headgate/admission/request"
	"github.com/headgate/headgate/filter/abi"
)

// lookups are the request headers and properties that a configuration reads. One host call reads all headers.
type lookups struct {
	names                     []string      // of the headers that are read
	lengthBits                uint64        // a bit for each length of a name, modulo 64: most other headers differ in it
	headers                   []headerValue // the current request's, in the order of names
	path, method, contentType int           // indexes of names
	contentEncoding, upgrade  int           // likewise; -1: not read
	tenant, model, class      []sourceLookup
	asked                     [dimensions]bool // by a pool
	deadline                  []int            // indexes of names, in the order of the configuration
	refused                   []string         // the current request's headers that a client may not set, to be removed
}

// A sourceLookup says where the value of one of the configuration's sources is.
type sourceLookup struct {
	_ incomparable

	header   int    // index of names; -1: not in a header
	property string // the host's name for it; "": not in a property
}

// A headerValue is what a request has of one header.
type headerValue struct {
	value []byte // the first one: the host's copy while the headers are read, then a part of the stream's text
	count int    // how often the header was sent
}

// ownPrefix begins the names of headers that only Headgate may set.
const ownPrefix = "x-headgate-"

// askedFor returns the dimensions that some pool asks for. Nobody waits for a body for the others' sake, and two values
// of them are no reason to refuse a request.
func askedFor(cfg *config.Config) (asked [dimensions]bool) {
	for i := range cfg.Pools {
		o := &cfg.Pools[i]
		for _, d := range o.Key {
			asked[d] = true
		}
		for j := range o.Match {
			asked[o.Match[j].Dimension] = true
		}
		if o.FairBy {
			asked[config.DimensionTenant] = true
		}
	}
	return asked
}

func newLookups(cfg *config.Config) lookups {
	l := lookups{asked: askedFor(cfg)}
	l.path, l.method, l.contentType = l.add(":path"), l.add(":method"), l.add("content-type")
	l.contentEncoding, l.upgrade = -1, -1
	if bodySource(cfg) >= 0 && l.asked[config.DimensionModel] {
		l.contentEncoding, l.upgrade = l.add("content-encoding"), l.add("upgrade")
	}
	l.tenant = l.addSources(cfg.Identity.Tenant)
	l.model = l.addSources(cfg.Identity.Model)
	l.class = l.addSources(cfg.Identity.Class)
	for i := range cfg.Deadline.Headers {
		l.deadline = append(l.deadline, l.add(cfg.Deadline.Headers[i].Name))
	}
	l.headers = make([]headerValue, len(l.names))
	return l
}

// add returns the index of a header in names. It adds the header if it isn't there.
//
//go:noinline // called from many places
func (l *lookups) add(name string) int {
	for i, n := range l.names {
		if n == name {
			return i
		}
	}
	l.names = append(l.names, name)
	l.lengthBits |= 1 << (len(name) & 63)
	return len(l.names) - 1
}

// addSources returns where the values of the sources are. It adds their headers to names.
func (l *lookups) addSources(sources []config.Source) []sourceLookup {
	var at []sourceLookup
	for i := range sources {
		src := &sources[i]
		if src.Kind == config.SourceHeader {
			at = append(at, sourceLookup{header: l.add(src.Name)})
		} else {
			at = append(at, sourceLookup{header: -1, property: propertyOf(src)})
		}
	}
	return at
}

// read reads the request's headers. It keeps their values in the stream's text, since later host calls reuse the memory
// that the host has put them in. It drops white space around a value: HTTP/2 carries it, and an upstream on HTTP/1
// never sees it.
func (l *lookups) read(s *stream) {
	clear(l.headers)
	l.refused = l.refused[:0]
	pairs, _ := abi.RequestHeaders()
	for c := pairs.Cursor(); c.Next(); {
		n := len(c.Name)
		if l.lengthBits&(1<<(n&63)) != 0 {
			l.noteHeader(view(c.Name), c.Value)
		}
		if n >= len(ownPrefix) && c.Name[0] == 'x' && s.refusesHeader(view(c.Name)) {
			l.refused = append(l.refused, string(c.Name))
		}
	}
	for i := range l.headers {
		if h := &l.headers[i]; len(h.value) > 0 {
			h.value = s.kept(s.keepRaw(trimmed(h.value)))
		}
	}
}

// routerHeaders are the headers by which a client that Envoy trusts can make its router send a request more than once.
// A permit is for one.
var routerHeaders = [...]string{
	"x-envoy-retry-on", "x-envoy-retry-grpc-on", "x-envoy-max-retries", "x-envoy-retriable-status-codes",
	"x-envoy-retriable-header-names", "x-envoy-hedge-on-per-try-timeout", "x-envoy-upstream-rq-per-try-timeout-ms"}

// refusesHeader reports whether a governed request loses a header: one that only Headgate may set, or one by which it
// would be sent more than once.
//
//go:noinline // called for few headers
func (s *stream) refusesHeader(name string) bool {
	if name[:len(ownPrefix)] == ownPrefix {
		return true
	}
	for i := 0; i < len(routerHeaders) && s.plugin.cfg.Stage != config.StageAttempt && !s.shadow(); i++ {
		if name == routerHeaders[i] {
			return true
		}
	}
	return false
}

// noteHeader notes a header of the request, if it is one of names.
func (l *lookups) noteHeader(name string, value []byte) {
	for i, n := range l.names {
		if n == name {
			if l.headers[i].count++; l.headers[i].count == 1 {
				l.headers[i].value = value
			}
			return
		}
	}
}

// value returns a header's first value, or nil if the header isn't there or isn't read.
func (l *lookups) value(header int) []byte {
	if header < 0 {
		return nil
	}
	return l.headers[header].value
}

// ambiguous reports whether a header of these sources was sent more than once. They are those of a dimension.
func (l *lookups) ambiguous(d config.Dimension, at []sourceLookup) bool {
	for i := 0; i < len(at) && l.asked[d]; i++ {
		if h := at[i].header; h >= 0 && l.headers[h].count > 1 {
			return true
		}
	}
	return false
}

// ambiguousDeadline reports whether a deadline header was sent more than once.
func (l *lookups) ambiguousDeadline() bool {
	for _, h := range l.deadline {
		if l.headers[h].count > 1 {
			return true
		}
	}
	return false
}

// valueOf returns the value that a source has for a request with that path, without white space around it. It returns
// nil if there is none.
func (l *lookups) valueOf(src *config.Source, at *sourceLookup, path string) []byte {
	var v []byte
	switch src.Kind {
	case config.SourceHeader:
		v = l.value(at.header)
	case config.SourcePath:
		inPath, _ := request.PathValue(src.Prefix, src.Suffix, path)
		if v = bytesOf(inPath); !utf8.Valid(v) {
			return nil // some upstreams drop the bytes that are not UTF-8, others replace them
		}
	case config.SourceValue:
		v = bytesOf(src.Name)
	default:
		if at.property != "" {
			v, _ = abi.Property(at.property)
		}
	}
	return trimmed(v)
}

// propertyOf returns the host's name of the property that a source reads, with NUL between its parts, or "" if it reads
// none.
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

// bodySource returns the index of the model's source that reads the body, or -1.
func bodySource(cfg *config.Config) int {
	for i := range cfg.Identity.Model {
		if cfg.Identity.Model[i].Kind == config.SourceJSONBody {
			return i
		}
	}
	return -1
}
