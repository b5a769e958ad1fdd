package filter

import (
	"unicode/utf8"

	"github.com/headgate/headgate/admission/config"
	"github.com/headgate/headgate/admission/request"
	"github.com/headgate/headgate/filter/abi"
)

// lookups are the request headers and properties that a configuration reads. One host call reads all headers.
type lookups struct {
	names                     []string                   // of the headers that are read
	lengths                   uint64                     // of the headers to look at: see abi.Cursor.Seek
	byLength                  [64]int                    // the first header by its name's length modulo 64, from 1
	headers                   []headerValue              // the current request's, in the order of names
	readsProperties           bool                       // some source is one
	copied                    abi.Pairs                  // the current request's headers, if properties are read
	path, method, contentType int                        // indexes of names
	contentEncoding, upgrade  int                        // likewise; -1: not read
	sources                   [dimensions][]sourceLookup // of those to be known
	asked                     [dimensions]bool           // by a pool
	known                     [dimensions]bool           // to be found out: for a pool, or for the attempts
	sentOnce                  bool                       // routerHeaders are refused
	deadline                  []int                      // indexes of names, in the order of the configuration
	rest                      abi.Cursor                 // the current request's headers that nobody has looked at
	refused                   []string                   // headers of the current request or answer that are to be removed
}

// A sourceLookup says where the value of one of the configuration's sources is.
type sourceLookup struct {
	_ incomparable

	*config.Source
	header   int    // index of names; -1: not in a header
	property string // the host's name for it; "": not in a property
}

// A headerValue is what a request has of one header.
type headerValue struct {
	value []byte // the first one, without the white space around it; an earlier request's if count is 0
	count int    // how often the header was sent
	next  int    // the next header whose name has the same length modulo 64, from 1; 0: none
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
	for d := range l.known {
		l.known[d] = l.asked[d] || cfg.Stage == config.StageInvocation
	}
	l.path, l.method, l.contentType = l.add(":path"), l.add(":method"), l.add("content-type")
	l.contentEncoding, l.upgrade = -1, -1
	if bodySource(cfg) >= 0 && l.asked[config.DimensionModel] {
		l.contentEncoding, l.upgrade = l.add("content-encoding"), l.add("upgrade")
	}
	l.addSources(config.DimensionTenant, cfg.Identity.Tenant)
	l.addSources(config.DimensionModel, cfg.Identity.Model)
	l.addSources(config.DimensionClass, cfg.Identity.Class)
	for i := range cfg.Deadline.Headers {
		l.deadline = append(l.deadline, l.add(cfg.Deadline.Headers[i].Name))
	}
	if l.sentOnce = cfg.Stage != config.StageAttempt && cfg.Mode != config.ModeShadow; l.sentOnce {
		for i := range routerHeaders {
			l.look(routerHeaders[i])
		}
	}
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
	l.look(name)
	first := &l.byLength[len(name)&63]
	l.headers = append(l.headers, headerValue{next: *first})
	*first = len(l.names)
	return *first - 1
}

// look has headers of that name looked at.
func (l *lookups) look(name string) { l.lengths |= 1 << (len(name) & 63) }

// addSources adds the sources of a dimension that is to be known, and their headers to names.
//
//go:noinline // many bytes in three places
func (l *lookups) addSources(d config.Dimension, sources []config.Source) {
	for i := 0; i < len(sources) && l.known[d]; i++ {
		src := sourceLookup{Source: &sources[i], header: -1}
		if src.Kind == config.SourceHeader {
			src.header = l.add(src.Name)
		} else if src.property = propertyOf(src.Source); src.property != "" {
			l.readsProperties = true
		}
		l.sources[d] = append(l.sources[d], src)
	}
}

// begin reads all of the request's headers from the host, and looks at none yet. Their values stay where the host has
// put them, and so are valid until the next host call that returns bytes: what outlives the callback is kept in the
// stream's text. Where properties are read, which are such calls, all is copied before.
func (l *lookups) begin() {
	for i := range l.headers {
		l.headers[i].count = 0
	}
	l.refused = l.refused[:0]
	pairs, _ := abi.RequestHeaders()
	if l.readsProperties {
		l.copied = append(l.copied[:0], pairs...)
		pairs = l.copied
	}
	l.rest = pairs.Cursor()
}

// readRoute looks at headers until the path and the method are known, which come first: most requests that are not
// governed need no more.
func (l *lookups) readRoute() {
	for (l.headers[l.path].count == 0 || l.headers[l.method].count == 0) && l.next() {
	}
}

// read looks at the headers that are left.
func (l *lookups) read() {
	for l.next() {
	}
}

// next notes one more header of those that are looked for; false: there are no more. White space around a value is
// dropped: HTTP/2 carries it, and an upstream on HTTP/1 never sees it.
func (l *lookups) next() bool {
	c := &l.rest
	if !c.Seek(l.lengths, ownPrefix) {
		return false
	}
	for i := l.byLength[len(c.Name)&63]; i > 0; i = l.headers[i-1].next {
		if h := &l.headers[i-1]; view(c.Name) == l.names[i-1] {
			if h.count++; h.count == 1 {
				h.value = trimmed(c.Value)
			}
			break
		}
	}
	if len(c.Name) >= len(ownPrefix) && c.Name[0] == 'x' && l.refusesHeader(view(c.Name)) {
		l.refuse(c.Name)
	}
	return true
}

// refuse notes a header that is to be removed.
//
//go:noinline // for few headers, in two places
func (l *lookups) refuse(name []byte) { l.refused = append(l.refused, string(name)) }

// routerHeaders are the headers by which a client that Envoy trusts can make its router send a request more than once.
// A permit is for one.
var routerHeaders = [...]string{
	"x-envoy-retry-on", "x-envoy-retry-grpc-on", "x-envoy-max-retries", "x-envoy-retriable-status-codes",
	"x-envoy-retriable-header-names", "x-envoy-hedge-on-per-try-timeout", "x-envoy-upstream-rq-per-try-timeout-ms"}

// refusesHeader reports whether a governed request loses a header: one that only Headgate may set, or one by which it
// would be sent more than once.
//
//go:noinline // called for few headers
func (l *lookups) refusesHeader(name string) bool {
	if name[:len(ownPrefix)] == ownPrefix {
		return true
	}
	for i := 0; i < len(routerHeaders) && l.sentOnce; i++ {
		if name == routerHeaders[i] {
			return true
		}
	}
	return false
}

// value returns a header's first value, or nil if the header isn't there or isn't read.
func (l *lookups) value(header int) []byte {
	if header < 0 || l.headers[header].count == 0 {
		return nil
	}
	return l.headers[header].value
}

// ambiguous reports whether a header that decides a dimension was sent more than once.
func (l *lookups) ambiguous(d config.Dimension) bool {
	at := l.sources[d]
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
func (l *lookups) valueOf(src *sourceLookup, path string) []byte {
	var v []byte
	switch src.Kind {
	case config.SourceHeader:
		v = l.value(src.header)
	case config.SourcePath:
		inPath, _ := request.PathValue(src.Prefix, src.Suffix, path)
		if v = bytesOf(inPath); !utf8.Valid(v) {
			return nil // some upstreams drop the bytes that are not UTF-8, others replace them
		}
	case config.SourceValue:
		v = bytesOf(src.Name)
	default:
		if src.property != "" {
			v, _ = abi.Property(src.property)
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
