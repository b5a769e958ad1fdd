package wasmtest

import "strings"

// The host calls about headers and bodies.

func callGetHeader(vm *VM, a []uint64) Status {
	name, ok := vm.read(a[1], a[2])
	switch {
	case a[0] > lastMap:
		return StatusBadArgument
	case !ok:
		return StatusInvalidMemoryAccess
	}
	c := vm.context()
	headers, ok := c.readableMap(a[0])
	if !ok {
		return c.noMap()
	}
	value, ok := headers.first(string(name))
	if !ok {
		return StatusNotFound
	}
	return vm.give([]byte(value), a[3], a[4])
}

// changeHeaders runs change on a map that can be written now.
func (vm *VM) changeHeaders(kind uint64, change func(Headers) Headers) Status {
	headers := vm.context().writableMap(kind)
	if kind > lastMap || headers == nil {
		return StatusBadArgument
	}
	*headers = change(*headers)
	return StatusOk
}

func callAddHeader(vm *VM, a []uint64) Status {
	name, ok1 := vm.read(a[1], a[2])
	value, ok2 := vm.read(a[3], a[4])
	if !ok1 || !ok2 {
		return StatusInvalidMemoryAccess
	}
	return vm.changeHeaders(a[0], func(h Headers) Headers {
		return append(h, Header{strings.ToLower(string(name)), string(value)})
	})
}

func callReplaceHeader(vm *VM, a []uint64) Status {
	name, ok1 := vm.read(a[1], a[2])
	value, ok2 := vm.read(a[3], a[4])
	if !ok1 || !ok2 {
		return StatusInvalidMemoryAccess
	}
	return vm.changeHeaders(a[0], func(h Headers) Headers {
		return h.set(strings.ToLower(string(name)), string(value))
	})
}

func callRemoveHeader(vm *VM, a []uint64) Status {
	name, ok := vm.read(a[1], a[2])
	if !ok {
		return StatusInvalidMemoryAccess
	}
	return vm.changeHeaders(a[0], func(h Headers) Headers { return h.without(string(name)) })
}

// callGetHeaderPairs answers Ok and no bytes, for an empty map and also for one that can't be reached.
func callGetHeaderPairs(vm *VM, a []uint64) Status {
	if a[0] > lastMap {
		return StatusBadArgument
	}
	headers, _ := vm.context().readableMap(a[0])
	if len(headers) == 0 {
		return vm.give(nil, a[1], a[2])
	}
	return vm.give(headers.encode(nil), a[1], a[2])
}

func callSetHeaderPairs(vm *VM, a []uint64) Status {
	headers, ok := vm.readPairs(a[1], a[2])
	if !ok {
		return StatusInvalidMemoryAccess
	}
	return vm.changeHeaders(a[0], func(Headers) Headers { return headers })
}

func callGetHeaderSize(vm *VM, a []uint64) Status {
	headers := vm.context().writableMap(a[0])
	if a[0] > lastMap || headers == nil {
		return StatusBadArgument
	}
	return vm.write(a[1], uint32(headers.byteSize()))
}

// readPairs reads a header map from the guest. A malformed one is a violation, and counts as empty.
func (vm *VM) readPairs(pointer, size uint64) (h Headers, ok bool) {
	bytes, ok := vm.read(pointer, size)
	if !ok {
		return nil, false
	}
	h, wellFormed := decodeHeaders(bytes)
	if !wellFormed {
		vm.violate(BadPairs, "%d bytes", len(bytes))
		return nil, true
	}
	return h, true
}

func callGetBuffer(vm *VM, a []uint64) Status {
	if a[0] > lastBuffer {
		return StatusBadArgument
	}
	data, ok := vm.context().buffer(a[0])
	if !ok {
		return StatusNotFound
	}
	start, size := a[1], uint64(len(data))
	if start > size {
		start = size
	}
	return vm.give(data[start:min(start+a[2], size)], a[3], a[4])
}

func callGetBufferStatus(vm *VM, a []uint64) Status {
	if a[0] > lastBuffer {
		return StatusBadArgument
	}
	data, ok := vm.context().buffer(a[0])
	if !ok {
		return StatusNotFound
	}
	return vm.write(a[1], uint32(len(data))).then(vm.write(a[2], 0))
}

func callSetBuffer(vm *VM, a []uint64) Status {
	data, ok := vm.read(a[3], a[4])
	switch {
	case a[0] > lastBuffer:
		return StatusBadArgument
	case !ok:
		return StatusInvalidMemoryAccess
	}
	return vm.context().setBuffer(a[0], a[1], a[2], data)
}
