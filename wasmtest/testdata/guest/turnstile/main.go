// Command turnstile is a small real filter: as many requests at once as its configuration says, over all workers; the
// others wait their turn, on each worker first come, first served.
//
// The count is in shared data. A request that finds no room pauses. Whoever leaves sends a word to every worker's
// queue, and a worker that hears it tries again for its oldest waiter.
package main

import (
	"encoding/binary"
	"slices"
	"strconv"
)

func main() {}

const (
	countKey   = "turnstile/count"
	maxWorkers = 16 // a worker's queue has its number in the name
)

var (
	limit   uint32
	queue   uint32              // this worker's, 0 before its first stream
	waiting []uint32            // streams, oldest first
	inside  = map[uint32]bool{} // streams
)

//go:wasmexport proxy_abi_version_0_2_1
func abiVersion() {}

//go:wasmexport proxy_on_configure
func onConfigure(_, size uint32) uint32 {
	getBuffer(7, 0, size, at(&out.pointer), at(&out.size))
	n, err := strconv.Atoi(string(taken()))
	if err != nil || n < 1 {
		return 0
	}
	limit = uint32(n)
	return 1
}

//go:wasmexport proxy_on_request_headers
func onRequestHeaders(id, _, _ uint32) uint32 {
	if queue == 0 {
		registerFreeQueue()
	}
	if len(waiting) == 0 && enter(id) {
		return 0
	}
	waiting = append(waiting, id)
	return 1
}

//go:wasmexport proxy_on_queue_ready
func onQueueReady(_, id uint32) {
	dequeue(id, at(&out.pointer), at(&out.size))
	for len(waiting) > 0 && enter(waiting[0]) {
		setEffective(waiting[0])
		continueStream(0)
		waiting = waiting[1:]
	}
}

//go:wasmexport proxy_on_done
func onDone(id uint32) uint32 {
	if i := slices.Index(waiting, id); i >= 0 {
		waiting = slices.Delete(waiting, i, i+1)
	}
	if inside[id] {
		delete(inside, id)
		leave()
		tellAll()
	}
	return 1
}

// enter takes a place if there is one.
func enter(stream uint32) bool {
	for {
		count, cas := load()
		if count >= limit {
			return false
		}
		if store(count+1, cas) {
			inside[stream] = true
			return true
		}
	}
}

func leave() {
	for {
		count, cas := load()
		if store(max(count, 1)-1, cas) {
			return
		}
	}
}

func queueName(i int) string { return "turnstile/" + strconv.Itoa(i) }

func resolve(name string) (id uint32, ok bool) {
	status := resolveQueue(0, 0, text(name), length(name), at(&out.number))
	return out.number, status == 0
}

func registerFreeQueue() {
	for i := range maxWorkers {
		if _, taken := resolve(queueName(i)); !taken {
			registerQueue(text(queueName(i)), length(queueName(i)), at(&queue))
			return
		}
	}
}

func tellAll() {
	for i := range maxWorkers {
		id, ok := resolve(queueName(i))
		if !ok {
			return
		}
		enqueue(id, 0, 0)
	}
}

func load() (count, cas uint32) {
	if getData(text(countKey), length(countKey), at(&out.pointer), at(&out.size), at(&out.number)) != 0 {
		return 0, 0xffffffff // absent: any number creates it, and this one matches no other worker's creation
	}
	return binary.LittleEndian.Uint32(taken()), out.number
}

func store(count, cas uint32) bool {
	value = binary.LittleEndian.AppendUint32(value[:0], count)
	return setData(text(countKey), length(countKey), address(value), 4, cas) == 0
}
