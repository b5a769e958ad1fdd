package wasmtest

import (
	"bytes"
	"slices"
)

// queues are the shared queues. Ids count up from 1 and never change for a name.
type queues struct {
	byName map[string]*queue
	byID   []*queue // id-1
}

type queue struct {
	id   uint32
	name string
	// The owner is a thread and a context id, not a VM: the real host looks the VM up on delivery. So a wake for a
	// dead VM reaches the context that has the same id in the next VM.
	owner    *Worker
	module   *Module
	config   string
	context  uint32
	messages [][]byte
}

func newQueues() queues { return queues{byName: map[string]*queue{}} }

func (q *queues) find(id uint32) *queue {
	if id == 0 || int(id) > len(q.byID) {
		return nil
	}
	return q.byID[id-1]
}

// register makes c's root the owner of the queue, which is woken from now on. Messages stay.
func (q *queues) register(name []byte, c *guestContext) uint32 {
	entry := q.byName[string(name)]
	if entry == nil {
		entry = &queue{id: uint32(len(q.byID) + 1), name: string(name)}
		q.byName[entry.name] = entry
		q.byID = append(q.byID, entry)
	}
	entry.owner, entry.module, entry.config = c.vm.worker, c.vm.module, string(c.vm.configuration)
	if c.vm.worker.index == CanaryThread {
		entry.owner = c.vm.host.main // the canary runs on the main thread; nil if the test has none
	}
	entry.context = c.id
	if c.root != nil {
		entry.context = c.root.context.id
	}
	return entry.id
}

func (q *queues) clear() { *q = newQueues() }

func (h *Host) enqueue(id uint32, message []byte) Status {
	q := h.queues.find(id)
	if q == nil {
		return StatusNotFound
	}
	q.messages = append(q.messages, bytes.Clone(message))
	if q.owner != nil {
		h.post(Event{
			Kind: QueueReady, Worker: q.owner, Context: q.context, Queue: id, module: q.module, config: q.config,
		})
	}
	return StatusOk
}

func (h *Host) dequeue(id uint32) ([]byte, Status) {
	q := h.queues.find(id)
	if q == nil {
		return nil, StatusNotFound
	}
	if len(q.messages) == 0 {
		return nil, StatusEmpty
	}
	m := q.messages[0]
	q.messages = q.messages[1:]
	return m, StatusOk
}

func (w *Worker) deliverQueueReady(e Event) {
	for _, vm := range w.vms {
		if vm.failed != nil || vm.module != e.module || string(vm.configuration) != e.config {
			continue
		}
		if c := vm.contexts[e.Context]; c != nil {
			vm.enterGuest(onQueueReady, c, e.Queue)
			vm.runActions()
			return
		}
	}
	w.host.trace(w.name, "> queue-ready for nobody: context=%d queue=%d", e.Context, e.Queue)
}

// Queue is a shared queue's state.
type Queue struct {
	ID       uint32
	Name     string
	Owner    *Worker // the thread that is woken
	Context  uint32  // the root context that is woken there
	Messages [][]byte
}

// Queue returns the state of the queue of that name; ok is false when nobody has registered it.
func (h *Host) Queue(name string) (q Queue, ok bool) {
	entry := h.queues.byName[name]
	if entry == nil {
		return Queue{}, false
	}
	q = Queue{ID: entry.id, Name: entry.name, Owner: entry.owner, Context: entry.context}
	for _, m := range entry.messages {
		q.Messages = append(q.Messages, bytes.Clone(m))
	}
	return q, true
}

// QueueNames lists the queues' names, sorted.
func (h *Host) QueueNames() []string {
	names := make([]string, 0, len(h.queues.byName))
	for name := range h.queues.byName {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Enqueue sends a message as another plugin would: whoever knows a queue's name can send to it. It returns
// [StatusNotFound] when nobody has registered the name.
func (h *Host) Enqueue(name string, message []byte) Status {
	entry := h.queues.byName[name]
	if entry == nil {
		return StatusNotFound
	}
	return h.enqueue(entry.id, message)
}
