package wasmtest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// ErrKilled is why a VM that the test killed no longer runs.
var ErrKilled = errors.New("killed by the test")

// VM is one instance of a module: its own memory, its own contexts.
type VM struct {
	host          *Host
	worker        *Worker
	module        *Module
	configuration []byte
	instance      api.Module
	memory        api.Memory
	ctx           *vmContext
	malloc        api.Function
	callbacks     [callbackCount]api.Function
	random        *rand.ChaCha8

	contexts    map[uint32]*guestContext
	lastContext uint32
	vmContext   guestContext
	roots       []*Root
	// current is the context whose callback runs; effective is the one that set_effective_context chose, nil if none.
	current   *guestContext
	effective *guestContext
	// configuring is the plugin whose configuration can be read now, nil outside start and configure.
	configuring *Plugin
	callback    callback
	inGuest     bool
	restricted  bool
	// stopIteration makes the running stream callback stop its stream whatever it returns.
	stopIteration bool
	actions       []action
	actionsQueued int
	nested        int
	polls         int

	metrics    map[uint32]*Metric
	lastMetric [Histogram + 1]uint32
	lastCall   uint32 // HTTP call token
	status     struct {
		code    uint32
		message string
	}

	call   HostCall // what a hook sees, reused
	panics any      // what a hook panicked with; run passes it on
	stack  [8]uint64
	failed error
	closed bool
}

// guestContext is a context id of the guest: a root, a stream, or the VM's own (id 0).
type guestContext struct {
	id     uint32
	vm     *VM
	root   *Root
	stream *Stream
}

// vmContext carries the VM to the host functions, which are shared by all instances of a module.
type vmContext struct {
	context.Context
	vm *VM
}

func newVM(w *Worker, module *Module, configuration []byte) (*VM, error) {
	vm := &VM{
		host: w.host, worker: w, module: module, configuration: configuration,
		contexts: map[uint32]*guestContext{}, callback: noCallback,
	}
	vm.vmContext.vm = vm
	vm.current = &vm.vmContext
	vm.ctx = &vmContext{context.Background(), vm}
	vm.random = rand.NewChaCha8(vm.host.randomSeed())
	vm.host.trace(vm.name(), "> new VM")
	if err := vm.instantiate(); err != nil {
		vm.close()
		return nil, fmt.Errorf("%s: %w", w.name, err)
	}
	return vm, nil
}

// randomSeed differs for every VM of a host and is the same in every run.
func (h *Host) randomSeed() (seed [32]byte) {
	h.vmsMade++
	copy(seed[:], "wasmtest")
	binary.LittleEndian.PutUint64(seed[8:], h.options.seed)
	binary.LittleEndian.PutUint64(seed[16:], h.vmsMade)
	return seed
}

func (vm *VM) instantiate() error {
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions()
	ctx := experimental.WithMemoryAllocator(vm.ctx, experimental.MemoryAllocatorFunc(vm.module.memories.Allocate))
	instance, err := vm.module.runtime.InstantiateModule(ctx, vm.module.compiled, config)
	if err != nil {
		return err
	}
	vm.instance, vm.memory = instance, instance.Memory()
	for i, d := range callbackDefinitions {
		vm.callbacks[i] = instance.ExportedFunction(d.name)
	}
	if vm.malloc = instance.ExportedFunction("malloc"); vm.malloc == nil {
		vm.malloc = instance.ExportedFunction("proxy_on_memory_allocate")
	}
	return vm.initialize()
}

// initialize runs the module's own start: a reactor's _initialize and then main, if it exports that, or a command's
// _start.
func (vm *VM) initialize() error {
	names := []string{"_start"}
	if vm.module.Exports("_initialize") {
		names = []string{"_initialize", "main"}
	}
	vm.restricted = true
	defer func() { vm.restricted = false }()
	for _, name := range names {
		f := vm.instance.ExportedFunction(name)
		if f == nil {
			continue
		}
		if err := vm.run(f, make([]uint64, max(1, len(f.Definition().ParamTypes())))); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// Worker returns the thread the VM runs on.
func (vm *VM) Worker() *Worker { return vm.worker }

// Err returns why the VM no longer runs: a trap, or [ErrKilled]. It is nil while all is well.
func (vm *VM) Err() error { return vm.failed }

// MemorySize is the size of the guest's memory in bytes; it never shrinks.
func (vm *VM) MemorySize() int { return int(vm.memory.Size()) }

// Kill is [Worker.Kill] for one VM.
func (vm *VM) Kill() {
	vm.kill()
	vm.worker.collect()
}

func (vm *VM) kill() {
	if vm.failed == nil {
		vm.failed = ErrKilled
		vm.host.trace(vm.name(), "> killed")
	}
	vm.dropActions()
}

func (vm *VM) name() string { return vm.worker.name }

// fail marks the VM as dead because of its guest. Nothing calls into it again.
func (vm *VM) fail(err error) {
	if vm.failed != nil {
		return
	}
	where := ""
	if vm.callback != noCallback {
		where = " in " + vm.callback.String()
	}
	vm.failed = fmt.Errorf("VM of %s failed%s: %w", vm.name(), where, err)
	vm.host.failures = append(vm.host.failures, vm.failed)
	vm.host.trace(vm.name(), "> failed%s", where)
	vm.dropActions()
}

func (vm *VM) close() {
	if vm.closed || vm.instance == nil {
		return
	}
	vm.closed = true
	_ = vm.instance.Close(context.Background())
}

// inUse reports whether anything still holds the VM; the proxy destroys it otherwise.
func (vm *VM) inUse() bool { return len(vm.contexts) > 0 }

func (vm *VM) newContext(root *Root, stream *Stream) *guestContext {
	vm.lastContext++
	c := &guestContext{id: vm.lastContext, vm: vm, root: root, stream: stream}
	vm.contexts[c.id] = c
	return c
}

// context is what a host call is about: the effective context if one was chosen and still exists, else the callback's
// own.
func (vm *VM) context() *guestContext {
	if vm.effective != nil && vm.contexts[vm.effective.id] == vm.effective {
		return vm.effective
	}
	return vm.current
}

// enterGuest calls one export in context c; ok is false if it isn't exported, or the VM is dead afterwards. The caller
// acts on the result and then calls runActions, in the order of the real host.
func (vm *VM) enterGuest(cb callback, c *guestContext, args ...uint32) (result uint32, ok bool) {
	f := vm.callbacks[cb]
	if f == nil || vm.failed != nil {
		return 0, false
	}
	if vm.host.traceTo != nil {
		vm.host.trace(vm.name(), "> %s%s", cb, traceArgs(append([]uint32{c.id}, args...)))
	}
	current, effective, before := vm.current, vm.effective, vm.callback
	vm.current, vm.effective, vm.callback = c, nil, cb
	vm.actionsQueued, vm.polls = 0, 0
	vm.stack[0] = uint64(c.id)
	for i, a := range args {
		vm.stack[i+1] = uint64(a)
	}
	err := vm.run(f, vm.stack[:])
	if err != nil {
		vm.fail(err)
	} else if callbackDefinitions[cb].returns {
		result = uint32(vm.stack[0])
	}
	vm.judgeActions()
	vm.current, vm.effective, vm.callback = current, effective, before
	return result, vm.failed == nil
}

// run calls f. If a hook panicked, run panics with the same value; wazero by itself would return an error.
func (vm *VM) run(f api.Function, stack []uint64) error {
	inGuest := vm.inGuest
	vm.inGuest = true
	err := f.CallWithStack(vm.ctx, stack)
	vm.inGuest = inGuest
	if p := vm.panics; p != nil && !inGuest {
		vm.panics = nil
		panic(p)
	}
	return err
}

// allocate asks the guest for memory. Meanwhile the guest may only log. ok is false if it gives none.
func (vm *VM) allocate(size int) (uint32, bool) {
	restricted := vm.restricted
	vm.restricted = true
	stack := [1]uint64{uint64(size)}
	err := vm.run(vm.malloc, stack[:])
	vm.restricted = restricted
	if err != nil {
		vm.fail(fmt.Errorf("memory allocation: %w", err))
		return 0, false
	}
	return uint32(stack[0]), stack[0] != 0
}

// give copies data into the guest and writes where it is and how long. Nothing is allocated for no bytes.
func (vm *VM) give(data []byte, pointerTo, sizeTo uint64) Status {
	var pointer uint32
	if len(data) > 0 {
		var ok bool
		if pointer, ok = vm.allocate(len(data)); !ok || !vm.memory.Write(pointer, data) {
			return StatusInvalidMemoryAccess
		}
	}
	return vm.write(pointerTo, pointer).then(vm.write(sizeTo, uint32(len(data))))
}

func (vm *VM) write(to uint64, value uint32) Status {
	if !vm.memory.WriteUint32Le(uint32(to), value) {
		return StatusInvalidMemoryAccess
	}
	return StatusOk
}

func (vm *VM) write64(to, value uint64) Status {
	if !vm.memory.WriteUint64Le(uint32(to), value) {
		return StatusInvalidMemoryAccess
	}
	return StatusOk
}

// read is a view of guest memory, valid until the guest runs again.
func (vm *VM) read(pointer, size uint64) ([]byte, bool) {
	return vm.memory.Read(uint32(pointer), uint32(size))
}

func (s Status) then(next Status) Status {
	if s != StatusOk {
		return s
	}
	return next
}
