package request

import (
	"github.com/headgate/headgate/admission/config"
	"github.com/headgate/headgate/admission/internal/text"
)

// A reading is one way in which an upstream may understand a path. Every reading drops the query, decodes percent
// escapes once and leaves invalid ones, merges slashes, and drops a slash at the end. In five more ways upstreams
// differ about where segments begin and end. Each is a bit.
//
// Upstreams also differ about what is in a segment. That needs no bits: see segmentMatches.
type reading uint8

const (
	dotSegments   reading = 1 << iota // . and .. segments are resolved
	escapes                           // an escaped separator separates as the character does: %2F, %5C, %3B
	backslashes                       // \ separates segments
	parameters                        // a segment ends at its first ;
	blankSegments                     // a segment of nothing but what may be dropped is empty
)

// readingsOf returns the bits that make a difference for a path. An ordinary path has none of them, and so one reading.
func readingsOf(path string) (r reading) {
	for i := range len(path) {
		switch c := path[i]; {
		case 'a' <= c && c <= 'z': // as most are
		case c == '\\':
			r |= backslashes
		case c == ';':
			r |= parameters
		case c == '%':
			r |= readingsOfEscape(path, i)
		case c == '.' && (i+1 == len(path) || text.IndexByte("./\\;%", path[i+1]) >= 0):
			r |= dotSegments
		case mayBeDropped(c):
			r |= blankSegments
		}
	}
	return r
}

// readingsOfEscape is readingsOf for the escape at path[i].
func readingsOfEscape(path string, i int) reading {
	switch c, n := decodedAt(path, i); {
	case n == 1:
		return 0
	case c == '/':
		return escapes
	case c == '\\':
		return escapes | backslashes
	case c == ';':
		return escapes | parameters
	case c == '.':
		return dotSegments
	case mayBeDropped(c):
		return blankSegments
	}
	return 0
}

// mayBeDropped reports whether some upstream drops a byte from a path: blanks and control characters at the ends of
// segments, a line end at the end of the path, or bytes that are not UTF-8. To be on the safe side this is any blank,
// control character or byte beyond ASCII, in any place.
func mayBeDropped(c byte) bool { return c <= ' ' || c >= 0x7f }

// cutQuery returns a path without its query and fragment.
func cutQuery(path string) string {
	for i := range len(path) {
		if path[i] == '?' || path[i] == '#' {
			return path[:i]
		}
	}
	return path
}

// An effort is how many steps may still be made to read a path. The longest path that a client can send has 32
// readings, each of which would be compared with each pattern, from each character on: that could keep a worker for a
// second. What a client of good will sends takes a small part of it.
type effort struct{ left int }

const (
	leastEffort    = 1 << 15
	effortPerRoute = 1 << 10
)

// spend makes one step; false: there are none left.
func (e *effort) spend() bool {
	e.left--
	return e.left >= 0
}

// over reports whether a step was not made.
func (e *effort) over() bool { return e.left < 0 }

// A segmentWalk goes through the segments of a path in one reading, from the last to the first. It leaves out empty
// ones. Segments are still percent-encoded.
type segmentWalk struct {
	path    string // what is still to be read of it
	reading reading
	effort  effort
	whole   bool   // an escaped separator is part of its segment, whatever the reading says of it
	segment string // the current segment
	skip    int    // how many segments to the left are removed by a `..`
	atStart bool
}

// back moves to the next segment to the left. It returns false if there is none.
func (w *segmentWalk) back() bool {
	for !w.atStart && !w.effort.over() {
		w.segment = w.cut()
		dots := 0
		if w.reading&dotSegments != 0 {
			dots = dotsOf(w.segment)
		}
		switch {
		case w.segment == "" || dots == 1:
		case w.reading&blankSegments != 0 && segmentMatches("", w.segment, false, &w.effort):
		case dots == 2:
			w.skip++
		case w.skip > 0:
			w.skip--
		default:
			return true
		}
	}
	return false
}

// cut removes the last segment from the path and returns it, even an empty or a dot segment.
func (w *segmentWalk) cut() string {
	for i := len(w.path) - 1; i >= 0 && w.effort.spend(); i-- {
		if n := w.separator(i); n > 0 {
			s := w.path[i+n:]
			w.path = w.path[:i]
			return w.withoutParameters(s)
		}
	}
	w.atStart = true
	return w.withoutParameters(w.path)
}

// separator returns how many bytes the separator at i has, 0 if there is none. Escapes never overlap, so reading from
// the right finds the same ones.
func (w *segmentWalk) separator(i int) int {
	switch w.path[i] {
	case '/':
		return 1
	case '\\', '%':
		c, n := decodedAt(w.path, i)
		if n == 3 && (w.whole || w.reading&escapes == 0) || c == '\\' && w.reading&backslashes == 0 {
			return 0
		}
		if c == '/' || c == '\\' {
			return n
		}
	}
	return 0
}

// withoutParameters returns a segment up to its first ;, if the reading ends it there.
func (w *segmentWalk) withoutParameters(segment string) string {
	if w.reading&parameters == 0 {
		return segment
	}
	w.effort.left -= len(segment)
	for i := range len(segment) {
		if c, n := decodedAt(segment, i); c == ';' && (n == 1 || w.reading&escapes != 0) {
			return segment[:i]
		}
	}
	return segment
}

// dotsOf returns 1 for a `.` segment and 2 for `..`, encoded or not, and 0 for any other.
func dotsOf(segment string) (dots int) {
	for i := 0; i < len(segment); {
		c, n := decodedAt(segment, i)
		if c != '.' || dots == 2 {
			return 0
		}
		dots++
		i += n
	}
	return dots
}

// decodedAt returns the byte at s[i], or the byte that the escape there stands for, and how many bytes of s it takes
// up.
func decodedAt(s string, i int) (c byte, n int) {
	if s[i] == '%' && i+2 < len(s) {
		if high, low := text.HexDigit(s[i+1]), text.HexDigit(s[i+2]); high >= 0 && low >= 0 {
			return byte(high<<4 | low), 3
		}
	}
	return s[i], 1
}

// segmentMatches reports whether a segment, percent-decoded, matches a pattern in which `*` stands for any run of
// characters. last says that the segment is its path's last one.
//
// It matches what any upstream would match:
//   - The case of ASCII letters is ignored.
//   - A byte that may be dropped is passed over where the pattern doesn't have it.
//   - A dot ends the last segment: some upstreams take what follows for the answer's format.
//
// Each `*` first matches nothing. After a mismatch only the last `*` is tried again, with one character more: if the
// earlier ones matched more, the last one would have less to choose from. Nothing is passed over directly behind a `*`,
// which has that choice. So each try passes over a run of characters only when the pattern has matched something since
// the `*`, and the time is at most len(pattern) * len(segment).
func segmentMatches(pattern, segment string, last bool, e *effort) bool {
	p, star, retry := 0, -1, 0
	for i := 0; i < len(segment); {
		if !e.spend() {
			return false
		}
		c, n := decodedAt(segment, i)
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, retry = p, i
			p++
		case p < len(pattern) && text.Lower(pattern[p]) == text.Lower(c):
			p++
			i += n
		case last && p == len(pattern) && c == '.':
			return true
		case mayBeDropped(c) && (star < 0 || p > star+1):
			i += n
		case star >= 0:
			_, n = decodedAt(segment, retry)
			retry += n
			p, i = star+1, retry
		default:
			return false
		}
	}
	return text.Trim(pattern[p:], "*") == ""
}

// PathValue returns the part of a path that stands where a template has its placeholder. prefix and suffix are the text
// before and behind the placeholder, as in a Source of kind SourcePath.
//
// The template matches whole segments, as a pattern does. A slash at its end means only that the placeholder's segment
// ends there. Of several matches with a value that is not empty, the leftmost counts.
//
// The value is the whole segment: an escaped slash is part of it, as in the names of some models. An escaped slash
// separates segments only where the template matches in no other way, and in a value that would have dot segments. Of
// several other readings the one with the most separators comes first. Dot segments are always resolved: they are no
// value.
//
// A path that takes too much effort to read has no value.
//
// The value is percent-decoded, without the blanks at its ends. It may hold any byte. For most paths this allocates
// once: they have at most MaxRouteSegments segments, and no escapes.
func PathValue(prefix, suffix, path string) (value string, ok bool) {
	t := pathTemplate{segments: make([]string, 0, config.MaxRouteSegments), effort: effort{left: leastEffort}}
	path = cutQuery(path)
	t.prefix, _ = text.CutPrefix(prefix, "/")
	t.suffix = text.WithoutSlashAtEnd(suffix)
	bits := readingsOf(path) &^ dotSegments
	if bits&escapes != 0 {
		if value, ok = t.valueIn(path, bits, true); ok && !hasDotSegment(value) {
			return value, true
		}
	}
	if value, ok = t.valueIn(path, bits, false); t.effort.over() {
		return "", false
	}
	return value, ok
}

// hasDotSegment reports whether a value has a `.` or `..` between slashes, of either kind, or at its ends.
func hasDotSegment(value string) bool {
	w := segmentWalk{path: value, reading: backslashes, effort: effort{left: len(value) + 1}}
	for w.back() {
		if dotsOf(w.segment) > 0 {
			return true
		}
	}
	return false
}

// A pathTemplate is a template with a placeholder, between a prefix and a suffix.
type pathTemplate struct {
	_ incomparable

	prefix, suffix string
	segments       []string // of the path in one reading, the last one first
	effort         effort
}

// valueIn returns the placeholder's value in the first reading of a path that has one, of those with some of the bits.
func (t *pathTemplate) valueIn(path string, bits reading, whole bool) (value string, ok bool) {
	for r := bits; ; r = (r - 1) & bits {
		t.segments = t.segments[:0]
		w := segmentWalk{path: path, reading: r | dotSegments, whole: whole, effort: t.effort}
		for w.back() {
			t.segments = text.PutText(t.segments, w.segment)
		}
		t.effort = w.effort
		for i := len(t.segments) - 1; i >= 0 && !ok; i-- {
			value, ok = t.valueAt(i)
		}
		if ok || r == 0 || t.effort.over() {
			return value, ok
		}
	}
}

// valueAt returns the placeholder's value if the template matches from segments[i] on.
func (t *pathTemplate) valueAt(i int) (value string, ok bool) {
	first, rest, more := text.Cut(t.prefix, "/")
	for more {
		if i == 0 || !segmentMatches(first, t.segments[i], false, &t.effort) {
			return "", false
		}
		i--
		first, rest, more = text.Cut(rest, "/")
	}
	last, rest, more := text.Cut(t.suffix, "/")
	t.effort.left -= len(t.segments[i])
	value, ok = cutFold(decoded(t.segments[i]), first, last)
	for ok && more {
		i--
		last, rest, more = text.Cut(rest, "/")
		ok = i >= 0 && segmentMatches(last, t.segments[i], i == 0, &t.effort)
	}
	return value, ok
}

// cutFold returns what a segment has between a beginning and an ending; false if that is empty or one of them isn't
// there.
func cutFold(segment, beginning, ending string) (string, bool) {
	from, to := len(beginning), len(segment)-len(ending)
	if from >= to || !text.EqualFold(segment[:from], beginning) || !text.EqualFold(segment[to:], ending) {
		return "", false
	}
	return segment[from:to], true
}

// blanks are the space and the control characters.
const blanks = "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f" +
	"\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f \x7f"

// decoded returns a segment without its percent escapes, and without the blanks at its ends.
func decoded(segment string) string {
	if text.IndexByte(segment, '%') >= 0 {
		out := []byte(segment)
		length := 0
		for i := 0; i < len(segment); length++ {
			c, n := decodedAt(segment, i)
			out[length] = c
			i += n
		}
		segment = string(out[:length])
	}
	return text.Trim(segment, blanks)
}
