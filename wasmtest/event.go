package wasmtest

import (
	"fmt"
	"slices"
	"time"
)

// EventKind says what an event delivers.
type EventKind int

// The events that wait until the test delivers them.
const (
	// QueueReady is a proxy_on_queue_ready, posted to a thread by an enqueue.
	QueueReady EventKind = iota
	// Tick is a proxy_on_tick whose time has come.
	Tick
	// Configure is a configuration on its way to a thread (see [Host.Announce]).
	Configure
)

// String returns a short name.
func (k EventKind) String() string { return [...]string{"queue-ready", "tick", "configure"}[k] }

// Event is something that a thread will do when the test lets it.
type Event struct {
	Kind    EventKind
	Worker  *Worker
	Context uint32        // the root context it is for; 0 for Configure
	Queue   uint32        // QueueReady: the queue's id
	Plugin  *Plugin       // Configure: the plugin
	At      time.Duration // when it was posted or came due
	number  uint64
	// QueueReady: the VM of the thread at the time when the message was sent
	module *Module
	config string
}

func (e Event) String() string {
	return fmt.Sprintf("%s %s context=%d queue=%d", e.Worker.name, e.Kind, e.Context, e.Queue)
}

// events orders what is pending. One thread's posts stay in order, as in its event loop; its ticks, and other threads,
// may come at any point between them.
type events struct {
	number  uint64
	choose  func([]Event) int
	pending []Event // reused by every step
}

func (h *Host) post(e Event) {
	h.events.number++
	e.number, e.At = h.events.number, h.Elapsed()
	e.Worker.posts = append(e.Worker.posts, e)
}

// Pending lists the events that could be delivered next, in order of arrival: of each thread the oldest posted one and
// all due ticks. Posted events behind the first of their thread aren't listed: a thread can't reach them yet.
func (h *Host) Pending() []Event { return slices.Clone(h.gather()) }

func (h *Host) gather() []Event {
	list := h.events.pending[:0]
	for _, w := range h.threads() {
		if len(w.posts) > 0 {
			list = append(list, w.posts[0])
		}
		for _, vm := range w.vms {
			list = vm.dueTicks(list)
		}
	}
	slices.SortFunc(list, func(a, b Event) int {
		if a.At != b.At {
			return int(min(max(a.At-b.At, -1), 1))
		}
		return int(min(max(int64(a.number-b.number), -1), 1))
	})
	h.events.pending = list
	return list
}

// Step delivers one pending event, chosen by the scheduler. It reports whether there was one.
func (h *Host) Step() bool {
	pending := h.gather()
	if len(pending) == 0 {
		return false
	}
	i := h.events.choose(pending)
	if i < 0 || i >= len(pending) {
		panic(fmt.Sprintf("wasmtest: the scheduler chose event %d of %d", i, len(pending)))
	}
	return h.Deliver(pending[i])
}

// Deliver delivers this event of [Host.Pending] now. It reports whether it was still pending. An event for a VM or
// context that is gone counts as delivered, and reaches nobody.
func (h *Host) Deliver(e Event) bool {
	e.Worker.enter()
	defer e.Worker.leave()
	if e.Kind == Tick {
		return e.Worker.deliverTick(e)
	}
	if !e.Worker.takePost(e) {
		return false
	}
	if e.Kind == Configure {
		e.Plugin.arrive(e.Worker)
		return true
	}
	e.Worker.deliverQueueReady(e)
	return true
}

// Discard drops a pending event undelivered: a wake that gets lost. A discarded tick is re-armed as if it had run. It
// reports whether the event was still pending.
func (h *Host) Discard(e Event) bool {
	if e.Kind == Tick {
		root := e.Worker.dueRoot(e)
		if root == nil {
			return false
		}
		root.rearm()
		return true
	}
	return e.Worker.takePost(e)
}

// Drain delivers pending events until there are none, and also those that they cause, without moving the clock. It
// returns how many it delivered. After the drain limit it records a violation and stops.
func (h *Host) Drain() int {
	for n := 0; ; n++ {
		if n == h.options.drainLimit {
			h.violate("", EndlessEvents, "more than %d events and %s still pending", n, h.gather()[0])
			return n
		}
		if !h.Step() {
			return n
		}
	}
}

// Run lets d of virtual time pass and delivers everything at its time: it drains, moves the clock to the next tick,
// drains, and so on, and ends d later with nothing pending. It returns the number of events delivered.
func (h *Host) Run(d time.Duration) int {
	end := h.Elapsed() + d
	delivered := h.Drain()
	for {
		due, ok := h.nextTick()
		if !ok || due > end {
			break
		}
		h.Advance(max(0, due-h.Elapsed()))
		n := h.Drain()
		if n == 0 {
			break // the drain limit is 0; time would stand still for ever
		}
		delivered += n
	}
	h.Advance(end - h.Elapsed())
	return delivered
}

// RunUntil runs as [Host.Run] does, one tick time after the other, until done reports true or d has passed. It reports
// whether done did.
func (h *Host) RunUntil(d time.Duration, done func() bool) bool {
	for end := h.Elapsed() + d; ; {
		h.Drain()
		if done() {
			return true
		}
		due, ok := h.nextTick()
		if !ok || due > end {
			h.Advance(end - h.Elapsed())
			return false
		}
		h.Advance(max(0, due-h.Elapsed()))
	}
}

func (w *Worker) takePost(e Event) bool {
	if len(w.posts) == 0 || w.posts[0].number != e.number {
		return false
	}
	w.posts = w.posts[1:]
	return true
}
