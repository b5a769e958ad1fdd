package wasmtest

import "strings"

// The stream types a guest can name; the other two are TCP's.
const lastHTTPStream = uint64(response)

// streamForAction is the stream an action is for, nil when the context has none: the real host then says Ok and does
// nothing.
func (vm *VM) streamForAction(what string) *Stream {
	c := vm.context()
	if c.stream == nil {
		vm.violate(ActionWithoutStream, "%s in context %d during %s", what, c.id, vm.callback)
	}
	return c.stream
}

// callContinue closes the request's maps at once, before the stream goes on: edit headers first.
func callContinue(vm *VM, a []uint64) Status {
	switch {
	case a[0] > 3:
		return StatusBadArgument
	case a[0] == 3:
		return StatusUnimplemented
	case a[0] > lastHTTPStream:
		return StatusOk
	}
	s := vm.streamForAction("continue")
	if s == nil {
		return StatusOk
	}
	h := &s.halves[request]
	h.headersOpen, h.trailersOpen, h.chunkOpen = false, false, false
	vm.queueAction(action{stream: s, kind: continueAction, direction: direction(a[0])})
	return StatusOk
}

func callClose(vm *VM, a []uint64) Status {
	if a[0] > 3 {
		return StatusBadArgument
	}
	if a[0] > lastHTTPStream {
		return StatusOk
	}
	if s := vm.streamForAction("close"); s != nil {
		vm.queueAction(action{stream: s, kind: closeAction, direction: direction(a[0])})
	}
	return StatusOk
}

func callLocalResponse(vm *VM, a []uint64) Status {
	details, ok1 := vm.read(a[1], a[2])
	body, ok2 := vm.read(a[3], a[4])
	headers, ok3 := vm.readPairs(a[5], a[6])
	if !ok1 || !ok2 || !ok3 {
		return StatusInvalidMemoryAccess
	}
	reply := &LocalReply{
		Code: int(uint32(a[0])), Headers: headers, Body: append([]byte(nil), body...), GRPCStatus: NoGRPCStatus,
		Details: strings.Join(strings.Fields(string(details)), "_"),
	}
	if status := int32(a[7]); status >= 0 && status <= 16 {
		reply.GRPCStatus = int(status)
	}
	s := vm.streamForAction("local reply")
	if s != nil {
		if vm.callback.frame() && vm.current.stream != s {
			vm.violate(ReplyFromOtherStream, "%s to %s, in %s of stream %d", details, s, vm.callback, vm.current.id)
		}
		vm.queueAction(action{stream: s, kind: replyAction, reply: reply})
	}
	vm.stopIteration = true // also if it is for another stream
	return StatusOk
}

func callSetEffectiveContext(vm *VM, a []uint64) Status {
	id := uint32(a[0])
	if id == 0 {
		vm.effective = nil // 0 means the context of the callback
		return StatusOk
	}
	c := vm.contexts[id]
	if c == nil {
		return StatusBadArgument
	}
	vm.effective = c
	return StatusOk
}
