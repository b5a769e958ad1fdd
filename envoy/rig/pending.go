package rig

import (
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
)

// ErrUnanswered says that a test waited for the end of a reply until its patience ended.
var ErrUnanswered = errors.New("no whole reply came")

// A Leave is a way for a client to leave.
type Leave string

// The ways to leave. Over HTTP/2 both reset the stream, see H2.Kill for the connection.
const (
	LeaveFIN Leave = "FIN"
	LeaveRST Leave = "RST"
)

// A Pending is a call under way.
type Pending struct {
	done  chan struct{}
	leave func(Leave)

	mu         sync.Mutex
	reply      Reply
	unanswered bool
}

func newPending(leave func(Leave)) *Pending {
	return &Pending{done: make(chan struct{}), leave: leave, reply: Reply{Start: time.Now()}}
}

// Leave makes the client leave without waiting for the rest.
func (p *Pending) Leave(how Leave) { p.leave(how) }

// Done says whether the reply has ended.
func (p *Pending) Done() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Wait returns the reply once it has ended. A call may run for as long as the test likes; only the waiting for its end
// is bounded, so that a hang is a failure of this test and not a timeout of the whole binary.
func (p *Pending) Wait() *Reply {
	select {
	case <-p.done:
	case <-time.After(Patience):
		p.giveUp()
		<-p.done
	}
	return &p.reply
}

func (p *Pending) giveUp() {
	p.mu.Lock()
	p.unanswered = true
	p.mu.Unlock()
	p.leave(LeaveRST)
}

// BodyHas says whether the text is in what has come of the body so far.
func (p *Pending) BodyHas(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Contains(string(p.reply.Body), text)
}

// AwaitBody waits until the text has come in the body.
func (p *Pending) AwaitBody(t testing.TB, text string) {
	t.Helper()
	ok := Poll(Patience, func() bool { return p.BodyHas(text) || p.Done() }) && p.BodyHas(text)
	if !ok {
		t.Fatalf("%q did not come in the body; got %s", text, p.describe())
	}
}

func (p *Pending) describe() string {
	if p.Done() {
		return p.reply.String()
	}
	return "nothing final yet"
}

// finish is called once, by the call's own goroutine.
func (p *Pending) finish(err error) {
	p.mu.Lock()
	if p.unanswered {
		err = ErrUnanswered
	}
	p.reply.Err, p.reply.End = err, time.Now()
	p.mu.Unlock()
	close(p.done)
}

// readBody keeps what has come visible while it comes.
func (p *Pending) readBody(body io.Reader) error {
	buffer := make([]byte, 32<<10)
	for {
		n, err := body.Read(buffer)
		p.mu.Lock()
		p.reply.Body = append(p.reply.Body, buffer[:n]...)
		p.mu.Unlock()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return cut(err)
		}
	}
}

// WaitAll returns the replies of calls, in their order.
func WaitAll(calls []*Pending) []*Reply {
	replies := make([]*Reply, len(calls))
	for i, p := range calls {
		replies[i] = p.Wait()
	}
	return replies
}

// CountDone is how many of the calls have ended.
func CountDone(calls []*Pending) int {
	n := 0
	for _, p := range calls {
		if p.Done() {
			n++
		}
	}
	return n
}

// Started is when the call was sent.
func (p *Pending) Started() time.Time { return p.reply.Start }
