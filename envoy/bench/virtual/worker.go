package virtual

import (
	"iter"
	"slices"
	"time"

	"github.com/headgate/headgate/wasmtest"
)

// A worker is a thread of the proxy. It is a coroutine: it runs until it has to let time pass, in the middle of a
// callback of the module, and goes on when that time has come.
type worker struct {
	*run
	index int
	jobs  []func() // what waits for its turn, oldest first
	idle  bool
	busy  time.Duration // since anybody asked

	resume  func() (time.Duration, bool)
	end     func()
	pass    func(time.Duration) bool // lets time pass; false: the run has ended
	stopped bool

	waiting     []*wasmtest.Stream // not yet seen to run
	messageNext bool
	gotRecord   bool // the last call was a get of the record
	gotAt       time.Time
}

func newWorker(r *run, index int) *worker {
	w := &worker{run: r, index: index, idle: true}
	w.resume, w.end = iter.Pull(w.work)
	return w
}

// forever is what an idle worker waits.
const forever = time.Duration(-1)

// work is the worker's loop.
func (w *worker) work(pass func(time.Duration) bool) {
	w.pass = pass
	for !w.stopped {
		if !w.doOne() {
			w.stopped = !pass(forever)
			continue
		}
		w.spend(w.Costs.Guest)
		w.lookForRunning()
	}
}

// doOne does a job or takes a message or a tick, by turns if there are both; false: there is nothing to do.
func (w *worker) doOne() bool {
	w.messageNext = !w.messageNext
	if w.messageNext && w.deliver() {
		return true
	}
	if len(w.jobs) == 0 {
		return !w.messageNext && w.deliver()
	}
	job := w.jobs[0]
	w.jobs = w.jobs[1:]
	job()
	return true
}

// add gives the worker something to do.
func (w *worker) add(job func()) {
	w.jobs = append(w.jobs, job)
	w.wake()
}

// wake lets an idle worker look for something to do.
func (w *worker) wake() {
	if w.idle {
		w.idle = false
		w.goOn()
	}
}

// goOn runs the worker until time has to pass.
func (w *worker) goOn() {
	d, _ := w.resume()
	if d == forever {
		w.idle = true
		return
	}
	w.agenda.add(w.host.Elapsed()+d, w.goOn)
}

// spend lets the worker be busy for a while.
func (w *worker) spend(d time.Duration) {
	if w.stopped {
		return
	}
	w.busy += d
	w.stopped = !w.pass(d)
}

func (w *worker) takeBusy() time.Duration {
	d := w.busy
	w.busy = 0
	return d
}

// abandon lets the worker end the callback that it is in, without taking time.
func (w *worker) abandon() {
	w.end()
	w.stopped = true
}

// deliver delivers the worker's oldest message or tick; false: there is none.
func (w *worker) deliver() bool {
	for _, e := range w.host.Pending() {
		if e.Worker.Index() == w.index {
			return w.host.Deliver(e)
		}
	}
	return false
}

// request brings a request.
func (w *worker) request() {
	w.spend(w.Costs.Request)
	if w.stopped {
		return
	}
	s := w.plugin.Stream(w.index)
	w.waiting = append(w.waiting, s)
	s.RequestHeaders(w.Headers, true)
}

// lookForRunning has the upstream serve what has come to run.
func (w *worker) lookForRunning() {
	w.waiting = slices.DeleteFunc(w.waiting, func(s *wasmtest.Stream) bool {
		if _, ended := s.Ended(); ended {
			w.slice.Refused++
			w.sendNext(time.Millisecond)
			return true
		}
		if s.Paused() {
			return false
		}
		w.inFlight++
		w.slice.PeakInFlight = max(w.slice.PeakInFlight, w.inFlight)
		w.agenda.add(w.host.Elapsed()+w.exponential(w.Service), func() {
			w.inFlight--
			w.add(func() { w.answer(s) })
		})
		return true
	})
}

// answer brings the upstream's answer.
func (w *worker) answer(s *wasmtest.Stream) {
	w.spend(w.Costs.Answer)
	if w.stopped {
		return
	}
	s.Respond(200, "ok")
	w.slice.Ended++
	w.sendNext(0)
}

// sendNext lets a client send its next request.
func (w *worker) sendNext(after time.Duration) {
	if w.Clients > 0 {
		w.agenda.add(w.host.Elapsed()+after, func() { w.add(w.request) })
	}
}
