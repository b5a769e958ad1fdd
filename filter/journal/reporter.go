package journal

import "github.com/headgate/headgate/filter/abi"

// The messages. A question is its mark, the asker's place and the number of the last event of this journal that is
// known. An answer is its mark and the place of who has reported.
const (
	questionMark  = 'q'
	questionBytes = 7
	answerMark    = 'r'
	answerBytes   = 3
)

// A Reporter is a context's part as one that is asked.
type Reporter struct {
	post

	Works bool // the context has decided requests, as that of the main thread never does
}

// NewReporter returns the reporter of a context. It has no place yet.
func NewReporter(domain string) *Reporter {
	return &Reporter{post: post{domain: domain, role: roleReporter}}
}

// Keep makes sure that the context can be asked.
func (r *Reporter) Keep(now int64) { r.keep(now) }

// IsAsked reports whether a shared queue is the one in which the context is asked.
func (r *Reporter) IsAsked(queue uint32) bool { return r.held && queue == r.queue }

// Leave ends it with the context: nobody is to ask it any more.
func (r *Reporter) Leave() {
	if r.held {
		r.held = false
		r.leave(r.at, r.id)
	}
}

// Answer takes a question out of the queue and answers it with a report of the journal; false: there is none.
// eachTenant calls a function with the hash of each tenant whose name is wanted.
func (r *Reporter) Answer(j *Journal, now int64, eachTenant func(func(uint64))) bool {
	b, status := abi.Dequeue(r.queue)
	if status != abi.StatusOK {
		return false
	}
	if len(b) != questionBytes || b[0] != questionMark {
		return true
	}
	asker, since := int(b[1])|int(b[2])<<8, get32(b[3:])
	j.watchedUntil = now + watchTime
	from := place{id: r.id}
	if r.Works {
		from.vm = thisVM()
	}
	r.out = j.appendReport(r.out[:0], &from, now, since, eachTenant)
	if abi.SetShared(r.reportKey(r.at), r.out, 0) == abi.StatusOK {
		r.send(asker, []byte{answerMark, byte(r.at), byte(r.at >> 8)})
	}
	return true
}
