package journal

import "unsafe"

// A Kind says what happened.
type Kind uint8

// The kinds of events.
const (
	Refused         Kind = iota // a request, before it waited
	Expired                     // a request that used up its wait or its deadline
	Cancelled                   // a wait: its client left
	Reaped                      // what a dead worker held or waited for
	BreakerOpened               //
	BreakerHalfOpen             //
	BreakerClosed               //
	LimitChanged                // by the admin stage
	Waited                      // a wait that ended in admission, longer than those before it in its slot
	Ended                       // a request that had been admitted
	kinds
)

// An Event is something that the admin stage tells. Its texts are views: they are valid as long as what they were read
// from.
type Event struct {
	_ incomparable

	Kind Kind
	Seq  uint32 // its number in its journal
	At   int64  // in a journal monotonic nanoseconds, in the log milliseconds since 1970

	Wait, Duration int64 // milliseconds
	Status         int   // 0: none
	Whole          bool  // of Ended: the answer came whole
	Limit, Before  int   // of LimitChanged
	Source         uint8 // of LimitChanged: an admission.Source

	Pool, Key, Tenant, Model, Method, Path, Reason string
}

const (
	eventHead = 33  // bytes before the texts
	mostText  = 255 // bytes of one text
	mostPath  = 128 // of the path
)

// texts are the event's texts in the order of their bytes.
func (e *Event) texts() [7]*string {
	return [...]*string{&e.Pool, &e.Key, &e.Tenant, &e.Model, &e.Method, &e.Path, &e.Reason}
}

// Append encodes the event behind dst. The path loses its query.
func (e *Event) Append(dst []byte) []byte {
	whole := byte(0)
	if e.Whole {
		whole = 1
	}
	dst = append(dst, byte(e.Kind), whole, e.Source, byte(e.Status), byte(e.Status>>8))
	dst = put64(dst, uint64(e.At))
	for _, n := range [...]int64{int64(e.Seq), e.Wait, e.Duration, int64(e.Limit), int64(e.Before)} {
		dst = put32(dst, uint32(min(n, 1<<32-1)))
	}
	path := e.Path
	e.Path = withoutQuery(path)
	for _, s := range e.texts() {
		dst = putText(dst, *s)
	}
	e.Path = path
	return dst
}

// withoutQuery cuts a path before its query, and to what is kept of it.
func withoutQuery(path string) string {
	for i := range len(path) {
		if path[i] == '?' || i == mostPath {
			return path[:i]
		}
	}
	return path
}

// Decode reads an event. Its texts are views of b; false: b is none.
func (e *Event) Decode(b []byte) bool {
	if len(b) < eventHead || b[0] >= byte(kinds) {
		return false
	}
	e.Kind, e.Whole, e.Source = Kind(b[0]), b[1] != 0, b[2]
	e.Status = int(b[3]) | int(b[4])<<8
	e.At, e.Seq = int64(get64(b[5:])), get32(b[13:])
	e.Wait, e.Duration = int64(get32(b[17:])), int64(get32(b[21:]))
	e.Limit, e.Before = int(get32(b[25:])), int(get32(b[29:]))
	b = b[eventHead:]
	for _, s := range e.texts() {
		var ok bool
		if *s, b, ok = cutText(b); !ok {
			return false
		}
	}
	return true
}

// The bytes of reports. Numbers are little endian, a text has its length before it.

func get32(b []byte) uint32 {
	_ = b[3]
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

func get64(b []byte) uint64 { return uint64(get32(b)) | uint64(get32(b[4:]))<<32 }

//go:noinline // called from many places
func put32(b []byte, n uint32) []byte {
	return append(b, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
}

func put64(b []byte, n uint64) []byte { return put32(put32(b, uint32(n)), uint32(n>>32)) }

// putText appends a text, or its beginning.
//
//go:noinline // as put32
func putText(b []byte, s string) []byte {
	s = s[:min(len(s), mostText)]
	return append(append(b, byte(len(s))), s...)
}

// cutText takes a text off the beginning of b.
func cutText(b []byte) (s string, rest []byte, ok bool) {
	if len(b) == 0 || len(b) < 1+int(b[0]) {
		return "", nil, false
	}
	n := 1 + int(b[0])
	return view(b[1:n]), b[n:], true
}

// view returns b as a string, without a copy. It is valid as long as b doesn't change.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// incomparable makes a struct that begins with it one that can't be compared, so that no code is made for it that
// nobody calls: some hundred bytes of module for each.
type incomparable [0]func()
