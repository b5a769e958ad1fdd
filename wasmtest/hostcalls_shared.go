package wasmtest

// The host calls about what all VMs share.

func callGetSharedData(vm *VM, a []uint64) Status {
	key, ok := vm.read(a[0], a[1])
	if !ok {
		return StatusInvalidMemoryAccess
	}
	e := vm.host.data.get(key)
	if e == nil {
		return StatusNotFound
	}
	cas := e.cas
	return vm.give(e.value, a[2], a[3]).then(vm.write(a[4], cas))
}

func callSetSharedData(vm *VM, a []uint64) Status {
	key, ok1 := vm.read(a[0], a[1])
	value, ok2 := vm.read(a[2], a[3])
	if !ok1 || !ok2 {
		return StatusInvalidMemoryAccess
	}
	return vm.host.data.set(key, value, uint32(a[4]))
}

func callRegisterQueue(vm *VM, a []uint64) Status {
	name, ok := vm.read(a[0], a[1])
	if !ok {
		return StatusInvalidMemoryAccess
	}
	return vm.write(a[2], vm.host.queues.register(name, vm.context()))
}

func callResolveQueue(vm *VM, a []uint64) Status {
	id, ok1 := vm.read(a[0], a[1])
	name, ok2 := vm.read(a[2], a[3])
	if !ok1 || !ok2 {
		return StatusInvalidMemoryAccess
	}
	q := vm.host.queues.byName[string(name)]
	if q == nil || (len(id) > 0 && string(id) != vm.host.options.vmID) {
		return StatusNotFound
	}
	return vm.write(a[4], q.id)
}

func callEnqueue(vm *VM, a []uint64) Status {
	message, ok := vm.read(a[1], a[2])
	if !ok {
		return StatusInvalidMemoryAccess
	}
	return vm.host.enqueue(uint32(a[0]), message)
}

func callDequeue(vm *VM, a []uint64) Status {
	message, status := vm.host.dequeue(uint32(a[0]))
	if status != StatusOk {
		return status
	}
	return vm.give(message, a[1], a[2])
}

func callDefineMetric(vm *VM, a []uint64) Status {
	name, ok := vm.read(a[1], a[2])
	switch {
	case !ok:
		return StatusInvalidMemoryAccess
	case a[0] > uint64(Histogram):
		return StatusBadArgument
	}
	return vm.write(a[3], vm.defineMetric(MetricType(a[0]), name))
}

func callGetMetric(vm *VM, a []uint64) Status {
	value, status := vm.getMetric(uint32(a[0]))
	if status != StatusOk {
		return status
	}
	return vm.write64(a[1], value)
}
