package journal

// ringSize is how many events a journal remembers.
const ringSize = 256

// A Journal is what one plugin context remembers. Not safe for concurrent use.
type Journal struct {
	_ incomparable

	events [ringSize][]byte // encoded, each at its number modulo the size
	last   uint32           // the number of the last event; 0: there was none

	waits   []poolWaits
	tenants tenants

	watchedUntil int64 // monotonic nanoseconds: somebody looks until then
}

// watchTime is how long somebody is taken to look on after a question.
const watchTime = int64(10e9)

// Watched reports whether somebody has asked not long ago.
func (j *Journal) Watched(now int64) bool { return now < j.watchedUntil }

// IsEmpty reports whether there never was an event.
func (j *Journal) IsEmpty() bool { return j.last == 0 }

// Note writes an event down. It gets its number.
func (j *Journal) Note(e *Event) {
	j.last++
	e.Seq = j.last
	at := &j.events[j.last%ringSize]
	*at = e.Append((*at)[:0])
}

// appendEvents appends the encoded events behind a number, newest last, as far as there is room for them: the newest
// ones.
func (j *Journal) appendEvents(dst []byte, since uint32, room int) []byte {
	if j.last-since > 1<<31 {
		since = 0 // a question of someone who speaks of an earlier journal
	}
	first := j.last + 1
	for ; first-1 != since && j.last-first+1 < ringSize; first-- {
		if room -= 2 + len(j.events[(first-1)%ringSize]); room < 0 {
			break
		}
	}
	for seq := first; seq != j.last+1; seq++ {
		b := j.events[seq%ringSize]
		dst = append(append(dst, byte(len(b)), byte(len(b)>>8)), b...)
	}
	return dst
}
